"""What a run recorded beside its judgement: curves, gain over plain training, warnings."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from ulc.errors import InputError
from ulc.report.figures import Line, curves
from ulc.report.findings import Findings
from ulc.storage.run_folder import Records, RunFolder

# What an epoch's record may hold: the way to it, what it is called, how it is drawn.
LOSSES = (
    (("train", "loss"), "on given labels", "grey-line"),
    (("train", "trusted_loss"), "on trusted labels", "right-line"),
    (("train", "doubtful_loss"), "on doubtful labels", "wrong-line"),
)
ACCURACIES = (
    (("test", "balanced", "accuracy"), "all classes", "grey-line"),
    (("test", "balanced", "large_accuracy"), "large classes", "right-line"),
    (("test", "balanced", "small_accuracy"), "small classes", "wrong-line"),
)
SHARES = (
    (("train", "trusted"), "labels trusted", "right-line"),
    (("held_out", "agreement"), "held-out labels predicted", "wrong-line"),
    (("labels", "auc"), "wrong told from right (AUC)", "grey-line"),
)
FIGURES = (
    (
        "Training loss",
        LOSSES,
        False,
        "How badly the model fits what it learns from: it should fall and settle.",
    ),
    (
        "Trust in labels",
        SHARES,
        True,
        "The share of given labels that the method trusts; it should settle, neither at 0 nor "
        "(unless your labels are clean) at 100 %. Held-out labels are wrong as often as the "
        "others, so not all of them can be predicted.",
    ),
    (
        "Accuracy on the test set",
        ACCURACIES,
        True,
        "How often the model is right on examples it never saw, all classes counting alike; "
        "a fall late in training means that wrong labels are being learned.",
    ),
)
MOST = 5  # warnings of one kind


@dataclass(frozen=True)
class Curve:
    """A plot of the training, with its key and what it shows."""

    title: str
    plot: Markup
    lines: list[Line]
    about: str


def learning_curves(records: Records) -> list[Curve]:
    """The plots for which there are numbers."""
    drawn = []
    for title, ways, percent, about in FIGURES:
        lines = [
            line for way, name, class_ in ways if (line := read_line(records, way, name, class_))
        ]
        if lines:
            plot = curves(title, lines, len(records), percent=percent)
            drawn.append(Curve(title, plot, lines, about))
    return drawn


def read_line(records: Records, way: tuple[str, ...], name: str, class_: str) -> Line | None:
    """A value's course over the epochs that have it."""
    found = [(epoch, at(record, way)) for epoch, record in enumerate(records)]
    known = [(epoch, value) for epoch, value in found if value is not None]
    if not known:
        return None
    epochs, values = zip(*known, strict=True)
    return Line(name, class_, epochs, values)


def at(record: Any, way: tuple[str, ...]) -> float | None:
    """The number at the end of the way, if there is one."""
    for name in way:
        record = record.get(name) if isinstance(record, dict) else None
    known = isinstance(record, int | float) and not isinstance(record, bool)
    return float(record) if known else None


@dataclass(frozen=True)
class Gain:
    """How much better the model is than plain training on the given labels.

    measured: on what
    """

    plain: float
    ours: float
    measured: str
    title: str = "Gain over plain training"


def gain(folder: RunFolder) -> Gain | None:
    """As the audit compared them, or beside the plain run that `ulc train` left; None: unknown."""
    compared = audit(folder)
    plain, ours = (at(compared, (name, "held_out_agreement")) for name in ("plain", "ulc"))
    if plain is not None and ours is not None:
        measured = "held-out labels that are predicted"
        return Gain(plain, ours, measured, "ULC against plain training")
    beside = plain_run(folder)
    if beside is None:
        return None
    way = ("balanced", "last", "accuracy")
    plain, ours = (at(each.read_json("summary.json"), way) for each in (beside, folder))
    return None if plain is None or ours is None else Gain(plain, ours, "test accuracy")


def plain_run(folder: RunFolder) -> RunFolder | None:
    """The finished run of cross entropy on the same labels, if it lies beside this one."""
    spec = folder.spec
    if spec.algorithm == "ce":
        return None
    tags = (spec.data.source, spec.imbalance.tag, spec.noise.tag, "ce", f"s{spec.seed}", "*")
    fixed = {"algorithm", "options"}
    for path in sorted(folder.path.absolute().parent.glob("-".join(tags))):
        other = RunFolder(path)
        try:
            same = other.done and other.spec.model_dump(exclude=fixed) == spec.model_dump(
                exclude=fixed
            )
        except InputError:  # a neighbour that cannot be read is none
            continue
        if same:
            return other
    return None


