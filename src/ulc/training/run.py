"""From a spec to a finished run folder."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ulc.algorithms import configure, find_algorithm
from ulc.algorithms.base import Algorithm
from ulc.config import RunSpec
from ulc.data.prepare import Prepared, prepare
from ulc.data.sources.source import Source
from ulc.errors import InputError, first_line
from ulc.labels.files import LabelFiles
from ulc.labels.judgement import Judgement
from ulc.labels.unseen import judge_unseen
from ulc.networks import network_maker
from ulc.storage.run_folder import RunFolder
from ulc.training.collapse import CollapseMonitor
from ulc.training.held_out import HeldOut
from ulc.training.loop import SAVE_EVERY, Training, TrainingProgress, summarise
from ulc.training.model import Model, ModelSpec

PACKAGES = ("ulc", "torch", "numpy", "scikit-learn", "safetensors", "pydantic")


def run(  # noqa: PLR0913 (a spec and how to go about it)
    spec: RunSpec,
    out: Path,
    *,
    device: str = "auto",
    progress: TrainingProgress | None = None,
    save_every: float = SAVE_EVERY,
    source: Source | None = None,
) -> RunFolder:
    """Train what `spec` says in its own folder under `out`; a finished run is not repeated.

    source: what `spec.data` names, if it is read already
    """
    spec = resolved(spec)
    finished = finished_run(spec, out)
    if finished is not None:
        return finished
    # All that can be wrong with the input is found before anything is written.
    on = chosen_device(device)
    progress = progress or TrainingProgress()
    prepared = prepare(spec, on, progress.on_read, source)
    algorithm = build(spec, prepared, on)
    folder = RunFolder.create(out / spec.folder_name, spec)
    with folder.locked(), threads(as_before(folder)):
        folder.write_json("environment.json", environment(on))
        write_data(folder, prepared)
        training = Training(
            algorithm,
            prepared.truth,
            prepared.training.preprocessing,
            folder,
            collapse_monitor(spec, prepared),
        )
        judgement = training.run(spec.epochs, progress, save_every)
        judged = LabelFiles(
            whole_judgement(spec, judgement, algorithm, prepared),
            prepared.class_names,
            algorithm.threshold,
            prepared.ids,
            prepared.verified,
            prepared.stored.cpu().numpy(),
        )
        judged.write(folder)
        outputs = algorithm.outputs()
        if prepared.held_out is not None:
            outputs["rows"] = prepared.learned
        folder.write_arrays("outputs.npz", outputs)
        model(spec, prepared, algorithm, judged.believed).save(folder)
        summary = summarise(folder.records, spec.epochs)
        if training.kept is not None:
            summary["kept_epoch"] = training.kept.epoch
        folder.write_json("summary.json", summary)
        folder.finish()
    return folder


def finished_run(spec: RunSpec, out: Path) -> RunFolder | None:
    """The folder of a run that has ended."""
    path = out / resolved(spec).folder_name
    return RunFolder.open(path) if (path / "done").is_file() else None


def as_before(folder: RunFolder) -> int:
    """How many threads a run that goes on had; sums in another order have other last bits."""
    if not folder.has("environment.json"):
        return torch.get_num_threads()
    return min(int(folder.read_json("environment.json")["threads"]), usable_cores())


def usable_cores() -> int:
    """How many this process may use, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def collapse_monitor(spec: RunSpec, prepared: Prepared) -> CollapseMonitor | None:
    """Who watches the training on the rows that were held out, if any were."""
    held_out = prepared.held_out
    if held_out is None:
        return None
    rows = HeldOut(held_out.stored, held_out.given, prepared.training.preprocessing)
    warm = spec.options.get("warmup_epochs")
    warm = warm if isinstance(warm, int) else 0
    return CollapseMonitor(rows, prepared.class_names, first=min(warm, spec.epochs - 1))


def whole_judgement(
    spec: RunSpec, judgement: Judgement, algorithm: Algorithm, prepared: Prepared
) -> Judgement:
    """The algorithm's opinion on what it learned from, and from it one on what was held out."""
    monitor = collapse_monitor(spec, prepared)
    if monitor is None or prepared.held_out is None:
        return judgement
    handed = model(spec, prepared, algorithm, judgement)
    passes = int(spec.options.get("passes", 1))
    seen = handed.uncertainty_stored(prepared.held_out.stored, passes=passes, seed=spec.seed)
    told = not np.isnan(judgement.epistemic).any()
    other = judge_unseen(
        judgement,
        monitor.held_out.predicted(algorithm),
        monitor.given,
        epistemic=seen.epistemic if told else None,
        aleatoric=seen.aleatoric if told else None,
    )
    return judgement.beside(other, prepared.learned, prepared.held_out.positions)


def write_data(folder: RunFolder, prepared: Prepared) -> None:
    """What the data turned out to be, and how to find a row or encode a new one."""
    folder.write_json("data.json", prepared.facts)
    if prepared.ids is not None:
        folder.write_json("ids.json", prepared.ids)
    if prepared.encoding is not None:
        folder.write_json("encoding.json", prepared.encoding.model_dump(mode="json"))
    if prepared.embedding is not None:
        folder.write_arrays("embedding.npz", prepared.embedding)


def resolved(spec: RunSpec) -> RunSpec:
    """The same spec with every option of the algorithm spelled out."""
    options = configure(spec.algorithm, spec.options).model_dump(mode="json")
    return spec.model_copy(update={"options": options})


def build(spec: RunSpec, prepared: Prepared, device: torch.device) -> Algorithm:
    """The algorithm, with its networks, on the device."""
    training = prepared.training
    new_network = network_maker(
        spec.network, training.preprocessing.shape, training.num_classes, device
    )
    config = configure(spec.algorithm, spec.options)
    return find_algorithm(spec.algorithm).build(config, training, new_network)


def model(spec: RunSpec, prepared: Prepared, algorithm: Algorithm, judgement: Judgement) -> Model:
    """What the algorithm learned, ready to predict."""
    networks = algorithm.networks()
    return Model(
        ModelSpec(
            network=spec.network,
            heads=networks[0].spec,
            networks=len(networks),
            preprocessing=prepared.training.preprocessing,
            class_names=prepared.class_names,
            class_prior=tuple(map(float, judgement.class_prior)),
        ),
        networks,
    )


def start_fresh(spec: RunSpec, out: Path) -> None:
    """Remove the folder that a run of this spec has, if it is a run folder."""
    path = out / resolved(spec).folder_name
    if (path / "spec.toml").is_file():
        with RunFolder(path).locked():
            shutil.rmtree(path)


def chosen_device(name: str) -> torch.device:
    """auto: the GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device '{name}' does not work here ({first_line(error)}); use cpu"
        ) from None
    return device


def environment(device: torch.device) -> dict[str, Any]:
    """With what a run was made."""
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "device": str(device),
        "threads": torch.get_num_threads(),
        "packages": {name: version(name) for name in PACKAGES},
    }
