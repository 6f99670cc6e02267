"""Keep classes from dying out while labels are corrected."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from ulc.blocks.label_posterior import AnchoredConfusion
from ulc.blocks.noise_priors import priors_of_networks
from ulc.blocks.uncertainty import IntegratedPredictions
from ulc.data.training import TrainingData

DYING = 0.5  # a class dies if it is predicted less than this part of the frequency that is implied
ALIGNMENTS = (0.1, 10.0)  # smallest and largest factor on the guesses of a class


class ClassGuard(nn.Module):
    """Notices classes that die out, judges their labels in another way, and aligns guesses.

    The given labels and a confusion model (`AnchoredConfusion`) imply how frequent each class is.
    A class dies if it is predicted less than half as often. Then its labels get the posterior of
    the confusion model as clean probability, where that is higher: few right labels of a small
    class have large losses, so that the mixture of the class would call them wrong.

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

    def protect(
        self, integrated: Sequence[IntegratedPredictions], cleans: Sequence[Tensor]
    ) -> dict[str, float]:
        """Raise the clean probabilities of dying classes in place; return what to record.

        integrated, cleans: predictions and (N,) clean probabilities by each network's losses
        """
        given, alignments, dying = self.data.given, [], []
        for model, own, clean in zip(self.models, integrated, cleans, strict=True):
            posterior = model.update(own.log_probability, given, self.data.verified)
            predicted = own.prediction.mean(0)
            dies = predicted < DYING * model.frequency
            right = posterior.gather(1, given[:, None]).squeeze(1)
            clean.copy_(torch.where(dies[given], clean.maximum(right), clean))
            alignments.append(model.frequency / predicted.clamp(min=1e-9))
            dying.append(dies.sum())
        self.alignment.copy_(torch.stack(alignments).mean(0).clamp(*ALIGNMENTS))
        return {"dying_classes": float(torch.stack(dying).float().mean())}

    def align(self, guessed: Tensor) -> Tensor:
        """(B, K) guesses, multiplied by the alignment of each class and normalised."""
        aligned = guessed * self.alignment
        return aligned / aligned.sum(1, keepdim=True)
