"""`ulc sweep`: several algorithms over several seeds, or a table or figure of the paper."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ulc.cli.launcher_options import Address, LauncherName, Slurm
from ulc.cli.options import DeviceList, Fresh, Out, Quiet, RunOptions, expand_options
from ulc.cli.screen import cell, say
from ulc.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ulc.config import RunSpec
    from ulc.experiments.grid import Failure
    from ulc.experiments.paper.cells import PaperSweep
    from ulc.experiments.sweep import SweepResult

What = Annotated[
    str | None,
    typer.Argument(
        metavar="[DATA|TABLE]",
        help="Data as in `ulc train`, or a table or figure of the paper: table1 to "
        "table4, figure1 to figure4. Default: the demonstration.",
    ),
]
Scale = Annotated[
    str,
    typer.Option(
        help="Of a table or figure: paper (CIFAR images, PreAct ResNet-18, 300 epochs; for a "
        "GPU) or cpu (frozen features, minutes a run)."
    ),
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        help="Of a table or figure: cifar10=PATH, cifar100=PATH or clothing1m=PATH, once for each; "
        "only a path: the first data set of the table. Folders of the official files, with "
        "--scale cpu FILE.npz of features.",
    ),
]
Only = Annotated[
    str | None,
    typer.Option(
        help="Of a table or figure: only these cells, such as ulc,dividemix,cifar10,"
        "symmetric:0.5,half:10."
    ),
]
Also = Annotated[
    str | None, typer.Option(help="Of a table or figure: more rows, such as ulc_plus.")
]
PAPER_ONLY = {"scale", "files", "only", "also", "tuned"}  # parameters of a table or figure
OWN_ONLY = {"algorithms"}  # and of one's own data, beside the options of a training
WITH_PAPER = {
    "network",
    "weights",
    "epochs",
    "setting",
}  # options of a training that a table takes, too


@expand_options
def sweep(
    context: typer.Context,
    run_options: RunOptions,
    what: What = None,
    algorithms: Annotated[
        str,
        typer.Option(
            help="Names separated by commas; variants: ulc-without-csm, -eum, -aul, ulc-fixmatch, "
            "ulc-beta, ulc-guarded, ulc_plus-without-crossing, -anchor, -row-noise, -weights, "
            "-balance, -mixup; all: every algorithm and ulc-fixmatch; your own: module:Class."
        ),
    ] = "ce,dividemix,ulc,ulc-without-csm,ulc-without-eum,ulc-without-aul,ulc_plus",
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Whole numbers separated by commas. With a table or figure of the paper one "
            "number says how many: 3 is 0,1,2. Default: 0,1,2; of table3 five, as in the paper."
        ),
    ] = None,
    scale: Scale = "paper",
    files: Files = None,
    only: Only = None,
    also: Also = None,
    tuned: Annotated[
        Path | None,
        typer.Option(help="Of a table or figure: FILE.toml with λ_u, as `ulc tune --save` has it."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Train nothing; list what is left and how long it may take, and of a table or "
            "figure all options with their sources.",
        ),
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs at once.")] = 2,
    launcher: LauncherName = "local",
    address: Address = None,
    slurm: Slurm = None,
    fresh: Fresh = False,
    out: Out = Path("runs"),
    device: DeviceList = "auto",
    quiet: Quiet = False,
) -> None:
    """Train several algorithms with several seeds, or a table of the paper; print a table.

    Without data: on the demonstration of `ulc train`. Your own data stay as they are, unless you
    give --noise or --imbalance. Stopped runs are resumed; finished ones are only read. A run that
    fails does not stop the others: it is listed at the end, and the exit code is 1.
    """
    from ulc.cli.launcher_options import chosen_launcher
    from ulc.cli.sweep_plan import print_options, print_plan
    from ulc.cli.sweep_progress import sweep_bar
    from ulc.experiments.grid import SweepProgress
    from ulc.experiments.paper.cells import PaperSweep
    from ulc.experiments.sweep import list_cells, option_notes
    from ulc.experiments.sweep import sweep as run_sweep

    work: RunSpec | PaperSweep
    names: Sequence[str] | None = None
    check_options(context, what)
    where = chosen_launcher(launcher, address, slurm or [])
    if is_paper(what):
        work = paper_work(str(what), run_options, scale, files, only, also, tuned)
        numbers = count_seeds(seeds or str(work.grid.seeds))
    else:
        work, names, numbers = own_work(what, run_options, algorithms, seeds or "0,1,2")
    if dry_run:
        cells = list_cells(work, names, numbers)
        for note in [*left_out(work), *option_notes(work, names)]:
            say(note + "\n")
        if isinstance(work, PaperSweep):
            print_options(work.list_options())
        print_plan(cells, out, jobs, device)
        return
    with sweep_bar(jobs) as bar:
        progress = SweepProgress() if quiet else bar
        result = run_sweep(
            work, names, out, seeds=numbers, jobs=jobs, device=device, progress=progress,
            fresh=fresh, launcher=where or "local",
        )  # fmt: skip
    if quiet:
        say(cell(out))
    else:
        print_tables(result, out)
    list_failures(result.failures)


def is_paper(what: str | None) -> bool:
    """Whether the argument names a table or figure of the paper."""
    from ulc.experiments.paper.grids import NAMES

    return what in NAMES


def own_work(
    data: str | None, run_options: RunOptions, algorithms: str, seeds: str
) -> "tuple[RunSpec, Sequence[str], list[int]]":
    """Spec, algorithms and seeds of a sweep over the user's own data or the demonstration."""
    from ulc.cli import parse
    from ulc.settings.variants import EVERY

    names = EVERY if algorithms == "all" else parse.names(algorithms, "--algorithms")
    return run_options.run_spec(data), names or [], parse.whole_numbers(seeds, "--seeds")


