"""`ulc figure`: a figure of the paper from finished runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ulc.cli.options import PriorText
from ulc.cli.screen import cell, say
from ulc.cli.table_command import Runs
from ulc.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from ulc.experiments.figure_data import AfterWarmUp
    from ulc.experiments.finished_runs import FinishedRun

ENDINGS = (".svg", ".png", ".pdf")


def figure(
    number: Annotated[
        int,
        typer.Argument(
            min=1,
            max=4,
            help="1: losses of a small and a large class; 2: losses and uncertainty; 3: AUC by "
            "epoch; 4: accuracy against r.",
        ),
    ],
    runs: Runs,
    classes: Annotated[
        str | None,
        typer.Option(help="Figure 1: names of classes. Default: a small and a large one."),
    ] = None,
    prior: PriorText = "training",
    out: Annotated[
        list[Path] | None,
        typer.Option(help="FILE.svg, .png or .pdf. Default: figureN.svg and figureN.png."),
    ] = None,
) -> None:
    """Draw a figure of the paper from finished runs of any folders (needs the extra "figures").

    `ulc sweep figure1` to figure4 train what the figures of the paper show. Figures 1 to 3 need
    runs that know the true labels, as with --noise.
    """
    from ulc.experiments.figures import render
    from ulc.experiments.finished_runs import find_runs
    from ulc.storage.files import check_output_file, write_whole

    targets = out or [Path(f"figure{number}.svg"), Path(f"figure{number}.png")]
    for path in targets:
        check_output_file("--out", path, endings=ENDINGS)
    if classes is not None and number != 1:
        raise InputError("--classes: only for figure 1; leave it out")
    found, _ = find_runs(runs)
    drawn = draw(number, found, classes, prior)
    for path in targets:
        write_whole(path, render(drawn, path.suffix[1:].lower()))
        say(cell(path))


def draw(number: int, runs: "Sequence[FinishedRun]", classes: str | None, prior: str) -> "Figure":
    """The figure of this number from the runs."""
    from ulc.experiments import figure_data, figures
    from ulc.labels.prior import check_prior_name

    if number == 1:
        data = figure_data.find_after_warm_up(runs, "figure1")
        return figures.draw_class_losses(data, class_numbers(data, classes))
    if number == 2:
        return figures.draw_uncertainty(figure_data.find_after_warm_up(runs, "figure2"))
    if number == 3:
        return figures.draw_auc(figure_data.auc_by_epoch(runs))
    return figures.draw_accuracy(figure_data.accuracy_curves(runs, check_prior_name(prior)))


def class_numbers(data: "AfterWarmUp", text: str | None) -> list[int] | None:
    """The numbers of the classes that the user names; None: the user names none."""
    from ulc.cli import parse

    names = parse.names(text, "--classes")
    if names is None:
        return None
    unknown = next((name for name in names if name not in data.class_names), None)
    if unknown is not None:
        known = ", ".join(data.class_names[:20])
        raise InputError(f"--classes {unknown}: the run has no such class; it has {known}")
    return [data.class_names.index(name) for name in names]
