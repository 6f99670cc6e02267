"""Per class the losses of its labels and the two groups that a mixture finds in them (Figure 1)."""

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
    """One class's histogram, as shares of its labels, and its fitted components.

    edges: (BINS + 1,); right, wrong: (BINS,) labels that look right and labels that look wrong
    at: (CURVE,) losses; low, high: (CURVE,) the components there, in the histogram's unit
    own: whether the class has a mixture of its own, or is judged by that of all classes
    """

    number: int
    edges: Floats
    right: Floats
    wrong: Floats
    at: Floats
    low: Floats
    high: Floats
    own: bool

    @property
    def tallest(self) -> float:
        """Of its bars."""
        return float((self.right + self.wrong).max())


def class_losses(findings: Findings, chosen: list[int]) -> list[ClassLosses]:
    """The losses of the chosen classes, with mixtures fitted as ULC fits them."""
    losses = torch.from_numpy(findings.loss).double()
    given = torch.from_numpy(findings.given.astype(np.int64))
    model = GaussianLossMixture()
    own = model.fit(losses, given, findings.classes)
    chosen_fit = own.reliable[chosen].tolist()
    every = own if all(chosen_fit) else model.fit(losses, torch.zeros_like(given), 1)
    # Members of each class without looking through all rows once for each.
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
    """Two weighted Gaussians on the scale of the losses: (2,) each."""

    weights: Floats
    means: Floats
    deviations: Floats
    own: bool

    @classmethod
    def of(cls, scaled: ScaledMixtures, group: int) -> "Components":
        """Those of one group, its scaling undone."""
        low, span = float(scaled.low[group]), float(scaled.span[group])
        two = scaled.mixtures
        return cls(
            two.weights[group].numpy(),
            two.means[group].numpy() * span + low,
            np.sqrt(two.variances[group].numpy()) * span,  # type: ignore[union-attr]
            own=len(scaled.low) > 1,
        )

    def density(self, at: Floats) -> Floats:
        """(2, CURVE) weight times density."""
        distance = (at - self.means[:, None]) / self.deviations[:, None]
        scale = self.weights / (self.deviations * np.sqrt(2 * np.pi))
        return scale[:, None] * np.exp(-0.5 * distance**2)


def one_class(
    findings: Findings, number: int, members: Integers, components: Components
) -> ClassLosses:
    """Count, and bring the fitted curves to the unit of the counts."""
    loss, issue = findings.loss[members], findings.issue[members]
    top = max(float(loss.max()), 1e-3)
    edges = np.linspace(0, top, BINS + 1)
    right, wrong = (np.histogram(loss[each], edges)[0] / len(loss) for each in (~issue, issue))
    at = np.linspace(0, top, CURVE)
    low, high = components.density(at) * (top / BINS)
    return ClassLosses(number, edges, right, wrong, at, low, high, components.own)
