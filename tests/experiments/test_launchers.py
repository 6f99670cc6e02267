"""Sweeps by Ray and as jobs of SLURM: the runs and the table of a local sweep, whatever dies."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import ulc as package
from stub_data import embeddings
from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.experiments import launched, launchers
from ulc.experiments.grid import SweepProgress
from ulc.experiments.ray_launcher import RayLauncher, gpus_of_run, most_cores
from ulc.experiments.side_by_side import Place, Training
from ulc.experiments.slurm_launcher import SlurmLauncher, read_options
from ulc.experiments.sweep import sweep
from ulc.storage.run_folder import RunFolder, create_folder
from ulc.training.loop import TrainingProgress
from ulc.training.recorder import RunRecorder
from ulc.training.run import resolved

# Notes which node of Ray and which process train which epoch, and writes a checkpoint after each.
# On the node that the file `doomed` names ("none" without Ray), the second epoch does not end.
OWN = """
import os
import time
from pathlib import Path

import ulc.training.run
from ulc.algorithms.cross_entropy import CrossEntropy
from ulc.training.recorder import RunRecorder

HERE = Path(__file__).parent
ulc.training.run.RunRecorder = lambda folder, _, best: RunRecorder(folder, 0.0, best)

class Noted(CrossEntropy):
    def train_epoch(self, epoch):
        node = self.find_node()
        with (HERE / "notes").open("a") as file:
            file.write(f"{epoch} {node} {os.getpid()}\\n")
        while epoch == 1 and node == (HERE / "doomed").read_text():
            time.sleep(0.1)
        return super().train_epoch(epoch)

    def find_node(self):
        try:
            import ray
        except ImportError:
            return "none"
        return ray.get_runtime_context().get_node_id() if ray.is_initialized() else "none"

class Plain(CrossEntropy):
    pass

class Fails(CrossEntropy):
    def train_epoch(self, epoch):
        raise KeyError("a bug")

class Dies(CrossEntropy):
    def train_epoch(self, epoch):
        with (HERE / "notes").open("a") as file:
            file.write("died\\n")
        os._exit(1)
"""


class Heard(SweepProgress):
    """Collects the epochs of each cell."""

    def on_plan(self, cells):
        self.epochs = {cell.title: [] for cell in cells}

    def on_epoch(self, cell, record):
        self.epochs[cell.title].append(record["epoch"])


@pytest.fixture
def spec():
    """Data by a relative path: it must be found from a process that starts elsewhere."""
    np.savez("tiny.npz", **embeddings())
    noise = {"kind": "symmetric", "rate": 0.3}
    return RunSpec(data={"source": "npz", "path": "tiny.npz"}, noise=noise, epochs=2)


@pytest.fixture
def own(monkeypatch):
    """Algorithms of the user's own, in a module that only the search path of this process has."""
    Path("own").mkdir()
    Path("own/own_launched.py").write_text(OWN)
    Path("own/doomed").write_text("")
    monkeypatch.syspath_prepend(Path("own").resolve())
    monkeypatch.setattr("ulc.training.run.RunRecorder", RunRecorder)  # the module replaces it
    yield
    sys.modules.pop("own_launched", None)


def files_of(result):
    """What each run has learned, by the name of its folder."""
    folders = [run.folder for runs in result.runs.values() for run in runs]
    names = ("model.safetensors", "labels.csv", "summary.json")
    return {folder.path.name: [folder.read(name) for name in names] for folder in folders}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ray and submitit are used on Linux")
