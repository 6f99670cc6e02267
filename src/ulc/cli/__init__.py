"""The `ulc` command. Heavy modules are imported inside the functions that need them."""

import errno
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ulc.cli.apply_command import apply
from ulc.cli.audit_command import audit, print_audit, resume_audit
from ulc.cli.embed_command import embed
from ulc.cli.export_command import export
from ulc.cli.figure_command import figure
from ulc.cli.noise_command import noise
from ulc.cli.options import Device, Devices, Json, Quiet, Review, Trust
from ulc.cli.predict_command import predict
from ulc.cli.processes import Workers
from ulc.cli.report_command import report
from ulc.cli.screen import buffer_output, cell, console, say
from ulc.cli.sweep_command import sweep
from ulc.cli.table_command import table
from ulc.cli.train_command import algorithm_title, print_results, progress_bars, train
from ulc.cli.tune_command import tune
from ulc.errors import InputError, first_line, is_out_of_memory
from ulc.stopping import exit_at_signals

if TYPE_CHECKING:
    from ulc.labels.review import Review as ChosenReview
    from ulc.storage.run_folder import RunFolder

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk, share of it or file is full

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Learn from data with wrong labels and unequal classes, and find the wrong labels.",
)


app.command()(train)
app.command()(sweep)
app.command()(tune)
app.command()(table)
app.command()(figure)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    trust: Trust = False,
    device: Device = "auto",
    devices: Devices = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Resume a stopped run or audit; it ends with the same bits as without the stop.

    With another number of processes it ends with the same results, except for rounding.
    """
    from ulc.storage.run_folder import RunFolder
    from ulc.training.own_code import check_trusted

    workers = Workers(device, devices)
    audited = (run / "audit.toml").is_file()
    workers.check(compares=audited)
    if audited:
        resume_audit(run, device, trust=trust, as_json=as_json, quiet=quiet)
        return
    spec = RunFolder.open(run).spec
    check_trusted(spec, str(run / "spec.toml"), trust)
    title = algorithm_title(spec)
    with progress_bars(show=not quiet) as new_progress:
        folder = workers.resume(run, new_progress(title, spec))
    print_results({title: folder}, as_json=as_json, quiet=quiet)


@app.command()
def show(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    labels: Annotated[int, typer.Option(min=0, help="How many suspicious labels to list.")] = 10,
    spreadsheet: Annotated[
        Path | None,
        typer.Option(
            help="FILE.csv: a copy of labels.csv in which no cell is a formula. Only to look at: "
            "`ulc apply` needs the names as they are."
        ),
    ] = None,
    review: Review = None,
    as_json: Json = False,
) -> None:
    """Show the results of a run."""
    from ulc.cli import tables
    from ulc.labels.review import write_review
    from ulc.storage.run_folder import RunFolder

    folder = RunFolder.open(run)
    chosen = None if review is None else write_review(folder, review)
    if spreadsheet is not None:
        tables.write_spreadsheet(folder, spreadsheet)
    title = algorithm_title(folder.spec)
    if as_json:
        content = tables.as_json(title, folder) | {"health": folder.read_json("health.json")}
        if chosen is not None:
            content["review"] = tables.describe_review(folder, chosen)
        print(json.dumps([content]))
        return
    audited = folder.has("audit.json")
    if not audited:
        print_results({title: folder}, as_json=False, quiet=False)
    screen = console()
    for each in tables.health_tables(folder):
        screen.print(each)
    if audited:
        print_audit(folder, labels, chosen)
    else:
        print_labels(folder, labels, chosen)


def print_labels(folder: "RunFolder", labels: int, review: "ChosenReview | None") -> None:
    """Print the most suspicious labels of a run, or those of a review.

    review: None: there is no review
    """
    from ulc.cli import tables

    screen = console()
    if review is None:
        if labels:
            screen.print(tables.suspects_table(folder, labels))
        return
    screen.print(tables.review_table(folder, review))
    for line in tables.review_lines(folder, review):
        screen.print(cell(line), soft_wrap=True, highlight=False)


@app.command()
def algorithms(
    name: Annotated[str | None, typer.Argument(help="Show the options of this algorithm.")] = None,
    as_json: Json = False,
) -> None:
    """List the algorithms, or the options of one."""
    from ulc.algorithms import find_algorithm, known_algorithms

    if name is None:
        rows = {key: about(each) for key, each in known_algorithms().items()}
        print_pairs(rows, "algorithm", "what it does", as_json=as_json)
        return
    config = find_algorithm(name).config_class()
    fields = type(config).model_fields
    rows = {
        key: f"{value}  {fields[key].description or ''}".rstrip()
        for key, value in config.model_dump(mode="json").items()
    }
    print_pairs(rows, "option", "default, meaning", as_json=as_json)


def about(algorithm: type) -> str:
    """The first line of the algorithm's docstring."""
    return next(iter((algorithm.__doc__ or "").strip().splitlines()), "")


@app.command()
def datasets(as_json: Json = False) -> None:
    """List the kinds of data that can be read."""
    from ulc.data.sources import SOURCES

    rows = {
        key: each.about + (f"; path: {each.path}" if each.path else "")
        for key, each in SOURCES.items()
    }
    print_pairs(rows, "source", "what it is", as_json=as_json)


def print_pairs(rows: dict[str, str], left: str, right: str, *, as_json: bool) -> None:
    """Print a table of two columns with the headings left and right, or a JSON object."""
    if as_json:
        print(json.dumps(rows))
        return
    from rich.table import Table

    table = Table(left, right)
    for key, value in rows.items():
        table.add_row(cell(key), cell(value))
    console().print(table)


app.command()(noise)
app.command()(embed)
app.command()(audit)
app.command()(apply)
app.command()(predict)
app.command()(export)
app.command()(report)


def main() -> NoReturn:
    """Run the command; a user's mistake ends in one sentence and exit code 2."""
    buffer_output()
    try:
        with exit_at_signals():
            try:
                app()
            finally:
                sys.stdout.flush()
    except InputError as error:
        say(f"ulc: {cell(error)}", error=True)
        sys.exit(2)
    except OSError as error:
        if error.errno not in (*NO_ROOM, errno.EPIPE):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is lost
        if error.errno in NO_ROOM:
            say("ulc: the output is not whole: its disk is full; make room and repeat", error=True)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        say(
            f"ulc: out of memory ({cell(first_line(error))}); use less data, smaller images, "
            "another --network or a smaller batch (--set batch_size=…)",
            error=True,
        )
        sys.exit(2)
    sys.exit(0)
