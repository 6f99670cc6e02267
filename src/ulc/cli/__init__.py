"""The `ulc` command: parse, call, print. Heavy modules are imported only where they are used."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ulc.cli.apply_command import apply
from ulc.cli.audit_command import audit, print_audit, resume_audit
from ulc.cli.export_command import export
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
)  # fmt: skip
from ulc.cli.predict_command import predict
from ulc.cli.report_command import report
from ulc.errors import InputError

if TYPE_CHECKING:
    from ulc.config import RunSpec
    from ulc.data.sources.source import Source
    from ulc.embedding.embed import Embedded, Embedder
    from ulc.run_folder import RunFolder

STOPPED = 130  # exit code
DEMONSTRATION_EPOCHS = 30  # three trainings in under two minutes on two cores
app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Learn from wrong labels on uneven classes, and find them.",
)


@app.command()
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
    ones, 30 epochs each. A run that was stopped goes on; a finished one is shown.
    """
    from ulc.cli import parse
    from ulc.config import NetworkSpec, RunSpec
    from ulc.experiments.variants import variant

    if spec is not None:
        wanted = RunSpec.read(spec)
    else:
        demonstration = data is None
        options = {
            "label": label,
            "image": image,
            "id": id_column,
            "true": true_label,
            "verified": verified,
            "features": parse.names(features, "--features"),
            "size": size,
            "skip_broken": skip_broken,
        }
        wanted = variant(
            RunSpec(
                data=parse.data("fashion" if data is None else data, options),
                imbalance=parse.imbalance(imbalance or ("half:10" if demonstration else "none")),
                noise=parse.noise(noise or ("symmetric:0.5" if demonstration else "none")),
                network=NetworkSpec(name=network),
                seed=seed,
            ),
            algorithm,
            epochs=epochs or (DEMONSTRATION_EPOCHS if demonstration else None),
            options=parse.settings(setting or []),
        )
    trainings = [(algorithm_title(wanted), wanted)]
    if compare or (compare is None and data is None and spec is None):
        trainings = with_comparison(wanted)
    done = [
        (title, train_one(title, each, out, device, show=not quiet, fresh=fresh))
        for title, each in trainings
    ]
    print_results(done, as_json=as_json, quiet=quiet)


def algorithm_title(spec: "RunSpec") -> str:
    """The algorithm, and on what labels if they were made wrong on purpose."""
    return spec.algorithm if spec.noise.kind == "none" else f"{spec.algorithm}, {spec.noise.tag}"


def with_comparison(spec: "RunSpec") -> list[tuple[str, "RunSpec"]]:
    """The run between plain training on the given and on the true labels (the ceiling)."""
    from ulc.config import NoiseSpec
    from ulc.experiments.presets import with_preset

    plain = spec.model_copy(update={"algorithm": "ce", "options": {}})
    plain = with_preset(plain, epochs=spec.epochs)  # as long as the run beside it
    ceiling = plain.model_copy(update={"noise": NoiseSpec()})
    return [
        ("cross entropy", plain),
        (spec.algorithm.upper() if spec.algorithm == "ulc" else spec.algorithm, spec),
        ("ceiling", ceiling),
    ]


def train_one(
    title: str, spec: "RunSpec", out: Path, device: str, *, show: bool, fresh: bool = False
) -> "RunFolder":
    """Train one spec behind a progress bar."""
    from ulc.training.run import run, start_fresh

    if fresh:
        start_fresh(spec, out)
    if not show:
        return run(spec, out, device=device)
    from rich.console import Console

    from ulc.cli.progress import ProgressBar

    with ProgressBar(Console(stderr=True), title, spec.epochs) as bar:
        return run(spec, out, device=device, watcher=bar)


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