def test_jobs_of_submitit_give_the_runs_and_the_table_of_a_local_sweep(spec):
    """To the last digit; all epochs are reported; finished runs are not trained again."""
    pytest.importorskip("submitit")
    heard, again = Heard(), Heard()
    launcher, algorithms = SlurmLauncher(cluster="local"), ["ce", "ulc"]
    options = {"seeds": range(4), "device": "cpu"}
    found = sweep(spec, algorithms, "jobs", launcher=launcher, progress=heard, **options)
    local = sweep(spec, algorithms, "local", jobs=1, **options)
    assert found.table == local.table
    assert files_of(found) == files_of(local)
    assert found.failures == ()
    assert list(heard.epochs.values()) == [[0, 1]] * 8
    sweep(spec, algorithms, "jobs", launcher=launcher, progress=again, **options)
    assert list(again.epochs.values()) == [[]] * 8


@pytest.fixture
def two_nodes():
    """A Ray cluster of two nodes with one core each: its head, and the other one."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    options = {"num_cpus": 1, "object_store_memory": 10**8, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=options)
    try:
        yield cluster, cluster.add_node(num_cpus=1, object_store_memory=10**8)
    finally:
        cluster.shutdown()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ray and submitit are used on Linux")
@pytest.mark.filterwarnings("ignore")  # of Ray
def test_a_ray_cluster_that_loses_a_node_gives_the_table_of_a_local_sweep(spec, own, two_nodes):
    """The run of the killed node goes on after its last checkpoint, on the other node."""
    cluster, doomed = two_nodes
    Path("own/doomed").write_text(doomed.node_id)
    notes = Path("own/notes")

    def kill_node():
        until(lambda: notes.exists() and f"1 {doomed.node_id}" in notes.read_text())
        cluster.remove_node(doomed, allow_graceful=False)

    killer = threading.Thread(target=kill_node)
    killer.start()
    heard = Heard()
    algorithms = ["own_launched:Noted", "ce", "ulc", "elr_plus"]
    options = {"seeds": [0, 1], "device": "cpu"}
    found = sweep(
        spec, algorithms, "ray", launcher=package.RayLauncher(cluster.address), progress=heard,
        **options,
    )  # fmt: skip
    killer.join()
    lines = [line.split() for line in notes.read_text().splitlines()]
    (other,) = {node for _, node, _ in lines} - {doomed.node_id}
    assert [epoch for epoch, node, _ in lines if node == doomed.node_id] == ["0", "1"]
    assert sorted(epoch for epoch, node, _ in lines if node == other) == ["0", "1", "1"]
    local = sweep(spec, algorithms, "local", jobs=1, **options)
    assert found.failures == ()
    assert found.table == local.table
    assert files_of(found) == files_of(local)
    assert list(heard.epochs.values()) == [[0, 1]] * 8


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ray and submitit are used on Linux")
@pytest.mark.parametrize("name", ["ray", "slurm"])
@pytest.mark.filterwarnings("ignore")
def test_runs_that_fail_or_die_are_listed_and_the_others_are_trained(
    spec, own, name, capfd, monkeypatch
):
    """A bug has its traceback in a file; by Ray, a run that died is tried again three times."""
    pytest.importorskip({"ray": "ray", "slurm": "submitit"}[name])
    if name == "slurm":  # seconds that submitit waits for the result of a dead job
        monkeypatch.setattr("submitit.core.core.Job._results_timeout_s", 1)
    launcher = SlurmLauncher(cluster="local") if name == "slurm" else name
    algorithms = ["own_launched:Fails", "own_launched:Dies", "ce"]
    found = sweep(spec, algorithms, "runs", seeds=[0], device="cpu", launcher=launcher)
    (fails,) = [each.reason for each in found.failures if each.cell.row.endswith("Fails")]
    (dies,) = [each.reason for each in found.failures if each.cell.row.endswith("Dies")]
    assert "KeyError: 'a bug'; see " in fails
    assert 'raise KeyError("a bug")' in Path(fails.rpartition("; see ")[2]).read_text()
    assert dies.endswith("the same command resumes it")
    assert Path("own/notes").read_text().count("died") == (4 if name == "ray" else 1)
    assert len(found.runs["ce"]) == 1
    if name == "slurm":  # Ray tells of its dead processes
        assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ray and submitit are used on Linux")
def test_a_job_at_its_time_limit_goes_on_in_the_next_one_after_its_checkpoint(spec, own):
    """In its last ten minutes, submitit takes SLURM's signal for the time limit."""
    pytest.importorskip("submitit")
    Path("own/doomed").write_text("none")
    notes = Path("own/notes")

    def end_time():
        until(lambda: notes.exists() and "1 none" in notes.read_text())
        Path("own/doomed").write_text("")
        os.kill(int(notes.read_text().split()[-1]), signal.SIGUSR2)  # as SLURM does

    ending = threading.Thread(target=end_time)
    ending.start()
    launcher = SlurmLauncher({"time": "9"}, cluster="local")
    found = sweep(spec, ["own_launched:Noted"], seeds=[0], device="cpu", launcher=launcher)
    ending.join()
    assert found.failures == ()
    lines = [line.split() for line in notes.read_text().splitlines()]
    assert [epoch for epoch, _, _ in lines] == ["0", "1", "1"]
    assert len({process for _, _, process in lines}) == 2


