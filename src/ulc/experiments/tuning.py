"""Choose λ_u, the weight of the doubtful labels, on a noisy validation split.

A fifth of the training rows, with their given labels, takes the place of the test set; neither
true labels nor the real test set are read. The seed is none that is reported.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from ulc.algorithms import find_algorithm
from ulc.config import RunSpec, read_toml
from ulc.errors import InputError
from ulc.experiments.grid import Cell, Failure, SweepProgress, train_cells
from ulc.experiments.paper.cells import PaperSweep
from ulc.experiments.tables import nested_value
from ulc.experiments.validation import SHARE, prepare_validation
from ulc.settings.common import notes_on_options, own_options
from ulc.settings.variants import VARIANTS, variant
from ulc.storage.run_folder import RunFolder
from ulc.training.run import resolved

OPTION = "doubtful_weight"
VALUES = (0.0, 25.0, 50.0, 150.0)  # those of the paper
SEED = 100
FOLDER = "validation"  # inside --out: a spec does not tell that its test set is a validation split

Weights = dict[str, dict[str, dict[str, Any]]]  # column, algorithm: options


@dataclass(frozen=True)
class Candidate:
    """A value of λ_u and how well its training agrees with the given validation labels.

    score: mean over classes of the agreement in the last epochs, with the better of the two priors
    rows: number of validation rows
    """

    value: float
    score: float
    rows: int


@dataclass(frozen=True)
class Tuned:
    """The candidates of one algorithm in one column.

    usual: the value of the preset
    """

    column: str
    algorithm: str
    usual: float
    candidates: tuple[Candidate, ...]

    @property
    def chosen(self) -> Candidate:
        """The best candidate if it is better than the preset by a standard error; else the preset.

        The standard error is that of a share among the validation rows.
        """
        best = max(self.candidates, key=lambda each: each.score)
        preset = next((each for each in self.candidates if each.value == self.usual), best)
        error = math.sqrt(best.score * (1 - best.score) / best.rows)
        return best if best.score - preset.score > error else preset


def tune(  # noqa: PLR0913 (what to train and where; the rest has defaults)
    what: RunSpec | PaperSweep,
    algorithms: Sequence[str] | None = None,
    out: str | Path = "runs",
    *,
    values: Sequence[float] = VALUES,
    jobs: int = 2,
    device: str = "auto",
    progress: SweepProgress | None = None,
) -> tuple[list[Tuned], list[Failure]]:
    """Train every value of λ_u on a noisy validation split; return the results, and the failures.

    Run folders are in `out`/validation; finished ones are only read.

    what: a spec, or what `ulc.paper_sweep` returns; each of its columns is tuned
    algorithms: names of algorithms with the option, for a spec; None: those of the table
    """
    tried = list_trials(what, algorithms, values)
    cells, places = [cell for cell, _ in tried], [place for _, place in tried]
    found: dict[tuple[str, str, float], list[Candidate]] = defaultdict(list)
    failures = []
    for place, result in train_cells(
        cells, Path(out) / FOLDER, jobs=jobs, device=device,
        progress=progress or SweepProgress(), prepare=prepare_validation,
    ):  # fmt: skip
        if isinstance(result, Failure):
            failures.append(result)
        else:
            value = cells[place].spec.options[OPTION]
            found[places[place]].append(judge(value, result))
    tuned = [
        Tuned(*place, tuple(sorted(found[place], key=lambda each: each.value)))
        for place in dict.fromkeys(places)
        if found[place]
    ]
    if not tuned and failures:
        raise InputError(failures[0].reason)
    return tuned, failures


def list_trials(
    what: RunSpec | PaperSweep, algorithms: Sequence[str] | None, values: Sequence[float]
) -> list[tuple[Cell, tuple[str, str, float]]]:
    """All trainings, each with its column, its algorithm and the value of the preset."""
    trials = []
    for base in base_cells(what, algorithms):
        usual = float(base.spec.options[OPTION])
        for value in sorted({*values, usual}):
            options = base.spec.options | {OPTION: float(value)}
            spec = base.spec.model_copy(update={"options": options})
            cell = Cell(f"{base.row}, λ_u = {value:g}", base.column, spec)
            trials.append((cell, (base.column, base.spec.algorithm, usual)))
    return trials


def base_cells(what: RunSpec | PaperSweep, algorithms: Sequence[str] | None) -> list[Cell]:
    """The trainings for which λ_u is chosen, with the presets and the seed of the validation."""
    if isinstance(what, PaperSweep):
        if OPTION in what.options:
            raise InputError(f"--set {OPTION}: this is what is chosen; leave it out")
        rows = {row.method: row for row in what.rows}
        chosen = [rows[method] for method in tuned_methods(what, algorithms)]
        cells = [
            Cell(row.title, column.title, what.spec(row, column, SEED))
            for column in what.columns
            for row in chosen
        ]
    else:
        cells = []
        for name in tuned_methods(what, algorithms):
            options = own_options(name, what.options)
            base = what.model_copy(update={"seed": SEED, "options": options})
            cells.append(Cell(name, "", resolved(variant(base, name))))
    lacking = next((cell.row for cell in cells if OPTION not in cell.spec.options), None)
    if not cells or lacking is not None:
        who = "no method of these has" if lacking is None else f"{lacking} has no"
        raise InputError(f"{who} λ_u; name ulc or dividemix")
    option_notes(what, algorithms)  # only to raise
    return cells


def tuned_methods(what: RunSpec | PaperSweep, algorithms: Sequence[str] | None) -> list[str]:
    """The methods for which λ_u is chosen."""
    if not isinstance(what, PaperSweep):
        return list(algorithms or ["ulc"])
    known = dict.fromkeys(row.method for row in what.rows if row.method not in VARIANTS)
    return [method for method in known if has_option(method)]


def option_notes(what: RunSpec | PaperSweep, algorithms: Sequence[str] | None) -> list[str]:
    """A sentence for each option that some of these methods do not have.

    Raise an InputError if none of them has it.
    """
    return notes_on_options(tuned_methods(what, algorithms), what.options)


def has_option(algorithm: str) -> bool:
    """Whether an algorithm has λ_u."""
    return OPTION in find_algorithm(algorithm).config_class.model_fields


def judge(value: float, folder: RunFolder) -> Candidate:
    """The candidate of a finished training on the validation split."""
    summary, rows = folder.read_json("summary.json"), folder.read_json("data.json")["examples"]
    scores = [
        nested_value(summary, (prior, "last", "balanced_accuracy"))
        for prior in ("training", "balanced")
    ]
    known = [float(each) for each in scores if each is not None]
    return Candidate(value, max(known), round(SHARE / (1 - SHARE) * rows))


def write_weights(tuned: Sequence[Tuned]) -> str:
    """The chosen values as TOML, for `ulc sweep --tuned`."""
    content: Weights = {}
    for each in tuned:
        content.setdefault(each.column, {})[each.algorithm] = {OPTION: each.chosen.value}
    return tomli_w.dumps(content)


def read_weights(path: Path, columns: Sequence[str]) -> Weights:
    """The chosen values from a file; raise an InputError if it is not one of `ulc tune`.

    columns: titles of the columns that the file may name
    """
    content: Mapping[str, Any] = read_toml(path)
    for column, by_algorithm in content.items():
        if column not in columns:
            raise InputError(f"{path}: no column is called '{column}'; known: {'; '.join(columns)}")
        if not isinstance(by_algorithm, dict):
            raise InputError(f"{path}: '{column}' is no section; make the file with `ulc tune`")
        for algorithm, options in by_algorithm.items():
            if not isinstance(options, dict) or set(options) != {OPTION}:
                raise InputError(f"{path}: {column}.{algorithm} must set {OPTION} alone")
    return dict(content)
