"""The command: what it prints, and that it is quick to answer."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

from stub_runs import judged_run
from ulc.cli import main, sweep_progress
from ulc.cli.progress import ProgressBar
from ulc.cli.sweep_progress import sweep_bar
from ulc.cli.tables import health_tables
from ulc.config import DataSpec, RunSpec
from ulc.data.label_files import read_label_file
from ulc.errors import InputError
from ulc.experiments.grid import Cell, Failure
from ulc.training.environment import use_threads
from ulc.training.run import run


@pytest.fixture
def toy(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(3), 30)
    arrays = {"X": rng.normal(size=(90, 4)) + 3 * np.eye(3, 4)[labels], "y": labels}
    np.savez(tmp_path / "toy.npz", **arrays, X_test=arrays["X"], y_test=labels)
    return tmp_path / "toy.npz"


SHORT = ("--set", "batch_size=16", "--set", "warmup_batch_size=16")


def test_help_imports_nothing_heavy():
    script = (
        "import sys; sys.argv = ['ulc', '--help']\n"
        "from ulc.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'sklearn', 'pydantic', 'pandas', 'PIL'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in (
        "train",
        "resume",
        "show",
        "algorithms",
        "datasets",
        "noise",
        "sweep",
        "embed",
        "table",
        "figure",
        "tune",
    ):
        assert name in done.stdout
    for name in ("predict", "export"):
        assert name in done.stdout


@pytest.mark.slow
def test_importing_the_package_imports_nothing_heavy():
    script = (
        "import sys, ulc\n"
        "assert {'compare', 'sweep', 'train'} <= set(dir(ulc))\n"
        "heavy = {'torch', 'numpy', 'sklearn', 'pydantic', 'pandas', 'PIL'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_train_imports_neither_a_compiler_nor_scikit_learn(toy, tmp_path):
    """Either takes longer than a short training; only Adam, embeddings and estimators need them."""
    script = (
        f"import sys; sys.argv = ['ulc', 'train', {str(toy)!r}, '--epochs', '2', '--quiet',"
        f" '--out', {str(tmp_path / 'runs')!r}]\n"
        "from ulc.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end\n"
        "heavy = {'torch._dynamo', 'sklearn', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_train_shows_a_table_and_where_everything_is(ulc, toy, tmp_path):
    code, printed = ulc(
        "train", toy, "--noise", "symmetric:0.3", "--epochs", 5, "--out", tmp_path / "runs", *SHORT
    )
    assert code == 0
    assert "balanced prior" in printed.out
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name in printed.out.replace("\n", "")


@pytest.fixture
def look_alike(tmp_path):
    """Rows of the third class are like those of the first, of which there are ten times as many."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [120, 60, 12])
    inputs = rng.normal(size=(len(labels), 4)) + 6 * (labels == 1)[:, None]
    np.savez(tmp_path / "alike.npz", X=inputs, y=labels)
    return tmp_path / "alike.npz"


def test_a_class_that_collapses_is_told_at_the_end_and_in_every_record(ulc, look_alike, tmp_path):
    out = ("--out", tmp_path / "runs")
    warning = "Warning: hardly any training row is predicted as '2' (0 of 192, although 12 labels"
    train = ("--algorithm", "ce", "--epochs", "2", *SHORT[:2])
    assert warning in ulc("train", look_alike, *train, *out)[1].out
    (folder,) = (tmp_path / "runs").iterdir()
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    assert records[-1]["collapsed"] == [2]
    assert warning in ulc("show", folder)[1].out
    sweep = ("--algorithms", "ce", "--epochs", "2", *SHORT[:2])
    assert warning in ulc("sweep", look_alike, *sweep, *out)[1].err


def test_no_class_collapses_where_all_are_learned(ulc, toy, tmp_path):
    _, printed = ulc("train", toy, "--epochs", 6, *SHORT, "--out", tmp_path)
    assert "hardly any" not in printed.out


