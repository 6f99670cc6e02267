"""The page's plots. Blue: labels that look right. Orange: labels that look wrong."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from ulc.report.findings import Findings
from ulc.report.losses import ClassLosses
from ulc.report.scores import ClassScores
from ulc.report.svg import Plot, drawing, element, spread
from ulc.typing import Floats

COLUMNS, ROWS = 36, 24  # columns and rows of cells in the plot of loss against uncertainty
SHADES = 5  # number of colours, from all labels right to all labels wrong


def loss_histogram(losses: ClassLosses, name: str) -> Markup:
    """Histogram of the losses of a class's labels, with the two components fitted to them."""
    # Square-root scale: most labels have a small loss, and their bar would dwarf all others.
    plot = Plot((0, float(losses.edges[-1])), spread([losses.tallest]), root=True)
    bars = stacked_bars(plot, losses)
    ceiling = plot.y_range[1]
    curves = [
        plot.line(losses.grid, np.minimum(curve, ceiling), class_)
        for curve, class_ in ((losses.low, "right-line"), (losses.high, "wrong-line"))
    ]
    share = float(losses.wrong.sum())
    label = f"Losses of the labels of class {name}: {100 * share:.0f} % of them look wrong"
    axes = plot.axes("loss of the given label", "share of labels", percent=True)
    return drawing(label, plot.width, plot.height, axes, *bars, *curves)


def score_histogram(scores: ClassScores, name: str, threshold: float) -> Markup:
    """Histogram of the posterior scores of a class's labels; a line marks the threshold."""
    plot = Plot((0, 1), spread([scores.tallest]), root=True)
    bars = stacked_bars(plot, scores)
    line = plot.line((threshold, threshold), plot.y_range, "threshold-line")
    share = float(scores.wrong.sum())
    label = (
        f"Scores of the labels of class {name}: {100 * share:.0f} % of them look wrong; "
        f"labels below {threshold:g} are doubted"
    )
    axes = plot.axes("posterior of the given label", "share of labels", percent=True)
    return drawing(label, plot.width, plot.height, axes, *bars, line)


def stacked_bars(plot: Plot, histogram: ClassLosses | ClassScores) -> list[Markup]:
    """The bars of a histogram: labels that look right below, labels that look wrong above."""
    bars = []
    for place, (right, wrong) in enumerate(zip(histogram.right, histogram.wrong, strict=True)):
        across = (float(histogram.edges[place]), float(histogram.edges[place + 1]))
        if right:
            bars.append(plot.bar(across, (0, right), "right"))
        if wrong:
            bars.append(plot.bar(across, (right, right + wrong), "wrong"))
    return bars


def loss_against_uncertainty(findings: Findings) -> Markup | None:
    """Plot of labels by loss and epistemic uncertainty (Figure 2b of the paper).

    None if the uncertainty is not estimated. Labels are counted in a grid of cells, so the size of
    the plot does not depend on their number.
    """
    if np.isnan(findings.epistemic).any():
        return None
    top = max(float(findings.loss.max()), 1e-3)
    plot = Plot((0, top), (0, max(float(findings.epistemic.max()) * 1.05, 0.05)), 400, 270)
    count, wrong = (
        np.histogram2d(
            findings.loss, findings.epistemic, (COLUMNS, ROWS), ((0, top), plot.y_range), weights=w
        )[0]
        for w in (None, findings.issue.astype(float))
    )
    largest = (plot.width - plot.left - plot.right) / COLUMNS / 2
    dots = []
    for column, row in np.argwhere(count > 0):
        labels = count[column, row]
        shade = round((SHADES - 1) * wrong[column, row] / labels)
        # The area grows with the logarithm, so that one label is visible beside a thousand.
        radius = largest * np.sqrt((1 + np.log(labels)) / (1 + np.log(count.max())))
        dots.append(
            element(
                "circle",
                cx=plot.x((column + 0.5) / COLUMNS * top),
                cy=plot.y((row + 0.5) / ROWS * plot.y_range[1]),
                r=float(radius),
                class_=f"shade{shade}",
            )
        )
    axes = plot.axes("loss of the given label", "uncertainty of the model (epistemic)")
    label = "Labels by their loss and by the uncertainty of the model"
    return drawing(label, plot.width, plot.height, axes, *dots)


@dataclass(frozen=True)
class Line:
    """A curve: its name, its CSS class, and its values by epoch."""

    name: str
    class_: str
    epochs: Sequence[float]
    values: Sequence[float]


def curves(title: str, lines: Sequence[Line], epochs: int, *, percent: bool) -> Markup:
    """A plot of lines over the epochs.

    epochs: number of epochs; percent: whether the values are shares
    """
    every = np.concatenate([np.asarray(line.values, float) for line in lines])
    y_range = percent_range(every) if percent else spread(every)
    plot = Plot((0, max(epochs - 1, 1)), y_range)
    drawn = [
        plot.line(line.epochs, line.values, line.class_)
        if len(line.values) > 1
        else element(
            "circle",
            cx=plot.x(line.epochs[0]),
            cy=plot.y(line.values[0]),
            r=3,
            class_=f"dot {line.class_}",
        )
        for line in lines
    ]
    axes = plot.axes("epoch", "" if percent else "loss", percent=percent)
    return drawing(title, plot.width, plot.height, axes, *drawn)


def percent_range(values: Floats) -> tuple[float, float]:
    """Range of the vertical axis for shares: from 0, 0.5 or 0.8 (the highest below all) to 1."""
    low = float(values.min())
    return (0.0 if low < 0.5 else 0.5 if low < 0.8 else 0.8), 1.0
