"""Learning curves and warnings, from the records of a run."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ulc.data.sources.warnings import COPIES
from ulc.report.figures import Line, curves
from ulc.report.findings import Findings
from ulc.report.gain import number_at, read_audit, read_optional
from ulc.storage.run_folder import Records, RunFolder

# Values in an epoch's record: path of keys, name, CSS class.
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
    (("labels", "auc"), "AUC of finding wrong labels", "grey-line"),
)
DOUBT = (
    (("labels", "large", "certainty_auc"), "AUC of 1 − ε, large classes", "right-line"),
    (("labels", "small", "certainty_auc"), "AUC of 1 − ε, small classes", "wrong-line"),
    (("train", "moved_by_doubt"), "labels that ε moves across the threshold", "grey-line"),
)
INSTANCE_NOISE = (
    (("groups", "large", "aleatoric"), "large classes", "right-line"),
    (("groups", "small", "aleatoric"), "small classes", "wrong-line"),
    (("groups", "large", "aleatoric_spread"), "spread over examples", "grey-line"),
)
CLASS_NOISE = (
    (("groups", "large", "class_noise"), "large classes", "right-line"),
    (("groups", "small", "class_noise"), "small classes", "wrong-line"),
)
GUARD = ((("train", "unknown_classes"), "classes that the networks do not know", "wrong-line"),)
FIGURES = (
    (
        "Training loss",
        LOSSES,
        False,
        "The loss on what the model learns from: it should fall and settle.",
    ),
    (
        "Trust in labels",
        SHARES,
        True,
        "The share of given labels that the method trusts; it should settle above 0 and, unless "
        "your labels are clean, below 100 %. Held-out labels are wrong as often as the others, so "
        "not all of them can be predicted.",
    ),
    (
        "Accuracy on the test set",
        ACCURACIES,
        True,
        "How often the model is right on new examples, with equal weight for every class. "
        "A fall late in training means that the model learns wrong labels.",
    ),
    (
        "Epistemic uncertainty (EUM)",
        DOUBT,
        True,
        "How well certainty alone tells right labels from wrong ones (50 %: not at all; below: "
        "wrong labels are on examples of which the networks are sure), and the share of labels "
        "whose trust it changes.",
    ),
    (
        "Instance noise (AUL)",
        INSTANCE_NOISE,
        False,
        "Standard deviation of the noise on the logits that the networks learn for each example.",
    ),
    (
        "Class noise (AUL)",
        CLASS_NOISE,
        False,
        "Standard deviation of an entry of the class noise. A curve that stays at its start means "
        "that this part of the method does nothing.",
    ),
    (
        "Guard of classes",
        GUARD,
        True,
        "The share of classes that are hardly ever the likeliest one. While it is above a quarter "
        "(and two classes), no label is corrected.",
    ),
)
MOST = 5  # warnings of one kind that are shown


@dataclass(frozen=True)
class Curve:
    """A plot of the training, with its lines and an explanation."""

    title: str
    plot: Markup
    lines: list[Line]
    about: str


def learning_curves(records: Records) -> list[Curve]:
    """Plots of the values by epoch; plots for which no epoch has a value are left out."""
    drawn = []
    for title, values, percent, about in FIGURES:
        lines = [
            line
            for path, name, class_ in values
            if (line := read_line(records, path, name, class_))
        ]
        if lines:
            plot = curves(title, lines, len(records), percent=percent)
            drawn.append(Curve(title, plot, lines, about))
    return drawn


def read_line(records: Records, path: tuple[str, ...], name: str, class_: str) -> Line | None:
    """The line of the values at a path of keys; None: no epoch has a value there."""
    every = [(epoch, number_at(record, path)) for epoch, record in enumerate(records)]
    known = [(epoch, value) for epoch, value in every if value is not None]
    if not known:
        return None
    epochs, values = zip(*known, strict=True)
    return Line(name, class_, epochs, values)


def warnings(folder: RunFolder, findings: Findings, records: Records) -> list[str]:
    """The warnings at the top of the page, each once."""
    every = [
        *collapse_warnings(folder, records),
        *data_warnings(folder),
        *training_warnings(records),
        *label_warnings(findings),
    ]
    return list(dict.fromkeys(every))


def collapse_warnings(folder: RunFolder, records: Records) -> Iterator[str]:
    """Warnings of collapse on held-out rows, in both trainings of an audit or in this run."""
    compared = read_audit(folder)
    for name, who in (("plain", "Plain training"), ("ulc_plus", "ULC+")):
        training = compared.get(name)
        listed = training.get("warnings", []) if isinstance(training, dict) else []
        yield from (f"{who}, {each}." for each in listed[:MOST])
    if not compared:
        signs = [
            f"Epoch {epoch}: {sign}."
            for epoch, record in enumerate(records)
            for sign in record.get("held_out", {}).get("signs", ())
        ]
        yield from signs[-MOST:]


def data_warnings(folder: RunFolder) -> Iterator[str]:
    """Warnings of reading, about images that were left out, and about copies whose labels differ.

    Copies are counted in health.json, so the warning of reading about them would be a second one.
    """
    facts = folder.read_json("data.json")
    yield from (f"{each}." for each in facts.get("warnings", ()) if COPIES not in each)
    skipped = facts.get("skipped", [])
    if skipped:
        yield f"{len(skipped)} images could not be read and were left out (data.json lists them)."
    conflicts = number_at(read_optional(folder, "health.json"), ("duplicates", "conflicts"))
    if conflicts:
        groups, have = ("group", "has") if conflicts == 1 else ("groups", "have")
        yield (
            f"{conflicts:.0f} {groups} of identical examples {have} different labels, so some of "
            "these labels are wrong (health.json lists them)."
        )


def training_warnings(records: Records) -> Iterator[str]:
    """Warnings about classes without own mixture, losses that are not finite, falling accuracy."""
    last = records[-1] if records else {}
    fell_back = number_at(last, ("train", "fallback_classes")) or 0
    if fell_back:
        yield (
            f"{fell_back:g} classes (mean of two networks) had too few or too similar losses for a "
            "mixture of their own, so training divided their labels by the mixture of all classes: "
            "check their labels yourself."
        )
    one = number_at(last, ("train", "one_component_classes")) or 0
    if one:
        yield f"In {one:g} classes the losses form one group, so training trusted all their labels."
    dying = number_at(last, ("train", "dying_classes")) or 0
    if dying:
        yield (
            f"{dying:g} classes (mean of two networks) are predicted less than half as often as "
            "the labels imply, so the guard raised the trust in their labels."
        )
    lost = sum(number_at(each, ("train", "losses_not_finite")) or 0 for each in records)
    if lost:
        yield f"{lost:g} losses were not finite; training did not trust their labels."
    accuracy = [number_at(each, ("test", "balanced", "accuracy")) for each in records]
    known = [each for each in accuracy if each is not None]
    if known and known[-1] < max(known) - 0.05:
        yield (
            f"Test accuracy fell from {100 * max(known):.1f} to {100 * known[-1]:.1f} % during the "
            "training: the model may have learned wrong labels, so suggestions may be wrong too."
        )


def label_warnings(findings: Findings) -> Iterator[str]:
    """Warnings about classes that collapsed, and about scores that carry no information."""
    for k in np.flatnonzero(findings.collapsed)[:MOST]:
        yield (
            f"The model hardly ever predicts “{findings.class_names[k]}” "
            f"({findings.predicted[k]} of {len(findings)} examples, although {findings.sizes[k]} "
            "labels name it): the class has collapsed. Do not rely on the scores of its labels."
        )
    if np.ptp(findings.score) < 1e-6:
        yield "Every label has the same score: this run cannot tell wrong labels from right ones."
    elif findings.issue.mean() > 0.6:
        yield (
            f"{100 * findings.issue.mean():.0f} % of all labels look wrong. More likely, the model "
            "has not learned the classes."
        )