@pytest.mark.slow
def test_compare_trains_plain_and_ceiling_beside(ulc, toy, tmp_path):
    with use_threads(2):
        code, printed = ulc(
            "train", toy, "--noise", "symmetric:0.3", "--epochs", 2, "--out", tmp_path / "runs",
            "--compare", "--json", *SHORT,
        )  # fmt: skip
    assert code == 0
    rows = json.loads(printed.out)
    assert [row["title"] for row in rows] == ["cross entropy", "ULC", "ceiling"]
    assert [row["spec"]["noise"]["kind"] for row in rows] == ["symmetric", "symmetric", "none"]
    assert all(row["done"] and row["spec"]["seed"] == 0 for row in rows)
    assert "labels" in rows[1]["summary"]


def test_on_one_core_the_comparison_is_trained_one_after_the_other(ulc, toy, tmp_path, monkeypatch):
    monkeypatch.setattr("ulc.experiments.comparison.run_side_by_side", None)
    with use_threads(1):
        code, printed = ulc(
            "train", toy, "--noise", "symmetric:0.3", "--epochs", 2, "--out", tmp_path / "runs",
            "--compare", "--json", *SHORT,
        )  # fmt: skip
    assert code == 0
    assert all(row["done"] for row in json.loads(printed.out))


def test_a_wrong_option_is_told_before_anything_is_trained(ulc, toy, tmp_path):
    code, printed = ulc("train", toy, "--compare", "--set", "nonsense=3", "--out", tmp_path / "r")
    assert code == 2
    assert "unknown key 'nonsense'" in printed.err
    assert not (tmp_path / "r").exists()


def test_without_noise_the_ceiling_is_cross_entropy(ulc, toy, tmp_path):
    with use_threads(1):
        code, printed = ulc(
            "train", toy, "--epochs", 2, "--out", tmp_path / "runs", "--compare", "--json", *SHORT
        )
    assert code == 0
    first, _, ceiling = json.loads(printed.out)
    assert first["summary"] == ceiling["summary"]


def test_quiet_prints_nothing(ulc, toy, tmp_path):
    code, printed = ulc(
        "train", toy, "-a", "ce", "--epochs", 1, "--out", tmp_path / "runs", "--quiet"
    )
    assert (code, printed.out, printed.err) == (0, "", "")


def test_show_and_resume_a_finished_run(ulc, toy, tmp_path):
    ulc(
        "train",
        toy,
        "--noise",
        "symmetric:0.3",
        "--epochs",
        5,
        "--out",
        tmp_path / "r",
        "-q",
        *SHORT,
    )
    (folder,) = (tmp_path / "r").iterdir()
    code, printed = ulc("show", folder, "--labels", 3)
    assert code == 0
    assert "Most suspicious labels (score: " in printed.out
    code, printed = ulc("resume", folder, "--json")
    assert code == 0
    assert json.loads(printed.out)[0]["done"]


def test_fresh_trains_anew(ulc, toy, tmp_path):
    arguments = ("train", toy, "-a", "ce", "--epochs", 1, "--out", tmp_path / "r", "--quiet")
    ulc(*arguments)
    (folder,) = (tmp_path / "r").iterdir()
    before = (folder / "done").stat().st_mtime_ns
    ulc(*arguments, "--fresh")
    assert (folder / "done").stat().st_mtime_ns > before


def test_algorithms_and_datasets_are_listed(ulc):
    code, printed = ulc("algorithms", "--json")
    assert code == 0
    assert {"ce", "dividemix", "ulc"} <= set(json.loads(printed.out))
    code, printed = ulc("algorithms", "ulc", "--json")
    assert "0.1" in json.loads(printed.out)["doubt_weight"]
    code, printed = ulc("datasets", "--json")
    assert {"fashion", "cifar10", "cifar100", "npz"} <= set(json.loads(printed.out))


