"""What `ulc sweep --dry-run` prints: what is left, how long it may take, options by column."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulc.cli.screen import cell, say

if TYPE_CHECKING:
    from ulc.experiments.grid import Cell
    from ulc.experiments.paper.features import ListedOption


def print_plan(cells: "Sequence[Cell]", out: Path, jobs: int, device: str) -> None:
    """Print how many runs each row has, how many are left, and how long they may take."""
    from ulc.experiments.planning import plan_sweep, total_seconds
    from ulc.experiments.speed import in_words

    def tell(each: "Cell") -> None:
        say(f"measuring {cell(each.spec.algorithm)} …", error=True)

    planned = plan_sweep(cells, out, jobs=jobs, device=device, on_measure=tell)
    rows: dict[str, list[Any]] = {}
    for each in planned:
        rows.setdefault(each.cell.row, []).append(each)
    say("| | runs | finished | left | time of a run | by |\n|---|---|---|---|---|---|")
    for title, group in rows.items():
        left = [each for each in group if each.epochs_left]
        known = [each.seconds for each in left if each.seconds is not None]
        time = in_words(sum(known) / len(known)) if known else "–"
        by = ", ".join(sorted({each.by for each in left})) or "–"
        done = len(group) - len(left)
        say(f"| {cell(title)} | {len(group)} | {done} | {len(left)} | {time} | {by} |")
    seconds = total_seconds(planned, jobs)
    time = "unknown" if seconds is None else f"about {in_words(seconds)}"
    missing = sum(1 for each in planned if each.epochs_left)
    say(f"\n{len(planned)} runs, {missing} left; time with {jobs} at once on this machine: {time}.")
    reasons = dict.fromkeys(each.why_not for each in planned if each.why_not)
    for reason in reasons:
        say(f"cannot be trained: {cell(reason)}", error=True)
    if reasons:
        sys.exit(1)


def print_options(options: "Sequence[ListedOption]") -> None:
    """Print the options of each algorithm with their sources."""
    say(
        "Options of each algorithm, before those of a row, --tuned, --set and --epochs:\n\n"
        "| algorithm | option | value | source |\n|---|---|---|---|"
    )
    for each in options:
        values = "; ".join(
            f"{value} ({', '.join(columns)})" if columns else value
            for value, columns in each.columns.items()
        )
        row = (each.algorithm, each.name, values, each.source)
        say(f"| {' | '.join(map(cell, row))} |")
    say("")
