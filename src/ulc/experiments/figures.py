"""Figures 1 to 4 of the paper, drawn with matplotlib from the data of finished runs.

Blue: correct labels; orange: wrong labels. Matplotlib is imported by the functions that need it.
"""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ulc.blocks.loss_mixture import GaussianLossMixture
from ulc.errors import InputError
from ulc.evaluation.ranking import ranking
from ulc.experiments.figure_data import AfterWarmUp, AucByEpoch, Curve
from ulc.report.losses import Components
from ulc.typing import Floats

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CORRECT, WRONG = "#2f6db3", "#d9822b"
COLOURS = ("#9a9a9a", "#2f6db3", "#2e8b57", "#a8447f", "#d9822b", "#6b4fa0", "#444444", "#b5a11d")
STYLE: Any = {
    "svg.hashsalt": "ulc",  # the same figure has the same bytes
    "svg.fonttype": "none",
    "font.size": 9,
    "text.parse_math": False,  # a $ in the name of a class is a $
    "axes.spines.top": False,
    "axes.spines.right": False,
}
BINS = 50
MOST_POINTS = 4_000  # in a plot of points
LEAST_POINTS = 4.0  # of accuracy that figure 4 shows, so that small differences look small


def styled() -> "AbstractContextManager[None]":
    """Context manager with the style of all figures; raise an InputError without matplotlib."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise InputError(
            "figures need matplotlib; install it with `pip install 'ulc[figures]'`"
        ) from None
    return mpl.rc_context(STYLE)


def new_figure(columns: int, rows: int = 1) -> "tuple[Figure, Any]":
    """An empty figure, and its panels as a (rows, columns) array."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * columns, 1.0 + 2.2 * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def render(figure: "Figure", ending: str) -> bytes:
    """The figure as the content of a file with this ending: svg, png or pdf."""
    buffer = io.BytesIO()
    metadata: Any = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending)
    with styled():
        figure.savefig(buffer, format=ending, dpi=200, metadata=metadata)
    return buffer.getvalue()


def draw_class_losses(data: AfterWarmUp, classes: Sequence[int] | None = None) -> "Figure":
    """Figure 1: losses of a small and a large class, with one mixture fitted to all classes.

    classes: numbers of the classes; None: the first small and the first large one
    """
    chosen = pick_classes(data) if classes is None else classes
    losses = torch.from_numpy(data.loss.astype(np.float64))
    one_group = torch.zeros(len(losses), dtype=torch.int64)
    fitted = GaussianLossMixture(per_class=False).fit(losses, one_group, 1)
    trusted = fitted.clean_probability(losses, one_group).numpy() >= data.threshold
    top = float(np.quantile(data.loss, 0.999)) or 1.0
    grid = np.linspace(0, top, 200)
    low, high = Components.of(fitted, 0).density(grid)
    with styled():
        figure, panels = new_figure(1, len(chosen))
        for number, axes in zip(chosen, panels[:, 0], strict=True):
            mine = data.given == number
            draw_two_histograms(axes, data.loss[mine], data.correct[mine], top)
            axes.plot(
                grid, low, "--", color=CORRECT, lw=1.2, label="mixture of all classes: low loss"
            )
            axes.plot(
                grid, high, "--", color=WRONG, lw=1.2, label="mixture of all classes: high loss"
            )
            size = "small" if number in data.small else "large"
            kept = trusted[mine & data.correct]
            share = (
                f"; {100 * kept.mean():.0f} % of its correct labels trusted" if len(kept) else ""
            )
            axes.set_title(f"{size} class {data.class_names[number]}{share}", fontsize=9)
        handles = panels[0, 0].get_legend_handles_labels()
        figure.legend(*handles, frameon=False, fontsize=8, ncols=2, loc="outside lower center")
        panels[-1, 0].set_xlabel("loss of the given label after warm-up")
        figure.suptitle(data.title, fontsize=9)
    return figure


def pick_classes(data: AfterWarmUp) -> list[int]:
    """The first small and the first large class; raise an InputError if no class is small."""
    if not data.small:
        raise InputError(
            f"{data.title}: no class is small; give the run of uneven classes, or name --classes"
        )
    large = [number for number in range(len(data.class_names)) if number not in data.small]
    return [data.small[0], *large[:1]]


def draw_two_histograms(axes: "Axes", loss: Floats, correct: NDArray[np.bool_], top: float) -> None:
    """Histograms of the losses of correct and of wrong labels, as shares of all of them."""
    edges = np.linspace(0, top, BINS + 1)
    width = top / BINS * max(len(loss), 1)
    for rows, colour, name in ((correct, CORRECT, "correct"), (~correct, WRONG, "wrong")):
        count = np.histogram(np.minimum(loss[rows], top), edges)[0]
        axes.stairs(
            count / width, edges, fill=True, color=colour, alpha=0.45, label=f"{name} labels"
        )
    axes.set_ylabel("density")
    axes.set_xlim(0, top)


