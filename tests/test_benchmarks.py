"""The benchmarks' own machinery; what they measure is not a test."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _benchmarks_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def test_without_a_name_all_are_listed_with_what_they_measure(capsys):
    from benchmarks.__main__ import SPEED, main

    main([])
    lines = capsys.readouterr().out.splitlines()
    listed = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert set(SPEED) <= set(listed)
    assert "timing" not in listed
    assert all(listed.values())


@pytest.mark.slow
def test_every_benchmark_can_be_imported():
    from benchmarks.__main__ import find_benchmarks

    for name in find_benchmarks():
        assert importlib.import_module(f"benchmarks.{name}").main


def test_an_unknown_name_is_answered_with_those_there_are():
    from benchmarks.__main__ import main

    with pytest.raises(SystemExit, match=r"'bear'.*bare"):
        main(["bear"])


def test_pieces_take_turns_and_ratios_are_repeat_by_repeat():
    from benchmarks.timing import Repeats, time_in_turns

    turns = []
    timed = time_in_turns({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, 3)
    assert "".join(turns) == "ab" * 4
    assert len(timed["a"].values) == 3
    ratio = Repeats((1.0, 4.0, 9.0)).over(Repeats((1.0, 2.0, 3.0)))
    assert ratio.columns("ratio") == {"ratio": 2.0, "low": 1.0, "high": 3.0}


@pytest.mark.parametrize(
    ("values", "relation", "verdict"),
    [
        ((1.4, 1.5, 1.6), "≤", "reached"),
        ((1.4, 1.5, 1.7), "≤", "not shown"),
        ((1.7, 1.8), "≤", "missed"),
        ((1.6, 1.7), "≥", "reached"),
        ((1.5, 1.9), "≥", "not shown"),
        ((1.4, 1.5), "≥", "missed"),
        ((1.0,), "≤", "not shown"),
    ],
)
def test_a_bound_is_reached_only_if_every_repetition_keeps_it(values, relation, verdict):
    from benchmarks.timing import Repeats, check_bound

    assert check_bound("figure", Repeats(values), relation, 1.6)["verdict"] == verdict


def write_result(folder, count):
    from benchmarks.timing import Repeats, check_bound, describe_machine

    row = {"network": "MLP", "algorithm": "ulc", "ratio": 1.5, "low": 1.4, "high": 1.7}
    bounds = [check_bound(f"figure {i}", Repeats((1.5, 1.4)), "≤", 1.6) for i in range(count - 1)]
    bounds.append(check_bound("wide", Repeats((1.5, 1.4, 1.7)), "≥", 1.6))
    about = describe_machine() | {"load_before": 0.5}
    result = {"benchmark": "bare", "machine": about, "settings": {"threads": "2"}}
    content = json.dumps(result | {"rows": [row], "bounds": bounds})
    (folder / "bare.json").write_text(content, encoding="utf-8")


@pytest.mark.slow
def test_the_page_holds_every_bound_with_its_spread_and_verdict(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    from benchmarks.performance_page import main

    write_result(tmp_path, 15)
    out = tmp_path / "page.md"
    main([str(tmp_path), "--out", str(out), "--results", str(tmp_path)])
    text = out.read_text(encoding="utf-8")
    assert "| figure 0 | 1.45 | 1.4 to 1.5 | 2 | ≤ 1.6 | reached |" in text
    assert "| wide | 1.5 | 1.4 to 1.7 | 3 | ≥ 1.6 | **not shown** |" in text
    assert text.index("page.svg") < text.index("| figure ")
    assert text.count("> **Limitations**") == 1
    assert (tmp_path / "page.svg").stat().st_size > 0
    lines = (tmp_path / "speed_bare.csv").read_text().splitlines()
    assert lines == ["network,algorithm,ratio,low,high", "MLP,ulc,1.5,1.4,1.7"]


def test_a_page_of_more_than_fifteen_rows_is_refused(tmp_path):
    from benchmarks.performance_page import main

    write_result(tmp_path, 16)
    with pytest.raises(SystemExit, match="16 rows are too many"):
        main([str(tmp_path), "--out", str(tmp_path / "page.md")])


def test_a_folder_without_results_is_refused(tmp_path):
    from benchmarks.performance_page import main

    with pytest.raises(SystemExit, match="holds no results"):
        main([str(tmp_path)])


def write_tiny_cifar10(folder):
    """Twenty images a file, in the official binary layout."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        labels = np.arange(20, dtype=np.uint8)[:, None] % 10
        pixels = rng.integers(0, 256, (20, 3 * 32 * 32), np.uint8)
        (folder / f"{name}.bin").write_bytes(np.concatenate([labels, pixels], axis=1).tobytes())


def test_clean_cifar10_is_an_ordinary_run_that_is_not_repeated(tmp_path, capsys):
    from benchmarks.clean_cifar10 import main
    from ulc.storage.run_folder import RunFolder

    write_tiny_cifar10(tmp_path / "cifar")
    command = ["--cifar", str(tmp_path / "cifar"), "--runs", str(tmp_path / "runs")]
    command += ["--epochs", "2", "--set", "network.width=2", "--set", "sgd.lr=0.05"]
    main(command)
    first = capsys.readouterr().out
    assert [line.split()[:2] for line in first.splitlines()[:2]] == [["epoch", "1"], ["epoch", "2"]]
    assert "%" in first
    (path,) = (tmp_path / "runs").iterdir()
    spec = RunFolder(path).spec
    assert (spec.algorithm, spec.noise.kind, spec.network.name) == ("ce", "none", "narrow_resnet")
    assert (spec.network.width, spec.options["sgd"]["lr"]) == (2, 0.05)
    written = (path / "done").stat().st_mtime_ns
    main(command)
    assert capsys.readouterr().out == first
    assert (path / "done").stat().st_mtime_ns == written


def test_clean_cifar10_refuses_an_option_that_the_algorithm_does_not_have(tmp_path):
    from benchmarks.clean_cifar10 import main

    write_tiny_cifar10(tmp_path / "cifar")
    with pytest.raises(SystemExit, match=r"unknown key 'sgd\.speed'"):
        main(["--cifar", str(tmp_path / "cifar"), "--set", "sgd.speed=9"])
