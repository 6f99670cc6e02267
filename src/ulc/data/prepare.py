"""Make training data from a spec and, separately, the truth for evaluation."""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ulc.config import NoiseSpec, RunSpec
from ulc.data.augment import strong_augmentation, weak_augmentation
from ulc.data.held_out import HeldOutRows, draw_held_out
from ulc.data.identity import DataIdentity, identify
from ulc.data.imbalance import choose_rows
from ulc.data.label_files import read_label_file
from ulc.data.lazy.images import LazyImages
from ulc.data.lazy.training import LazyData, LazyInputs
from ulc.data.noise import corrupt, realised_transition
from ulc.data.preprocessing import Preprocessing
from ulc.data.sources import load_source
from ulc.data.sources.source import Source, check_labels
from ulc.data.training import TensorData
from ulc.data.truth import TestSet, Truth, small_classes
from ulc.errors import InputError
from ulc.typing import CountCallback, Integers

if TYPE_CHECKING:
    from ulc.data.table_encoding import TableEncoding
    from ulc.data.text.encoding import TextEncoding


@dataclass(frozen=True)
class Prepared:
    """Data of a run: training data for the algorithm, truth for evaluation, facts for data.json.

    all_rows, all_truth: training data and truth of every row
    training, truth: training data and truth of the rows that are trained on
    learned: positions of the rows that are trained on
    identity: of all rows, with labels as given to the algorithm, and of the test set
    validation: rows with right labels, by which networks are chosen; None: there are none
    held_out: the other rows; None: every row is trained on
    notes, warnings, ids, verified, nearly_empty, encoding, text, embedding: fields of `Source`, for
        all rows
    """

    all_rows: TensorData | LazyData
    all_truth: Truth
    training: TensorData | LazyData
    truth: Truth
    learned: Integers
    class_names: tuple[str, ...]
    facts: dict[str, Any]
    identity: DataIdentity
    validation: TestSet | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    held_out: HeldOutRows | None = None
    ids: tuple[str, ...] | None = None
    verified: NDArray[np.bool_] | None = None
    nearly_empty: NDArray[np.bool_] | None = None
    encoding: "TableEncoding | None" = None
    text: "TextEncoding | None" = None
    embedding: dict[str, NDArray[Any]] | None = None

    def with_all_rows(self) -> Self:
        """Return the same data with no row held out."""
        return replace(
            self,
            training=self.all_rows,
            truth=self.all_truth,
            learned=np.arange(len(self.all_rows)),
            facts={name: value for name, value in self.facts.items() if name != "held_out"},
            held_out=None,
        )

    def hold_out(self, positions: Integers) -> Self:
        """Return the same data with exactly the rows at `positions` held out."""
        data, true = self.all_rows, self.all_truth.train
        learned = np.delete(np.arange(len(data)), positions)
        held_out = HeldOutRows(
            positions, data.stored[positions], data.given[positions], data.preprocessing
        )
        return replace(
            self,
            training=data.select(learned),
            truth=replace(self.all_truth, train=None if true is None else true[learned]),
            learned=learned,
            facts=self.facts | {"held_out": len(positions)},
            held_out=held_out,
        )


@dataclass(frozen=True)
class Labelled:
    """The N rows of a source that a run uses.

    given: (N,) given labels
    true: (N,) true labels; None: unknown
    """

    source: Source
    given: Integers
    true: Integers | None


def label(
    spec: RunSpec, on_progress: CountCallback | None = None, source: Source | None = None
) -> Labelled:
    """Load the data, leave out rows for the imbalance, inject the noise.

    Imbalance and noise have separate random streams, so another noise keeps the same rows.

    source: the data that `spec.data` names; None: they are read
    """
    source = source or load_source(spec.data, on_progress)
    classes = len(source.class_names)
    kept = kept_rows(source, spec)
    labels, true = source.labels[kept], None if source.true is None else source.true[kept]
    if spec.noise.kind == "file":
        given = read_noisy_labels(spec.noise, kept, classes, len(source.labels))
        true = labels if true is None else true
    elif spec.noise.kind == "none":
        given = labels
    else:
        # Injected noise makes wrong labels of right ones: labels of the source count as true.
        rng = np.random.default_rng(random_streams(spec.seed)[1])
        given, true = corrupt(labels, source.class_names, spec.noise, rng), labels
    verified = None if source.verified is None else source.verified[kept]
    if verified is not None:
        given = np.where(verified, labels, given)  # noise changes no verified label
    cut = replace(
        source,
        inputs=source.inputs if len(kept) == len(source.labels) else source.inputs[kept],
        labels=given,
        true=true,
        ids=None if source.ids is None else tuple(source.ids[i] for i in kept),
        verified=verified,
        nearly_empty=None if source.nearly_empty is None else source.nearly_empty[kept],
        pictures=None if source.pictures is None else tuple(source.pictures[i] for i in kept),
    )
    return Labelled(cut, given, true)


def random_streams(seed: int) -> list[np.random.SeedSequence]:
    """Return three seeds: for the imbalance, for the noise and for the choice of held-out rows."""
    return np.random.SeedSequence(seed).spawn(3)


def kept_rows(source: Source, spec: RunSpec) -> Integers:
    """Return the sorted positions in the source of the rows that the run uses."""
    # Class sizes are counted by true labels if these are known.
    reference = source.labels if source.true is None else source.true
    rng = np.random.default_rng(random_streams(spec.seed)[0])
    return choose_rows(reference, len(source.class_names), spec.imbalance, rng)


