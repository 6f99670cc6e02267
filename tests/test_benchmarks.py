"""The benchmarks' own machinery; what they measure is not a test."""

import json
from pathlib import Path

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


def test_an_unknown_name_is_answered_with_those_there_are():
    from benchmarks.__main__ import main

    with pytest.raises(SystemExit, match=r"'bear'.*bare"):
        main(["bear"])


def test_pieces_take_turns_and_ratios_are_repeat_by_repeat():
    from benchmarks.timing import Timing, interleaved

    turns = []
    timed = interleaved({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, 3)
    assert "".join(turns) == "ab" * 4
    assert len(timed["a"].seconds) == 3
    over = Timing((1.0, 4.0, 9.0)).over(Timing((1.0, 2.0, 3.0)))
    assert over == {"ratio": 2.0, "low": 1.0, "high": 3.0}


@pytest.mark.slow
def test_the_page_holds_every_claim_and_its_verdict(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    from benchmarks.performance_page import main
    from benchmarks.timing import claim, machine

    row = {"network": "MLP", "algorithm": "ulc", "ratio": 1.5, "low": 1.4, "high": 1.7}
    claims = [claim("kept", 1.5, "≤", 1.6), claim("missed", 1.5, "≥", 2.0)]
    result = {"benchmark": "bare", "machine": machine(), "settings": {"threads": "2"}}
    content = json.dumps(result | {"rows": [row], "claims": claims})
    (tmp_path / "bare.json").write_text(content)
    out = tmp_path / "page.md"
    main([str(tmp_path), "--out", str(out)])
    text = out.read_text()
    assert "| kept | 1.5 | ≤ 1.6 | yes |" in text
    assert "| missed | 1.5 | ≥ 2 | **no** |" in text
    assert (tmp_path / "page.svg").stat().st_size > 0


def test_a_folder_without_results_is_refused(tmp_path):
    from benchmarks.performance_page import main

    with pytest.raises(SystemExit, match="holds no results"):
        main([str(tmp_path)])
