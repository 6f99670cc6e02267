"""What the figures of the paper show, from finished runs of any folders."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ulc.errors import InputError
from ulc.experiments.finished_runs import (
    FinishedRun,
    check_seeds,
    differing,
    named_method,
    setting_of,
    whole_trainings,
)
from ulc.experiments.paper.grids import PaperGrid, paper_grid
from ulc.experiments.paper_table import is_in_column
from ulc.experiments.run_table import Prior
from ulc.experiments.tables import nested_value
from ulc.typing import Floats, Integers

AFTER_WARMUP = "after_warmup.npz"
GROUPS = {"all": ("auc",), "small": ("small", "auc"), "large": ("large", "auc")}


@dataclass(frozen=True)
class AfterWarmUp:
    """Every label of a run after the warm-up, beside its true label.

    given, true: (N,) labels; loss: (N,) loss of the given label
    epistemic: (N,) epistemic uncertainty; NaN: not estimated
    clean_probability: (N,) probability that the given label is right
    small: numbers of the small classes
    threshold: a label with at least this clean probability is trusted
    title: data, noise and imbalance of the run, and its seed
    """

    given: Integers
    true: Integers
    loss: Floats
    epistemic: Floats
    clean_probability: Floats
    class_names: tuple[str, ...]
    small: tuple[int, ...]
    threshold: float
    title: str

    @property
    def correct(self) -> NDArray[np.bool_]:
        """(N,) mask of the correct labels."""
        return self.given == self.true


def read_after_warm_up(run: FinishedRun) -> AfterWarmUp:
    """What a run has recorded after its warm-up; raise an InputError if the file is damaged."""
    folder, facts = run.folder, run.folder.read_json("data.json")
    arrays = folder.read_arrays(AFTER_WARMUP)
    names = ("given", "true", "loss", "epistemic", "clean_probability")
    try:
        columns = {name: arrays[name] for name in names}
        check_columns(columns, len(facts["class_names"]))
    except (KeyError, ValueError) as error:
        raise folder.damaged(AFTER_WARMUP, error) from None
    return AfterWarmUp(
        **columns,
        class_names=tuple(facts["class_names"]),
        small=tuple(facts.get("small_classes", ())),
        threshold=folder.threshold,
        title=f"{setting_of(run)}, seed {run.spec.seed}",
    )


def check_columns(columns: dict[str, NDArray[np.generic]], classes: int) -> None:
    """Raise a ValueError unless all arrays are (N,), labels name classes and numbers are finite."""
    for name, values in columns.items():
        if values.ndim != 1 or values.shape != columns["given"].shape or len(values) == 0:
            raise ValueError(f"{name} has shape {values.shape}")
        if name in ("given", "true"):
            whole = values.dtype.kind in "iu"
            if not whole or int(values.min()) < 0 or int(values.max()) >= classes:
                raise ValueError(f"{name} holds other values than classes")
        elif values.dtype.kind != "f":
            raise ValueError(f"{name} has type {values.dtype}")
        elif np.isinf(values).any() or (name != "epistemic" and np.isnan(values).any()):
            raise ValueError(f"{name} holds NaN or infinite values")


def find_after_warm_up(runs: Sequence[FinishedRun], name: str) -> AfterWarmUp:
    """The labels after warm-up of one run: of the cell of the figure `name`, else of any run.

    Of several, the shortest training with the lowest seed: the warm-up is the same in all.
    """
    known = [run for run in runs if run.folder.has(AFTER_WARMUP)]
    if not known:
        raise InputError(
            f"no run has {AFTER_WARMUP}: it is written where the true labels are known (injected "
            "noise) and the algorithm has a warm-up; train one with `ulc sweep figure1` or figure2"
        )
    chosen = in_grid(known, paper_grid(name)) or known
    return read_after_warm_up(min(chosen, key=lambda run: (run.spec.epochs, run.spec.seed)))


def in_grid(runs: Sequence[FinishedRun], grid: PaperGrid) -> list[FinishedRun]:
    """The runs that are cells of a table or figure of the paper."""
    methods = {named_method(row.method, row.options) for row in grid.rows}
    return [
        run
        for run in runs
        if run.method in methods and any(is_in_column(run, column) for column in grid.columns)
    ]


@dataclass(frozen=True)
class Curve:
    """Numbers over epochs or values of an option, for several seeds.

    x: (P,); values: (S, P) for S seeds, in the unit of the figure
    """

    title: str
    x: Floats
    values: Floats


@dataclass(frozen=True)
class AucByEpoch:
    """AUC of finding wrong labels by epoch.

    curves: for all, small and large classes, a curve for each method
    warm_up: the last epoch of the warm-up; None: it is not the same in all runs
    title: data, noise and imbalance
    """

    curves: dict[str, list[Curve]]
    warm_up: float | None
    title: str


def auc_by_epoch(runs: Sequence[FinishedRun]) -> AucByEpoch:
    """The AUC of each method and epoch, for several seeds.

    If noise models of the paper's figure are among the methods, only these are shown.
    """
    scored = whole_trainings([run for run in runs if "labels" in run.summary])
    if not scored:
        raise InputError("no run knows the true labels, so no AUC is known; give runs with --noise")
    grid = paper_grid("figure3")
    chosen = in_grid(scored, grid) or scored
    settings = sorted({setting_of(run) for run in chosen})
    if len(settings) > 1:
        raise InputError(
            f"the runs are of several settings ({settings[0]} and {settings[1]}); give one of them"
        )
    titles = {named_method(row.method, row.options): row.title for row in grid.rows}
    groups: dict[str, list[FinishedRun]] = defaultdict(list)
    for run in chosen:
        groups[titles.get(run.method, run.method.name)].append(run)
    order = sorted(groups, key=lambda title: ([*titles.values(), title].index(title), title))
    curves = {
        name: [curve for title in order for curve in one_auc(title, groups[title], keys)]
        for name, keys in GROUPS.items()
    }
    return AucByEpoch(curves, warm_up_end(chosen), settings[0])


def one_auc(title: str, runs: Sequence[FinishedRun], keys: tuple[str, ...]) -> list[Curve]:
    """The curve of the runs of a method; none if a score is not defined (no class is small)."""
    check_alike(title, runs)
    scored = [[each for each in run.folder.records if "labels" in each] for run in runs]
    rows = [[nested_value(each["labels"], keys) for each in records] for records in scored]
    if any(value is None for row in rows for value in row):
        return []
    values = np.array(rows, float)
    epochs = np.array([each["epoch"] + 1.0 for each in scored[0]])
    return [Curve(title, epochs, values)]


def check_alike(title: str, runs: Sequence[FinishedRun]) -> None:
    """Raise an InputError if runs of one curve differ in more than the seed."""
    names = differing(run.settings for run in runs)
    if names:
        raise InputError(f"the runs of {title} differ in {names[0]}; give the folders of one kind")
    check_seeds(runs)


def accuracy_curves(runs: Sequence[FinishedRun], prior: Prior) -> list[Curve]:
    """Accuracy in % against r (doubt_weight of ULC): a curve for each data and noise."""
    known = [
        run
        for run in whole_trainings(runs)
        if run.spec.algorithm == "ulc"
        and {key for key, _ in run.method.changes} <= {"doubt_weight"}
        and nested_value(run.summary, (prior, "last", "accuracy")) is not None
    ]
    chosen = in_grid(known, paper_grid("figure4")) or known
    points: dict[str, dict[float, list[FinishedRun]]] = defaultdict(lambda: defaultdict(list))
    for run in chosen:
        points[setting_of(run)][float(run.settings["options.doubt_weight"])].append(run)
    curves = [one_accuracy(title, by_weight, prior) for title, by_weight in sorted(points.items())]
    several = [curve for curve in curves if len(curve.x) > 1]
    if not several:
        raise InputError("no runs of ULC with several r; train them with `ulc sweep figure4`")
    return several


def one_accuracy(title: str, by_weight: dict[float, list[FinishedRun]], prior: Prior) -> Curve:
    """The curve of one data and noise; only seeds that every r has count."""
    for weight, runs in by_weight.items():
        check_alike(f"{title}, r = {weight:g}", runs)
    seeds = set.intersection(*({run.spec.seed for run in runs} for runs in by_weight.values()))
    if not seeds:
        raise InputError(f"{title}: no seed has all values of r; train them with the same seeds")
    keys = (prior, "last", "accuracy")
    rows = {
        (weight, run.spec.seed): 100 * float(nested_value(run.summary, keys) or 0.0)
        for weight, runs in by_weight.items()
        for run in runs
    }
    x = sorted(by_weight)
    values = [[rows[weight, seed] for weight in x] for seed in sorted(seeds)]
    return Curve(f"{title} (n = {len(seeds)})", np.array(x), np.array(values))


def warm_up_end(runs: Sequence[FinishedRun]) -> float | None:
    """The last epoch of the warm-up, if all runs have the same; else None."""
    ends = {run.spec.options.get("warmup_epochs") for run in runs}
    (end,) = ends if len(ends) == 1 else (None,)
    return float(end) if isinstance(end, int) else None
