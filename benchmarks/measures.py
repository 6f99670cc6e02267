"""Measures of a record, by the names that tables of the documentation use.

All are shares and shown in %, except the processor time.
"""

from collections.abc import Callable

from benchmarks.grid_records import Record
from ulc.errors import InputError
from ulc.experiments.tables import nested_value

Measure = Callable[[Record], float | None]
FIRST, LAST = 0, -1  # epochs of a curve that have a value


def value(*keys: str) -> Measure:
    """Return a measure that reads the number under nested keys."""
    return lambda record: nested_value(record, keys)


def fall(record: Record) -> float | None:
    """Return how far the accuracy falls from the best epoch to the last ones, as trained."""
    return minus(value("training", "best_on_test"), value("training", "last", "accuracy"))(record)


def epoch_of(curve: str, place: int) -> Measure:
    """Return a measure that reads one epoch of a curve."""

    def read(record: Record) -> float | None:
        known = [each for each in record.get("curves", {}).get(curve, ()) if each is not None]
        return known[place] if known else None

    return read


def small(name: str, place: int) -> Measure:
    """Return the mean of `name` over small classes at an epoch."""
    return epoch_of(f"groups.small.{name}", place)


def large(name: str, place: int) -> Measure:
    """Return the mean of `name` over large classes at an epoch."""
    return epoch_of(f"groups.large.{name}", place)


def first_known(*measures: Measure) -> Measure:
    """Return a measure: the first of these that a record has."""

    def read(record: Record) -> float | None:
        return next((each for each in (one(record) for one in measures) if each is not None), None)

    return read


def moved(name: str) -> Measure:
    """Return the change of `name` from first to last epoch, in small classes if there are some."""
    groups = (over(each(name, LAST), each(name, FIRST)) for each in (small, large))
    return first_known(*groups)


def minus(first: Measure, second: Measure) -> Measure:
    """Return a measure: the first minus the second."""

    def read(record: Record) -> float | None:
        one, other = first(record), second(record)
        return None if one is None or other is None else one - other

    return read


def over(first: Measure, second: Measure) -> Measure:
    """Return a measure: by which share of the second the first is larger."""

    def read(record: Record) -> float | None:
        one, other = first(record), second(record)
        return None if one is None or not other else one / other - 1

    return read


AUC_SMALL, AUC_LARGE = value("labels", "small", "auc"), value("labels", "large", "auc")
MEASURES: dict[str, tuple[str, Measure]] = {  # name on a page: title, and where it is
    "accuracy": ("accuracy, as trained", value("training", "last", "accuracy")),
    "small": ("small classes, as trained", value("training", "last", "small_accuracy")),
    "large": ("large classes, as trained", value("training", "last", "large_accuracy")),
    "balanced": ("accuracy, balanced prior", value("balanced", "last", "accuracy")),
    "small-balanced": ("small, balanced prior", value("balanced", "last", "small_accuracy")),
    "large-balanced": ("large, balanced prior", value("balanced", "last", "large_accuracy")),
    "fall": ("best minus last", fall),
    "auc": ("AUC", value("labels", "auc")),
    "auc-small": ("AUC, small", AUC_SMALL),
    "auc-large": ("AUC, large", AUC_LARGE),
    "auc-gap": ("AUC, small minus large", minus(AUC_SMALL, AUC_LARGE)),
    "certainty-small": ("AUC of 1 − ε, small", value("labels", "small", "certainty_auc")),
    "certainty-large": ("AUC of 1 − ε, large", value("labels", "large", "certainty_auc")),
    "trusted-small": ("correct labels trusted, small", value("labels", "small", "trusted_correct")),
    "trusted-large": ("correct labels trusted, large", value("labels", "large", "trusted_correct")),
    "moved-first": ("labels moved, first epoch", epoch_of("train.moved_by_doubt", FIRST)),
    "moved-last": ("labels moved, last epoch", epoch_of("train.moved_by_doubt", LAST)),
    "sure-first": ("guesses that count, first epoch", epoch_of("train.sure", FIRST)),
    "sure-last": ("guesses that count, last epoch", epoch_of("train.sure", LAST)),
    # Class groups of one training: by how much one is larger than the other.
    "norm": ("norm of large over small, last epoch",
             over(large("weight_norm", LAST), small("weight_norm", LAST))),
    "doubt-first": ("ε of small over large, first epoch",
                    over(small("epistemic", FIRST), large("epistemic", FIRST))),
    "doubt-last": ("ε of small over large, last epoch",
                   over(small("epistemic", LAST), large("epistemic", LAST))),
    "noise-first": ("instance noise of large over small, first epoch",
                    over(large("aleatoric", FIRST), small("aleatoric", FIRST))),
    "noise-last": ("instance noise of large over small, last epoch",
                   over(large("aleatoric", LAST), small("aleatoric", LAST))),
    "class-noise-last": ("class noise of large over small, last epoch",
                         over(large("class_noise", LAST), small("class_noise", LAST))),
    # Small classes, or all if classes are balanced, from the first to the last epoch.
    "noise-moved": ("instance noise, last over first epoch", moved("aleatoric")),
    "class-noise-moved": ("class noise, last over first epoch",
                          moved("class_noise")),
    "time": ("processor time", value("processor_seconds")),
}  # fmt: skip


def find_measure(name: str) -> tuple[str, Measure]:
    """Return title and function of a measure; raise if it is unknown."""
    if name not in MEASURES:
        raise InputError(f"no measure is called '{name}'; known: {', '.join(MEASURES)}")
    return MEASURES[name]
