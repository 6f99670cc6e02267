"""Sweeps: killed and restarted, with failures, planned; from the command line and from Python."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ulc as package
from stub_data import embeddings
from ulc.cli import sweep_plan
from ulc.config import DataSpec, RunSpec
from ulc.errors import InputError
from ulc.experiments import grid
from ulc.experiments.finished_runs import find_runs
from ulc.experiments.paper.cells import paper_sweep
from ulc.experiments.paper.grids import paper_grid
from ulc.experiments.paper_table import paper_table
from ulc.experiments.speed import Speeds, in_words, remaining_seconds
from ulc.experiments.sweep import sweep
from ulc.experiments.table_formats import as_csv

TINY = ("--scale", "cpu", "--data", "tiny.npz", "--epochs", 2, "--jobs", 1)


@pytest.fixture(autouse=True)
def _tiny():
    np.savez("tiny.npz", **embeddings(100, 10, 10))


def tiny_sweep(*only):
    chosen = [*only, "symmetric:0.5", "half:5"]
    return paper_sweep("table2", "tiny.npz", scale="cpu", epochs=2, only=chosen)


def table_of(out):
    return as_csv(paper_table(paper_grid("table2"), find_runs([Path(out)])[0]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the test forks and kills")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_sweep_that_is_killed_and_restarted_gives_the_same_table_to_the_last_digit():
    """At any moment; and what was finished is not trained again."""
    work = tiny_sweep("ce", "dividemix", "ulc")
    began = time.monotonic()
    sweep(work, out="unbroken", seeds=[0, 1], jobs=1, device="cpu")
    long = time.monotonic() - began
    rng, finished = np.random.default_rng(0), {}
    for _ in range(5):
        child = os.fork()
        if child == 0:  # the parent kills it, whatever it does
            sweep(work, out="killed", seeds=[0, 1], jobs=1, device="cpu")
            os._exit(0)
        time.sleep(rng.uniform(0, long / 2))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        done = {path: path.stat().st_mtime_ns for path in Path("killed").glob("*/done")}
        assert finished.items() <= done.items()
        finished = done
    sweep(work, out="killed", seeds=[0, 1], jobs=1, device="cpu")
    assert (
        finished.items()
        <= {path: path.stat().st_mtime_ns for path in Path("killed").glob("*/done")}.items()
    )
    assert table_of("killed") == table_of("unbroken")


def refuse(algorithm):
    """A replacement of `run` that fails for one algorithm."""
    train = grid.run

    def run(spec, out, **options):
        if spec.algorithm == algorithm:
            raise InputError(f"{algorithm} is out of order")
        return train(spec, out, **options)

    return run


def test_a_failed_run_does_not_stop_the_others_and_is_listed_at_the_end(ulc, monkeypatch):
    chosen = ("--only", "ce,pencil,elr_plus,symmetric:0.5,half:5", "--seeds", 1)
    with monkeypatch.context() as patch:
        patch.setattr(grid, "run", refuse("pencil"))
        code, printed = ulc("sweep", "table2", *TINY, *chosen)
    assert code == 1
    assert "| ELR+ | best | " in printed.out
    assert printed.err.splitlines()[-1] == (
        "failed: PENCIL, CIFAR-10, Sym. 50 %, 1:5, seed 0: pencil is out of order"
    )
    assert len(list(Path("runs").glob("*/done"))) == 2
    code, printed = ulc("sweep", "table2", *TINY, *chosen)
    assert code == 0
    assert len(list(Path("runs").glob("*/done"))) == 3


def test_an_error_of_somebody_s_own_code_does_not_stop_the_others_either(monkeypatch, capsys):
    def stumble(spec, out, **options):
        if spec.algorithm == "ce":
            raise ZeroDivisionError("of somebody's own")
        return train(spec, out, **options)

    train = grid.run
    monkeypatch.setattr(grid, "run", stumble)
    found = sweep(tiny_sweep("ce", "elr_plus"), seeds=[0], jobs=1, device="cpu")
    (failure,) = found.failures
    assert failure.reason.startswith("ZeroDivisionError: of somebody's own")
    assert "ZeroDivisionError" in capsys.readouterr().err  # with the traceback


def test_if_all_runs_fail_alike_the_sweep_is_refused(ulc, monkeypatch):
    monkeypatch.setattr(grid, "run", refuse("ce"))
    code, printed = ulc("sweep", "tiny.npz", "--algorithms", "ce", "--jobs", 1, "--quiet")
    assert (code, printed.err) == (2, "ulc: ce is out of order\n")


def test_a_number_of_seeds_counts_from_0_and_finished_runs_are_not_repeated(ulc):
    chosen = ("--only", "ce,symmetric:0.5,half:5", "--quiet")
    assert ulc("sweep", "table2", *TINY, *chosen, "--seeds", 2) == (0, ("runs\n", ""))
    done = {path: path.stat().st_mtime_ns for path in Path("runs").glob("*/done")}
    assert sorted(run.spec.seed for run in find_runs([Path("runs")])[0]) == [0, 1]
    ulc("sweep", "table2", *TINY, *chosen, "--seeds", "1,5")
    assert sorted(run.spec.seed for run in find_runs([Path("runs")])[0]) == [0, 1, 5]
    assert all(path.stat().st_mtime_ns == changed for path, changed in done.items())


def test_without_seeds_a_table_has_its_own_number_of_them(ulc, monkeypatch):
    """Five for Clothing1M, as in the paper; else three."""
    Path("CLOTHING").mkdir()
    counts = []
    monkeypatch.setattr(sweep_plan, "print_plan", lambda cells, *_: counts.append(len(cells)))
    ulc("sweep", "table3", "--data", "CLOTHING", "--only", "ulc,ce", "--dry-run")
    ulc("sweep", "table2", *TINY, "--only", "ce,half:5", "--dry-run")
    assert counts == [2 * 5, 2 * 3]


def test_every_finished_run_is_told_with_its_place_in_the_grid(ulc):
    _, printed = ulc("sweep", "table2", *TINY, "--only", "ce,half:5", "--seeds", 1)
    first, second = printed.err.splitlines()
    assert first.startswith("1/2 CE, CIFAR-10, Sym. 20 %, 1:5, seed 0: runs")
    assert first.endswith("to go")
    assert second.startswith("2/2 CE, CIFAR-10, Sym. 50 %, 1:5, seed 0: runs")
    assert not second.endswith("to go")


def test_a_dry_run_trains_nothing_and_says_what_is_left(ulc):
    chosen = ("--only", "ce,elr_plus,symmetric:0.5,half:5", "--seeds", 2)
    code, printed = ulc("sweep", "table2", *TINY, *chosen, "--dry-run")
    assert code == 0
    assert not Path("runs").exists()
    assert "4 runs, 4 left; time with 1 at once on this machine: about" in printed.out
    assert "| CE | 2 | 0 | 2 | " in printed.out
    assert printed.out.count("measurement") == 2
    ulc("sweep", "table2", *TINY, *chosen, "--seeds", 1, "--quiet")
    _, printed = ulc("sweep", "table2", *TINY, *chosen, "--dry-run")
    assert "4 runs, 2 left" in printed.out
    assert printed.out.count("records") == 2
    assert "measuring" not in printed.err


def test_a_dry_run_says_what_cannot_be_trained_and_what_is_left_out(ulc):
    Path("empty").mkdir()
    chosen = ("--only", "ce,symmetric:0.5,half:5", "--seeds", 1, "--dry-run")
    code, printed = ulc("sweep", "table2", "--data", "cifar10=empty", *chosen)
    assert code == 1
    assert "Left out for want of --data: CIFAR-100." in printed.out
    assert printed.err.count("cannot be trained: ") == 1
    assert "empty" in printed.err.partition("cannot be trained: ")[2]


def test_from_python_a_table_of_the_paper_is_a_sweep(capsys):
    work = package.paper_sweep("table4", "tiny.npz", scale="cpu", epochs=2, only=["ulc", "half:5"])
    found = package.sweep(work, seeds=[0], jobs=1, device="cpu")
    assert list(found.runs) == ["ULC, CIFAR-10, Sym. 20 %, 1:5", "ULC, CIFAR-10, Sym. 50 %, 1:5"]
    assert "| ULC | best | " in found.table
    assert (found.failures, capsys.readouterr()) == ((), ("", ""))
    with pytest.raises(InputError, match="has its own algorithms"):
        package.sweep(work, ["ce"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table2",), "--data is missing"),
        (("table3", "--data", "x"), "--data clothing1m=x: not what the scale paper needs"),
        (("table2", "--data", "x", "--noise", "none"), "--noise: table2 of the paper sets it"),
        (
            ("table2", "--data", "x", "--algorithms", "ce"),
            "--algorithms: table2 of the paper sets it",
        ),
        (("tiny.npz", "--scale", "cpu"), "--scale: only for a table or figure of the paper"),
        (("tiny.npz", "--only", "ce"), "--only: only for a table or figure of the paper"),
        (("table2", "--data", "a", "--data", "b"), "cifar10 is given twice"),
        (("table2", *TINY, "--seeds", 0), "name at least one seed"),
        (("table2", *TINY, "--set", "network.width=3"), "takes only --network NAME"),
        (("table2", *TINY, "--set", "pases=3"), "unknown key 'pases': ce, coteaching_plus, "),
        (("table2", *TINY, "--set", "passes=many"), "options of ulc: 'passes': "),
    ],
)
def test_a_mistake_is_told_in_one_sentence(ulc, arguments, message):
    code, printed = ulc("sweep", *arguments)
    assert code == 2
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_an_option_is_for_the_methods_that_have_it_and_the_others_are_named(ulc):
    """Runs of the others are those of a sweep without the option."""
    chosen = ("--only", "ce,ulc,symmetric:0.5,half:5", "--seeds", 1)
    changed = ("--set", "passes=2", "--set", "sgd.lr=0.01")
    code, printed = ulc("sweep", "table2", *TINY, *chosen, *changed)
    assert code == 0
    assert "passes changes nothing for ce: no such option." in printed.out
    assert "sgd.lr" not in printed.out
    found = {run.spec.algorithm: run.spec.options for run in find_runs([Path("runs")])[0]}
    assert found["ulc"]["passes"] == 2
    assert found["ce"]["sgd"]["lr"] == found["ulc"]["sgd"]["lr"] == 0.01
    _, printed = ulc("sweep", "table2", *TINY, *chosen, "--set", "passes=3", "--dry-run")
    assert "passes changes nothing for ce: no such option." in printed.out


def record(seconds):
    return {"seconds": {"train": seconds, "score": 1.0}}


def test_time_left_is_by_kind_then_by_algorithm_then_by_all():
    data = {"data": DataSpec(source="npz", path="a")}
    ce, ulc_, large = (
        RunSpec(**data, algorithm="ce"),
        RunSpec(**data, algorithm="ulc"),
        RunSpec(data=DataSpec(source="npz", path="b"), algorithm="ce"),
    )
    speeds = Speeds()
    assert remaining_seconds([(ce, 1)], speeds, 1) is None
    speeds.add(ce, [record(1.0), record(3.0)])  # 3 seconds an epoch, with scores
    assert remaining_seconds([(ce, 10), (ulc_, 10), (large, 10)], speeds, 1) == 90
    speeds.add(ulc_, [record(9.0)])
    assert remaining_seconds([(ce, 10), (ulc_, 10), (large, 10)], speeds, 1) == 160
    assert remaining_seconds([(ce, 10), (ulc_, 10), (large, 10)], speeds, 2) == 100  # ULC alone
    assert remaining_seconds([], speeds, 2) == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 seconds"),
        (1.2, "1 second"),
        (5, "5 seconds"),
        (89.9, "90 seconds"),
        (600, "10 minutes"),
        (7200, "2.0 hours"),
        (864000, "10.0 days"),
    ],
)
def test_times_are_told_in_fitting_units(seconds, words):
    assert in_words(seconds) == words
