"""Losses of the labels of each class, with a mixture of two Gaussians (Figure 1 of the paper)."""

from dataclasses import dataclass

import numpy as np
import torch

from ulc.blocks.loss_mixture import GaussianLossMixture, ScaledMixtures
from ulc.report.findings import Findings
from ulc.typing import Floats, Integers

BINS = 24
CURVE = 96  # points of a fitted curve


@dataclass(frozen=True)
class ClassLosses:
    """The histogram of one class's losses, as shares of its labels, and its fitted components.

    number: of the class; edges: (BINS + 1,) of the bins
    right, wrong: (BINS,) shares of labels that look right and of labels that look wrong
    grid: (CURVE,) losses; low, high: (CURVE,) heights of both components there, as shares in a bin
    own: whether the class has a mixture of its own; False: the mixture of all classes is shown
    """

    number: int
    edges: Floats
    right: Floats
    wrong: Floats
    grid: Floats
    low: Floats
    high: Floats
    own: bool

    @property
    def tallest(self) -> float:
        """Height of the tallest bar."""
        return float((self.right + self.wrong).max())


def class_losses(findings: Findings, chosen: list[int]) -> list[ClassLosses]:
    """The losses of the chosen classes, with mixtures fitted as ULC fits them in training."""
    losses = torch.from_numpy(findings.loss).double()
    given = torch.from_numpy(findings.given.astype(np.int64))
    model = GaussianLossMixture()
    own = model.fit(losses, given, findings.classes)
    chosen_fit = own.reliable[chosen].tolist()
    every = own if all(chosen_fit) else model.fit(losses, torch.zeros_like(given), 1)
    # Sorted once, the members of each class are a slice.
    order = np.argsort(findings.given, kind="stable")
    ends = np.cumsum(findings.sizes)
    drawn = []
    for number, fitted in zip(chosen, chosen_fit, strict=True):
        members = order[ends[number] - findings.sizes[number] : ends[number]]
        curve = Components.of(own, number) if fitted else Components.of(every, 0)
        drawn.append(one_class(findings, number, members, curve))
    return drawn


@dataclass(frozen=True)
class Components:
    """Two weighted Gaussians on the scale of the losses; each array has shape (2,)."""

    weights: Floats
    means: Floats
    deviations: Floats
    own: bool

    @classmethod
    def of(cls, scaled: ScaledMixtures, group: int) -> "Components":
        """The components of one group, in the unit of the losses."""
        low, span = float(scaled.low[group]), float(scaled.span[group])
        two = scaled.mixtures
        return cls(
            two.weights[group].numpy(),
            two.means[group].numpy() * span + low,
            np.sqrt(two.variances[group].numpy()) * span,  # type: ignore[union-attr]
            own=len(scaled.low) > 1,
        )

    def density(self, grid: Floats) -> Floats:
        """(2, CURVE) weight times density of both components at the losses `grid`."""
        distance = (grid - self.means[:, None]) / self.deviations[:, None]
        scale = self.weights / (self.deviations * np.sqrt(2 * np.pi))
        return scale[:, None] * np.exp(-0.5 * distance**2)


def one_class(
    findings: Findings, number: int, members: Integers, components: Components
) -> ClassLosses:
    """The histogram of one class, with its components as shares in a bin.

    number: of the class; members: positions of its labels
    """
    loss, issue = findings.loss[members], findings.issue[members]
    top = max(float(loss.max()), 1e-3)
    edges = np.linspace(0, top, BINS + 1)
    right, wrong = (np.histogram(loss[each], edges)[0] / len(loss) for each in (~issue, issue))
    grid = np.linspace(0, top, CURVE)
    low, high = components.density(grid) * (top / BINS)
    return ClassLosses(number, edges, right, wrong, grid, low, high, components.own)
