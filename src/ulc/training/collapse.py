"""See a training collapse, and know the last epoch before it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ulc.algorithms.base import Algorithm
from ulc.labels.confusion import symmetric_noise_log_likelihood
from ulc.labels.judgement import Judgement
from ulc.storage.run_folder import Records
from ulc.training.held_out import HeldOut
from ulc.typing import Floats, Integers

FEWEST_SHARE = 0.05  # fewer labels trusted: nothing is left to learn from
LOST = 10  # a class that is predicted so many times less often than before has been lost
ENOUGH = 5  # fewer rows of a class are no evidence


class CollapseMonitor:
    """Follows a training on rows that it does not learn from; no true label is needed.

    Signs of collapse: few labels are trusted; a class is hardly predicted any more; the two
    networks disagree more than they agree; the held-out labels are predicted much worse.

    first: no epoch before it is kept, because the algorithm warms up
    """

    def __init__(self, held_out: HeldOut, class_names: Sequence[str], first: int = 0) -> None:
        self.held_out = held_out
        self.class_names = class_names
        self.first = first
        self.given = held_out.given.cpu().numpy()

    def observe(self, algorithm: Algorithm, judgement: Judgement) -> dict[str, Any]:
        """What is recorded of an epoch."""
        members = [each.argmax(1) for each in self.held_out.by_network(algorithm)]
        probability = self.held_out.predicted(algorithm)
        predicted, classes = probability.argmax(1), len(self.class_names)
        return {
            "likelihood": symmetric_noise_log_likelihood(probability, self.given),
            "agreement": float((predicted == self.given).mean()),
            "predicted": shares(predicted, classes).tolist(),
            "networks_agree": float((members[0] == members[-1]).mean()),
            "trusted": float(judgement.trusted(algorithm.threshold).mean()),
        }

    def keeps(self, records: Records) -> bool:
        """Whether the last of these epochs is worth keeping: no collapse, and as good as any.

        As good: it predicts as many of the held-out labels as the best, but for a standard error.
        Of epochs that are as good the last is kept, because an algorithm that corrects labels
        needs time for it.
        """
        sound = [each for each in records[self.first :] if not each["held_out"].get("signs")]
        if not sound or sound[-1] is not records[-1]:
            return False
        best = max(each["held_out"]["agreement"] for each in sound)
        return bool(records[-1]["held_out"]["agreement"] >= best - self.error(best))

    def signs(self, records: Records) -> list[str]:
        """What speaks for a collapse in the last of these epochs, in words."""
        seen = [record["held_out"] for record in records]
        if not seen:
            return []
        last, best = seen[-1], max(seen, key=lambda each: each["agreement"])
        found = []
        fallen = best["agreement"] - last["agreement"]
        if fallen > max(0.02, 4 * self.error(best["agreement"])):
            found.append(
                f"held-out labels are predicted {100 * fallen:.1f} points less often than before"
            )
        if last["trusted"] < FEWEST_SHARE <= best["trusted"]:
            found.append(f"only {100 * last['trusted']:.1f} % of the labels are trusted")
        if last["networks_agree"] < 0.5 <= best["networks_agree"]:
            found.append(f"the networks agree on {100 * last['networks_agree']:.0f} % of the rows")
        before, now = np.array(best["predicted"]), np.array(last["predicted"])
        lost = (before * len(self.given) >= ENOUGH) & (now * LOST < before)
        found += [
            f"class '{self.class_names[k]}' is hardly predicted"
            for k in np.flatnonzero(lost).tolist()
        ]
        return found

    def error(self, agreement: float) -> float:
        """Standard error of an agreement, as if one more row agreed and one more did not.

        Without those, few rows that all agree would claim to be certain.
        """
        rows = len(self.given) + 2
        share = (agreement * len(self.given) + 1) / rows
        return float(np.sqrt(share * (1 - share) / rows))


def shares(labels: Integers, classes: int) -> Floats:
    """(K,) how often each class occurs."""
    return np.bincount(labels, minlength=classes) / len(labels)
