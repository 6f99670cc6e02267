"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option(help="Where run folders go.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no tables.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Data = Annotated[
    str | None,
    typer.Argument(
        help="A folder of class folders, FILE.csv, .tsv, .parquet or .npz, a Hugging Face folder, "
        "cifar10:DIR, cifar100:DIR or fashion. Default: a demonstration."
    ),
]
NoiseText = Annotated[
    str | None,
    typer.Option("--noise", help="none, symmetric:0.5, asymmetric:0.4, file:LABELS.json, …"),
]
ImbalanceText = Annotated[
    str | None, typer.Option("--imbalance", help="none, half:10 or long_tail:100.")
]
Network = Annotated[
    str, typer.Option(help="auto, preact_resnet18, small_cnn, mlp or your module:Class.")
]
PriorText = Annotated[
    str,
    typer.Option("--prior", help="Class frequencies to assume: training (as learned) or balanced."),
]
Label = Annotated[str | None, typer.Option(help="Column of the labels.")]
Image = Annotated[str | None, typer.Option(help="Column of image paths.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column that names rows.")]
TrueLabel = Annotated[str | None, typer.Option(help="Column of true labels, for evaluation alone.")]
Verified = Annotated[
    str | None, typer.Option(help="Column that says which labels somebody checked.")
]
Features = Annotated[
    str | None, typer.Option(help="Columns to learn from, with commas. Default: all others.")
]
Size = Annotated[
    int | None, typer.Option(min=8, help="Pixels an image is brought to. Default: 64.")
]
SkipBroken = Annotated[
    bool, typer.Option("--skip-broken", help="Leave out images that cannot be read.")
]
Setting = Annotated[
    list[str] | None, typer.Option("--set", help="An option: key=value, such as sgd.lr=0.05.")
]
