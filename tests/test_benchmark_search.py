"""The search of settings: equal effort for every method, judged by given labels only."""

import numpy as np
import pytest

from benchmarks import search_settings
from benchmarks.grid_records import hash_spec, read_records
from benchmarks.grid_settings import find_settings
from benchmarks.search_settings import (
    KNOBS,
    SEED,
    Knob,
    candidates,
    choose,
    main,
    parse_options,
    preset_lines,
)
from stub_data import embeddings
from ulc.algorithms import ALGORITHMS
from ulc.config import RunSpec
from ulc.data.prepare import label
from ulc.experiments.validation import SHARE, prepare_validation
from ulc.settings.variants import variant
from ulc.training.run import resolved


@pytest.fixture
def own(tmp_path):
    """Options that name a tiny setting."""
    np.savez(tmp_path / "own.npz", **embeddings(300))
    text = (
        f"[own]\ndata = '{tmp_path / 'own.npz'}'\nnoise = 'symmetric:0.4'\nimbalance = 'half:2'\n"
    )
    (tmp_path / "grid.toml").write_text(text)
    return ["own", "--grid", "grid.toml", "--runs", "runs", "--results", "results"]


@pytest.mark.parametrize("name", ["demonstration", "own"])
def test_every_method_has_different_candidates_and_the_first_is_the_preset(name, own):
    (setting,) = find_settings(parse_options([name] if name != "own" else own))
    assert set(KNOBS) == set(ALGORITHMS)
    for method in KNOBS:
        cells = candidates(setting, method)
        assert len({hash_spec(cell.spec) for cell in cells}) == (12 if method == "ce" else 9)
        preset = variant(setting.base.model_copy(update={"seed": SEED}), method)
        assert cells[0].spec == resolved(preset)
        assert cells[0].changes == ()


def test_all_learning_rates_of_a_method_are_scaled_alike(own):
    (setting,) = find_settings(parse_options(own))
    preset, *_, last = (cell.spec.options for cell in candidates(setting, "pencil"))
    assert last["sgd"]["lr"] == pytest.approx(2.5 * preset["sgd"]["lr"])
    assert last["final_lr"] == pytest.approx(2.5 * preset["final_lr"])
    preset, *_, last = (cell.spec.options for cell in candidates(setting, "coteaching_plus"))
    assert last["adam"]["lr"] == pytest.approx(2.5 * preset["adam"]["lr"])


def test_validation_rows_have_given_labels_and_are_not_learned(own):
    (setting,) = find_settings(parse_options(own))
    spec: RunSpec = candidates(setting, "ce")[0].spec
    labelled, prepared = label(spec), prepare_validation(spec)
    test = prepared.truth.test
    stored = prepared.training.preprocessing.stored(labelled.source.inputs).numpy()
    place = {row.tobytes(): number for number, row in enumerate(stored)}
    learned = [place[row.tobytes()] for row in prepared.training.stored.numpy()]
    tested = [place[row.tobytes()] for row in test.stored.numpy()]
    assert sorted(learned + tested) == list(range(len(stored)))
    assert len(tested) == round(SHARE * len(stored))
    np.testing.assert_array_equal(prepared.training.given.numpy(), labelled.given[learned])
    np.testing.assert_array_equal(test.labels, labelled.given[tested])
    assert (labelled.given != labelled.true)[tested].any()
    assert prepared.truth.train is None


def test_the_preset_stays_unless_another_candidate_is_better_by_a_standard_error():
    """With 100 rows and a share of ½ the standard error is 0.05."""
    preset, near, far = (
        {"score": score, "changes": changes, "rows": 100}
        for score, changes in ((0.44, []), (0.48, ["sgd.lr=1"]), (0.5, ["sgd.lr=2"]))
    )
    assert choose([near, preset]) is preset
    assert choose([near, preset, far]) is far
    assert choose([{**far, "score": 0.44}, preset]) is preset


def test_lines_for_presets_say_which_options_depend_on_the_noise(own):
    (setting,) = find_settings(parse_options(own))
    changes = ["doubtful_weight=5.0", "epochs=2", "sgd.lr=0.05"]
    assert preset_lines(setting, {"method": "ulc", "changes": changes}, 9) == [
        "[npz.ulc]  # the best of 9 candidates",
        "doubtful_weight = 5.0  # belongs into [[npz.noise]]",
        "sgd = { lr = 0.05 }",
    ]


@pytest.mark.slow
def test_a_search_records_its_candidates_and_repeats_none(tmp_path, own, monkeypatch, capsys):
    monkeypatch.setattr(search_settings, "RATES", (1.0,))
    monkeypatch.setitem(KNOBS, "ce", Knob("sgd.weight_decay", factors=(4,)))
    command = [*own, "--methods", "ce", "--epochs", "2", "--jobs", "2"]
    main(command)
    shown = capsys.readouterr().out
    assert "[npz.ce]  # the best of 2 candidates" in shown
    records = read_records(tmp_path / "results/own.jsonl")
    assert [record["chosen"] for record in records].count(True) == 1
    assert [record for record in records if record["chosen"]] == [choose(records)]
    assert len({record["rows"] for record in records}) == 1
    assert all("labels" not in record for record in records)
    main(command)
    assert "2 cells, 2 of them recorded before" in capsys.readouterr().out
    assert read_records(tmp_path / "results/own.jsonl") == records
