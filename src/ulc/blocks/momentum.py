"""Stochastic gradient descent with momentum."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.optim.sgd import sgd


class Momentum:
    """m ← μ·m + gradient + decay·w, then w ← w − rate·m, as torch's SGD and with its state.

    Torch's own class imports a compiler when it is made, which takes longer than a short training,
    and its step does as much around the arithmetic as the arithmetic of a small network.
    """

    def __init__(self, groups: Iterable[Mapping[str, Any]], *, lr: float, momentum: float) -> None:
        self.param_groups = [{"lr": lr, "momentum": momentum, **group} for group in groups]
        self.momenta = {
            each: torch.zeros_like(each) for group in self.param_groups for each in group["params"]
        }

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            moved = [each for each in group["params"] if each.grad is not None]
            sgd(
                moved,
                [each.grad for each in moved],
                [self.momenta[each] for each in moved],
                fused=True,
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                lr=group["lr"],
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )

    def state_dict(self) -> dict[str, Any]:
        """What goes on where training goes on; parameters by number, in order."""
        numbers = {each: number for number, each in enumerate(self.momenta)}
        groups = [
            {**group, "params": [numbers[each] for each in group["params"]]}
            for group in self.param_groups
        ]
        state = {numbers[each]: {"momentum_buffer": kept} for each, kept in self.momenta.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        for group, saved in zip(self.param_groups, state["param_groups"], strict=True):
            group.update({name: saved[name] for name in group if name != "params"})
        for number, kept in enumerate(self.momenta.values()):
            momentum = state["state"].get(number, {}).get("momentum_buffer")
            kept.zero_() if momentum is None else kept.copy_(momentum)  # None before the first step
