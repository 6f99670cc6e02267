"""`ulc sweep`: several algorithms over several seeds."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ulc.cli.options import Device, ImbalanceText, Network, NoiseText, Out, Quiet

if TYPE_CHECKING:
    from ulc.storage.run_folder import RunFolder


def sweep(
    data: Annotated[str, typer.Argument(help="As for `ulc train`.")] = "fashion",
    algorithms: Annotated[
        str,
        typer.Option(
            help="Names with commas; variants of ULC: ulc-without-csm, -eum, -aul, ulc-fixmatch, "
            "ulc-beta; all: every algorithm and ulc-fixmatch."
        ),
    ] = "ce,dividemix,ulc,ulc-without-csm,ulc-without-eum,ulc-without-aul",
    seeds: Annotated[str, typer.Option(help="Whole numbers with commas.")] = "0,1,2",
    noise: NoiseText = "symmetric:0.5",
    imbalance: ImbalanceText = "half:10",
    network: Network = "auto",
    epochs: Annotated[int | None, typer.Option(min=1, help="Default: the data set's own.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at once.")] = 2,
    out: Out = Path("runs"),
    device: Device = "auto",
    quiet: Quiet = False,
) -> None:
    """Run several algorithms over several seeds and print a table in Markdown."""
    from ulc.cli import parse
    from ulc.config import NetworkSpec, RunSpec
    from ulc.experiments.sweep import run_sweep
    from ulc.experiments.tables import markdown_table
    from ulc.settings.variants import PAPER, variant

    base = RunSpec(
        data=parse.data(data),
        imbalance=parse.imbalance(imbalance or "none"),
        noise=parse.noise(noise or "none"),
        network=NetworkSpec(name=network),
    )
    numbers = parse.whole_numbers(seeds, "--seeds")
    specs = {
        name: [
            variant(base.model_copy(update={"seed": seed}), name, epochs=epochs) for seed in numbers
        ]
        for name in (PAPER if algorithms == "all" else algorithms.split(","))
    }
    runs: dict[str, list[RunFolder]] = {name: [] for name in specs}
    for name, folder in run_sweep(specs, out, jobs=jobs, device=device):
        runs[name].append(folder)
        if not quiet:
            print(f"{name}: {folder.path}", file=sys.stderr)
    print(markdown_table(runs))
