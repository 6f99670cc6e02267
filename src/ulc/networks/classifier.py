"""A classifier: a backbone with dropout, a linear head and, if asked for, logit noise."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ulc.config import Spec
from ulc.errors import InputError
from ulc.networks.data_parallel import by_rows
from ulc.networks.dropout import Dropout
from ulc.networks.gradient_scale import GradientScale, Scaled

Precision = Literal["float32", "bfloat16", "float16"]
STDS = (1e-3, 10.0)  # smallest and largest standard deviation of the instance's logit noise


class HeadSpec(Spec):
    """The heads that an algorithm needs on top of a backbone.

    dropout: probability of dropping a value; 0: no dropout
    dropout_place: feature: on the pooled features; last_stage: also before the last stage
    logit_noise: whether the network learns standard deviations of noise on its logits
    instance_std: initial standard deviation of the instance's noise on each logit
    class_std: initial standard deviation of the class noise that all classes together add to a
        logit, if each has a logit of 1; one entry of the matrix starts at 1/√K of it
    noise_lr: learning rate of the noise that examples share, relative to that of the network
    """

    dropout: float = 0.0
    dropout_place: Literal["feature", "last_stage"] = "feature"
    logit_noise: bool = False
    instance_std: float = 1.0
    class_std: float = 0.3
    noise_lr: float = 1.0


class Output(NamedTuple):
    """The output of a network for a batch.

    logits: (B, K); features: (B, D) pooled features
    instance_std: (B, K) standard deviation of the instance's logit noise; None: no logit noise
    class_std: (K, K) standard deviation of the class noise, of any sign; None: no logit noise
    """

    logits: Tensor
    features: Tensor
    instance_std: Tensor | None = None
    class_std: Tensor | None = None


class Classifier(nn.Module):
    """A backbone with dropout and linear heads.

    `forward` is `top` of `trunk`. All dropout is in `top`, so T dropout passes (`members`) need
    only one pass through `trunk`. With dropout on the pooled features alone, `top` is just dropout
    and heads.

    precision: of the backbone; dropout, heads and all that follows stay as they are
    gradient_scale: of a backbone that is trained in float16; None: gradients are not scaled
    """

    precision: Precision = "float32"
    gradient_scale: GradientScale | None = None

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
        self.class_std: nn.Parameter | None = None
        if spec.logit_noise:
            self.noise_head = nn.Linear(features, classes)
            nn.init.zeros_(self.noise_head.weight)
            nn.init.constant_(self.noise_head.bias, inverse_softplus(spec.instance_std))
            # A free standard deviation: the gradient of a log-variance has the variance as a
            # factor, so a small one would stay where it starts.
            start = spec.class_std / math.sqrt(classes)
            self.class_std = nn.Parameter(torch.full((classes, classes), start))

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
        return self.apply_part(below, inputs)

    def apply_part(self, part: nn.Module, values: Tensor) -> Tensor:
        """Apply a part of the backbone in its precision; the result has the type of `values`."""
        if self.precision == "float32":
            return by_rows(part, values)
        if self.gradient_scale is not None:
            part = Scaled(part, self.gradient_scale.scale)
        with torch.autocast(values.device.type, getattr(torch, self.precision)):
            return by_rows(part, values).to(values.dtype)

    def top(self, hidden: Tensor) -> Output:
        """Apply the rest of the network to the output of `trunk`, from the first dropout on."""
        if self.before_last_stage:
            hidden = self.last_stage(self.drop(hidden))
        outputs = F.linear(self.drop(hidden), *self.heads())
        if self.noise_head is None:
            return Output(outputs, hidden)
        logits, raw = outputs.chunk(2, 1)
        return Output(logits, hidden, instance_std(raw), self.class_std)

    def clean_logits(self, inputs: Tensor) -> Tensor:
        """(B, K) logits without dropout and noise; batch norm stays in its mode."""
        hidden = self.trunk(inputs)
        if self.before_last_stage:
            hidden = self.last_stage(hidden)
        return self.head(hidden)

    def members(self, hidden: Tensor, seeds: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """(T, K, B) logits of T dropout passes, and stds of their noise (None: no logit noise).

        Each seed draws the dropout masks of one pass, the same for all rows of all batches.
        Without dropout or seeds there is one pass, in which nothing is dropped.

        hidden: output of `trunk`
        """
        drawn = [torch.Generator().manual_seed(seed) for seed in seeds]
        if self.dropout is None or not drawn:
            features = self.last_stage(hidden) if self.before_last_stage else hidden
            outputs = self.masked_heads(features, features.new_ones(1, features.shape[1]))
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
        logits, raw = outputs.chunk(2, 1)
        return logits, instance_std(raw)

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
        return self.apply_part(cast("nn.Module", self.backbone.last_stage), values)

    def drop(self, values: Tensor) -> Tensor:
        """Apply dropout, if the network has any."""
        return values if self.dropout is None else self.dropout(values)

    def parameter_groups(self, weight_decay: float) -> list[dict[str, object]]:
        """Parameter groups for an optimiser; the second holds the noise that all examples share.

        That is the bias of the noise head and the class noise. They have no weight decay, which
        would pull the noise to a fixed value, and a learning rate of their own.
        """
        free = [] if self.noise_head is None else [self.noise_head.bias, self.class_std]
        shared = {id(each) for each in free}
        decayed = [each for each in self.parameters() if id(each) not in shared]
        groups: list[dict[str, object]] = [{"params": decayed, "weight_decay": weight_decay}]
        if free:
            groups.append({"params": free, "weight_decay": 0.0, "lr_factor": self.spec.noise_lr})
        return groups


def instance_std(raw: Tensor) -> Tensor:
    """Standard deviations from the output of the noise head: softplus, within `STDS`."""
    return F.softplus(raw).clamp(*STDS)


def inverse_softplus(value: float) -> float:
    """Return the number whose softplus is `value`, which is above 0."""
    return value if value > 40 else math.log(math.expm1(value))  # equal in double precision
