"""The scale of gradients in half precision (float16), where small ones would become 0.

Gradients are multiplied by the scale where they enter a part that computes in half precision, and
divided by it where they leave the part, in single precision. So all code outside sees gradients as
they are, whatever it does with them, and an algorithm needs no line for the scale.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.func import functional_call

# As in torch.amp.GradScaler, except for the lowest scale.
START, GROWTH, GROWTH_STEPS, LOWEST = 2.0**16, 2.0, 2_000, 1.0


class GradientScale:
    """A scale that halves if a gradient is not finite, and doubles after 2,000 steps in a row.

    The optimiser skips a step whose gradients are not finite. At a scale of 1 no step is skipped:
    then the gradients themselves are too large, and the divergence check ends the training. All is
    computed on the device, so that the program does not wait for it.

    scale: single number, a power of 2; good_steps: steps since it has changed
    """

    def __init__(self, device: torch.device) -> None:
        self.scale = torch.full((), START, device=device)
        self.good_steps = torch.zeros((), device=device)

    @torch.no_grad()
    def update(self, gradients: list[Tensor]) -> Tensor:
        """Adapt the scale; return 1 if the optimiser shall skip the step, else 0, on the device."""
        norms = torch.stack(torch._foreach_norm(gradients))
        skip = ~norms.isfinite().all() & (self.scale > LOWEST)
        self.good_steps.add_(1).mul_(~skip)
        grows = self.good_steps >= GROWTH_STEPS
        self.good_steps.mul_(~grows)
        factor = torch.where(skip, 1 / GROWTH, torch.where(grows, GROWTH, 1.0))
        self.scale.mul_(factor)
        return skip.to(self.scale.dtype)

    def state_dict(self) -> dict[str, Tensor]:
        """Both numbers, for a checkpoint."""
        return {"scale": self.scale, "good_steps": self.good_steps}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore both numbers."""
        self.scale.copy_(state["scale"])
        self.good_steps.copy_(state["good_steps"])


class Scaled(nn.Module):
    """A module inside which gradients are multiplied by a scale; outside they are as they are."""

    def __init__(self, part: nn.Module, scale: Tensor) -> None:
        super().__init__()
        self.part = part
        self.scale = scale

    def forward(self, inputs: Tensor) -> Tensor:
        """`part(inputs)`, in the type of the inputs."""
        if not torch.is_grad_enabled():
            return cast("Tensor", self.part(inputs).to(inputs.dtype))
        weights = {
            name: leave(weight, self.scale)
            for name, weight in self.part.named_parameters()
            if weight.requires_grad
        }
        outputs = functional_call(self.part, weights, (leave(inputs, self.scale),))
        return enter(outputs.to(inputs.dtype), self.scale)


class Enter(Function):
    """Forward: the same values. Backward: their gradient times the scale."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, scale: Tensor) -> Tensor:  # noqa: D102
        ctx.scale = scale
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: D102
        return times(gradient, ctx.scale), None


class Leave(Function):
    """Forward: the same values. Backward: their gradient divided by the scale."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, scale: Tensor) -> Tensor:  # noqa: D102
        ctx.scale = scale
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: D102
        return times(gradient, 1 / ctx.scale), None


class Times(Function):
    """Forward: values times a factor. Backward: the same gradient.

    A second derivative enters the part here and leaves it by `Leave`, so that it must be scaled
    once. It is: the gradients inside, with which it is multiplied, are.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: Tensor) -> Tensor:  # noqa: ARG004, D102
        return values * factor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # noqa: ARG004, D102
        return gradient, None


enter = cast("Callable[[Tensor, Tensor], Tensor]", Enter.apply)
leave = cast("Callable[[Tensor, Tensor], Tensor]", Leave.apply)
times = cast("Callable[[Tensor, Tensor], Tensor]", Times.apply)
