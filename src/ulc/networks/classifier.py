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

LOG_VARIANCES = (-10.0, 4.0)  # smallest and largest log-variance of the instance's logit noise


class HeadSpec(Spec):
    """The heads that an algorithm needs on top of a backbone.

    dropout: probability of dropping a value; 0: no dropout
    dropout_place: feature: on the pooled features; last_stage: also before the last stage
    logit_noise: whether the network learns variances of noise on its logits
    """

    dropout: float = 0.0
    dropout_place: Literal["feature", "last_stage"] = "feature"
    logit_noise: bool = False


class Output(NamedTuple):
    """The output of a network for a batch.

    logits: (B, K); features: (B, D) pooled features
    log_variance: (B, K) log-variance of the instance's logit noise; None: no logit noise
    class_log_variance: (K, K) log-variance of the class noise; None: no logit noise
    """

    logits: Tensor
    features: Tensor
    log_variance: Tensor | None = None
    class_log_variance: Tensor | None = None


class Classifier(nn.Module):
    """A backbone with dropout and linear heads.

    `forward` is `top` of `trunk`. All dropout is in `top`, so T dropout passes (`members`) need
    only one pass through `trunk`. With dropout on the pooled features alone, `top` is just dropout
    and heads.
    """

    def __init__(self, backbone: nn.Module, features: int, classes: int, spec: HeadSpec) -> None:
        super().__init__()
        self.backbone = backbone
        self.spec = spec
        self.before_last_stage = spec.dropout > 0 and spec.dropout_place == "last_stage"
        if self.before_last_stage and not hasattr(backbone, "last_stage"):
            raise InputError(
                f"{type(backbone).__name__} has no `last_stage` to put dropout before; "
                "use dropout_place = 'feature'"
            )
        self.dropout = Dropout(spec.dropout) if spec.dropout > 0 else None
        self.head = nn.Linear(features, classes)
        self.noise_head: nn.Linear | None = None
        self.class_log_variance: nn.Parameter | None = None
        if spec.logit_noise:
            self.noise_head = nn.Linear(features, classes)
            nn.init.zeros_(self.noise_head.weight)
            # Little noise at first, so that warm-up starts near cross entropy.
            nn.init.constant_(self.noise_head.bias, -4.0)
            start = initial_class_log_variance(classes)
            self.class_log_variance = nn.Parameter(torch.full((classes, classes), start))

    def forward(self, inputs: Tensor) -> Output:
        """The output for (B, …) inputs."""
        return self.top(self.trunk(inputs))

    if TYPE_CHECKING:

        def __call__(self, inputs: Tensor) -> Output:
            """Declare the type of a call for type checkers; torch declares Any."""

    def trunk(self, inputs: Tensor) -> Tensor:
        """Apply the part of the network before the first dropout."""
        if inputs.ndim == 4 and not getattr(self.backbone, "channels_last", False):
            # The user's own network may call `view`, which fails on channels-last tensors.
            inputs = inputs.flatten().view(inputs.shape)
        below: nn.Module = self.backbone
        if self.before_last_stage:
            below = cast("nn.Module", self.backbone.early_stages)
        return below(inputs)

    def top(self, hidden: Tensor) -> Output:
        """Apply the rest of the network to the output of `trunk`, from the first dropout on."""
        if self.before_last_stage:
            hidden = self.last_stage(self.drop(hidden))
        outputs = F.linear(self.drop(hidden), *self.heads())
        if self.noise_head is None:
            return Output(outputs, hidden)
        logits, log_variance = outputs.chunk(2, 1)
        return Output(logits, hidden, log_variance.clamp(*LOG_VARIANCES), self.class_log_variance)

    def clean_logits(self, inputs: Tensor) -> Tensor:
        """(B, K) logits without dropout and noise; batch norm stays in its mode."""
        hidden = self.trunk(inputs)
        if self.before_last_stage:
            hidden = self.last_stage(hidden)
        return self.head(hidden)

    def members(self, hidden: Tensor, seeds: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """(T, K, B) logits of T dropout passes, and their log-variances (None: no logit noise).

        Each seed draws the dropout masks of one pass, the same for all rows of all batches.
        Without dropout there is one pass.

        hidden: output of `trunk`
        """
        drawn = [torch.Generator().manual_seed(seed) for seed in seeds]
        if self.dropout is None:
            outputs = self.masked_heads(hidden, hidden.new_ones(1, hidden.shape[1]))
        elif self.before_last_stage:
            parts = []
            for each in drawn:
                features = self.last_stage(hidden * self.dropout.draw_mask(hidden, each))
                parts.append(
                    self.masked_heads(features, self.dropout.draw_mask(features, each)[None])
                )
            outputs = torch.cat(parts)
        else:
            masks = torch.stack([self.dropout.draw_mask(hidden, each) for each in drawn])
            outputs = self.masked_heads(hidden, masks)
        if self.noise_head is None:
            return outputs, None
        logits, log_variance = outputs.chunk(2, 1)
        return logits, log_variance.clamp(*LOG_VARIANCES)

    def masked_heads(self, features: Tensor, masks: Tensor) -> Tensor:
        """(T, M, B) outputs of all heads for (B, D) features under (T, D) dropout masks.

        The weights are masked instead of the features, so that one matrix product is enough.
        """
        weight, bias = self.heads()
        masked = (masks[:, None] * weight).flatten(0, 1)
        outputs = torch.addmm(bias.repeat(len(masks))[:, None], masked, features.T)
        return outputs.unflatten(0, (len(masks), len(bias)))

    def heads(self) -> tuple[Tensor, Tensor]:
        """Concatenated weights and biases of all heads, for one matrix product."""
        if self.noise_head is None:
            return self.head.weight, self.head.bias
        both = (self.head, self.noise_head)
        return torch.cat([each.weight for each in both]), torch.cat([each.bias for each in both])

    def last_stage(self, values: Tensor) -> Tensor:
        """Pooled features, by the backbone's last stage from the output of its early stages."""
        return cast("nn.Module", self.backbone.last_stage)(values)

    def drop(self, values: Tensor) -> Tensor:
        """Apply dropout, if the network has any."""
        return values if self.dropout is None else self.dropout(values)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, object]]:
        """Parameter groups for an optimiser; the log-variances of noise have no weight decay.

        Decay would pull a log-variance to 0, and so the variance to 1.
        """
        free = {id(self.class_log_variance)}
        if self.noise_head is not None:
            free.add(id(self.noise_head.bias))
        decayed = [each for each in self.parameters() if id(each) not in free]
        undecayed = [each for each in self.parameters() if id(each) in free]
        groups: list[dict[str, object]] = [{"params": decayed, "weight_decay": weight_decay}]
        return groups + ([{"params": undecayed, "weight_decay": 0.0}] if undecayed else [])


def initial_class_log_variance(classes: int) -> float:
    """Initial log-variance of the class noise.

    It is −7 for up to twenty classes and falls to −9 for a hundred, because the noise of a logit
    is a sum over classes.
    """
    return -7.0 - 1.25 * max(0.0, math.log(classes / 20))
