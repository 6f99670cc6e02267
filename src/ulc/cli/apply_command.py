"""`ulc apply`: a copy of the data with the labels that were decided."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ulc.cli.options import Json, Quiet
from ulc.cli.screen import cell, say

if TYPE_CHECKING:
    from ulc.applying.apply import Applied


def apply(
    run: Annotated[Path, typer.Argument(help="The folder of a run or of an audit.")],
    decisions: Annotated[
        Path | None,
        typer.Argument(
            help="FILE.csv with columns id, decision (accept, reject, relabel, unsure, delete), "
            "label."
        ),
    ] = None,
    accept_all: Annotated[
        bool,
        typer.Option("--accept-all", help="Accept every suggestion that has no decision."),
    ] = False,
    below: Annotated[
        float | None, typer.Option(help="With --accept-all: only labels with a lower label_score.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Default: NAME.corrected.csv (.npz, …) in this folder.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the file that the run learned from.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a copy of your data with the labels that you decided, ready for the next audit."""
    from ulc.applying.apply import Accepting, apply
    from ulc.errors import InputError
    from ulc.storage.run_folder import RunFolder

    if below is not None and not accept_all:
        raise InputError(f"--below {below} says which issues to accept; add --accept-all")
    accepting = Accepting(below) if accept_all else None
    done = apply(RunFolder.open(run), decisions, out, accepting=accepting, force=force)
    if as_json:
        print(json.dumps(done.as_json()))
    elif not quiet:
        for line in sentences(done):
            say(cell(line))


def sentences(done: "Applied") -> list[str]:
    """The lines that are printed: the changes, and the next command."""
    others = f", {done.unsure} unsure" if done.unsure else ""
    others += f", {done.deleted} rows deleted" if done.deleted else ""
    others += f", {done.accepted_unseen} more accepted unseen" if done.accepted_unseen else ""
    lines = [
        f"{done.out}: {done.changed} of {done.rows} labels changed ({done.accepted} accepted, "
        f"{done.rejected} rejected, {done.relabelled} relabelled{others}); {done.verified} verified"
    ]
    if done.new_classes:
        names = ", ".join(f"'{name}'" for name in done.new_classes)
        lines.append(f"New classes, which the run did not know: {names}. Mind the spelling.")
    if done.note:
        lines.append(done.note)
    if done.next_command:
        lines.append(f"Next: {done.next_command}")
    return lines
