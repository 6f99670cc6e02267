"""Processes that train together: the same results as one, and what happens when one dies."""

import json
import os
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pair_jobs
import pytest
from pair_jobs import double_precision, train_and_die, train_until
from unfit_algorithms import DrawsByProcess

from ulc import api
from ulc.algorithms import ALGORITHMS
from ulc.config import DataSpec, NetworkSpec, NoiseSpec, RunSpec
from ulc.data import identity
from ulc.errors import InputError
from ulc.experiments import data_parallel
from ulc.experiments.data_parallel import call_together
from ulc.storage.run_folder import RunFolder
from ulc.testing import Case, check_algorithm, check_processes, first_difference, train_cases
from ulc.training.processes import TORCHRUN, Place, own_device, place_by_torchrun
from ulc.training.run import resume, run

LARGEST = 1e-6  # largest relative difference between two processes and one


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    """A run of DivideMix in 64 bits."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(3), 30)
    features = rng.normal(size=(90, 6)) + 3 * np.eye(3, 6)[labels]
    path = tmp_path_factory.mktemp("data") / "toy.npz"
    np.savez(path, X=features, y=labels)
    return RunSpec(
        data=DataSpec(source="npz", path=str(path)),
        noise=NoiseSpec(kind="symmetric", rate=0.3),
        network=NetworkSpec(name="pair_jobs:PlainMLP"),
        algorithm="dividemix",
        options={"warmup_epochs": 1, "batch_size": 16, "warmup_batch_size": 16},
        epochs=4,
    )


@pytest.fixture(scope="module")
def unbroken(spec, tmp_path_factory):
    """The run of one process."""
    with double_precision():
        return run(spec, tmp_path_factory.mktemp("one"), device="cpu")


@pytest.fixture(scope="module")
def stopped(spec, tmp_path_factory):
    """The same run, stopped after its second epoch, which `pair` resumes."""
    out = tmp_path_factory.mktemp("stopped")
    with double_precision():
        train_until(spec, out, epoch=1)
    (path,) = out.iterdir()
    assert RunFolder(path).has("checkpoint.pt")
    assert not RunFolder(path).done
    return path


@pytest.fixture(scope="module")
def pair(stopped):
    """What two processes have computed together, by rank."""
    return call_together(partial(pair_jobs.everything, stopped), 2, "cpu")


def assert_close(one, others):
    assert len(one) == len(others)
    for alone, found in zip(one, others, strict=True):
        largest = np.abs(np.nan_to_num(alone)).max(initial=1e-9)
        np.testing.assert_allclose(found, alone, rtol=0, atol=LARGEST * largest)


def numbers_of(folder):
    records = [record["train"] for record in folder.records]
    judgement = folder.judgement
    return [
        *(np.asarray(list(each.values())) for each in records),
        judgement.clean_probability,
        judgement.prediction,
    ]


@pytest.mark.slow
def test_two_processes_train_every_algorithm_as_one(pair):
    """In 64 bits, without batch norm and with it, whose statistics are those of all rows."""
    with double_precision():
        alone = pair_jobs.all_algorithms()
    assert set(alone) >= set(ALGORITHMS)
    for found in pair:
        for key, numbers in alone.items():
            assert_close(numbers, found["all_algorithms"][key])


@pytest.mark.slow
@pytest.mark.parametrize("job", pair_jobs.PASSES)
def test_passes_gradients_and_second_derivatives_are_those_of_one_process(pair, job):
    """For any number of rows; a weight that is not used has no gradient."""
    with double_precision():
        alone = job()
    for found in pair:
        if isinstance(alone, dict):
            for rows, numbers in alone.items():
                assert_close(numbers, found[job.__name__][rows])
        else:
            assert_close(alone, found[job.__name__])


@pytest.mark.slow
def test_a_network_with_random_numbers_drops_others_in_each_process_and_all_stay_in_step(pair):
    (once, again, following), others = (found["random_network"] for found in pair)
    for mine, theirs in zip((once, again, following), others, strict=True):
        np.testing.assert_array_equal(mine, theirs)  # each process has the rows of both
    assert not np.array_equal(once[0], once[1])  # rows of different processes
    assert not np.array_equal(once, again)
    assert 0.3 < once.mean() < 0.7


@pytest.mark.slow
def test_what_the_first_process_says_is_so_for_all(pair):
    for rank, found in enumerate(pair):
        assert found["agreement"]["rank"] == rank
        assert found["agreement"]["value"] == "by 0"
        assert found["agreement"]["tensor"] == 1
        assert found["agreement"]["error"] == "as the first says"


@pytest.mark.slow
def test_other_data_or_another_state_in_one_process_end_the_training(pair):
    for found in pair:
        assert "process 1 reads other data than process 0" in found["agreement"]["data"]
        assert "after epoch 7 the state of process 1 is another" in found["agreement"]["state"]
        assert found["agreement"]["same"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("pair")
def test_a_run_of_one_process_is_resumed_by_two_with_the_same_results(stopped, unbroken):
    resumed = RunFolder.open(stopped)
    assert resumed.done
    assert_close(numbers_of(unbroken), numbers_of(resumed))
    environment = resumed.read_json("environment.json")
    assert [environment["processes"], environment["resumed"][-1]["processes"]] == [1, 2]
    assert unbroken.read_json("environment.json")["processes"] == 1


@pytest.mark.slow
def test_a_killed_process_ends_the_run_in_seconds_and_one_process_resumes_it(
    spec, unbroken, tmp_path
):
    """It is killed in the middle of the third epoch, so the checkpoint is that of the second."""
    with pytest.raises(InputError, match=r"process 1 of the 2 .* was killed.*goes on from"):
        call_together(partial(train_and_die, spec, tmp_path / "runs", 2), 2, "cpu")
    assert time.time() - float(Path("died").read_text()) < 30  # torch's own timeout: 30 minutes
    (path,) = (tmp_path / "runs").iterdir()
    folder = RunFolder.open(path)
    assert not folder.done
    assert [record["epoch"] for record in folder.records] == [0, 1]
    with double_precision():
        resumed = resume(path, device="cpu")
    assert_close(numbers_of(unbroken), numbers_of(resumed))


@pytest.mark.slow
def test_the_law_finds_algorithms_that_several_processes_train_otherwise(pair):
    """Each of them keeps all other laws; it is found in both processes."""
    cases = [
        Case(each, "vector")
        for each in (pair_jobs.DrawsByProcess, pair_jobs.MixesInsideTheBackbone)
    ]
    for place, alone in enumerate(train_cases(cases)):
        for found in pair:
            assert first_difference(alone, found["unfit"][place]) is not None


@pytest.mark.slow
def test_check_algorithm_tests_several_processes_if_asked(monkeypatch):
    with pytest.raises(AssertionError, match="DrawsByProcess breaks the law 'processes_agree' on"):
        check_processes([Case(DrawsByProcess, "vector")], 2)
    asked = []
    monkeypatch.setattr("ulc.testing.LAWS", {})
    monkeypatch.setattr("ulc.testing.check_processes", lambda *given: asked.append(given))
    check_algorithm(DrawsByProcess)
    assert not asked
    check_algorithm(DrawsByProcess, processes=3)
    assert [(len(cases), count) for cases, count in asked] == [(2, 3)]


def test_the_law_says_that_an_algorithm_must_be_in_a_module():
    class Local(DrawsByProcess):
        pass

    with pytest.raises(AssertionError, match=r"Local cannot be sent .* define it in a module"):
        check_processes([Case(Local, "vector")], 2)


NODE = """
from pair_jobs import double_precision
from ulc.cli import main

