"""From a spec to a finished run folder: prepare, build, train, judge, write."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from ulc.algorithms import configure, find_algorithm
from ulc.algorithms.base import Algorithm
from ulc.config import RunSpec
from ulc.data.prepare import Prepared, prepare
from ulc.labels.files import LabelFiles
from ulc.labels.judgement import Judgement
from ulc.networks import network_maker
from ulc.storage.run_folder import RunFolder
from ulc.training import checkpoint
from ulc.training.best_epoch import BestEpoch, Snapshot
from ulc.training.collapse import CollapseMonitor
from ulc.training.device import choose_device
from ulc.training.environment import choose_threads, describe_environment, use_threads
from ulc.training.held_out import judge_held_out
from ulc.training.inference import judge_labels
from ulc.training.loop import ProgressReporter, TrainingProgress, train
from ulc.training.model import Model
from ulc.training.own_code import check_own_code, hash_network, hash_own_code
from ulc.training.recorder import SAVE_EVERY, RunRecorder
from ulc.training.scores import EpochScores, summarise


def run(  # noqa: PLR0913 (what to train and where; the rest has defaults)
    spec: RunSpec,
    out: Path,
    *,
    device: str = "auto",
    progress: TrainingProgress | None = None,
    save_every: float = SAVE_EVERY,
    prepared: Prepared | None = None,
) -> RunFolder:
    """Train the spec in a run folder under `out`, and return the folder.

    A finished run is not repeated, and a stopped run is resumed.

    save_every: seconds between checkpoints
    prepared: the data as `prepare` returns them for `spec`; None: they are prepared here
    """
    spec = resolved(spec)
    finished = finished_run(spec, out)
    if finished is not None:
        return finished
    # Everything that can be wrong with the input is found before anything is written.
    chosen = choose_device(device)
    progress = progress or TrainingProgress()
    if prepared is None:
        prepared = prepare(spec, chosen, progress.on_read)
        for note in (*prepared.notes, *(f"Warning: {each}" for each in prepared.warnings)):
            progress.on_note(note)
    training = Training(spec, prepared, build_algorithm(spec, prepared, chosen))
    folder = RunFolder.create(out / spec.folder_name, spec)
    with folder.locked(), use_threads(choose_threads(folder)):
        check_own_code(folder, spec)
        environment = describe_environment(chosen) | {"own_code": hash_own_code(spec)}
        folder.write_json("environment.json", environment)
        write_data(folder, prepared)
        kept = train_in_folder(training, folder, progress, save_every)
        write_results(training, folder, judge_all_rows(training))
        summary = summarise(folder.records, spec.epochs)
        if kept is not None:
            summary["kept_epoch"] = kept.epoch
        folder.write_json("summary.json", summary)
        folder.finish()
    return folder


@dataclass(frozen=True)
class Training:
    """An algorithm with its data and the spec that it was built from."""

    spec: RunSpec
    prepared: Prepared
    algorithm: Algorithm

    def assemble_model(self, judgement: Judgement) -> Model:
        """The model that the algorithm has learned so far; judgement: of the training labels."""
        return Model.of_algorithm(
            self.algorithm,
            self.spec.network,
            self.prepared.training.preprocessing,
            self.prepared.class_names,
            self.algorithm.learned_prior(judgement),
            hash_network(self.spec.network),
        )


def resolved(spec: RunSpec) -> RunSpec:
    """The same spec with the value of every option of the algorithm."""
    options = configure(spec.algorithm, spec.options).model_dump(mode="json")
    return spec.model_copy(update={"options": options})


def finished_run(spec: RunSpec, out: Path) -> RunFolder | None:
    """The folder of the finished run of this spec; None if there is none."""
    path = out / resolved(spec).folder_name
    if not (path / "done").is_file():
        return None
    folder = RunFolder.open(path)
    check_own_code(folder, spec)
    return folder


def start_fresh(spec: RunSpec, out: Path) -> None:
    """Remove the folder of a run of this spec, if there is one."""
    path = out / resolved(spec).folder_name
    if (path / "spec.toml").is_file():
        with RunFolder(path).locked():
            shutil.rmtree(path)


def build_algorithm(spec: RunSpec, prepared: Prepared, device: torch.device) -> Algorithm:
    """The algorithm with new networks, on the device."""
    data = prepared.training
    new_network = network_maker(spec.network, data.preprocessing.shape, data.num_classes, device)
    config = configure(spec.algorithm, spec.options)
    return find_algorithm(spec.algorithm).build(config, data, new_network)


def write_data(folder: RunFolder, prepared: Prepared) -> None:
    """Write data.json and, if they apply, ids.json, encoding.json, text.npz and embedding.npz."""
    folder.write_json("data.json", prepared.facts)
    if prepared.ids is not None:
        folder.write_json("ids.json", prepared.ids)
    if prepared.encoding is not None:
        folder.write_json("encoding.json", prepared.encoding.model_dump(mode="json"))
    if prepared.text is not None:
        folder.write_arrays("text.npz", prepared.text.arrays())
    if prepared.embedding is not None:
        folder.write_arrays("embedding.npz", prepared.embedding)


def train_in_folder(
    training: Training, folder: RunFolder, progress: TrainingProgress, save_every: float
) -> Snapshot | None:
    """Train to the spec's last epoch, from the folder's checkpoint if there is one.

    Return the epoch that was kept, whose state the algorithm then has; None: no rows are held out,
    so the last epoch counts.
    """
    spec, prepared, algorithm = training.spec, training.prepared, training.algorithm
    resumed = checkpoint.restore(algorithm, folder)
    records = folder.records[: resumed.start] if resumed.start else []
    for record in records:
        progress.on_epoch(record)
    monitor = monitor_collapse(spec, prepared)
    best = None if monitor is None else BestEpoch(monitor, best=resumed.best)
    observers = [
        EpochScores(prepared.truth, prepared.training.preprocessing),
        *([] if best is None else [best]),
        RunRecorder(folder, save_every, best),
        ProgressReporter(progress),
    ]
    train(algorithm, range(resumed.start, spec.epochs), observers, records)
    return None if best is None else best.best


def monitor_collapse(spec: RunSpec, prepared: Prepared) -> CollapseMonitor | None:
    """A monitor that measures the training on the held-out rows; None if there are none."""
    if prepared.held_out is None:
        return None
    warm_up = spec.options.get("warmup_epochs")
    warm_up = warm_up if isinstance(warm_up, int) else 0
    first = min(warm_up, spec.epochs - 1)
    return CollapseMonitor(prepared.held_out, prepared.class_names, first)


def judge_all_rows(training: Training) -> Judgement:
    """The judgement of all rows: those that were learned from, and those held out."""
    judgement, held_out = judge_labels(training.algorithm), training.prepared.held_out
    if held_out is None:
        return judgement
    others = judge_held_out(
        judgement,
        training.assemble_model(judgement),
        held_out,
        passes=int(training.spec.options.get("passes", 1)),
        seed=training.spec.seed,
    )
    return judgement.combined_with(others, training.prepared.learned, held_out.positions)


def write_results(training: Training, folder: RunFolder, judgement: Judgement) -> None:
    """Write the files about labels, the algorithm's outputs and the model."""
    prepared, algorithm = training.prepared, training.algorithm
    labels = LabelFiles(
        judgement,
        prepared.class_names,
        algorithm.threshold,
        prepared.ids,
        prepared.verified,
        prepared.all_rows.stored.cpu().numpy(),
        prepared.nearly_empty,
    )
    labels.write(folder)
    outputs = algorithm.outputs()
    if prepared.held_out is not None:
        outputs["rows"] = prepared.learned
    folder.write_arrays("outputs.npz", outputs)
    training.assemble_model(labels.judgement_with_verified).save(folder)
