"""From a spec to a finished run folder: prepare, build, train, judge, write."""

from dataclasses import dataclass
from pathlib import Path

import torch

from ulc.algorithms import configure, find_algorithm
from ulc.algorithms.base import Algorithm
from ulc.config import RunSpec
from ulc.data.identity import DataIdentity
from ulc.data.prepare import Prepared, prepare
from ulc.labels.files import LabelFiles
from ulc.labels.judgement import Judgement
from ulc.networks import network_maker
from ulc.networks.processes import by_first, current, is_first
from ulc.storage.run_folder import RunFolder, UnwrittenFolder, create_folder
from ulc.training import checkpoint, placing
from ulc.training.best_epoch import BestEpoch
from ulc.training.best_networks import BestNetworks
from ulc.training.choosing import keep_best, summarise_chosen, warm_up_of
from ulc.training.compute import apply_compute
from ulc.training.device import choose_device, memory_explained
from ulc.training.environment import (
    choose_threads,
    describe_environment,
    use_threads,
    write_environment,
)
from ulc.training.held_out import judge_held_out
from ulc.training.inference import judge_labels
from ulc.training.loop import ProgressReporter, TrainingProgress, train
from ulc.training.model import Model
from ulc.training.own_code import check_own_code, hash_network, hash_own_code
from ulc.training.processes import StateAgreement, check_same_data
from ulc.training.recorder import SAVE_EVERY, RunRecorder
from ulc.training.scores import EpochScores, WarmUpRecorder, summarise
from ulc.validating import without_none


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

    A finished run of the same data is not repeated, and a stopped one is resumed. Beside a finished
    run of other data a new one is trained; a stopped run of other data is an error.

    save_every: seconds between checkpoints
    prepared: the data as `prepare` returns them for `spec`; None: they are prepared here
    """
    spec = resolved(spec)
    path = out / spec.folder_name
    finished = None if prepared is not None else by_first(lambda: finished_run(spec, out))
    if finished is not None:
        return finished
    # Everything that can be wrong with the input is found before anything is written.
    chosen = choose_device(device)
    progress = progress or TrainingProgress()
    prepared = prepared or prepare_noted(spec, chosen, progress)
    identity = prepared.identity
    check_same_data(identity.content)
    folder = by_first(lambda: placing.place(path, identity))
    if by_first(lambda: folder.done):
        check_own_code(folder, spec)
        if is_first():
            placing.remember_files(folder, identity)
        return folder
    return train_at(folder.path, spec, prepared, chosen, progress, save_every)


def resume(
    path: Path, *, device: str = "auto", progress: TrainingProgress | None = None
) -> RunFolder:
    """Train the stopped run in the folder `path` to its end, and return it.

    A finished run is returned as it is. Raise an InputError if the data have changed.
    """
    folder = RunFolder.open(path)
    spec = folder.spec
    placing.check_name(path, spec.folder_name)
    check_own_code(folder, spec)
    if by_first(lambda: folder.done):
        return folder
    chosen = choose_device(device)
    progress = progress or TrainingProgress()
    prepared = prepare_noted(spec, chosen, progress)
    check_same_data(prepared.identity.content)
    return train_at(path, spec, prepared, chosen, progress, SAVE_EVERY)


@memory_explained()
def prepare_noted(spec: RunSpec, device: torch.device, progress: TrainingProgress) -> Prepared:
    """Prepare the data, and pass notes and warnings about them to `progress`."""
    prepared = prepare(spec, device, progress.on_read)
    for note in (*prepared.notes, *(f"Warning: {each}" for each in prepared.warnings)):
        progress.on_note(note)
    return prepared


def train_at(  # noqa: PLR0913 (all that a training consists of)
    path: Path,
    spec: RunSpec,
    prepared: Prepared,
    device: torch.device,
    progress: TrainingProgress,
    save_every: float,
) -> RunFolder:
    """Train in the folder `path`, from its checkpoint if there is one.

    Of several processes that train together, only the first one reads and writes the folder.
    """
    training = Training(spec, prepared, build_algorithm(spec, prepared, device))
    folder = create_folder(path) if is_first() else UnwrittenFolder(path)
    with folder.locked(), use_threads(by_first(lambda: choose_threads(folder))):
        by_first(lambda: begin(folder, training, device))
        kept = train_in_folder(training, folder, progress, save_every)
        write_results(training, folder, judge_all_rows(training))
        summary = summarise(folder.records, spec.epochs)
        if isinstance(kept, BestNetworks):
            summary |= summarise_chosen(training.algorithm, prepared, kept)
        elif kept is not None and kept.best is not None:
            summary["kept_epoch"] = kept.best.epoch
        folder.write_json("summary.json", summary)
        folder.finish()
    return folder


def begin(folder: RunFolder, training: "Training", device: torch.device) -> None:
    """Write all that is known before the training; raise if the folder holds another run."""
    spec, prepared = training.spec, training.prepared
    placing.claim(folder, prepared.identity)
    RunFolder.create(folder.path, spec)
    check_own_code(folder, spec)
    environment = describe_environment(device) | {"own_code": hash_own_code(spec)}
    write_environment(folder, environment)
    write_data(folder, prepared)


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
    """The same spec with the value of every option of the algorithm that is not None."""
    options = without_none(configure(spec.algorithm, spec.options).model_dump(mode="json"))
    return spec.model_copy(update={"options": options})


def finished_run(spec: RunSpec, out: Path) -> RunFolder | None:
    """The folder of the finished run of this spec if its data files have not changed; else None."""
    spec = resolved(spec)
    path, weights = out / spec.folder_name, spec.network.weights_file
    folder = placing.find_finished(path, spec.data, spec.noise.file, weights)
    if folder is not None:
        check_own_code(folder, spec)
    return folder


def start_fresh(spec: RunSpec, out: Path) -> None:
    """Remove the run of this spec and these data, and a stopped run of this spec, if there is one.

    A finished run of other data stays.
    """
    spec = resolved(spec)

    def read_identity() -> DataIdentity:
        return prepare(spec, torch.device("cpu")).identity

    path, weights = out / spec.folder_name, spec.network.weights_file
    placing.remove_run(path, spec.data, spec.noise.file, read_identity, weights)


@memory_explained()
def build_algorithm(spec: RunSpec, prepared: Prepared, device: torch.device) -> Algorithm:
    """The algorithm with new networks, on the device."""
    data = prepared.training
    new_network = network_maker(
        spec.network, data.preprocessing.input_shape, data.num_classes, device
    )
    config = configure(spec.algorithm, spec.options)
    algorithm = find_algorithm(spec.algorithm).build(config, data, new_network)
    apply_compute(algorithm, spec.compute)
    return algorithm


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
) -> BestEpoch | BestNetworks | None:
    """Train to the spec's last epoch, from the folder's checkpoint if there is one.

    Return what has kept the best epoch, whose state the algorithm then has; None: no rows are held
    out and there is no validation set, so the last epoch counts.
    """
    spec, prepared, algorithm = training.spec, training.prepared, training.algorithm
    resumed = checkpoint.restore(algorithm, folder)
    records = checkpoint.earlier_records(folder, resumed)
    for record in records:
        progress.on_epoch(record)
    best, start = keep_best(spec, prepared, resumed.best), resumed.start
    del resumed  # and its best state, which `best` may replace
    observers = [
        *([] if current() is None else [StateAgreement()]),
        EpochScores(
            prepared.truth,
            prepared.training.preprocessing,
            every=1 if spec.compute is None else spec.compute.score_every,
        ),
        WarmUpRecorder(prepared.truth, folder, warm_up_of(spec)),
        *([] if best is None else [best]),
        *([RunRecorder(folder, save_every, best)] if is_first() else []),
        ProgressReporter(progress),
    ]
    train(algorithm, range(start, spec.epochs), observers, records)
    return best


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
    """Write the files about labels, the algorithm's outputs and the model.

    judgement: of all rows; its arrays may be the algorithm's own, so they are not changed
    """
    prepared, algorithm = training.prepared, training.algorithm
    labels = LabelFiles(
        judgement.settled(algorithm.threshold, prepared.verified, prepared.nearly_empty),
        prepared.class_names,
        algorithm.threshold,
        prepared.ids,
        prepared.verified,
        prepared.all_rows.comparable(),
        prepared.nearly_empty,
    )
    if is_first():
        labels.write(folder)
    outputs = algorithm.outputs()
    if prepared.held_out is not None:
        outputs["rows"] = prepared.learned
    folder.write_arrays("outputs.npz", outputs)
    training.assemble_model(labels.judgement).save(folder)