# Commands of SLURM: `sbatch` starts the job at once, or refuses it in the partition "closed".
COMMANDS = {
    "sbatch": """
cp $1 submitted
if grep -q partition=closed $1; then echo invalid partition >&2; exit 1; fi
SLURM_JOB_ID=7 bash $1 > sbatch.log 2>&1 &
echo Submitted batch job 7
""",
    "srun": """
while [ "${1#-}" != "$1" ]; do
    if [ "$1" = --output ] || [ "$1" = --error ]; then shift; fi
    shift
done
exec "$@"
""",
    "sacct": "echo 'JobID|State|NodeList'; echo '7|RUNNING|here'",
    "scancel": "",
}


@pytest.fixture
def fake_slurm(monkeypatch):
    pytest.importorskip("submitit")
    Path("commands").mkdir()
    for name, text in COMMANDS.items():
        Path("commands", name).write_text("#!/bin/bash\n" + text)
        Path("commands", name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path('commands').resolve()}:{os.environ['PATH']}")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ray and submitit are used on Linux")
def test_the_command_submits_jobs_with_the_options_given(spec, ulc, fake_slurm):
    arguments = ("tiny.npz", "--algorithms", "ce", "--seeds", "0", "--epochs", "1")
    options = ("partition=long", "account=lab", "time=90", "gpus=1", "cpus=2", "memory=16")
    code, printed = ulc(
        "sweep", *arguments, "--launcher", "slurm", *(f"--slurm={each}" for each in options)
    )
    assert (code, printed.out.count("| ce | 1 |")) == (0, 1)
    asked = Path("submitted").read_text()
    for each in (
        "partition=long", "account=lab", "time=90", "gpus-per-node=1", "cpus-per-task=2",
        "mem=16GB", "job-name=ulc",
    ):  # fmt: skip
        assert f"#SBATCH --{each}\n" in asked


@pytest.mark.skipif(sys.platform == "win32", reason="Ray and submitit are used on Linux")
def test_a_job_that_slurm_refuses_is_told_in_one_sentence(spec, ulc, fake_slurm):
    arguments = ("tiny.npz", "--algorithms", "ce", "--seeds", "0", "--epochs", "1")
    options = ("--launcher", "slurm", "--slurm", "partition=closed")
    code, printed = ulc("sweep", *arguments, *options)
    said = "ulc: --launcher slurm: the job was refused (invalid partition); change --slurm"
    assert (code, printed.err.splitlines()) == (2, ["invalid partition", said])  # first sbatch's


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Ray and submitit are used on Linux")
@pytest.mark.parametrize("name", ["ray", "slurm"])
@pytest.mark.filterwarnings("ignore")
def test_when_a_sweep_ends_early_its_runs_end_too(spec, own, name, request):
    """As at Ctrl-C; the lock of the run folder is free soon.

    submitit's local executor cancels by SIGINT, which tests in the background may ignore.
    """
    pytest.importorskip({"ray": "ray", "slurm": "submitit"}[name])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    notes = Path("own/notes")

    class Stop(SweepProgress):
        def on_epoch(self, cell, record):
            raise KeyboardInterrupt

    launcher = SlurmLauncher(cluster="local") if name == "slurm" else name
    long = spec.model_copy(update={"epochs": 100_000})
    with pytest.raises(KeyboardInterrupt):
        sweep(
            long, ["own_launched:Noted"], seeds=[0], device="cpu", launcher=launcher,
            progress=Stop(),
        )  # fmt: skip
    process = int(notes.read_text().split()[-1])
    until(lambda: not is_alive(process))
    (path,) = Path("runs").glob("*/spec.toml")
    with RunFolder.open(path.parent).locked():
        pass


