"""`ulc audit`: wrong labels in data of one's own."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ulc.cli.options import (
    Device,
    Features,
    IdColumn,
    Image,
    Json,
    Label,
    Network,
    Quiet,
    Setting,
    Size,
    SkipBroken,
    TrueLabel,
    Verified,
)
from ulc.errors import InputError

if TYPE_CHECKING:
    from ulc.auditing import AuditProgress, AuditSpec
    from ulc.storage.run_folder import RunFolder


def audit(
    data: Annotated[
        str,
        typer.Argument(
            help="A folder of class folders, FILE.csv, .tsv, .parquet or .npz, or a Hugging Face "
            "folder."
        ),
    ],
    label: Label = None,
    image: Image = None,
    id_column: IdColumn = None,
    true_label: TrueLabel = None,
    verified: Verified = None,
    features: Features = None,
    size: Size = None,
    skip_broken: SkipBroken = False,
    embed: Annotated[
        str,
        typer.Option(
            help="auto, none, or what images go through first: efficientnet-lite0, timm:NAME, …"
        ),
    ] = "auto",
    network: Network = "auto",
    epochs: Annotated[int | None, typer.Option(min=1, help="Default: by the data's size.")] = None,
    held_out: Annotated[
        float | None,
        typer.Option(help="Share of rows that only watch. Default: 0.1, of few rows 0.2."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    setting: Setting = None,
    fresh: Annotated[bool, typer.Option(help="Audit anew even if the audit is there.")] = False,
    out: Annotated[Path, typer.Option(help="Where audit folders go.")] = Path("audits"),
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the wrong labels in your data, with suggestions, and get a model that does no harm.

    Trains plainly and with ULC, both watched on rows that are held out, judges every label, and
    hands over the model that predicts the held-out labels better. What it decides by itself is
    printed, with the option that decides otherwise. An audit that was stopped goes on.
    """
    from ulc.auditing import audit_spec, start_fresh
    from ulc.cli import parse

    spec = audit_spec(
        parse.data(
            data,
            label=label,
            image=image,
            id_column=id_column,
            true_label=true_label,
            verified=verified,
            features=features,
            size=size,
            skip_broken=skip_broken,
        ),
        embed=embed,
        network=network,
        epochs=epochs,
        held_out=held_out,
        options=parse.settings(setting or []),
        seed=seed,
    )
    if fresh:
        start_fresh(spec, out)
    run_and_print(spec, out, device, as_json=as_json, quiet=quiet)


def resume_audit(path: Path, device: str, *, as_json: bool, quiet: bool) -> None:
    """Go on with an audit that was stopped."""
    from ulc.auditing import AuditSpec

    spec = AuditSpec.read(path / "audit.toml")
    if path.absolute().name != spec.folder_name:
        raise InputError(f"{path}: renamed; call it {spec.folder_name} again to resume it")
    run_and_print(spec, path.parent, device, as_json=as_json, quiet=quiet)


def run_and_print(spec: "AuditSpec", out: Path, device: str, *, as_json: bool, quiet: bool) -> None:
    """Audit, and say what was found."""
    from ulc.auditing import run_audit

    progress = None if quiet or as_json else printing_progress()
    folder = run_audit(spec, out, device=device, progress=progress)
    if as_json:
        print(json.dumps(as_content(folder)))
    elif quiet:
        print(folder.path)
    else:
        print_audit(folder, labels=10)


def as_content(folder: "RunFolder") -> dict[str, Any]:
    """For programs."""
    health = folder.read_json("health.json")
    content = folder.read_json("audit.json")
    return {"folder": str(folder.path), "issues": health["issues"], **content}


def print_audit(folder: "RunFolder", labels: int) -> None:
    """What was found, in a few lines, and what to do next."""
    from rich.console import Console

    from ulc.cli import tables

    console = Console()
    content, health = folder.read_json("audit.json"), folder.read_json("health.json")
    count, issues = health["labels"], health["issues"]
    if issues and labels:
        console.print(tables.suspects_table(folder, min(labels, issues)))
    data = content["data"]["path"] or content["data"]["source"]
    lines = [
        f"{count} labels of {data}: {issues} look wrong ({100 * issues / count:.1f} %), "
        f"{100 * content['noise_rate']:.1f} % are expected to be.",
        *scored(folder),
        f"Handed over: {content['why']}.",
        *(f"Warning: {warning}" for warning in warnings_of(content)),
        "",
        f"All labels, most suspicious first: {folder.path / 'labels.csv'}",
        f"Look through them:                 ulc report {folder.path}",
        f"Take over decisions:               ulc apply {folder.path} decisions.csv",
        f"Predict new data:                  ulc predict {folder.path} NEWDATA",
    ]
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def scored(folder: "RunFolder") -> list[str]:
    """How well the wrong labels were found, where the true ones are known."""
    scores = folder.read_json("summary.json").get("labels") or {}
    if scores.get("precision") is None or scores.get("recall") is None:
        return []
    precision, recall = 100 * scores["precision"], 100 * scores["recall"]
    return [
        f"By the true labels: {precision:.0f} % of those doubted are wrong, and {recall:.0f} % of "
        "the wrong ones are doubted."
    ]


def warnings_of(content: dict[str, Any]) -> list[str]:
    """How often a training looked like collapsing, and what became of it."""
    said = []
    for who, title in (("plain", "plain training"), ("ulc", "ULC")):
        signs = content[who]["warnings"]
        if signs:
            said.append(
                f"{title} looked like collapsing {len(signs)} times, last in {signs[-1]}; "
                f"the state of epoch {content[who]['kept_epoch']} was kept."
            )
    return said + [f"left out, cannot be read: {each}" for each in content.get("skipped", ())]


def printing_progress() -> "AuditProgress":
    """One line for each choice, a bar for each long step."""
    from rich.console import Console

    from ulc.auditing import AuditProgress, Choice
    from ulc.cli.progress import CountBar, ProgressBar, bars
    from ulc.training.loop import TrainingProgress

    console = Console(stderr=True)

    class Printing(AuditProgress):
        def on_choice(self, choice: Choice) -> None:
            console.print(
                f"{choice.name}: {choice.value} ({choice.why}; {choice.option})",
                soft_wrap=True,
                highlight=False,
                markup=False,
            )

        def reading(self) -> AbstractContextManager[CountBar]:
            return CountBar(console, "reading images")

        def embedding(self, backbone: str) -> AbstractContextManager[CountBar]:
            return CountBar(console, backbone)

        @contextmanager
        def training(self, title: str, epochs: int) -> Iterator[TrainingProgress]:
            with bars(console) as progress:
                yield ProgressBar(progress, title, epochs)

    return Printing()
