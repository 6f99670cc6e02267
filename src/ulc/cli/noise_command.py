"""`ulc noise`: a file of labels with injected noise."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ulc.cli.options import ImbalanceText, Json, NoiseText
from ulc.cli.screen import cell, say


def noise(
    out: Annotated[Path, typer.Argument(help="LABELS.json (DivideMix), .pt (CIFAR-N) or .npz.")],
    data: Annotated[str, typer.Option(help="As for `ulc train`.")] = "fashion",
    noise: NoiseText = "symmetric:0.5",
    imbalance: ImbalanceText = "none",
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    as_json: Json = False,
) -> None:
    """Write a file of labels with injected noise, and print the share of wrong labels."""
    from ulc.cli import parse
    from ulc.config import RunSpec
    from ulc.data.label_files import write_label_file
    from ulc.data.noise import realised_transition
    from ulc.data.prepare import label

    wanted = parse.noise(noise or "none")
    uneven = parse.imbalance(imbalance or "none")
    labelled = label(RunSpec(data=parse.data(data), noise=wanted, imbalance=uneven, seed=seed))
    true = labelled.given if labelled.true is None else labelled.true
    write_label_file(out, labelled.given, true)
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
        say(f"{cell(out)}: {len(true)} labels, {share:.2f} % of them wrong (seed {seed})")
