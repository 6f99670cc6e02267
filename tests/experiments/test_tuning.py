"""λ_u is chosen on a noisy validation split, without true labels and without the test set."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

from stub_data import embeddings
from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.experiments import grid
from ulc.experiments.finished_runs import find_runs
from ulc.experiments.paper.cells import paper_sweep
from ulc.experiments.tuning import SEED, Candidate, Tuned, base_cells, tune

COLUMN = "CIFAR-10, Sym. 50 %, 1:5"
TINY = ("table2", "--scale", "cpu", "--data", "tiny.npz", "--epochs", 2, "--jobs", 1,
        "--only", "ulc,symmetric:0.5,half:5")  # fmt: skip


def store(**change):
    np.savez("tiny.npz", **(embeddings(200, 10, 10) | change))


def tuned(usual, rows=100, **scores):
    candidates = tuple(
        Candidate(float(name.removeprefix("at")), score, rows) for name, score in scores.items()
    )
    return Tuned("", "ulc", usual, candidates)


def test_the_best_value_is_chosen_only_if_it_beats_the_preset_by_a_standard_error():
    """√(0.8 · 0.2 / 100) = 0.04."""
    assert tuned(25.0, at0=0.75, at25=0.70, at150=0.80).chosen.value == 150
    assert tuned(25.0, at0=0.75, at25=0.77, at150=0.80).chosen.value == 25
    assert tuned(25.0, 10_000, at0=0.75, at25=0.77, at150=0.80).chosen.value == 150


def test_a_sweep_takes_what_was_chosen_for_its_columns(ulc):
    store()
    code, printed = ulc("tune", *TINY, "--values", "0,3", "--save", "weights.toml")
    assert code == 0
    head, _, row = (
        line.strip("|").split("|") for line in printed.out.splitlines() if line.startswith("|")
    )
    assert [each.strip() for each in head[2:5]] == ["λ_u = 0", "λ_u = 3", "λ_u = 25"]  # the preset
    (by_algorithm,) = tomllib.loads(Path("weights.toml").read_text()).values()
    assert by_algorithm["ulc"]["doubtful_weight"] == float(row[-1])
    Path("weights.toml").write_text(f'["{COLUMN}".ulc]\ndoubtful_weight = 3.0\n')
    assert ulc("sweep", *TINY, "--tuned", "weights.toml", "--seeds", 1, "--quiet")[0] == 0
    (run,) = find_runs([Path("runs")])[0]  # the validation runs are in a folder of their own
    assert run.spec.options["doubtful_weight"] == 3.0
    assert {each.spec.seed for each in find_runs([Path("runs/validation")])[0]} == {SEED}


def test_a_dry_run_lists_every_value_of_every_column_and_trains_nothing(ulc):
    store()
    code, printed = ulc("tune", *TINY, "--values", "0,3", "--dry-run")
    assert (code, Path("runs").exists()) == (0, False)
    assert "| ULC, λ_u = 3 | 1 | 0 | 1 | " in printed.out
    assert "3 runs, 3 left; time with 1 at once on this machine: about" in printed.out
    ulc("tune", *TINY, "--values", "3", "--quiet")
    _, printed = ulc("tune", *TINY, "--values", "0,3", "--dry-run")
    assert "3 runs, 1 left" in printed.out


def test_the_test_set_is_not_read():
    """Other test labels, same scores."""
    store()
    spec = RunSpec(
        data={"source": "npz", "path": str(Path("tiny.npz").absolute())},
        noise={"kind": "symmetric", "rate": 0.4},
        epochs=2,
    )
    (first,), _ = tune(spec, ["dividemix"], "first", values=[1.0], jobs=1, device="cpu")
    store(y_test=np.zeros(200, int))
    (second,), _ = tune(spec, ["dividemix"], "second", values=[1.0], jobs=1, device="cpu")
    assert first == second
    assert 0 < first.chosen.score < 1


def test_methods_with_the_option_are_tuned_alike_and_variants_follow_them():
    store()
    work = paper_sweep("table2", "tiny.npz", scale="cpu", only=["symmetric:0.5", "half:5"])
    assert [cell.row for cell in base_cells(work, None)] == ["DivideMix", "ULC"]
    chosen = {COLUMN: {"ulc": {"doubtful_weight": 7.0}}}
    ablations = paper_sweep(
        "table4", "tiny.npz", scale="cpu", only=["symmetric:0.5", "half:5"], tuned=chosen
    )
    weights = {cell.spec.options["doubtful_weight"] for cell in ablations.cells([0])}
    assert weights == {7.0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[nowhere.ulc]\ndoubtful_weight = 1.0", "no column is called 'nowhere'; known: CIFAR-10"),
        (f'["{COLUMN}".ulc]\nlr = 1.0', "must set doubtful_weight alone"),
        (f'"{COLUMN}" = 3', "is no section; make the file with `ulc tune`"),
    ],
)
def test_a_file_of_something_else_is_refused(ulc, content, message):
    store()
    Path("weights.toml").write_text(content)
    code, printed = ulc("sweep", *TINY, "--tuned", "weights.toml")
    assert code == 2
    assert message in printed.err


def test_what_cannot_be_tuned_is_told(ulc):
    store()
    code, printed = ulc("tune", "tiny.npz", "--algorithms", "ce", "--quiet")
    assert (code, "ce has no λ_u; name ulc or dividemix" in printed.err) == (2, True)
    code, printed = ulc("tune", *TINY, "--set", "doubtful_weight=3")
    assert (code, "this is what is chosen" in printed.err) == (2, True)
    code, printed = ulc("tune", *TINY, "--values", "a")
    assert (code, "give numbers separated by commas" in printed.err) == (2, True)
    with pytest.raises(InputError, match="no method of these has λ_u"):
        base_cells(paper_sweep("table2", "tiny.npz", scale="cpu", only=["ce"]), None)


def refuse(*values):
    """A replacement of `run` that fails for these values of λ_u."""
    train = grid.run

    def run(spec, out, **options):
        if spec.options["doubtful_weight"] in values:
            raise InputError(f"{spec.options['doubtful_weight']:g} is out of order")
        return train(spec, out, **options)

    return run


def test_a_value_that_cannot_be_trained_is_listed_and_the_others_are_compared(ulc, monkeypatch):
    store()
    monkeypatch.setattr(grid, "run", refuse(0.0))
    code, printed = ulc("tune", *TINY, "--values", "0")
    assert code == 1
    assert "| λ_u = 25 | preset | chosen |" in printed.out
    assert "λ_u = 0" not in printed.out
    failed = f"failed: ULC, λ_u = 0, {COLUMN}, seed {SEED}: 0 is out of order\n"
    assert printed.err.endswith(failed)
    assert ulc("tune", *TINY, "--values", "0", "--quiet") == (1, ("runs\n", failed))
    assert not list(Path().glob("*.toml"))


def test_if_no_value_can_be_trained_the_first_reason_is_told(ulc, monkeypatch):
    store()
    monkeypatch.setattr(grid, "run", refuse(0.0, 25.0))
    code, printed = ulc("tune", *TINY, "--values", "0", "--quiet")
    assert (code, printed.out, printed.err) == (2, "", "ulc: 0 is out of order\n")
