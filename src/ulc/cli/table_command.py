"""`ulc table`: finished runs as a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ulc.cli.options import PriorText
from ulc.cli.screen import cell, say
from ulc.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Runs = Annotated[
    list[Path], typer.Argument(help="Run folders, or folders of them such as --out of `ulc sweep`.")
]


def table(
    runs: Runs,
    like: Annotated[
        str | None,
        typer.Option(
            help="Rows and columns of a table of the paper, with its numbers: table1 "
            "to table4. Files of features stand for CIFAR-10 (10 classes) or CIFAR-100 (100)."
        ),
    ] = None,
    also: Annotated[
        str | None,
        typer.Option(
            help="With --like: more rows, by the names of methods, such as dividemix,ulc-fixmatch. "
            "ULC+ is a row without it."
        ),
    ] = None,
    form: Annotated[str, typer.Option("--format", help="markdown, latex or csv.")] = "markdown",
    prior: PriorText = "training",
    out: Annotated[
        Path | None, typer.Option(help="File to write. Default: the table is printed.")
    ] = None,
) -> None:
    """Print finished runs as a table: best and last test accuracy, over their seeds.

    Rows are methods, columns are data, noise and imbalance. Only files of the run folders are
    read. Where a cell is one of the paper's, its number stands in brackets.
    """
    from ulc.cli import parse
    from ulc.experiments.any_table import any_table
    from ulc.experiments.finished_runs import find_runs
    from ulc.experiments.paper.grids import paper_grid
    from ulc.experiments.paper_table import paper_table
    from ulc.experiments.table_formats import FORMATS
    from ulc.labels.prior import check_prior_name
    from ulc.storage.files import check_output_file, write_whole

    if form not in FORMATS:
        raise InputError(f"--format {form}: give one of {', '.join(FORMATS)}")
    if also is not None and like is None:
        raise InputError("--also: only with --like; without it every method is a row; leave it out")
    if out is not None:
        check_output_file("--out", out)
    found, unfinished = find_runs(runs)
    assumed = check_prior_name(prior)
    if like is None:
        made = any_table(found, assumed)
    else:
        rows = parse.names(also, "--also") or []
        made = paper_table(paper_grid(like), found, assumed, rows)
    if not made.count:
        raise InputError("the runs have no test set; train on data that have one (--test)")
    text = FORMATS[form](made)
    if out is None:
        say(text)
    else:
        write_whole(out, (text.rstrip("\n") + "\n").encode())
    say_left_out(made.left_out, like, unfinished)


def say_left_out(methods: "Sequence[str]", like: str | None, unfinished: int) -> None:
    """Say to stderr which runs are not in the table.

    methods: names of the methods whose runs are not
    unfinished: number of unfinished runs
    """
    if methods:
        names = cell(",".join(methods))
        say(f"Left out, as {like} has no such rows: {names}; --also {names} adds them.", error=True)
    if unfinished:
        runs = "1 unfinished run is" if unfinished == 1 else f"{unfinished} unfinished runs are"
        say(f"{runs} left out.", error=True)