@pytest.mark.parametrize("name", ["labels.json", "labels.pt", "labels.npz"])
def test_noise_files_are_written_and_can_be_trained_on(ulc, toy, tmp_path, name):
    target = tmp_path / name
    code, printed = ulc("noise", target, "--data", toy, "--noise", "pair_flip:0.2", "--json")
    assert code == 0
    assert json.loads(printed.out)["wrong_share"] == pytest.approx(0.2)
    labels = read_label_file(target, None if name.endswith("json") else "noisy_label")
    assert len(labels) == 90
    key = "" if name.endswith("json") else "#noisy_label"
    code, _ = ulc(
        "train", toy, "-a", "ce", "--epochs", 1, "--out", tmp_path / "r", "-q",
        "--noise", f"file:{target}{key}",
    )  # fmt: skip
    assert code == 0


@pytest.mark.slow
def test_sweep_prints_a_row_for_each_variant(ulc, toy, tmp_path):
    code, printed = ulc(
        "sweep", toy, "--algorithms", "ce,ulc-without-csm", "--seeds", "0,1", "--epochs", 4,
        "--out", tmp_path / "r", "--jobs", 1,
    )  # fmt: skip
    assert code == 0
    lines = printed.out.strip().splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("| ce | 2 |")
    assert lines[3].startswith("| ulc-without-csm | 2 |")
    assert len({line.count("|") for line in lines}) == 1


OWN_DATA = ("--algorithms", "ce", "--seeds", "0", "--epochs", 1, "--jobs", 1, "--quiet")


def specs_in(folder):
    return [RunSpec.read(path) for path in sorted(folder.glob("*/spec.toml"))]


def test_sweep_leaves_one_s_own_data_as_they_are(ulc, toy, tmp_path):
    assert ulc("sweep", toy, "--out", tmp_path / "r", *OWN_DATA)[0] == 0
    (spec,) = specs_in(tmp_path / "r")
    assert (spec.noise.kind, spec.imbalance.kind) == ("none", "none")


def test_sweep_without_data_is_the_demonstration(ulc, monkeypatch):
    """Half of the labels wrong, half of the classes cut to a tenth, as in `ulc train`."""
    asked = []

    def refuse(spec, *_, **__):
        asked.append(spec)
        raise InputError("not now")

    monkeypatch.setattr("ulc.experiments.grid.run", refuse)
    assert ulc("sweep", *OWN_DATA)[0] == 2
    (spec,) = asked
    assert (spec.data.source, spec.noise.tag, spec.imbalance.tag) == ("fashion", "sym0.5", "half10")


def test_sweep_takes_the_options_of_train(ulc, tmp_path):
    rows = ["size,kind,note"] + [f"{i % 7},{'cat' if i % 2 else 'dog'},x{i}" for i in range(40)]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    arguments = (
        "sweep", tmp_path / "rows.csv", "--label", "kind", "--features", "size",
        "--set", "batch_size=8", "--set", "network.width=4", "--out", tmp_path / "r", *OWN_DATA,
    )  # fmt: skip
    assert ulc(*arguments)[0] == 0
    (spec,) = specs_in(tmp_path / "r")
    assert (spec.data.label, spec.data.features) == ("kind", ("size",))
    assert (spec.options["batch_size"], spec.network.width) == (8, 4)
    (done,) = (tmp_path / "r").glob("*/done")
    before = done.stat().st_mtime_ns
    ulc(*arguments)
    assert done.stat().st_mtime_ns == before
    ulc(*arguments, "--fresh")
    assert done.stat().st_mtime_ns > before


def test_an_option_that_no_algorithm_of_a_sweep_has_is_told_before_training(ulc, toy, tmp_path):
    code, printed = ulc(
        "sweep", toy, "--algorithms", "pencil,ce", "--set", "passes=3", "--out", tmp_path / "r"
    )
    assert code == 2
    assert "unknown key 'passes': pencil, ce have no such option" in printed.err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("--algorithm", "ce"), "--algorithm"),
        (("--epochs", "3"), "--epochs"),
        (("--set", "batch_size=8"), "--set"),
        (("--seed", "0"), "--seed"),
        (("--noise", "none"), "--noise"),
        (("--network", "auto"), "--network"),
        (("--label", "kind"), "--label"),
        (("toy.npz",), "DATA"),
    ],
)
def test_an_option_that_the_spec_would_override_is_refused(ulc, toy, arguments, option):
    """Also where its value is the default: the user thinks that it counts."""
    data = {"source": "npz", "path": str(toy)}
    Path("spec.toml").write_text(RunSpec(data=data, algorithm="ce", epochs=1).write())
    code, printed = ulc("train", *arguments, "--spec", "spec.toml", "--quiet")
    assert code == 2
    assert printed.err.startswith(f"ulc: {option} and --spec exclude each other; write the value")
    assert not Path("runs").exists()


