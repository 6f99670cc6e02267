"""`ulc predict`: predictions of new data with the model of a run."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ulc.cli.options import (
    Device,
    Encoding,
    IdColumn,
    Image,
    Json,
    PriorText,
    Quiet,
    Separator,
    SkipBroken,
    Trust,
)
from ulc.cli.screen import cell, console, printable, say

if TYPE_CHECKING:
    from ulc.config import DataSpec
    from ulc.prediction.predictor import Predictions, Predictor


def predict(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    data: Annotated[
        str,
        typer.Argument(
            metavar="NEWDATA",
            help="Data of the same kind as those of the run: a folder of images, FILE.csv, .tsv, "
            ".parquet or .npz, or a Hugging Face folder, with or without labels.",
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="FILE.csv or .parquet. Default: CSV to the screen.")
    ] = None,
    prior: PriorText = "training",
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Write the probability of each class too.")
    ] = False,
    label: Annotated[str | None, typer.Option(help="Column of labels to score.")] = None,
    image: Image = None,
    id_column: IdColumn = None,
    sep: Separator = None,
    encoding: Encoding = None,
    skip_broken: SkipBroken = False,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder for computed features, as for `ulc embed`. Default: none."),
    ] = None,
    trust: Trust = False,
    device: Device = "auto",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict new data with uncertainties, and score the labels that the data have."""
    from ulc.data.sources.naming import data_spec
    from ulc.labels.prior import check_prior_name
    from ulc.prediction import table
    from ulc.prediction.predictor import Predictor
    from ulc.storage.run_folder import RunFolder
    from ulc.training.device import choose_device

    assumed = check_prior_name(prior)
    if out is not None:
        table.check_table_file(out, data)
    options = {
        "label": label,
        "image": image,
        "id": id_column,
        "sep": sep,
        "encoding": encoding,
        "skip_broken": skip_broken or None,
    }
    spec = data_spec(data, options)
    predictor = Predictor.open(RunFolder.open(run), choose_device(device), trust=trust)
    found = with_bars(predictor, spec, {"prior": assumed, "cache": cache}, show=not quiet)
    frame = table.prediction_frame(found, probabilities=probabilities)
    if out is not None:
        table.write_table(frame, out)
    about = {"run": str(run), "data": data, "out": str(out) if out else None}
    content = about | table.summarise_predictions(frame) | {"skipped": list(found.rows.skipped)}
    if as_json:
        rows = [] if out else json.loads(frame.to_json(orient="records"))
        print(json.dumps(content | ({} if out else {"rows_predicted": rows})))
        return
    if out is None:
        text = table.frame_as_csv(frame)
        # In a pipe or a file the names stay as they are; a terminal would obey them.
        print(printable(text) if sys.stdout.isatty() else text, end="")
    if not quiet:
        say(sentence(content), error=out is None)


def with_bars(
    predictor: "Predictor", spec: "DataSpec", options: dict[str, Any], *, show: bool
) -> "Predictions":
    """Read and predict with progress bars."""
    if not show:
        return predictor.predict(predictor.read(spec), **options)
    from ulc.cli.progress import CountBar

    screen = console(error=True)
    with CountBar(screen, "reading") as bar:
        rows = predictor.read(spec, bar)
    with CountBar(screen, "embedding") as bar:
        return predictor.predict(rows, on_progress=bar, **options)


def sentence(content: dict[str, Any]) -> str:
    """The result in one or two lines."""
    classes = ", ".join(f"{count} {cell(name)}" for name, count in content["predicted"].items())
    text = f"{cell(content['out'] or content['data'])}: {content['rows']} rows predicted: {classes}"
    if content["skipped"]:
        text += f"; {len(content['skipped'])} unreadable images left out"
    labels = content.get("labels")
    if labels is None:
        return text
    text += (
        f"\n{labels['issues']} of {labels['scored']} labels look wrong; "
        f"{100 * labels['agreement']:.1f} % are as predicted"
    )
    for what in ("missing", "unknown"):
        if labels[what]:
            text += f"; {labels[what]} {what}, not scored"
    return text