@app.command()
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
    from ulc.experiments.variants import EVERY, variant

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
        for name in (EVERY if algorithms == "all" else algorithms.split(","))
    }
    runs: dict[str, list[RunFolder]] = {name: [] for name in specs}
    for name, folder in run_sweep(specs, out, jobs=jobs, device=device):
        runs[name].append(folder)
        if not quiet:
            print(f"{name}: {folder.path}", file=sys.stderr)
    print(markdown_table(runs))


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a run or an audit that was stopped, to the same bits."""
    from ulc.run_folder import RunFolder

    if (run / "audit.toml").is_file():
        resume_audit(run, device, as_json=as_json, quiet=quiet)
        return
    spec = RunFolder.open(run).spec
    title = algorithm_title(spec)
    if run.absolute().name != spec.folder_name:
        raise InputError(f"{run}: renamed; call it {spec.folder_name} again to resume it")
    folder = train_one(title, spec, run.absolute().parent, device, show=not quiet)
    print_results([(title, folder)], as_json=as_json, quiet=quiet)


@app.command()
def show(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    labels: Annotated[int, typer.Option(min=0, help="How many suspicious labels to list.")] = 10,
    as_json: Json = False,
) -> None:
    """Show what a run found."""
    from rich.console import Console

    from ulc.cli import tables
    from ulc.run_folder import RunFolder

    folder = RunFolder.open(run)
    title = algorithm_title(folder.spec)
    if as_json:
        print(json.dumps([tables.as_json(title, folder) | {"health": tables.health(folder)}]))
        return
    audited = folder.has("audit.json")
    if not audited:
        print_results([(title, folder)], as_json=False, quiet=False)
    console = Console()
    for each in tables.health_tables(folder):
        console.print(each)
    if audited:
        print_audit(folder, labels)
    elif labels:
        console.print(tables.suspects_table(folder, labels))


@app.command()
def algorithms(
    name: Annotated[str | None, typer.Argument(help="Show the options of this one.")] = None,
    as_json: Json = False,
) -> None:
    """List the algorithms, or the options of one."""
    from ulc.algorithms import find_algorithm, known_algorithms

    if name is None:
        rows = {key: about(each) for key, each in known_algorithms().items()}
        print_pairs(rows, "algorithm", "what it does", as_json=as_json)
        return
    config = find_algorithm(name).config_class()
    fields = type(config).model_fields
    rows = {
        key: f"{value}  {fields[key].description or ''}".rstrip()
        for key, value in config.model_dump(mode="json").items()
    }
    print_pairs(rows, "option", "default, meaning", as_json=as_json)


def about(algorithm: type) -> str:
    """The first line of its docstring."""
    return next(iter((algorithm.__doc__ or "").strip().splitlines()), "")


@app.command()
def datasets(as_json: Json = False) -> None:
    """List the kinds of data that can be read."""
    from ulc.data.sources import SOURCES

    rows = {
        key: each.about + (f"; path: {each.path}" if each.path else "")
        for key, each in SOURCES.items()
    }
    print_pairs(rows, "source", "what it is", as_json=as_json)


def print_pairs(rows: dict[str, str], left: str, right: str, *, as_json: bool) -> None:
    """Two columns, or a JSON object."""
    if as_json:
        print(json.dumps(rows))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(left, right)
    for key, value in rows.items():
        table.add_row(key, value)
    Console().print(table)


@app.command()
def noise(
    out: Annotated[Path, typer.Argument(help="LABELS.json (DivideMix), .pt (CIFAR-N) or .npz.")],
    data: Annotated[str, typer.Option(help="As for `ulc train`.")] = "fashion",
    noise: NoiseText = "symmetric:0.5",
    imbalance: ImbalanceText = "none",
    seed: Annotated[int, typer.Option(min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Write a noisy label file, and say how the labels moved."""
    from ulc.cli import parse
    from ulc.config import RunSpec
    from ulc.data.label_files import write_labels
    from ulc.data.noise import realised_transition
    from ulc.data.prepare import label

    wanted = parse.noise(noise or "none")
    uneven = parse.imbalance(imbalance or "none")
    labelled = label(RunSpec(data=parse.data(data), noise=wanted, imbalance=uneven, seed=seed))
    true = labelled.given if labelled.true is None else labelled.true
    write_labels(out, labelled.given, true)
    classes = len(labelled.source.class_names)
    content: dict[str, Any] = {
        "file": str(out),
        "labels": len(true),
        "wrong_share": float((true != labelled.given).mean()),
        "transition": realised_transition(true, labelled.given, classes).tolist(),
    }
    if as_json:
        print(json.dumps(content))
    else:
        share = 100 * content["wrong_share"]
        print(f"{out}: {len(true)} labels, {share:.2f} % of them wrong (seed {seed})")


