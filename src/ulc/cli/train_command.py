"""`ulc train`: one training, or the demonstration."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ulc.cli.options import (
    Data,
    Device,
    Features,
    IdColumn,
    Image,
    ImbalanceText,
    Json,
    Label,
    Network,
    NoiseText,
    Out,
    Quiet,
    Setting,
    Size,
    SkipBroken,
    TrueLabel,
    Verified,
)

if TYPE_CHECKING:
    from ulc.config import RunSpec
    from ulc.storage.run_folder import RunFolder
    from ulc.training.loop import TrainingProgress


def train(
    data: Data = None,
    algorithm: Annotated[
        str,
        typer.Option("--algorithm", "-a", help="See `ulc algorithms`, or your own module:Class."),
    ] = "ulc",
    label: Label = None,
    image: Image = None,
    id_column: IdColumn = None,
    true_label: TrueLabel = None,
    verified: Verified = None,
    features: Features = None,
    size: Size = None,
    skip_broken: SkipBroken = False,
    noise: NoiseText = None,
    imbalance: ImbalanceText = None,
    network: Network = "auto",
    epochs: Annotated[int | None, typer.Option(min=1, help="Default: the data set's own.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    setting: Setting = None,
    spec: Annotated[
        Path | None, typer.Option(help="A spec in TOML instead of all the above.")
    ] = None,
    compare: Annotated[
        bool | None,
        typer.Option(
            "--compare/--no-compare",
            help="Train cross entropy on the given and on the true labels too. "
            "Default: only in the demonstration.",
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option(help="Train anew even if the run is there.")] = False,
    out: Out = Path("runs"),
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train, judge every label, and show what was gained.

    Without arguments: ULC on the embedded slice of Fashion-MNIST, half of the classes cut to a
    tenth and half of the labels wrong, beside cross entropy on the given labels and on the true
    ones. A run that was stopped goes on; a finished one is shown.
    """
    from ulc.algorithms import configure
    from ulc.cli import parse
    from ulc.config import NetworkSpec, RunSpec
    from ulc.settings.variants import variant

    if spec is not None:
        wanted = RunSpec.read(spec)
    else:
        demonstration = data is None
        wanted = variant(
            RunSpec(
                data=parse.data(
                    "fashion" if data is None else data,
                    label=label,
                    image=image,
                    id_column=id_column,
                    true_label=true_label,
                    verified=verified,
                    features=features,
                    size=size,
                    skip_broken=skip_broken,
                ),
                imbalance=parse.imbalance(imbalance or ("half:10" if demonstration else "none")),
                noise=parse.noise(noise or ("symmetric:0.5" if demonstration else "none")),
                network=NetworkSpec(name=network),
                seed=seed,
            ),
            algorithm,
            epochs=epochs,
            options=parse.settings(setting or []),
        )
    configure(wanted.algorithm, wanted.options)  # a mistake is told before anything is trained
    trainings = [(algorithm_title(wanted), wanted)]
    compares = compare or (compare is None and data is None and spec is None)
    if compares:
        trainings = with_comparison(wanted)
    if fresh:
        remove_earlier([each for _, each in trainings], out)
    beside = train_beside(trainings, out, device, show=not quiet) if compares else {}
    done = [
        (title, beside.get(title) or train_one(title, each, out, device, show=not quiet))
        for title, each in trainings
    ]
    print_results(done, as_json=as_json, quiet=quiet)


def algorithm_title(spec: "RunSpec") -> str:
    """The algorithm, and on what labels if they were made wrong on purpose."""
    return spec.algorithm if spec.noise.kind == "none" else f"{spec.algorithm}, {spec.noise.tag}"


def with_comparison(spec: "RunSpec") -> list[tuple[str, "RunSpec"]]:
    """The run between plain training on the given and on the true labels (the ceiling)."""
    from ulc.config import NoiseSpec
    from ulc.settings.presets import with_preset

    plain = spec.model_copy(update={"algorithm": "ce", "options": {}})
    plain = with_preset(plain, epochs=spec.epochs)  # as long as the run beside it
    ceiling = plain.model_copy(update={"noise": NoiseSpec()})
    return [
        ("cross entropy", plain),
        (spec.algorithm.upper() if spec.algorithm == "ulc" else spec.algorithm, spec),
        ("ceiling", ceiling),
    ]


def remove_earlier(specs: "list[RunSpec]", out: Path) -> None:
    """Forget what was trained before."""
    from ulc.training.run import start_fresh

    for each in specs:
        start_fresh(each, out)


def train_beside(
    trainings: list[tuple[str, "RunSpec"]], out: Path, device: str, *, show: bool
) -> "dict[str, RunFolder]":
    """The two plain trainings of a comparison at once, where there is a core for each.

    In small batches a second core would not make either faster.
    """
    import torch

    from ulc.training.device import choose_device

    if torch.get_num_threads() < 2 or choose_device(device).type != "cpu":
        return {}
    from ulc.experiments.side_by_side import run_side_by_side

    plain = [trainings[0], trainings[-1]]
    specs = [each for _, each in plain]
    with watching(plain, show=show) as progresses:
        folders = run_side_by_side(specs, out, progresses, device=device)
    return {title: folder for (title, _), folder in zip(plain, folders, strict=True)}


def train_one(title: str, spec: "RunSpec", out: Path, device: str, *, show: bool) -> "RunFolder":
    """Train one spec behind a progress bar."""
    from ulc.training.run import run

    with watching([(title, spec)], show=show) as (progress,):
        return run(spec, out, device=device, progress=progress)


@contextmanager
def watching(
    trainings: list[tuple[str, "RunSpec"]], *, show: bool
) -> "Iterator[list[TrainingProgress]]":
    """A progress bar for each training, or nobody who looks."""
    from ulc.training.loop import TrainingProgress

    if not show:
        yield [TrainingProgress() for _ in trainings]
        return
    from rich.console import Console

    from ulc.cli.progress import ProgressBar, bars

    with bars(Console(stderr=True)) as progress:
        yield [ProgressBar(progress, title, spec.epochs) for title, spec in trainings]


def print_results(done: list[tuple[str, "RunFolder"]], *, as_json: bool, quiet: bool) -> None:
    """The table, or JSON, and where everything is."""
    from ulc.cli import tables

    if as_json:
        content = [tables.as_json(title, folder) for title, folder in done]
        print(json.dumps(content))
        return
    if quiet:
        return
    from rich.console import Console

    console = Console()
    console.print(tables.result_table(done))
    epochs = done[0][1].read_json("summary.json")["last_epochs"]
    console.print(
        f"Mean of the last {epochs} epoch{'s' * (epochs > 1)}; groups by true label. The balanced "
        "prior divides by the class frequencies that the method itself estimates."
        + (" The ceiling is cross entropy on the true labels." if len(done) == 3 else "")
    )
    for title, folder in done:
        console.print(f"{title}: {folder.path}", soft_wrap=True, highlight=False)
    console.print("Each holds labels.csv (every label judged), records.jsonl and the model.")
