"""Accuracy and seconds of every epoch of cross entropy on clean CIFAR-10 images.

    python -m benchmarks clean_cifar10 --cifar DIR --network narrow_resnet --epochs 30

The training is an ordinary run folder: the same command goes on with a run that was stopped, and
only prints a run that is finished. `--set` gives options of cross entropy, of the network and of
how it computes, as in `ulc train`: sgd.lr=0.1, network.width=16, compute.precision=bfloat16. Other
options are those of the preset.
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch

from ulc.cli import parse
from ulc.config import DataSpec, RunSpec
from ulc.data.prepare import prepare
from ulc.data.sources import load_source
from ulc.data.sources.source import Source
from ulc.errors import InputError
from ulc.settings.presets import with_preset
from ulc.storage.run_folder import Records
from ulc.training.loop import TrainingProgress
from ulc.training.run import run


def main(argv: list[str]) -> None:
    options = parse_options(argv)
    try:
        report_run(options)
    except InputError as error:
        sys.exit(str(error))


def parse_options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    folder = os.environ.get("ULC_CIFAR10")
    add("--cifar", default=folder, required=folder is None, help="folder, or $ULC_CIFAR10")
    add("--network", default="narrow_resnet", help="as in `ulc train` (narrow_resnet)")
    add("--epochs", type=int, default=30, help="number of epochs (30)")
    add("--seed", type=int, default=0, help="seed of all random numbers (0)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="an option, as above")
    add("--runs", type=Path, default=Path("runs"), help="folder of the run folders (runs)")
    add("--images", type=int, help="learn from and test on the first images only, for a trial")
    add("--threads", type=int, help="threads of a new run; default: OMP_NUM_THREADS, or all cores")
    return parser.parse_args(argv)


def report_run(options: argparse.Namespace) -> None:
    """Train, or go on, and print each epoch and a summary."""
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    spec, runs, prepared = make_spec(options), options.runs, None
    if options.images is not None:
        # The spec does not tell how many images there are, so they have a folder of their own.
        runs = runs / f"first-{options.images}-images"
        prepared = prepare(spec, torch.device("cpu"), source=first_images(spec, options.images))
    printer = EpochPrinter()
    folder = run(spec, runs, device="cpu", progress=printer, prepared=prepared)
    for record in folder.records[printer.printed :]:  # of a run that was finished before
        print_epoch(record)
    print_summary(options.network, folder.records, folder.read_json("environment.json"))
    print(folder.path)


def make_spec(options: argparse.Namespace) -> RunSpec:
    """Make the spec of the run, with the preset of CIFAR-10 below the options."""
    settings = parse.settings(options.set)
    network = parse.network(options.network, settings.pop("network", {}))
    compute = parse.compute(settings.pop("compute", None))
    spec = RunSpec(
        data=DataSpec(source="cifar10", path=str(Path(options.cifar).absolute())),
        network=network,
        algorithm="ce",
        options=settings,
        epochs=options.epochs,
        seed=options.seed,
        compute=compute,
    )
    return with_preset(spec)


def first_images(spec: RunSpec, count: int) -> Source:
    """Read the data, and keep the first training images and the first test images."""
    whole = load_source(spec.data)
    return replace(
        whole,
        inputs=whole.inputs[:count],
        labels=whole.labels[:count],
        true=None if whole.true is None else whole.true[:count],
        test_inputs=whole.test_inputs[:count],
        test_labels=whole.test_labels[:count],
    )


class EpochPrinter(TrainingProgress):
    """Prints a line after each epoch; a resumed run starts with the epochs trained before.

    printed: number of lines so far
    """

    printed = 0

    def on_epoch(self, record: dict[str, Any]) -> None:
        print_epoch(record)
        self.printed += 1


def print_epoch(record: dict[str, Any]) -> None:
    """Print the accuracy on the test images, the training loss and the seconds of an epoch."""
    seconds, accuracy = record["seconds"], record["test"]["training"]["accuracy"]
    print(
        f"epoch {record['epoch'] + 1:>3}  accuracy {100 * accuracy:6.2f} %  "
        f"loss {record['train']['loss']:.4f}  "
        f"training {seconds['train']:.1f} s  scores {seconds['score']:.1f} s",
        flush=True,
    )


def print_summary(network: str, records: Records, environment: dict[str, Any]) -> None:
    """Print the last accuracy and the median seconds of an epoch."""
    accuracy = records[-1]["test"]["training"]["accuracy"]
    training = [record["seconds"]["train"] for record in records]
    whole = [record["seconds"]["train"] + record["seconds"]["score"] for record in records]
    print(
        f"{network}: accuracy {100 * accuracy:.2f} % after the last epoch; median seconds an epoch "
        f"{median(training):.1f}, with scores {median(whole):.1f}; minutes {sum(whole) / 60:.1f}; "
        f"epochs {len(records)}; threads {environment['threads']}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
