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
