"""Verdicts on the paper's claims follow a rule, from pairs of the same setting and seed."""

import re
from pathlib import Path

import pytest

from benchmarks.claims import Claim, Evidence, claim_table, find_evidence, judge, read_claims
from benchmarks.differences import level_table
from benchmarks.grid_records import update_records
from benchmarks.grid_settings import METHODS
from benchmarks.measures import find_measure
from ulc.errors import InputError

PAGE = Path(__file__).parents[1] / "docs" / "claims.md"


def claim(**content):
    known = {"title": "t", "section": "s", "method": "ulc", "reference": "ce"}
    return Claim.model_validate(known | {"measure": "accuracy", "kind": "more"} | content)


def record(method, seed, accuracy, **more):
    return {"method": method, "changes": [], "seed": seed, "processor_seconds": 100 * accuracy,
            "training": {"last": {"accuracy": accuracy}}, **more}  # fmt: skip


def write(folder, setting, *records):
    update_records(folder / f"{setting}.jsonl", lambda _: records)


@pytest.mark.parametrize(
    ("kind", "numbers", "verdict"),
    [
        ("more", [], "no records"),
        ("more", [5.0], "one pair, no test"),
        ("more", [1.0, 1.1, 0.9], "**holds**"),
        ("more", [-1.0, -1.1, -0.9], "**the opposite**"),
        ("more", [3.0, -1.0, 1.0], "not shown"),
        ("less", [-1.0, -1.1, -0.9], "**holds**"),
        ("less", [1.0, 1.1, 0.9], "**the opposite**"),
        ("equal", [0.1, -0.1, 0.0], "**holds** (within ± 1)"),
        ("equal", [5.0, 5.1, 4.9], "**does not hold**"),
        ("equal", [0.0, 3.0, -3.0], "not shown"),
    ],
)
def test_a_verdict_needs_an_interval_that_is_all_on_one_side(kind, numbers, verdict):
    assert judge(claim(kind=kind), Evidence(numbers, ["demonstration"])) == verdict


def test_the_interval_is_that_of_a_t_test():
    """Mean 2, standard error 1 / sqrt(3), and 4.303 as the quantile of two degrees of freedom."""
    low, high = Evidence([1.0, 2.0, 3.0], []).interval
    assert (low, high) == pytest.approx((2 - 4.303 / 3**0.5, 2 + 4.303 / 3**0.5), abs=1e-3)


def test_differences_between_settings_are_paired_by_seed(tmp_path):
    for setting, gains in (("features-1to10-50", (0.3, 0.4)), ("features-1to10-20", (0.1,))):
        pairs = [(record("ce", seed, 0.5), record("ulc", seed, 0.5 + gain))
                 for seed, gain in enumerate(gains)]  # fmt: skip
        write(tmp_path, setting, *(each for pair in pairs for each in pair))
    both = claim(settings=("features-1to10-*",))
    assert find_evidence(both, tmp_path).numbers == pytest.approx([30, 40, 10])
    contrast = claim(settings=("features-1to10-50",), against=("features-1to10-20",))
    assert find_evidence(contrast, tmp_path).numbers == pytest.approx([20])
    none = claim(settings=("features-1to10-50",), against=("features-1to5-50",))
    assert find_evidence(none, tmp_path) == Evidence([], [])
    time = claim(measure="time", relative=True, settings=("features-1to10-20",))
    assert find_evidence(time, tmp_path).numbers == pytest.approx([20])
    level = claim(reference=None, settings=("features-1to10-20",))
    assert find_evidence(level, tmp_path).numbers == pytest.approx([60])
    (row,) = claim_table([contrast], tmp_path).splitlines()[2:]
    assert row == "| [t](#s) | – | +20.0 | 1 | 2 | one pair, no test |"


def test_only_trainings_whose_noise_has_learned_count_for_aleatoric_claims(tmp_path):
    def curves(first, last):
        return {"curves": {"groups.small.class_noise": [first, last]}}

    write(
        tmp_path, "features-1to10-50",
        record("ce", 0, 0.5), record("ulc", 0, 0.6, **curves(0.1, 0.13)),
        record("ce", 1, 0.5), record("ulc", 1, 0.9, **curves(0.1, 0.101)),
    )  # fmt: skip
    assert find_evidence(claim(noise_alive=True), tmp_path).numbers == pytest.approx([10])


def test_levels_have_a_row_for_each_setting_and_method(tmp_path):
    write(tmp_path, "features-1to10-50", record("ce", 0, 0.5), record("ulc", 0, 0.25))
    table = level_table(["ulc", "ce"], ["accuracy"], tmp_path)
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert [row[0].partition(":")[0] for row in rows] == ["ULC", "cross entropy"]
    assert [row[1:] for row in rows] == [["1", "25.0"], ["1", "50.0"]]
    assert "no records of `ulc_plus`" in level_table(["ulc_plus"], ["accuracy"], tmp_path)


def test_every_claim_names_methods_measures_and_a_section_of_the_page():
    headings = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    claims = read_claims()
    assert len(claims) > 20
    for each in claims:
        find_measure(each.measure)
        assert each.section in anchors, each.section
        for name in (each.method, each.reference or each.method):
            assert name.partition("/")[0] in METHODS, name
    with pytest.raises(InputError, match="no measure is called 'luck'"):
        find_measure("luck")
