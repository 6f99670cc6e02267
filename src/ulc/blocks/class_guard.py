"""Keep classes from dying out while labels are corrected."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from ulc.blocks.label_posterior import AnchoredConfusion
from ulc.blocks.noise_priors import priors_of_networks
from ulc.blocks.uncertainty import IntegratedPredictions
from ulc.data.training import TrainingData
from ulc.networks.processes import by_first

# Parts of the implied frequency: a class is unknown if it is the likeliest one of fewer examples,
# and dies if it is predicted less often.
UNKNOWN, DYING = 0.1, 0.5
# Labels are not corrected if more than this share of the classes, and at least two, are unknown.
MOST_UNKNOWN, FEWEST_UNKNOWN = 0.25, 2
ALIGNMENTS = (0.1, 10.0)  # smallest and largest factor on the guesses of a class


@dataclass(frozen=True)
class Observed:
    """Of one network: (N,) posterior of the given labels, and (K,) mean prediction."""

    right: Tensor
    predicted: Tensor


class ClassGuard(nn.Module):
    """Notices classes that are unknown or die out, judges their labels otherwise, aligns guesses.

    The given labels and a confusion model (`AnchoredConfusion`) imply how frequent each class is.
    A class is unknown to a network if it is the likeliest class of less than a tenth as many
    examples. If two classes and more than a quarter of all are unknown, the guard `waits`: labels
    should not be corrected by such networks. A network that memorises labels knows every class.

    A class dies if its mean probability is less than half of its frequency. Then its labels get the
    posterior of the confusion model as clean probability, where that is higher: few right labels of
    a small class have large losses, so that the mixture of the class would call them wrong.

    Guesses of all classes are multiplied by implied / predicted frequency (distribution
    alignment), so that doubtful examples do not teach that small classes do not exist.
    """

    alignment: Tensor

    def __init__(self, data: TrainingData) -> None:
        super().__init__()
        self.data = data
        device, classes = data.given.device, data.num_classes
        priors = priors_of_networks(classes, row_noise=False)
        models = nn.ModuleList(
            [AnchoredConfusion(classes, device, priors=priors) for _ in range(2)]
        )
        self.models = cast("Sequence[AnchoredConfusion]", models)
        self.register_buffer("alignment", torch.ones(classes, device=device))
        self.observed: list[Observed] = []
        self.waits = False

    def observe(self, integrated: Sequence[IntegratedPredictions]) -> float:
        """Fit the models to predictions of all examples; return the share of unknown classes.

        integrated: predictions by each network; the share is the mean of both
        """
        given, unknown, self.observed = self.data.given, [], []
        for model, own in zip(self.models, integrated, strict=True):
            right = model.update(own.log_probability, given, self.data.verified)
            self.observed.append(Observed(right, own.prediction.mean(0)))
            likeliest = torch.bincount(own.log_probability.argmax(1), minlength=len(self.alignment))
            unknown.append((likeliest < UNKNOWN * model.frequency * len(given)).sum())
        count = torch.stack(unknown).float().mean()
        share = count / len(self.alignment)
        self.waits = by_first(lambda: bool((count >= FEWEST_UNKNOWN) & (share > MOST_UNKNOWN)))
        return float(share)

    def protect(self, cleans: Sequence[Tensor]) -> dict[str, float]:
        """Raise the clean probabilities of dying classes in place; return what to record.

        It uses the predictions that were observed last.

        cleans: (N,) clean probabilities by each network's losses
        """
        alignments, dying = [], []
        for model, seen, clean in zip(self.models, self.observed, cleans, strict=True):
            dies = seen.predicted < DYING * model.frequency
            raised = clean.maximum(seen.right)
            clean.copy_(torch.where(dies[self.data.given], raised, clean))
            alignments.append(model.frequency / seen.predicted.clamp(min=1e-9))
            dying.append(dies.sum())
        self.alignment.copy_(torch.stack(alignments).mean(0).clamp(*ALIGNMENTS))
        return {"dying_classes": float(torch.stack(dying).float().mean())}

    def align(self, guessed: Tensor) -> Tensor:
        """(B, K) guesses, multiplied by the alignment of each class and normalised."""
        aligned = guessed * self.alignment
        return aligned / aligned.sum(1, keepdim=True)
