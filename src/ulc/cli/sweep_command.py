"""`ulc sweep`: several algorithms over several seeds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ulc.cli.options import Data, Device, Fresh, Out, Quiet, RunOptions, expand_options
from ulc.cli.screen import cell, say

if TYPE_CHECKING:
    from ulc.prediction.run import Run


@expand_options
def sweep(
    run_options: RunOptions,
    data: Data = None,
    algorithms: Annotated[
        str,
        typer.Option(
            help="Names separated by commas; variants: ulc-without-csm, -eum, -aul, ulc-fixmatch, "
            "ulc-beta, ulc-guarded, ulc_plus-without-crossing, -anchor, -weights, -balance, "
            "-mixup; all: every algorithm and ulc-fixmatch; your own: module:Class."
        ),
    ] = "ce,dividemix,ulc,ulc-without-csm,ulc-without-eum,ulc-without-aul,ulc_plus",
    seeds: Annotated[str, typer.Option(help="Whole numbers separated by commas.")] = "0,1,2",
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs at once.")] = 2,
    fresh: Fresh = False,
    out: Out = Path("runs"),
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Train several algorithms with several seeds and print a table in Markdown.

    Without data: on the demonstration of `ulc train`. Your own data stay as they are, unless you
    give --noise or --imbalance. Stopped runs are resumed; finished ones are only read.
    """
    from ulc.cli import parse, tables
    from ulc.experiments.sweep import sweep
    from ulc.settings.variants import EVERY

    def print_path(name: str, run: "Run") -> None:
        if not quiet:
            for line in (f"{name}: {run.path}", *tables.other_data_lines(run.folder)):
                say(cell(line), error=True)

    names = EVERY if algorithms == "all" else parse.names(algorithms, "--algorithms")
    result = sweep(
        run_options.run_spec(data),
        names or [],
        out,
        seeds=parse.whole_numbers(seeds, "--seeds"),
        jobs=jobs,
        device=device,
        on_run=print_path,
        fresh=fresh,
    )
    say(result.table)
    for note in result.notes:
        say(f"\n{note}")
