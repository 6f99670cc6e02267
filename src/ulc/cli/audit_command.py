"""`ulc audit`: find wrong labels in a user's data."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ulc.cli.launcher_options import Address, AuditLauncher, Slurm, chosen_launcher
from ulc.cli.options import (
    Device,
    Encoding,
    Features,
    IdColumn,
    Image,
    Json,
    Label,
    Lazy,
    Network,
    Quiet,
    Review,
    Separator,
    Setting,
    Size,
    SkipBroken,
    Text,
    TextModel,
    TrueLabel,
    Verified,
)
from ulc.cli.screen import cell, console, say

if TYPE_CHECKING:
    from ulc.auditing import AuditProgress
    from ulc.labels.review import Review as ChosenReview
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
    text: Text = None,
    text_model: TextModel = None,
    id_column: IdColumn = None,
    sep: Separator = None,
    encoding: Encoding = None,
    true_label: TrueLabel = None,
    verified: Verified = None,
    features: Features = None,
    size: Size = None,
    skip_broken: SkipBroken = False,
    lazy: Lazy = None,
    embed: Annotated[
        str,
        typer.Option(
            help="auto, none, or the frozen network that embeds images: efficientnet-lite0, "
            "timm:NAME, …"
        ),
    ] = "auto",
    network: Network = "auto",
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Of ULC+; plain model: half. Default: by size.")
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            help="Share of rows held out from training. Default: 0.2 below 2,000 rows, else 0.1, "
            "at most 2,000 rows."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    setting: Setting = None,
    review: Review = None,
    fresh: Annotated[
        bool,
        typer.Option(
            help="Delete the audit of these settings and data, if there is one, and audit again."
        ),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for audit folders.")] = Path("audits"),
    device: Device = "auto",
    launcher: AuditLauncher = None,
    address: Address = None,
    slurm: Slurm = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find the wrong labels in your data, with suggestions, and get a model.

    Trains a plain model and ULC+, judges every label, and hands over the model of ULC+ unless the
    plain one is better on held-out rows. Prints each setting that it chooses, with the
    option that sets it. A stopped audit goes on.
    """
    from ulc.auditing import audit_spec, run_audit, start_fresh_audit
    from ulc.cli import parse

    where = chosen_launcher(launcher or "local", address, slurm or [])
    options = parse.settings(setting or [])
    network_spec = parse.network(network, options.pop("network", {}))
    spec = audit_spec(
        parse.data(
            data,
            label=label,
            image=image,
            text=text,
            text_model=text_model,
            id_column=id_column,
            sep=sep,
            encoding=encoding,
            true_label=true_label,
            verified=verified,
            features=features,
            size=size,
            skip_broken=skip_broken,
            lazy=lazy,
        ),
        embed=embed,
        network=network_spec,
        epochs=epochs,
        held_out=held_out,
        options=options,
        seed=seed,
    )
    if fresh:
        start_fresh_audit(spec, out)
    progress = None if quiet or as_json else printing_progress()
    folder = run_audit(spec, out, device=device, progress=progress, launcher=where or launcher)
    print_result(folder, as_json=as_json, quiet=quiet, review=review)


def resume_audit(path: Path, device: str, *, trust: bool, as_json: bool, quiet: bool) -> None:
    """Go on with a stopped audit, and print the result."""
    from ulc.auditing import AuditSpec, resume_audit
    from ulc.embedding.backbones import check_backbone_trust
    from ulc.importing import check_trust

    spec = AuditSpec.read(path / "audit.toml")
    check_trust(spec.network.name, "network", str(path / "audit.toml"), trust)
    check_backbone_trust(spec.embed, str(path / "audit.toml"), trust)
    check_trust(spec.data.text_model or "", "text model", str(path / "audit.toml"), trust)
    progress = None if quiet or as_json else printing_progress()
    folder = resume_audit(path, device=device, progress=progress)
    print_result(folder, as_json=as_json, quiet=quiet)


def print_result(
    folder: "RunFolder", *, as_json: bool, quiet: bool, review: int | None = None
) -> None:
    """Print the result of an audit that has just ended or was finished before.

    review: how many labels to list in review.csv; None: there is no such list
    """
    from ulc.cli import tables
    from ulc.labels.review import write_review

    chosen = None if review is None else write_review(folder, review)
    if as_json:
        content = describe_result(folder)
        if chosen is not None:
            content["review"] = tables.describe_review(folder, chosen)
        print(json.dumps(content))
    elif quiet:
        say(cell(folder.path))
    else:
        print_audit(folder, labels=10, review=chosen)


def describe_result(folder: "RunFolder") -> dict[str, Any]:
    """The result of an audit, for `--json`."""
    health = folder.read_json("health.json")
    content = folder.read_json("audit.json")
    found = {"issues": health["issues"], "score_kind": health["score_kind"]}
    return {"folder": str(folder.path), **found, **content}