def read_noisy_labels(noise: NoiseSpec, kept: Integers, classes: int, total: int) -> Integers:
    """Read the given labels of the kept rows from a file.

    The file has one label for each of the `total` rows of the source, or for each kept row.
    """
    path = Path(noise.file or "")
    labels = read_label_file(path, noise.key)
    if len(labels) not in (total, len(kept)):
        raise InputError(
            f"{path}: {len(labels)} labels for {total} examples ({len(kept)} kept); "
            "give the file that belongs to this data set"
        )
    check_labels(labels, classes, str(path))
    return labels[kept] if len(labels) == total else labels


def prepare(
    spec: RunSpec,
    device: torch.device,
    on_progress: CountCallback | None = None,
    source: Source | None = None,
) -> Prepared:
    """Load and prepare the data of a run; tensors are on the device.

    Mean and std of the inputs are measured on all rows, including held-out rows.

    source: the data that `spec.data` names; None: they are read
    """
    began = time.time() if source is None else None
    labelled = label(spec, on_progress, source)
    source, classes = labelled.source, len(labelled.source.class_names)
    preprocessing = Preprocessing.fit(source)
    data = make_data(labelled, preprocessing, spec.seed, device)
    test = make_set(source.test_inputs, source.test_labels, preprocessing, device)
    sizes_by = labelled.given if labelled.true is None else labelled.true
    truth = Truth(train=labelled.true, test=test, small=small_classes(sizes_by, classes))
    prepared = Prepared(
        all_rows=data,
        all_truth=truth,
        training=data,
        truth=truth,
        learned=np.arange(len(data)),
        class_names=source.class_names,
        facts=describe_data(labelled, truth),
        identity=identify(source, spec.data, spec.noise.file, began, spec.network.weights_file),
        validation=make_set(source.valid_inputs, source.valid_labels, preprocessing, device),
        notes=source.notes,
        warnings=source.warnings,
        ids=source.ids,
        verified=source.verified,
        nearly_empty=source.nearly_empty,
        encoding=source.encoding,
        text=source.text,
        embedding=source.embedding,
    )
    if not spec.held_out:
        return prepared
    if prepared.validation is not None:
        raise InputError(f"{source.name}: has a validation set already; set held_out = 0")
    rng = np.random.default_rng(random_streams(spec.seed)[2])
    positions = draw_held_out(labelled.given, spec.held_out, rng)
    if len(positions) == 0:
        raise InputError(f"{source.name}: every class has one row; set held_out = 0")
    return prepared.hold_out(positions)


def make_data(
    labelled: Labelled, preprocessing: Preprocessing, seed: int, device: torch.device
) -> TensorData | LazyData:
    """Return the training data of all rows, on the device or to be read when needed."""
    source = labelled.source
    stored = store_inputs(source.inputs, preprocessing, device)
    common: dict[str, Any] = {
        "given": torch.from_numpy(labelled.given.astype(np.int64)).to(device),
        "num_classes": len(source.class_names),
        "seed": seed,
        "preprocessing": preprocessing,
        "augment": weak_augmentation(preprocessing.shape, source.shift, preprocessing.crop),
        "strong": strong_augmentation(preprocessing.shape, source.shift, preprocessing.crop),
    }
    if source.verified is not None:
        common["verified"] = torch.from_numpy(source.verified).to(device)
    if isinstance(stored, LazyInputs):
        return LazyData(stored, **common)
    return TensorData(stored, **common)


def make_set(
    inputs: NDArray[Any] | LazyImages | None,
    labels: Integers | None,
    preprocessing: Preprocessing,
    device: torch.device,
) -> TestSet | None:
    """Return a test set or validation set of a source; None: it has none."""
    if inputs is None or labels is None:
        return None
    return TestSet(store_inputs(inputs, preprocessing, device), labels)


def store_inputs(
    inputs: NDArray[Any] | LazyImages, preprocessing: Preprocessing, device: torch.device
) -> Tensor | LazyInputs:
    """Return inputs as training data hold them: on the device, or to be read when needed."""
    if isinstance(inputs, LazyImages):
        return LazyInputs(inputs, device)
    return preprocessing.stored(inputs).to(device)


def describe_data(labelled: Labelled, truth: Truth) -> dict[str, Any]:
    """Return facts for data.json: sizes, small classes and, with true labels, the actual noise."""
    classes = len(labelled.source.class_names)
    content: dict[str, Any] = {
        "examples": len(labelled.given),
        "class_names": list(labelled.source.class_names),
        "given_sizes": np.bincount(labelled.given, minlength=classes).tolist(),
        "small_classes": np.flatnonzero(truth.small).tolist(),
    }
    if labelled.source.skipped:
        content["skipped"] = list(labelled.source.skipped)
    if labelled.source.unlabelled:
        content["unlabelled"] = labelled.source.unlabelled
    if labelled.source.warnings:
        content["warnings"] = list(labelled.source.warnings)
    if labelled.source.verified is not None:
        content["verified"] = int(labelled.source.verified.sum())
    if labelled.true is not None:
        content |= {
            "true_sizes": np.bincount(labelled.true, minlength=classes).tolist(),
            "wrong_share": float((labelled.true != labelled.given).mean()),
            "transition": realised_transition(labelled.true, labelled.given, classes).tolist(),
        }
    return content