def test_a_task_finds_data_and_code_of_the_user_from_another_folder(spec, own, monkeypatch):
    """Relative paths start in the folder of the command, and its search path counts."""
    plain = spec.model_copy(update={"algorithm": "own_launched:Plain"})
    training = Training("name", plain, TrainingProgress())
    task, here = launchers.new_task(training, Place(Path("runs"), ("cpu",), 1)), Path.cwd()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    monkeypatch.setattr(sys, "path", [each for each in sys.path if "own" not in Path(each).name])
    path = task()
    assert (path.parent, RunFolder.open(path).done) == (here / "runs", True)


def test_a_folder_that_a_lost_machine_has_locked_is_waited_for(spec, monkeypatch):
    """And after a while the sentence about the lock is told."""
    task = launchers.new_task(
        Training("name", spec, TrainingProgress()), Place(Path("runs"), ("cpu",), 1)
    )
    folder = create_folder(Path("runs") / resolved(spec).folder_name)
    monkeypatch.setattr(launched, "PATIENCE", 4.0)
    lock = folder.locked()
    lock.__enter__()
    monkeypatch.setattr(launched, "time", Clock(on_sleep=lambda: None))
    assert "another process trains here" in str(task())
    monkeypatch.setattr(launched, "time", Clock(on_sleep=lambda: lock.__exit__(None, None, None)))
    assert task().name == folder.path.name
    assert folder.done


class Clock:
    """A clock that only `sleep` moves."""

    def __init__(self, on_sleep):
        self.now = 0.0
        self.on_sleep = on_sleep

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.on_sleep()


def test_a_machine_without_the_shared_folders_says_so(spec):
    training = Training("name", spec, TrainingProgress())
    task = launchers.new_task(training, Place(Path("runs"), ("cpu",), 1))
    task.log.rmdir()
    assert "keep data and --out in folders that all machines share" in str(task())
    assert not task.log.exists()


def test_an_epoch_is_reported_once_and_never_half(tmp_path):
    """A resumed training writes earlier epochs again; a line may be half written."""
    told = Listening()
    job = launchers.Launched(Training("name", None, told), Logged(tmp_path), None)
    job.report_epochs()
    for content in ('{"epoch": 0}\n{"epo', '{"epoch": 0}\n{"epoch": 1}\n', '{"epoch": 0}\n'):
        (tmp_path / "epochs.jsonl").write_text(content)
        job.report_epochs()
    assert told.epochs == [0, 1]


class Logged:
    """A task of which only the log is used."""

    def __init__(self, log):
        self.log = log


