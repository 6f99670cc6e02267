"""Stochastic gradient descent with momentum."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim.sgd import sgd


class Momentum:
    """SGD with momentum: m ← μ·m + gradient + decay·w, then w ← w − rate·m.

    Same arithmetic and state dict as `torch.optim.SGD`, whose construction imports torch._dynamo
    (2.5 s) and whose steps are slow for a small network. Remove this class when torch has fixed
    both.

    found_inf: single number; a step is skipped if it is 1; None: no step is skipped
    """

    found_inf: Tensor | None = None

    def __init__(self, groups: Iterable[Mapping[str, Any]], *, lr: float, momentum: float) -> None:
        self.param_groups = [{"lr": lr, "momentum": momentum, **group} for group in groups]
        self.momenta = {
            each: torch.zeros_like(each) for group in self.param_groups for each in group["params"]
        }

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            updated = [each for each in group["params"] if each.grad is not None]
            sgd(
                updated,
                [each.grad for each in updated],
                [self.momenta[each] for each in updated],
                fused=True,
                found_inf=self.found_inf,
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                lr=group["lr"],
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )

    def state_dict(self) -> dict[str, Any]:
        """Options and momenta, with parameters by number, as `torch.optim.SGD` saves them."""
        numbers = {each: number for number, each in enumerate(self.momenta)}
        groups = [
            {**group, "params": [numbers[each] for each in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers[each]: {"momentum_buffer": m} for each, m in self.momenta.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore options and momenta."""
        for group, saved in zip(self.param_groups, state["param_groups"], strict=True):
            group.update({name: saved[name] for name in group if name != "params"})
        for number, momentum in enumerate(self.momenta.values()):
            momentum.copy_(state["state"][number]["momentum_buffer"])