def test_options_that_are_not_in_a_spec_go_with_it(ulc, toy, tmp_path):
    data = {"source": "npz", "path": str(toy)}
    Path("spec.toml").write_text(RunSpec(data=data, algorithm="ce", epochs=1).write())
    code, printed = ulc(
        "train", "--spec", "spec.toml", "--out", tmp_path / "r", "--fresh", "--device", "cpu",
        "--no-compare", "--json",
    )  # fmt: skip
    assert code == 0
    assert len(json.loads(printed.out)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--set", "network.depth=3"),
            "unknown key 'depth'; known here: name, options, weights, width",
        ),
        (("--set", "network=mlp"), "name the network with --network"),
        (("--set", "network.name=mlp"), "name the network with --network"),
    ],
)
def test_a_wrong_setting_of_the_network_is_told(ulc, toy, arguments, message):
    code, printed = ulc("train", toy, *arguments)
    assert code == 2
    assert message in printed.err


def test_a_network_of_one_s_own_gets_arguments_from_the_command_line(ulc, toy, monkeypatch):
    network = (
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    def __init__(self, features, bias=True):\n"
        "        super().__init__(nn.Linear(4, features, bias=bias), nn.ReLU())\n"
    )
    Path("net_with_arguments.py").write_text(network)
    monkeypatch.syspath_prepend(Path.cwd())
    code, printed = ulc(
        "train", toy, "-a", "ce", "--epochs", 1, "--json", "--network", "net_with_arguments:Net",
        "--set", "network.features=5", "--set", "network.bias=false",
    )  # fmt: skip
    assert code == 0, printed.err
    (row,) = json.loads(printed.out)
    assert row["spec"]["network"]["options"] == {"features": 5, "bias": False}
    code, printed = ulc(
        "audit", toy, "--epochs", 2, "--set", "warmup_epochs=1", "--set", "passes=2",
        "--network", "net_with_arguments:Net", "--set", "network.features=5",
    )  # fmt: skip
    assert code == 0, printed.err
    (line,) = (each for each in printed.out.splitlines() if each.startswith("Predict new data:"))
    command = line.partition("ulc ")[2].replace("NEWDATA", str(toy)).split()
    code, printed = ulc(*command, "--out", "predictions.csv")
    assert code == 0, printed.err


def test_noise_says_what_it_wrote(ulc, toy, tmp_path):
    target = tmp_path / "labels.json"
    code, printed = ulc("noise", target, "--data", toy, "--noise", "pair_flip:0.2", "--seed", 3)
    assert (code, printed.out) == (0, f"{target}: 90 labels, 20.00 % of them wrong (seed 3)\n")


def test_show_lists_no_labels_if_none_are_asked_for(ulc):
    np.savez("data.npz", X=np.arange(36.0).reshape(18, 2), y=np.arange(18) % 3)
    run = judged_run(DataSpec(source="npz", path="data.npz"), {0: "1", 4: "2"})
    code, printed = ulc("show", run.path, "--labels", 1)
    assert (code, "Most suspicious labels" in printed.out) == (0, True)
    code, printed = ulc("show", run.path, "--labels", 0)
    assert (code, "Most suspicious labels" in printed.out) == (0, False)
    assert "2 of 18 labels are issues" in printed.out