with double_precision():
    main()
"""


@pytest.mark.slow
def test_torchrun_trains_on_two_nodes_and_only_the_first_writes(spec, unbroken, tmp_path):
    """Two agents on this machine, each with one process and a folder of its own."""
    (tmp_path / "spec.toml").write_text(spec.write())
    (tmp_path / "node.py").write_text(NODE)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torchrun = f"-m torch.distributed.run --nnodes 2 --master-addr 127.0.0.1 --master-port {port}"
    command = "node.py train --spec spec.toml --trust --device cpu --json"
    nodes = [
        subprocess.Popen(
            [sys.executable, *f"{torchrun} --node-rank {node} {command} --out node{node}".split()],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for node in (0, 1)
    ]
    printed = [node.communicate(timeout=300) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], printed
    assert json.loads(printed[0][0])[0]["done"]
    assert printed[1][0] == ""
    assert not (tmp_path / "node1").exists()
    folder = RunFolder.open(tmp_path / "node0" / unbroken.path.name)
    assert_close(numbers_of(unbroken), numbers_of(folder))


@pytest.fixture
def alone(monkeypatch):
    """`call_together` calls the job here; the numbers of processes that were asked for."""
    asked = []

    def call(job, count, device, progress):
        asked.append(count)
        return [job(device, progress)]

    monkeypatch.setattr(data_parallel, "call_together", call)
    return asked


def test_train_and_resume_take_a_number_of_processes(spec, alone, ulc, tmp_path, monkeypatch):
    monkeypatch.setattr(identity, "SETTLED", -60.0)  # else files of this second are read again
    plain = spec.model_copy(update={"network": NetworkSpec(width=4), "epochs": 2})
    (tmp_path / "spec.toml").write_text(plain.write())
    train = ("train", "--spec", "spec.toml", "--out", "runs", "--devices", "2", "--json")
    code, printed = ulc(*train)
    assert code == 0, printed.err
    (row,) = json.loads(printed.out)
    assert row["done"]
    ulc(*train)
    assert alone == [2]  # a finished run is only read
    train_until(plain, tmp_path / "stopped", epoch=0)
    (path,) = (tmp_path / "stopped").iterdir()
    code, printed = ulc("resume", path, "--devices", "3", "--quiet")
    assert code == 0, printed.err
    assert RunFolder.open(path).done
    assert ulc("resume", path, "--devices", "3", "--quiet")[0] == 0
    api.train(plain, tmp_path / "api", devices=4)
    assert alone == [2, 3, 4]


def test_options_that_several_processes_exclude_are_refused(ulc, monkeypatch):
    code, printed = ulc("train", "--devices", "2")
    assert code == 2
    assert "not a comparison; give --no-compare" in printed.err
    assert place_by_torchrun() is None
    for name, value in zip(TORCHRUN, ("1", "0", "2", "127.0.0.1", "1"), strict=True):
        assert place_by_torchrun() is None
        monkeypatch.setenv(name, value)
    assert place_by_torchrun() == Place(rank=1, local_rank=0, count=2)
    code, printed = ulc("train", "fashion", "--devices", "2")
    assert code == 2
    assert "--devices and torchrun exclude each other" in printed.err


def test_each_process_has_a_gpu_of_its_own_or_the_cpu(monkeypatch):
    assert own_device("cpu", 3) == "cpu"
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", lambda _: None)
    assert own_device("auto", 1) == "cuda:1"
    with pytest.raises(InputError, match=r"process 3 .* no GPU of its own, there are 2"):
        own_device("cuda", 2)
    with pytest.raises(InputError, match="give --device cuda, not cuda:0"):
        own_device("cuda:0", 0)
