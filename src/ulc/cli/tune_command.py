"""`ulc tune`: choose λ_u on a noisy validation split."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ulc.cli.options import DeviceList, Out, Quiet, RunOptions, expand_options
from ulc.cli.screen import cell, say
from ulc.cli.sweep_command import (
    Also,
    Files,
    Only,
    Scale,
    What,
    check_options,
    is_paper,
    left_out,
    list_failures,
    own_work,
    paper_work,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ulc.config import RunSpec
    from ulc.experiments.paper.cells import PaperSweep
    from ulc.experiments.tuning import Tuned


@expand_options
def tune(
    context: typer.Context,
    run_options: RunOptions,
    what: What = None,
    algorithms: Annotated[str, typer.Option(help="ulc, dividemix or both.")] = "ulc",
    values: Annotated[
        str, typer.Option(help="Values of λ_u. Default: those of the paper.")
    ] = "0,25,50,150",
    scale: Scale = "paper",
    files: Files = None,
    only: Only = None,
    also: Also = None,
    save: Annotated[
        Path | None, typer.Option(help="FILE.toml for `ulc sweep TABLE --tuned FILE.toml`.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Train nothing; list what is left and how long it may take."
        ),
    ] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Number of runs at once.")] = 2,
    out: Out = Path("runs"),
    device: DeviceList = "auto",
    quiet: Quiet = False,
) -> None:
    """Choose λ_u (doubtful_weight) of ULC and DivideMix on a noisy validation split.

    A fifth of the training rows, with their given labels, takes the place of the test set; true
    labels and the test set are not read. The preset stays unless a value is better by more than a
    standard error. Of a table of the paper, λ_u is chosen for each column.
    """
    from ulc.cli.parse import real_numbers
    from ulc.cli.sweep_plan import print_plan
    from ulc.cli.sweep_progress import sweep_bar
    from ulc.experiments.grid import SweepProgress
    from ulc.experiments.tuning import FOLDER, list_trials, option_notes, tune, write_weights
    from ulc.storage.files import check_output_file, write_whole

    check_options(context, what)
    if save is not None:
        check_output_file("--save", save, endings=[".toml"])
    work: RunSpec | PaperSweep
    names: Sequence[str] | None = None
    if is_paper(what):
        work = paper_work(str(what), run_options, scale, files, only, also)
    else:
        work, names, _ = own_work(what, run_options, algorithms, "0")
    numbers = real_numbers(values, "--values")
    if dry_run:
        for note in [*left_out(work), *option_notes(work, names)]:
            say(note + "\n")
        trials = [cell for cell, _ in list_trials(work, names, numbers)]
        print_plan(trials, out / FOLDER, jobs, device)
        return
    with sweep_bar(jobs) as bar:
        progress = SweepProgress() if quiet else bar
        found, failures = tune(
            work, names, out, values=numbers, jobs=jobs, device=device, progress=progress
        )
    if quiet:
        say(cell(out))
    else:
        print_tuned(found)
        for note in option_notes(work, names):
            say(f"\n{note}")
    if save is not None:
        write_whole(save, write_weights(found).encode())
    list_failures(failures)


def print_tuned(found: "Sequence[Tuned]") -> None:
    """Print the agreement with given validation labels of each value, and what was chosen."""
    values = sorted({each.value for one in found for each in one.candidates})
    heads = ["", "", *(f"λ_u = {value:g}" for value in values), "preset", "chosen"]
    say("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for one in found:
        scores = {each.value: f"{100 * each.score:.2f}" for each in one.candidates}
        shown = [scores.get(value, "–") for value in values]
        ends = [f"{one.usual:g}", f"{one.chosen.value:g}"]
        say("| " + " | ".join([cell(one.column), one.algorithm, *shown, *ends]) + " |")
    say(
        "\nAgreement with the given labels of the validation rows in %, mean over classes. "
        "Use a value with --set doubtful_weight=VALUE."
    )