class Listening(TrainingProgress):
    def __init__(self):
        self.epochs = []

    def on_epoch(self, record):
        self.epochs.append(record["epoch"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--launcher", "cloud"), "--launcher cloud: unknown; choose local, ray, slurm"),
        (("--address", "a:1"), "--address: only with --launcher ray"),
        (("--slurm", "time=5"), "--slurm: only with --launcher slurm"),
        (("--launcher", "slurm", "--slurm", "time"), "--slurm time: give KEY=VALUE"),
        (("--launcher", "slurm", "--slurm", "times=5"), "--slurm times: unknown; choose among"),
        (("--launcher", "slurm", "--slurm", "time=1h"), "--slurm time=1h: give a whole number"),
        (("--launcher", "slurm", "--device", "cuda:1"), "SLURM gives each run its GPU"),
        (("--launcher", "ray", "--device", "cuda:0,cuda:1"), "Ray gives each run its GPU"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(ulc, spec, options, message):
    code, printed = ulc("sweep", "tiny.npz", "--algorithms", "ce", "--seeds", "0", *options)
    assert (code, printed.err.count("\n")) == (2, 1)
    assert message in printed.err
    assert not list(Path().glob("runs/*/spec.toml"))


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_missing_package_is_named_with_its_extra(ulc, spec, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    arguments = ("tiny.npz", "--algorithms", "ce", "--seeds", "0", "--launcher", name)
    code, printed = ulc("sweep", *arguments)
    assert (code, printed.err.count("\n")) == (2, 1)
    assert f"pip install 'ulc[{name}]'" in printed.err


def test_without_slurm_on_the_machine_one_sentence_says_so(ulc, spec, monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", "")
    arguments = ("tiny.npz", "--algorithms", "ce", "--seeds", "0", "--launcher", "slurm")
    code, printed = ulc("sweep", *arguments)
    assert (code, printed.err.count("\n")) == (2, 1)
    assert "no SLURM on this machine" in printed.err


def test_options_of_slurm_reach_submitit_and_ray_gets_no_more_than_there_is():
    options = {"partition": "long", "time": "90", "gpus": "2", "cpus": 4, "memory": "16"}
    assert read_options(options) == {
        "slurm_partition": "long", "timeout_min": 90, "gpus_per_node": 2, "cpus_per_task": 4,
        "mem_gb": 16,
    }  # fmt: skip
    without, with_gpus = Cluster({"CPU": 4.0}), Cluster({"CPU": 8.0, "GPU": 2.0})
    assert [most_cores(each) for each in (without, with_gpus)] == [4, 8]
    assert [gpus_of_run(with_gpus, each) for each in ("auto", "cuda", "cpu")] == [1, 1, 0]
    assert [gpus_of_run(without, each) for each in ("auto", "cpu")] == [0, 0]
    with pytest.raises(InputError, match="no machine of the Ray cluster has a GPU"):
        gpus_of_run(without, "cuda")


class Cluster:
    """What `ray` tells of a cluster with one living node that has these resources."""

    def __init__(self, resources):
        self.resources = resources

    def nodes(self):
        gone = {"Alive": False, "Resources": {"CPU": 64.0}}
        return [gone, {"Alive": True, "Resources": self.resources}]

    def cluster_resources(self):
        return self.resources


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


class Ended:
    """A job that has trained the run in a folder."""

    def __init__(self, path):
        self.path = path

    def result(self):
        return self.path


def test_a_run_that_a_slow_file_system_shows_late_is_waited_for(monkeypatch, tmp_path):
    """And if it never appears, the folder is not shared."""
    (tmp_path / "log").mkdir()
    training = Training("name", None, TrainingProgress())
    job = launchers.Launched(training, Logged(tmp_path / "log"), Ended(Path("/elsewhere/name")))
    monkeypatch.setattr(launchers, "time", Clock(on_sleep=lambda: None))
    error = job.result(tmp_path / "runs")
    assert str(error) == (
        f"{tmp_path / 'runs' / 'name'}: trained, but not found on this machine; give an --out that "
        "all machines share"
    )
    assert not (tmp_path / "log").exists()
    folder = create_folder(tmp_path / "runs" / "name")
    monkeypatch.setattr(launchers, "time", Clock(on_sleep=folder.finish))
    assert job.result(tmp_path / "runs").path == folder.path


def test_nothing_to_train_needs_no_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert list(RayLauncher()([], Place(Path("runs"), ("cpu",), 1), 1)) == []
