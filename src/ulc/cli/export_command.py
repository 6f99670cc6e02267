"""`ulc export`: the model of a run for other programs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ulc.cli.options import Json, PriorText, Quiet, Trust
from ulc.cli.screen import cell, say
from ulc.errors import InputError

if TYPE_CHECKING:
    from ulc.storage.run_folder import RunFolder
    from ulc.training.model import Model


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    onnx: Annotated[
        Path | None,
        typer.Option(
            help="FILE.onnx: from raw inputs to class probabilities. Raw inputs of a run on "
            "embedded images are photographs of any size."
        ),
    ] = None,
    safetensors: Annotated[
        Path | None,
        typer.Option(help="FILE.safetensors: weights and, in the header, the model's spec."),
    ] = None,
    prior: PriorText = "training",
    trust: Trust = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the model of a run as ONNX, compared with PyTorch, or as one safetensors file."""
    from ulc.storage.run_folder import RunFolder
    from ulc.training.model import Model

    files = {"--onnx": onnx, "--safetensors": safetensors}
    check_files({option: path for option, path in files.items() if path is not None}, prior)
    folder = RunFolder.open(run)
    model = Model.load(folder, trust=trust)
    content: dict[str, Any] = {"run": str(run)}
    if onnx is not None:
        content |= write_onnx(folder, model, onnx, prior, trust=trust)
    if safetensors is not None:
        model.save_file(safetensors)
        content["safetensors"] = str(safetensors)
    if as_json:
        print(json.dumps(content))
    elif not quiet:
        if onnx is not None:
            say(
                f"{cell(onnx)}: takes {content['inputs']}, differs from PyTorch by at most "
                f"{content['difference']:.1g}"
            )
        if safetensors is not None:
            say(f"{cell(safetensors)}: weights, with the description of the model in the header")


def check_files(files: dict[str, Path], prior: str) -> None:
    """Raise an InputError, before the work starts, if a file could not be written."""
    from ulc.labels.prior import check_prior_name
    from ulc.storage.files import check_output_file

    if not files:
        raise InputError("nothing to write; give --onnx FILE.onnx or --safetensors FILE")
    if check_prior_name(prior) != "training" and "--onnx" not in files:
        raise InputError(
            "--prior is only for --onnx, whose graph has one prior; a safetensors file holds the "
            "weights, and the prior is chosen when they predict; drop --prior or give --onnx"
        )
    for option, path in files.items():
        check_output_file(option, path)


def write_onnx(
    folder: "RunFolder", model: "Model", path: Path, prior: str, *, trust: bool
) -> dict[str, Any]:
    """Write the ONNX graph; return facts about it."""
    from ulc.labels.prior import check_prior_name
    from ulc.prediction.export import check_onnx_packages, export_onnx
    from ulc.prediction.photo_graph import find_photo_input

    check_onnx_packages()
    metadata = {}
    if folder.has("encoding.json"):
        # It tells how a row of the table becomes an input of the graph.
        metadata["encoding"] = json.dumps(folder.read_json("encoding.json"))
    photos = find_photo_input(folder, trust=trust)
    made = export_onnx(model, prior=check_prior_name(prior), metadata=metadata, inputs=photos)
    made.write(path)
    return {
        "onnx": str(path),
        "inputs": describe_inputs(model) if photos is None else "photographs of any size",
        "prior": prior,
        "difference": made.difference,
    }


def describe_inputs(model: "Model") -> str:
    """The inputs of the model itself, in words."""
    preprocessing = model.spec.preprocessing
    if preprocessing.kind == "vector":
        return f"vectors of {preprocessing.shape[0]} numbers"
    channels, height, width = preprocessing.shape
    return f"images of {channels} x {height} x {width} bytes"
