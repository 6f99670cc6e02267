"""Detect the collapse of a training, and choose the epoch to keep."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ulc.algorithms.base import Algorithm
from ulc.data.held_out import HeldOutRows
from ulc.labels.confusion import symmetric_noise_log_likelihood
from ulc.labels.judgement import Judgement
from ulc.storage.run_folder import Records
from ulc.training.inference import predict_by_network, predict_stored
from ulc.typing import Floats, Integers

FEWEST_TRUSTED = 0.05  # share of trusted labels; below it, too little is left to learn from
LOST = 10  # a class is lost if it is predicted so many times less often than at best
ENOUGH = 5  # a class is checked only if it was predicted for so many held-out rows


class CollapseMonitor:
    """Measures a training on held-out rows; it needs no true label.

    Signs of collapse: few labels are trusted; a class is hardly predicted any more; the two
    networks disagree more than they agree; the held-out labels are predicted much worse.

    held_out: the rows to measure on; class_names: for messages
    first: number of the first epoch that may be kept; before it the algorithm warms up
    """

    def __init__(self, held_out: HeldOutRows, class_names: Sequence[str], first: int = 0) -> None:
        self.held_out = held_out
        self.class_names = class_names
        self.first = first
        self.given = held_out.given.cpu().numpy()
        self.weights = None if held_out.weights is None else held_out.weights.cpu().numpy()

    def measure(self, algorithm: Algorithm, judgement: Judgement) -> dict[str, Any]:
        """Measures of an epoch on the held-out rows, for its record.

        likelihood: mean log-likelihood of the given labels under symmetric noise
        agreement: weighted share of the rows whose given label is predicted
        predicted: share of the rows that is predicted as each class
        networks_agree: share of the rows for which first and last network predict the same class
        trusted: share of the training labels that is trusted
        """
        rows = (self.held_out.stored, self.held_out.preprocessing)
        members = [each.argmax(1) for each in predict_by_network(algorithm, *rows)]
        probability = predict_stored(algorithm, *rows)
        predicted = probability.argmax(1)
        return {
            "likelihood": symmetric_noise_log_likelihood(probability, self.given),
            "agreement": float(np.average(predicted == self.given, weights=self.weights)),
            "predicted": class_shares(predicted, len(self.class_names)).tolist(),
            "networks_agree": float((members[0] == members[-1]).mean()),
            "trusted": float(judgement.trusted(algorithm.threshold).mean()),
        }

    def keeps(self, records: Records) -> bool:
        """Whether the last of these epochs is kept: no sign of collapse, and as good as the best.

        As good: its agreement is within a standard error of the best. A later epoch that is as good
        replaces an earlier one, because correcting labels takes time.
        """
        sound = self.sound(records)
        if not sound or sound[-1] is not records[-1]:
            return False
        best = max(agreement(record) for record in sound)
        return bool(agreement(records[-1]) >= best - self.standard_error(best))

    def epochs_since_best(self, records: Records) -> int:
        """Epochs since the first one with the best agreement among those that may be kept.

        0 if none may be kept yet.
        """
        sound = self.sound(records)
        best = max(sound, key=agreement, default=records[-1])  # the first of the best
        return int(records[-1]["epoch"] - best["epoch"])

    def sound(self, records: Records) -> Records:
        """Records of the epochs that may be kept: after warm-up, without a sign of collapse."""
        return [each for each in self.after_warm_up(records) if not each["held_out"].get("signs")]

    def after_warm_up(self, records: Records) -> Records:
        """Records of the epochs after warm-up."""
        return [each for each in records if each["epoch"] >= self.first]

    def signs(self, records: Records) -> list[str]:
        """Signs of collapse in the last of these epochs, each as a phrase; empty: no sign.

        The epoch is compared with the one of the best agreement.
        """
        measured = [record["held_out"] for record in self.after_warm_up(records)]
        if not measured:
            return []
        last, best = measured[-1], max(measured, key=lambda each: each["agreement"])
        signs = []
        fallen = best["agreement"] - last["agreement"]
        if fallen > max(0.02, 4 * self.standard_error(best["agreement"])):
            signs.append(
                f"held-out labels are predicted {100 * fallen:.1f} points less often than before"
            )
        if last["trusted"] < FEWEST_TRUSTED <= best["trusted"]:
            signs.append(f"only {100 * last['trusted']:.1f} % of the labels are trusted")
        if last["networks_agree"] < 0.5 <= best["networks_agree"]:
            signs.append(f"the networks agree on {100 * last['networks_agree']:.0f} % of the rows")
        before, now = np.array(best["predicted"]), np.array(last["predicted"])
        lost = (before * len(self.given) >= ENOUGH) & (now * LOST < before)
        signs += [
            f"class '{self.class_names[k]}' is hardly predicted"
            for k in np.flatnonzero(lost).tolist()
        ]
        return signs

    def standard_error(self, agreement: float) -> float:
        """Standard error of an agreement, with one pseudo-count for and one against.

        Without pseudo-counts it would be 0 where few rows all agree. Weighted rows count as Kish's
        effective number of rows, (Σ w)² / Σ w².
        """
        rows = float(len(self.given))
        if self.weights is not None:
            rows = float(self.weights.sum() ** 2 / (self.weights**2).sum())
        share = (agreement * rows + 1) / (rows + 2)
        return float(np.sqrt(share * (1 - share) / (rows + 2)))


def agreement(record: dict[str, Any]) -> float:
    """Share of the held-out labels that is predicted, from the record of an epoch."""
    return float(record["held_out"]["agreement"])


def class_shares(labels: Integers, classes: int) -> Floats:
    """(K,) share of each class among (N,) labels."""
    return np.bincount(labels, minlength=classes) / len(labels)