def print_audit(folder: "RunFolder", labels: int, review: "ChosenReview | None" = None) -> None:
    """Print the result of an audit, and the next commands.

    labels: how many suspicious labels to list
    review: labels to list in their place; None: there is no such list
    """
    from ulc.cli import tables

    screen = console()
    content, health = folder.read_json("audit.json"), folder.read_json("health.json")
    count, issues = health["labels"], health["issues"]
    if review is not None:
        screen.print(tables.review_table(folder, review))
    elif issues and labels:
        screen.print(tables.suspects_table(folder, min(labels, issues)))
    data, trust = content["data"]["path"] or content["data"]["source"], trust_option(folder)
    lines = [
        f"{count} labels of {data}: {issues} look wrong ({100 * issues / count:.1f} %), "
        f"{describe_noise(content)} are expected to be.",
        *describe_scores(folder),
        f"Handed over: {content['why']}.",
        *(f"Warning: {warning}" for warning in describe_warnings(content)),
        *tables.remarks(folder),
        *([] if review is None else tables.review_lines(folder, review)),
        "",
        f"All labels, most suspicious first: {folder.path / 'labels.csv'}",
        f"Look through them:                 ulc report {folder.path}"
        + ("" if review is None else f" --review {len(review.rows)}"),
        f"Take over decisions:               ulc apply {folder.path} decisions.csv",
        f"Predict new data:                  ulc predict {folder.path} NEWDATA{trust}",
    ]
    if folder.has("unlabelled.csv"):
        lines.append(f"Rows without a label, predicted:   {folder.path / 'unlabelled.csv'}")
    for line in lines:
        screen.print(cell(line), soft_wrap=True, highlight=False)


def describe_noise(content: dict[str, Any]) -> str:
    """The expected share of wrong labels, with its interval."""
    low, high = content["noise_interval"]
    return f"{100 * content['noise_rate']:.1f} % ({100 * low:.0f} to {100 * high:.0f} %)"


def trust_option(folder: "RunFolder") -> str:
    """The option without which `ulc predict` refuses a model with code of the user's own."""
    from ulc.importing import named_code

    spec = folder.spec
    return " --trust" if named_code(spec.network.name, spec.data.text_model or "") else ""


def describe_scores(folder: "RunFolder") -> list[str]:
    """Precision and recall of the labels with score below 0.5, where true labels are known."""
    scores = folder.read_json("summary.json").get("labels") or {}
    if scores.get("precision") is None or scores.get("recall") is None:
        return []
    precision, recall = 100 * scores["precision"], 100 * scores["recall"]
    return [
        f"By the true labels: of the labels with score below 0.5, {precision:.0f} % are wrong; of "
        f"the wrong labels, {recall:.0f} % have such a score."
    ]


def describe_warnings(content: dict[str, Any]) -> list[str]:
    """Signs of collapse in each training, and images that could not be read."""
    found = []
    for who, title in (("plain", "plain training"), ("ulc_plus", "ULC+")):
        signs = content[who]["warnings"]
        if signs:
            times = "once, in" if len(signs) == 1 else f"{len(signs)} times, last in"
            found.append(
                f"{title} showed signs of collapse {times} {signs[-1]}; "
                f"the model of epoch {content[who]['kept_epoch']} was kept."
            )
    return found + [
        f"an image cannot be read and was left out: {each}" for each in content.get("skipped", ())
    ]


def printing_progress() -> "AuditProgress":
    """Progress callbacks that print a line for each choice and a bar for each long step."""
    from rich.progress import Progress

    from ulc.auditing import AuditProgress, Choice
    from ulc.cli.progress import CountBar, ProgressBar, bars
    from ulc.training.loop import TrainingProgress

    screen = console(error=True)

    class PrintingProgress(AuditProgress):
        display: Progress | None = None

        def on_note(self, note: str) -> None:
            screen.print(cell(note), soft_wrap=True, highlight=False)

        def on_choice(self, choice: Choice) -> None:
            self.on_note(f"{choice.name}: {choice.value} ({choice.why}; {choice.option})")

        def reading(self) -> AbstractContextManager[CountBar]:
            return CountBar(screen, "reading images")

        def embedding(self, backbone: str) -> AbstractContextManager[CountBar]:
            return CountBar(screen, backbone)

        @contextmanager
        def training(self, title: str, epochs: int) -> Iterator[TrainingProgress]:
            if self.display is not None:  # of another training at the same time
                yield ProgressBar(self.display, title, epochs, set())
                return
            with bars(screen) as self.display:
                try:
                    yield ProgressBar(self.display, title, epochs, set())
                finally:
                    self.display = None

    return PrintingProgress()
