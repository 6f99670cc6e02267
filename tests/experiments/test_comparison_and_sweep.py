"""`ulc.compare` and `ulc.sweep` from Python."""

import numpy as np
import pytest

import ulc
from stub_data import embeddings
from ulc.errors import InputError
from ulc.training.loop import TrainingProgress

OWN = """
from ulc.algorithms.cross_entropy import CrossEntropy

class Own(CrossEntropy):
    pass
"""


@pytest.fixture
def spec(tmp_path):
    np.savez(tmp_path / "data.npz", **embeddings())
    return ulc.RunSpec(
        data={"source": "npz", "path": str(tmp_path / "data.npz")},
        noise={"kind": "symmetric", "rate": 0.3},
        epochs=2,
    )


def test_a_comparison_has_plain_training_the_method_and_the_ceiling(spec, tmp_path):
    titles = []

    def new_progress(title, each):
        titles.append((title, each.epochs))
        return TrainingProgress()

    own = spec.model_copy(update={"algorithm": "elr_plus"})
    found = ulc.compare(own, tmp_path / "runs", device="cpu", progress=new_progress)
    assert titles == [("cross entropy", 2), ("elr_plus", 2), ("ceiling", 2)]
    assert list(found.by_title) == [title for title, _ in titles]
    runs = (found.plain, found.method, found.ceiling)
    assert [run.spec.algorithm for run in runs] == ["ce", "elr_plus", "ce"]
    assert [run.spec.noise.kind for run in runs] == ["symmetric", "symmetric", "none"]
    assert found.plain.spec.options["sgd"]["cosine_epochs"] == 2  # of 24 epochs, as the preset
    again = ulc.compare(own, tmp_path / "runs", device="cpu")
    assert [run.path for run in again.by_title.values()] == [run.path for run in runs]


def test_a_sweep_has_a_run_for_each_algorithm_and_seed_and_a_table(spec, tmp_path):
    seen = []
    found = ulc.sweep(
        spec, ["ce", "ulc-beta"], tmp_path / "runs", seeds=[0, 3], jobs=1, device="cpu",
        on_run=lambda name, run: seen.append((name, run.spec.seed)),
    )  # fmt: skip
    assert seen == [("ce", 0), ("ce", 3), ("ulc-beta", 0), ("ulc-beta", 3)]
    assert [[run.spec.seed for run in runs] for runs in found.runs.values()] == [[0, 3]] * 2
    assert found.runs["ulc-beta"][0].spec.options["mixture"] == "beta"
    assert [line.split("|")[1].strip() for line in found.table.splitlines()[2:]] == list(found.runs)
    assert (found.without_preset, found.notes) == ({}, [])


def test_a_sweep_says_which_algorithms_have_no_preset(spec, tmp_path, monkeypatch):
    """And trains them for the epochs of the data set, not for the default of 300."""
    (tmp_path / "own_in_sweep.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    unset = ulc.RunSpec(data=spec.data, options={"batch_size": 45})
    found = ulc.sweep(
        unset, ["ce", "own_in_sweep:Own"], tmp_path / "runs", seeds=[0], jobs=1, device="cpu"
    )
    assert {run.spec.epochs for runs in found.runs.values() for run in runs} == {24}
    (note,) = found.notes
    assert note.startswith("own_in_sweep:Own has no preset of its own: it trained 24 epochs with")
    assert "SGD schedule of cross entropy" in note


@pytest.mark.parametrize(("algorithms", "seeds"), [([], [0]), (["ce"], [])])
def test_a_sweep_of_nothing_is_refused(spec, algorithms, seeds):
    with pytest.raises(InputError, match="name at least one algorithm and one seed"):
        ulc.sweep(spec, algorithms, seeds=seeds)


@pytest.mark.slow
def test_a_fresh_comparison_trains_all_its_runs_anew(spec, tmp_path):
    own = spec.model_copy(update={"algorithm": "elr_plus", "epochs": 1})
    times = []
    for fresh in (False, False, True):
        found = ulc.compare(own, tmp_path / "runs", device="cpu", fresh=fresh)
        runs = found.by_title.values()
        times.append([(run.path / "done").stat().st_mtime_ns for run in runs])
    assert times[0] == times[1]
    assert all(new > old for old, new in zip(times[0], times[2], strict=True))
