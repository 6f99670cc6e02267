"""A classifier: a backbone with dropout, a linear head and, if asked for, logit noise."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ulc.config import Spec
from ulc.errors import InputError
from ulc.networks.dropout import Dropout

LOG_VARIANCES = (-10.0, 4.0)  # of the instance's logit noise


class HeadSpec(Spec):
    """The heads that an algorithm needs on the backbone."""

    dropout: float = 0.0
    dropout_place: Literal["feature", "last_stage"] = "feature"
    logit_noise: bool = False


class Output(NamedTuple):
    """The output of a network for a batch.

    logits: (B, K); features: (B, D) pooled
    log_variance: (B, K) of the instance's logit noise, and class_log_variance: (K, K) of the
    class noise; None without logit noise
    """

    logits: Tensor
    features: Tensor
    log_variance: Tensor | None = None
    class_log_variance: Tensor | None = None


class Classifier(nn.Module):
    """Pooled features, dropout, and linear heads.

    `forward` is `top` of `trunk`: all that is random under dropout lies in `top`, so T dropout
    passes (`members`) cost one `trunk`. With dropout on the pooled feature alone, `top` is just
    the heads.
    """

    def __init__(self, backbone: nn.Module, features: int, classes: int, spec: HeadSpec) -> None:
        super().__init__()
        self.backbone = backbone
        self.spec = spec
        self.before_last_stage = spec.dropout > 0 and spec.dropout_place == "last_stage"
        if self.before_last_stage and not hasattr(backbone, "last_stage"):
            raise InputError(
                f"{type(backbone).__name__} has no `last_stage`, so dropout cannot sit before it; "
                "use dropout_place = 'feature'"
            )
        self.dropout = Dropout(spec.dropout) if spec.dropout > 0 else None
        self.head = nn.Linear(features, classes)
        self.noise_head: nn.Linear | None = None
        self.class_log_variance: nn.Parameter | None = None
        if spec.logit_noise:
            self.noise_head = nn.Linear(features, classes)
            nn.init.zeros_(self.noise_head.weight)
            nn.init.constant_(self.noise_head.bias, -4.0)  # so warm-up starts near cross entropy
            start = initial_class_log_variance(classes)
            self.class_log_variance = nn.Parameter(torch.full((classes, classes), start))

    def forward(self, inputs: Tensor) -> Output:
        """(B, …) inputs to logits, features and log-variances."""
        return self.top(self.trunk(inputs))

    if TYPE_CHECKING:

        def __call__(self, inputs: Tensor) -> Output:
            """Torch says Any."""

    def trunk(self, inputs: Tensor) -> Tensor:
        """The layers below the first dropout."""
        if inputs.ndim == 4 and not getattr(self.backbone, "channels_last", False):
            # A network of the user's own may call `view`, which needs contiguous images.
            inputs = inputs.flatten().view(inputs.shape)
        below: nn.Module = self.backbone
        if self.before_last_stage:
            below = cast("nn.Module", self.backbone.early_stages)
        return below(inputs)

    def top(self, reached: Tensor) -> Output:
        """The first dropout and the layers above it."""
        if self.before_last_stage:
            reached = self.last_stage(self.drop(reached))
        said = F.linear(self.drop(reached), *self.heads())
        if self.noise_head is None:
            return Output(said, reached)
        logits, log_variance = said.chunk(2, 1)
        return Output(logits, reached, log_variance.clamp(*LOG_VARIANCES), self.class_log_variance)

    def clean_logits(self, inputs: Tensor) -> Tensor:
        """(B, K) logits without dropout and noise; batch norm in its own mode."""
        reached = self.trunk(inputs)
        if self.before_last_stage:
            reached = self.last_stage(reached)
        return self.head(reached)

    def members(self, reached: Tensor, seeds: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """(T, K, B) logits of the networks that dropout draws, and their log-variances.

        A seed draws the masks of one network, the same for all rows of all batches. Without
        dropout there is one network.
        """
        drawn = [torch.Generator().manual_seed(seed) for seed in seeds]
        if self.dropout is None:
            said = self.masked_heads(reached, reached.new_ones(1, reached.shape[1]))
        elif self.before_last_stage:
            parts = []
            for each in drawn:
                features = self.last_stage(reached * self.dropout.draw_mask(reached, each))
                parts.append(
                    self.masked_heads(features, self.dropout.draw_mask(features, each)[None])
                )
            said = torch.cat(parts)
        else:
            masks = torch.stack([self.dropout.draw_mask(reached, each) for each in drawn])
            said = self.masked_heads(reached, masks)
        if self.noise_head is None:
            return said, None
        logits, log_variance = said.chunk(2, 1)
        return logits, log_variance.clamp(*LOG_VARIANCES)

    def masked_heads(self, features: Tensor, masks: Tensor) -> Tensor:
        """(T, M, B) outputs of the heads for (B, D) features under (T, D) masks.

        The weights are masked instead of the features: one multiplication for all.
        """
        weight, bias = self.heads()
        masked = (masks[:, None] * weight).flatten(0, 1)
        said = torch.addmm(bias.repeat(len(masks))[:, None], masked, features.T)
        return said.unflatten(0, (len(masks), len(bias)))

    def heads(self) -> tuple[Tensor, Tensor]:
        """Weight and bias of all heads, joined for one matrix multiplication."""
        if self.noise_head is None:
            return self.head.weight, self.head.bias
        both = (self.head, self.noise_head)
        return torch.cat([each.weight for each in both]), torch.cat([each.bias for each in both])

    def last_stage(self, values: Tensor) -> Tensor:
        """The backbone's last stage: from the output of its early stages to pooled features."""
        return cast("nn.Module", self.backbone.last_stage)(values)

    def drop(self, values: Tensor) -> Tensor:
        """Apply dropout, if there is any."""
        return values if self.dropout is None else self.dropout(values)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, object]]:
        """Parameters for the optimiser; log-variances have no weight decay.

        Weight decay would pull the variances to 1, not to 0.
        """
        free = {id(self.class_log_variance)}
        if self.noise_head is not None:
            free.add(id(self.noise_head.bias))
        decayed = [each for each in self.parameters() if id(each) not in free]
        undecayed = [each for each in self.parameters() if id(each) in free]
        groups: list[dict[str, object]] = [{"params": decayed, "weight_decay": weight_decay}]
        return groups + ([{"params": undecayed, "weight_decay": 0.0}] if undecayed else [])


def initial_class_log_variance(classes: int) -> float:
    """−7 for up to 20 classes, about −9 for 100: the noise of a logit is a sum over classes."""
    return -7.0 - 1.25 * max(0.0, math.log(classes / 20))