def draw_uncertainty(data: AfterWarmUp) -> "Figure":
    """Figure 2: labels by their loss alone, and by loss and epistemic uncertainty."""
    if np.isnan(data.epistemic).any():
        raise InputError(
            f"{data.title}: epistemic uncertainty is not estimated; give a run of ULC that is "
            "longer than its warm-up"
        )
    top = float(np.quantile(data.loss, 0.999)) or 1.0
    by_loss, _ = ranking(-data.loss, ~data.correct)
    by_both, _ = ranking(data.clean_probability, ~data.correct)
    by_certainty, _ = ranking(1 - data.epistemic, ~data.correct)
    with styled():
        figure, panels = new_figure(2)
        left, right = panels[0]
        draw_two_histograms(left, data.loss, data.correct, top)
        left.set(xlabel="loss of the given label", title=f"(a) loss: AUC {show_auc(by_loss)}")
        left.legend(frameon=False, fontsize=8)
        # Rows in the order of the data, so both colours lie over one another as often as they are.
        count = len(data.loss)
        some = np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int)
        right.scatter(
            np.minimum(data.loss[some], top), data.epistemic[some], s=4,
            c=np.where(data.correct[some], CORRECT, WRONG), alpha=0.35, lw=0, rasterized=True,
        )  # fmt: skip
        right.set(
            xlabel="loss of the given label",
            ylabel="epistemic uncertainty ε",
            title=f"(b) with ε: AUC of ω {show_auc(by_both)}, of 1 − ε {show_auc(by_certainty)}",
        )
        for axes in (left, right):
            axes.title.set_fontsize(9)
        figure.suptitle(f"{data.title}, after warm-up", fontsize=9)
    return figure


def show_auc(value: float | None) -> str:
    """An AUC in %; a dash if it is not defined."""
    return "–" if value is None else f"{100 * value:.1f} %"


def draw_auc(data: AucByEpoch) -> "Figure":
    """Figure 3: AUC of finding wrong labels by epoch, over all and over small and large classes."""
    with styled():
        figure, panels = new_figure(2)
        left, right = panels[0]
        colours = {curve.title: place for place, curve in enumerate(data.curves["all"])}
        draw_curves(left, data.curves["all"], colours)
        draw_curves(right, data.curves["small"], colours)
        draw_curves(right, data.curves["large"], colours, line=":")
        left.set(title="(a) all classes", ylabel="AUC of finding wrong labels, %")
        right.set(title="(b) small classes (lines) and large classes (dots)")
        left.legend(frameon=False, fontsize=8)
        for axes in (left, right):
            axes.set_xlabel("epoch")
            axes.title.set_fontsize(9)
            if data.warm_up:
                axes.axvline(data.warm_up, color="#bbbbbb", lw=0.8)
        figure.suptitle(data.title, fontsize=9)
    return figure


def draw_curves(
    axes: "Axes",
    curves: Sequence[Curve],
    colours: dict[str, int],
    *,
    line: str = "-",
) -> None:
    """The mean of each curve in %, and the range of its seeds as a band."""
    for curve in curves:
        colour = COLOURS[colours[curve.title] % len(COLOURS)]
        values = 100 * curve.values
        label = f"{curve.title} (n = {len(values)})"
        axes.plot(curve.x, values.mean(0), line, color=colour, label=label, lw=1.4)
        axes.fill_between(curve.x, values.min(0), values.max(0), color=colour, alpha=0.15, lw=0)


def draw_accuracy(curves: Sequence[Curve]) -> "Figure":
    """Figure 4: test accuracy against r: mean, and the range of the seeds as a band."""
    with styled():
        figure, panels = new_figure(1)
        axes = panels[0, 0]
        for place, curve in enumerate(curves):
            colour = COLOURS[1 + place % (len(COLOURS) - 1)]
            axes.plot(curve.x, curve.values.mean(0), "o-", color=colour, label=curve.title, lw=1.4)
            axes.fill_between(
                curve.x, curve.values.min(0), curve.values.max(0), color=colour, alpha=0.15, lw=0
            )
        axes.set(xlabel="r, weight of epistemic uncertainty", ylabel="test accuracy, %")
        axes.set_xticks(sorted({float(each) for curve in curves for each in curve.x}))
        low, high = axes.get_ylim()
        if high - low < LEAST_POINTS:
            middle = (low + high) / 2
            axes.set_ylim(middle - LEAST_POINTS / 2, middle + LEAST_POINTS / 2)
        handles = axes.get_legend_handles_labels()
        figure.legend(*handles, frameon=False, fontsize=8, loc="outside lower center")
    return figure
