"""`ulc train`: one training, or a comparison."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ulc.cli.options import (
    Data,
    Device,
    Devices,
    Fresh,
    Json,
    Out,
    Quiet,
    RunOptions,
    Trust,
    expand_options,
)
from ulc.cli.processes import Workers, follows
from ulc.cli.screen import cell, console
from ulc.errors import InputError

if TYPE_CHECKING:
    from ulc.config import RunSpec
    from ulc.experiments.comparison import NewProgress
    from ulc.storage.run_folder import RunFolder

BESIDE_SPEC = {"spec", "trust", "compare", "fresh", "out", "device", "devices", "as_json", "quiet"}


@expand_options
def train(
    context: typer.Context,
    run_options: RunOptions,
    data: Data = None,
    algorithm: Annotated[
        str,
        typer.Option("--algorithm", "-a", help="See `ulc algorithms`, or your own module:Class."),
    ] = "ulc",
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers of the run.")] = 0,
    spec: Annotated[
        Path | None,
        typer.Option(help="A spec in TOML with all settings, in place of the options for them."),
    ] = None,
    trust: Trust = False,
    compare: Annotated[
        bool | None,
        typer.Option(
            "--compare/--no-compare",
            help="Train cross entropy on the given and on the true labels too. "
            "Default: only in the demonstration.",
        ),
    ] = None,
    fresh: Fresh = False,
    out: Out = Path("runs"),
    device: Device = "auto",
    devices: Devices = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train, judge every label, and print the results.

    Without data: a demonstration. ULC and ULC+ learn from a part of Fashion-MNIST with half of the
    classes cut to a tenth and half of the labels wrong, beside cross entropy on the given labels
    and on the true labels. A stopped run is resumed; a finished one is only read.
    """
    from ulc.algorithms import configure
    from ulc.config import RunSpec
    from ulc.settings.variants import variant
    from ulc.training.own_code import check_trusted

    if spec is not None:
        refuse_beside_spec(context)
        wanted = RunSpec.read(spec)
        check_trusted(wanted, str(spec), trust)
    else:
        base = run_options.run_spec(data)
        wanted = variant(base.model_copy(update={"seed": seed}), algorithm)
    configure(wanted.algorithm, wanted.options)  # raises an error before anything is trained
    compares = bool(compare or (compare is None and data is None and spec is None))
    workers = Workers(device, devices)
    workers.check(compares=compares)
    if compares:
        from ulc.experiments.comparison import compare as comparing

        beside = ("ulc", "ulc_plus") if data is None and spec is None else ()
        with progress_bars(show=not quiet) as new_progress:
            compared = comparing(
                wanted, out, beside=beside, device=device, progress=new_progress, fresh=fresh
            )
        done = {title: run.folder for title, run in compared.by_title.items()}
    else:
        if fresh and not follows():
            from ulc.training.run import start_fresh

            start_fresh(wanted, out)
        title = algorithm_title(wanted)
        with progress_bars(show=not quiet) as new_progress:
            done = {title: workers.train(wanted, out, new_progress(title, wanted))}
    print_results(done, as_json=as_json, quiet=quiet)


def refuse_beside_spec(context: typer.Context) -> None:
    """Raise an InputError if an option was given whose value the spec decides."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        given = source is not None and source.name == "COMMANDLINE"
        if given and parameter.name not in BESIDE_SPEC:
            option = parameter.opts[0] if parameter.opts[0].startswith("-") else "DATA"
            raise InputError(
                f"{option} and --spec exclude each other; write the value into the spec, or leave "
                "out --spec"
            )


def algorithm_title(spec: "RunSpec") -> str:
    """Title of a run: its algorithm and, if there is any, its noise."""
    return spec.algorithm if spec.noise.kind == "none" else f"{spec.algorithm}, {spec.noise.tag}"


@contextmanager
def progress_bars(*, show: bool) -> "Iterator[NewProgress]":
    """Context manager: a function from title and spec of a training to its progress callback.

    show: whether the callback draws a progress bar; False: it does nothing
    """
    from ulc.training.loop import TrainingProgress

    if not show or follows():
        yield lambda title, spec: TrainingProgress()  # noqa: ARG005
        return
    from ulc.cli.progress import ProgressBar, bars

    said: set[str] = set()
    with bars(console(error=True)) as progress:
        yield lambda title, spec: ProgressBar(progress, title, spec.epochs, said)


def print_results(done: "dict[str, RunFolder]", *, as_json: bool, quiet: bool) -> None:
    """Print the results of runs, by title: as a table with their folders, or as JSON."""
    from ulc.cli import tables

    if follows():
        return
    if as_json:
        content = [tables.as_json(title, folder) for title, folder in done.items()]
        print(json.dumps(content))
        return
    if quiet:
        return
    screen = console()
    screen.print(tables.result_table(done))
    first = next(iter(done.values()))
    summary = first.read_json("summary.json")
    epochs = summary["last_epochs"]
    what = f"Mean of the last {epochs} epoch{'s' * (epochs > 1)}"
    if "chosen" in summary:
        numbers = " and ".join(str(each + 1) for each in summary["chosen"]["epochs"])
        what = f"Networks after epoch {numbers}, chosen on the validation set"
    screen.print(
        f"{what}; groups by true label. The balanced "
        "prior divides by the class frequencies that the method itself estimates."
        + (" The ceiling is cross entropy on the true labels." if len(done) > 1 else "")
    )
    for title, folder in done.items():
        for line in (f"{title}: {folder.path}", *tables.remarks(folder)):
            screen.print(cell(line), soft_wrap=True, highlight=False)
    screen.print(
        "Each folder holds labels.csv (every label with its score), records.jsonl and the model."
    )