def judging_run(folder: RunFolder) -> RunFolder:
    """The training whose opinion on the labels it is: an audit has several."""
    compared = audit(folder)
    judge = compared.get("ulc" if "ULC" in str(compared.get("judged_by")) else "plain")
    if isinstance(judge, dict) and isinstance(judge.get("run"), str):
        inner = RunFolder(folder.path / "runs" / judge["run"])
        if inner.has("records.jsonl"):
            return inner
    return folder


def audit(folder: RunFolder) -> dict[str, Any]:
    """What `ulc audit` left, where it made the folder."""
    return optional(folder, "audit.json")


def optional(folder: RunFolder, name: str) -> dict[str, Any]:
    """A file that not every run has."""
    content = folder.read_json(name) if folder.has(name) else {}
    return content if isinstance(content, dict) else {}


def warnings(folder: RunFolder, findings: Findings, records: Records) -> list[str]:
    """What to know before believing the page."""
    found = [*of_audit(folder, records), *of_data(folder), *of_training(records)]
    return list(dict.fromkeys([*found, *of_labels(findings)]))


def of_audit(folder: RunFolder, records: Records) -> Iterator[str]:
    """Signs of collapse that rows held out gave, in an audit's two trainings or in this one."""
    compared = audit(folder)
    for name, who in (("plain", "Plain training"), ("ulc", "ULC")):
        told = compared.get(name)
        listed = told.get("warnings", []) if isinstance(told, dict) else []
        yield from (f"{who}, {each}." for each in listed[:MOST])
    if not compared:
        signs = [
            f"Epoch {epoch}: {sign}."
            for epoch, record in enumerate(records)
            for sign in record.get("held_out", {}).get("signs", ())
        ]
        yield from signs[-MOST:]


def of_data(folder: RunFolder) -> Iterator[str]:
    """Of what was read: images left out, copies whose labels differ."""
    skipped = folder.read_json("data.json").get("skipped", [])
    if skipped:
        yield f"{len(skipped)} images could not be read and were left out (data.json lists them)."
    conflicts = at(optional(folder, "health.json"), ("duplicates", "conflicts"))
    if conflicts:
        yield (
            f"{conflicts:.0f} groups of identical examples have different labels, so some of these "
            "are wrong for certain (health.json lists them)."
        )


def of_training(records: Records) -> Iterator[str]:
    """Of fall-backs and of accuracy that fell."""
    last = records[-1] if records else {}
    fell_back = at(last, ("train", "fallback_classes")) or 0
    if fell_back:
        yield (
            f"{fell_back:g} classes (mean of two networks) had too few or too similar losses for a "
            "mixture of their own and were judged by that of all classes: check their labels "
            "yourself."
        )
    one = at(last, ("train", "one_component_classes")) or 0
    if one:
        yield f"In {one:g} classes nothing looked wrong, so all their labels were trusted."
    lost = sum(at(each, ("train", "losses_not_finite")) or 0 for each in records)
    if lost:
        yield f"{lost:g} losses were not finite; their labels were not believed."
    accuracy = [at(each, ("test", "balanced", "accuracy")) for each in records]
    known = [each for each in accuracy if each is not None]
    if known and known[-1] < max(known) - 0.05:
        yield (
            f"Test accuracy fell from {100 * max(known):.1f} to {100 * known[-1]:.1f} % during the "
            "training: the model may have learned wrong labels; suspect the suggestions too."
        )


def of_labels(findings: Findings) -> Iterator[str]:
    """Of classes that collapsed, and of judgements that say nothing."""
    for k in np.flatnonzero(findings.collapsed)[:MOST]:
        yield (
            f"The model hardly ever predicts “{findings.class_names[k]}” "
            f"({findings.predicted[k]} of {len(findings)} examples, although {findings.sizes[k]} "
            "labels say so): the class has collapsed. Do not trust what is said about its labels."
        )
    if np.ptp(findings.score) < 1e-6:
        yield "Every label has the same score: this run cannot tell wrong labels from right ones."
    elif findings.issue.mean() > 0.6:
        yield (
            f"{100 * findings.issue.mean():.0f} % of all labels look wrong. That is rarely true: "
            "more likely the model has not learned the classes."
        )