def paper_work(
    name: str,
    run_options: RunOptions,
    scale: str,
    files: list[str] | None,
    only: str | None,
    also: str | None,
    tuned: Path | None = None,
) -> "PaperSweep":
    """What to train of a table or figure of the paper; tuned: file of `ulc tune`."""
    from ulc.cli import parse
    from ulc.experiments.paper.cells import paper_sweep
    from ulc.experiments.paper.grids import paper_grid
    from ulc.experiments.tuning import read_weights

    settings = parse.settings(run_options.setting or [])
    if "network" in settings:
        raise InputError("--set network: a table of the paper takes only --network NAME")
    return paper_sweep(
        name,
        data_sets(files or [], paper_grid(name).columns[0].data),
        scale=scale,
        only=parse.names(only, "--only") or [],
        also=parse.names(also, "--also") or [],
        network=None if run_options.network == "auto" else run_options.network,
        weights=run_options.weights,
        epochs=run_options.epochs,
        options=settings,
        tuned=None
        if tuned is None
        else read_weights(tuned, [column.title for column in paper_grid(name).columns]),
    )


def data_sets(texts: "Sequence[str]", first: str) -> dict[str, str]:
    """Paths by data set from `cifar10=PATH`, or from a path alone, which is the first data set."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        name, path = (name, path) if equals and "/" not in name else (first, text)
        if name in found:
            raise InputError(f"--data {text}: {name} is given twice; name cifar100=PATH for it")
        found[name] = path
    if not found:
        others = ", and cifar100=PATH for its columns" if first == "cifar10" else ""
        raise InputError(f"--data is missing; give {first}=PATH{others}")
    return found


def count_seeds(text: str) -> list[int]:
    """Seeds from `0,1,2`, or from their number alone."""
    from ulc.cli import parse

    numbers = parse.whole_numbers(text.removesuffix(","), "--seeds")
    return list(range(numbers[0])) if "," not in text else numbers


def check_options(context: typer.Context, what: str | None) -> None:
    """Raise an InputError for an option that does not go with what is trained.

    A table or figure of the paper has its own data, noise, imbalance and algorithms.
    """
    of_training = {field.name for field in fields(RunOptions)} | OWN_ONLY
    paper = is_paper(what)
    refused = of_training - WITH_PAPER if paper else PAPER_ONLY
    why = "sets it" if paper else "only for a table or figure of the paper, such as table2"
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        given = source is not None and source.name == "COMMANDLINE"
        if given and parameter.name in refused:
            reason = f"{what} of the paper {why}" if paper else why
            raise InputError(f"{parameter.opts[0]}: {reason}; leave it out")


def left_out(work: "RunSpec | PaperSweep | None") -> list[str]:
    """A note about data of a table or figure that were not given; else none."""
    missing = getattr(work, "left_out", ())
    return [f"Left out for want of --data: {', '.join(missing)}."] if missing else []


def print_tables(result: "SweepResult", out: Path) -> None:
    """Print the table and notes.

    out: folder of the run folders
    """
    say(result.table)
    paper = result.paper
    notes = [*result.notes, *left_out(paper)]
    if paper is not None and paper.grid.name.startswith("figure"):
        notes.append(f"Draw it: ulc figure {paper.grid.name[-1]} {cell(out)}")
    for note in notes:
        say(f"\n{note}")


def list_failures(failures: "Sequence[Failure]") -> None:
    """Print the trainings that failed, and exit with code 1 if there are any."""
    for failure in failures:
        say(f"failed: {cell(failure.cell.title)}: {cell(failure.reason)}", error=True)
    if failures:
        sys.exit(1)
