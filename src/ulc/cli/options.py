"""Options that several commands share."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from ulc.config import DataSpec, RunSpec

Out = Annotated[Path, typer.Option(help="Folder for the run folders.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress and no tables.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Devices = Annotated[
    int,
    typer.Option(
        min=1, help="Number of processes that train together, each on its own GPU or on the CPU."
    ),
]
DeviceList = Annotated[
    str, typer.Option(help="auto, cpu, cuda, cuda:N or mps; several for --jobs: cuda:0,cuda:1.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Train anew even if the run is finished.")]
Data = Annotated[
    str | None,
    typer.Argument(
        help="A folder of class folders, FILE.csv, .tsv, .parquet or .npz, a Hugging Face folder, "
        "cifar10:DIR, cifar100:DIR, clothing1m:DIR or fashion. Default: a demonstration."
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Import the module:Class that the run folder or the spec names; this runs its code.",
    ),
]
Review = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="List the labels with the lowest scores, this many, whether they look wrong or not, "
        "with the number of errors to expect among them. Trains nothing.",
    ),
]
NoiseText = Annotated[
    str | None,
    typer.Option(
        "--noise",
        help="Inject wrong labels: none, symmetric:0.5, asymmetric:0.4, file:LABELS.json, …",
    ),
]
ImbalanceText = Annotated[
    str | None,
    typer.Option("--imbalance", help="Make classes unequal: none, half:10 or long_tail:100."),
]
Network = Annotated[
    str,
    typer.Option(
        help="auto, preact_resnet18, narrow_resnet, resnet50, small_cnn, mlp or your module:Class."
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(help="Weights of resnet50 at the start: imagenet or FILE. Default: random."),
]
PriorText = Annotated[
    str,
    typer.Option("--prior", help="Class frequencies to assume: training (as learned) or balanced."),
]
Label = Annotated[str | None, typer.Option(help="Column of the labels.")]
Image = Annotated[str | None, typer.Option(help="Column of image paths.")]
Text = Annotated[str | None, typer.Option(help="Column of sentences to learn from.")]
TextModel = Annotated[
    str | None,
    typer.Option(
        help="How sentences become vectors: tfidf, model2vec:NAME or sentence-transformers:NAME. "
        "Default: tfidf, which needs no weights."
    ),
]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column of the rows' names.")]
Separator = Annotated[
    str | None,
    typer.Option(
        "--sep",
        help="What separates the columns of a CSV file: one character, or tab. "
        "Default: found in the file.",
    ),
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a CSV file, such as cp1252. Default: found in it.")
]
TrueLabel = Annotated[str | None, typer.Option(help="Column of true labels, only for evaluation.")]
Verified = Annotated[
    str | None, typer.Option(help="Column that marks the labels which a person has checked.")
]
Features = Annotated[
    str | None,
    typer.Option(help="Columns to learn from, separated by commas. Default: all others."),
]
Size = Annotated[
    int | None, typer.Option(min=8, help="Height and width of the images in pixels. Default: 64.")
]
SkipBroken = Annotated[
    bool, typer.Option("--skip-broken", help="Leave out images that cannot be read.")
]
Test = Annotated[
    str | None,
    typer.Option(
        "--test", help="Second folder or table, with right labels and the same columns: test set."
    ),
]
Lazy = Annotated[
    bool | None,
    typer.Option(
        "--lazy/--in-memory",
        help="Read images when they are needed, or all before training. Default: by their memory.",
    ),
]
Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="An option: key=value, such as sgd.lr=0.05; network.KEY=VALUE for the network. In "
        "a sweep, the methods that have the option get it.",
    ),
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Default: the preset of the data set.")]


@dataclass(frozen=True)
class DataOptions:
    """Options for reading the data."""

    label: Label = None
    image: Image = None
    text: Text = None
    text_model: TextModel = None
    id_column: IdColumn = None
    sep: Separator = None
    encoding: Encoding = None
    true_label: TrueLabel = None
    verified: Verified = None
    features: Features = None
    size: Size = None
    skip_broken: SkipBroken = False
    lazy: Lazy = None
    test: Test = None

    def data_spec(self, name: str) -> "DataSpec":
        """The spec of the data that the user gives by this name."""
        from ulc.cli import parse

        options = {field.name: getattr(self, field.name) for field in fields(DataOptions)}
        return parse.data(name, **options)


@dataclass(frozen=True)
class RunOptions(DataOptions):
    """Options of a training: data, noise, network, epochs, settings."""

    noise: NoiseText = None
    imbalance: ImbalanceText = None
    network: Network = "auto"
    weights: Weights = None
    epochs: Epochs = None
    setting: Setting = None

    def run_spec(self, data: str | None) -> "RunSpec":
        """The spec without algorithm and preset.

        Without data it is the demonstration, with wrong labels and unequal classes unless options
        say otherwise. The user's own data get neither, unless options ask for them.
        """
        from ulc.cli import parse
        from ulc.config import RunSpec

        demonstration = data is None
        settings = parse.settings(self.setting or [])
        network = parse.network(self.network, settings.pop("network", {}), self.weights)
        compute = parse.compute(settings.pop("compute", None))
        epochs = {} if self.epochs is None else {"epochs": self.epochs}
        return RunSpec(
            data=self.data_spec("fashion" if data is None else data),
            imbalance=parse.imbalance(self.imbalance or ("half:10" if demonstration else "none")),
            noise=parse.noise(self.noise or ("symmetric:0.5" if demonstration else "none")),
            network=network,
            compute=compute,
            options=settings,
            **epochs,
        )


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter that is a dataclass of options by its fields, for typer."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            inner = get_type_hints(groups[name], include_extras=True)
            parameters += [
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=field.default,
                    annotation=inner[field.name],
                )
                for field in fields(groups[name])
            ]
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hints[name], kind=kind))

    @functools.wraps(command)
    def call(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call