def test_show_tells_of_almost_equal_and_poor_pictures(ulc):
    np.savez("data.npz", X=np.arange(36.0).reshape(18, 2), y=np.arange(18) % 3)
    run = judged_run(DataSpec(source="npz", path="data.npz"), {0: "1"})
    content = run.read_json("health.json")
    near = {"rows": 5, "groups": 2, "conflicts": 1}
    kinds = [{"kind": "dark", "rows": 3}, {"kind": "blurry", "rows": 0}]
    run.write_json(
        "health.json", content | {"near_pictures": near, "poor_pictures": {"kinds": kinds}}
    )
    told = [each for each in health_tables(run) if isinstance(each, str)]
    assert told[-2:] == [
        "5 pictures are almost the same as another one; in 1 of 2 groups of them the labels differ "
        "(health.json).",
        "Pictures that look poor to cleanvision: 3 dark (health.json).",
    ]
    none = {"near_pictures": near | {"rows": 0}, "poor_pictures": {"kinds": kinds[1:]}}
    run.write_json("health.json", content | none)
    assert health_tables(run)[0] == told[0]
    assert not any("pictures" in str(each).lower() for each in health_tables(run))


@pytest.mark.parametrize(
    ("error", "known"),
    [
        (MemoryError("Unable to allocate 3 TiB"), True),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("a bug"), False),
    ],
)
def test_too_little_memory_is_one_sentence_and_a_bug_is_a_traceback(
    monkeypatch, capsys, error, known
):
    def fail():
        raise error

    monkeypatch.setattr("ulc.cli.app", fail)
    with pytest.raises(SystemExit if known else RuntimeError) as ended:
        main()
    said = capsys.readouterr().err
    if known:
        assert ended.value.code == 2
        assert said.startswith(f"ulc: out of memory ({error}); use less data, smaller images")
        assert said.count("\n") == 1
    else:
        assert (ended.value, said) == (error, "")


def test_a_note_is_printed_once_for_all_runs():
    screen, said = Console(file=io.StringIO(), width=80), set()
    bars = [ProgressBar(Progress(console=screen), title, 3, said) for title in ("a", "b")]
    for bar in bars:
        bar.on_note("30 rows are few")
    bars[1].on_note("another")
    assert screen.file.getvalue() == "30 rows are few\nanother\n"


def cells_of(path, count):
    specs = [
        RunSpec(data=DataSpec(source="npz", path=path), algorithm="ce", epochs=2, seed=seed)
        for seed in range(count)
    ]
    return [Cell("ce", "data", spec) for spec in specs]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_sweep_has_a_bar_on_a_terminal_only_and_it_ends_with_the_sweep(monkeypatch, terminal):
    screen = Console(file=io.StringIO(), width=100, force_terminal=terminal, color_system=None)
    monkeypatch.setattr(sweep_progress, "console", lambda **_: screen)
    cells = cells_of("data.npz", 2)
    with sweep_bar(1) as bar:
        bar.on_plan(cells)
        assert bar.progress.live.is_started == terminal
        bar.on_failure(Failure(cells[0], "out of order"))
    assert not bar.progress.live.is_started
    printed = screen.file.getvalue()
    assert f"1/2 {cells[0].title}: failed: out of order" in printed
    assert ("1 of 2 runs" in printed) == terminal


def test_a_sweep_tells_of_runs_of_other_data(monkeypatch, toy):
    screen = Console(file=io.StringIO(), width=1000)
    monkeypatch.setattr(sweep_progress, "console", lambda **_: screen)
    (cell,) = cells_of(str(toy), 1)
    first = run(cell.spec, Path("runs"), device="cpu")
    np.savez(toy, X=np.random.default_rng(1).normal(size=(60, 4)), y=np.arange(60) % 3)
    second = run(cell.spec, Path("runs"), device="cpu")
    with sweep_bar(1) as bar:
        bar.on_plan([cell])
        bar.on_run(cell, first)
        bar.on_run(cell, second)
    lines = screen.file.getvalue().splitlines()
    assert [line.partition("; ")[0] for line in lines] == [
        f"1/1 {cell.title}: {first.path}",
        f"2/1 {cell.title}: {second.path}",
        f"2/1 The data have changed: {first.path} is of other data, and stays.",
    ]