@app.command()
def embed(
    data: Annotated[str, typer.Argument(help="Images, as for `ulc train`.")],
    out: Annotated[Path, typer.Option(help="FEATURES.npz, for `ulc train FEATURES.npz`.")],
    backbone: Annotated[
        str,
        typer.Option(
            help="efficientnet-lite0, timm:NAME, torchvision:NAME or your module:function."
        ),
    ] = "efficientnet-lite0",
    size: Annotated[
        int | None, typer.Option(min=1, help="Pixels a side. Default: the backbone's own.")
    ] = None,
    pca: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Principal components to keep; 0: all features as they are. Default: 256 where "
            "there are more features and enough images.",
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Small is fast on a CPU, large on a GPU.")
    ] = 32,
    cache: Annotated[
        Path | None,
        typer.Option(
            help="Where finished work is kept. Default: a folder `embedded` beside --out."
        ),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Turn images into the features of a frozen network, to train on them in seconds an epoch.

    A command that was stopped goes on where it was, and images seen before are not computed again.
    """
    from ulc.cli import parse
    from ulc.data.sources import load_source
    from ulc.embedding.backbones import load_backbone
    from ulc.embedding.embed import Embedder, check_images
    from ulc.training.run import chosen_device

    spec = parse.data(data)
    parse.check_features_file(out, spec)
    source = load_source(spec)
    check_images(source)
    embedder = Embedder(
        load_backbone(backbone, size=size),
        cache or out.parent / "embedded",
        chosen_device(device),
        batch_size,
    )
    done = embed_images(source, embedder, pca, show=not quiet)
    done.write(out)
    content = {
        "file": str(out),
        "backbone": backbone,
        "size": embedder.backbone.recipe.size,
        "images": len(done.arrays["X"]),
        "test_images": len(done.arrays.get("X_test", ())),
        "pooled": embedder.backbone.width,
        "features": done.arrays["X"].shape[1],
        "explained": done.projection.explained,
        "cache": str(embedder.cache.folder),
    }
    if as_json:
        print(json.dumps(content))
    elif not quiet:
        print(
            f"{out}: {content['images']} + {content['test_images']} images as "
            f"{content['features']} features each ({100 * done.projection.explained:.1f} % of the "
            f"variance of {backbone}'s {content['pooled']})"
        )


def embed_images(
    source: "Source", embedder: "Embedder", pca: int | None, *, show: bool
) -> "Embedded":
    """Embed behind a progress bar."""
    from ulc.embedding.embed import embed

    if not show:
        return embed(source, embedder, pca=pca)
    from rich.console import Console

    from ulc.cli.progress import CountBar

    with CountBar(Console(stderr=True), embedder.backbone.name) as bar:
        return embed(source, embedder, pca=pca, seen=bar)


app.command()(audit)
app.command()(apply)
app.command()(predict)
app.command()(export)
app.command()(report)


def main() -> NoReturn:
    """Run the command; a user's mistake ends in one sentence and exit code 2."""
    # Last, so that a user's own network or algorithm is found and nothing of ours is shadowed.
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        app()
    except InputError as error:
        print(f"ulc: {error}", file=sys.stderr)
        sys.exit(2)
    except SystemExit as ended:
        if ended.code == STOPPED:  # what typer makes of Ctrl-C, without a word
            print("ulc: stopped; the same command or `ulc resume RUN` goes on", file=sys.stderr)
        raise
    sys.exit(0)
