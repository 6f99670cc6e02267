"""From a spec to training data and, apart from it, the truth."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ulc.config import NoiseSpec, RunSpec
from ulc.data.augment import strong_augmentation, weak_augmentation
from ulc.data.holding_out import HeldOutRows, hold_out
from ulc.data.imbalance import choose_rows
from ulc.data.label_files import read_label_file
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


@dataclass(frozen=True)
class Prepared:
    """Training data for the algorithm, truth for the examiner, facts for the record.

    training, truth: of the rows that are learned from
    held_out: the rows that are held out, if any; learned: positions of the others
    stored, ids, verified, encoding, embedding: of all rows, as `Source` has them
    """

    training: TensorData
    truth: Truth
    class_names: tuple[str, ...]
    facts: dict[str, Any]
    stored: Tensor
    learned: Integers
    held_out: HeldOutRows | None = None
    ids: tuple[str, ...] | None = None
    verified: NDArray[np.bool_] | None = None
    encoding: "TableEncoding | None" = None
    embedding: dict[str, NDArray[Any]] | None = None


@dataclass(frozen=True)
class Rows:
    """Rows on the device, as stored, with their labels."""

    stored: Tensor
    given: Tensor
    verified: Tensor | None

    def at(self, positions: Integers) -> "Rows":
        """Some of them."""
        verified = None if self.verified is None else self.verified[positions]
        return Rows(self.stored[positions], self.given[positions], verified)


@dataclass(frozen=True)
class Labelled:
    """A source cut to uneven classes, with its given labels and, where known, the true ones."""

    source: Source
    given: Integers
    true: Integers | None


def label(
    spec: RunSpec, on_progress: CountCallback | None = None, source: Source | None = None
) -> Labelled:
    """Load, make uneven, make noisy. Imbalance and noise have random streams of their own."""
    source = source or load_source(spec.data, on_progress)
    classes = len(source.class_names)
    kept = kept_rows(source, spec)
    labels, true = source.labels[kept], None if source.true is None else source.true[kept]
    if spec.noise.kind == "file":
        given = from_file(spec.noise, kept, classes, len(source.labels))
        true = labels if true is None else true
    elif spec.noise.kind == "none":
        given = labels
    else:
        # Whoever injects noise says that the labels were right before.
        rng = np.random.default_rng(streams(spec.seed)[1])
        given, true = corrupt(labels, classes, spec.noise, rng), labels
    verified = None if source.verified is None else source.verified[kept]
    if verified is not None:
        given = np.where(verified, labels, given)  # what somebody checked, noise does not touch
    cut = replace(
        source,
        inputs=source.inputs[kept],
        labels=given,
        true=true,
        ids=None if source.ids is None else tuple(source.ids[i] for i in kept),
        verified=verified,
    )
    return Labelled(cut, given, true)


def streams(seed: int) -> list[np.random.SeedSequence]:
    """Random numbers for imbalance, for noise and for the choice of rows to hold out."""
    return np.random.SeedSequence(seed).spawn(3)


def kept_rows(source: Source, spec: RunSpec) -> Integers:
    """Positions in the source of the rows that are trained on, in order."""
    # Where labels are already noisy and the truth is known, sizes are cut by the truth.
    reference = source.labels if source.true is None else source.true
    rng = np.random.default_rng(streams(spec.seed)[0])
    return choose_rows(reference, len(source.class_names), spec.imbalance, rng)


def from_file(noise: NoiseSpec, kept: Integers, classes: int, total: int) -> Integers:
    """Labels of a file that covers the whole source, or just the examples kept."""
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
    """Everything about the data that a run needs, on the device.

    source: what `spec.data` names, if it is read already
    """
    labelled = label(spec, on_progress, source)
    source, classes = labelled.source, len(labelled.source.class_names)
    preprocessing = Preprocessing.fit(source)
    rows = Rows(
        stored=preprocessing.stored(source.inputs).to(device),
        given=torch.from_numpy(labelled.given.astype(np.int64)).to(device),
        verified=None if source.verified is None else torch.from_numpy(source.verified).to(device),
    )
    stored, learned = rows.stored, np.arange(len(labelled.given))
    held_out = None
    if spec.held_out:
        places = hold_out(
            labelled.given, spec.held_out, np.random.default_rng(streams(spec.seed)[2])
        )
        if len(places) == 0:
            raise InputError(f"{source.name}: every class has one row; set held_out = 0")
        learned = np.delete(learned, places)
        held_out = HeldOutRows(places, rows.stored[places], rows.given[places])
        rows = rows.at(learned)
    training = TensorData(
        stored=rows.stored,
        given=rows.given,
        verified=rows.verified,
        num_classes=classes,
        seed=spec.seed,
        preprocessing=preprocessing,
        augment=weak_augmentation(preprocessing.shape, source.shift),
        strong=strong_augmentation(preprocessing.shape, source.shift),
    )
    test = None
    if source.test_inputs is not None and source.test_labels is not None:
        test = TestSet(preprocessing.stored(source.test_inputs).to(device), source.test_labels)
    sizes_by = labelled.given if labelled.true is None else labelled.true
    true = None if labelled.true is None else labelled.true[learned]
    truth = Truth(train=true, test=test, small=small_classes(sizes_by, classes))
    return Prepared(
        training,
        truth,
        source.class_names,
        facts(labelled, truth)
        | ({} if held_out is None else {"held_out": len(held_out.positions)}),
        stored,
        learned,
        held_out,
        ids=source.ids,
        verified=source.verified,
        encoding=source.encoding,
        embedding=source.embedding,
    )


def facts(labelled: Labelled, truth: Truth) -> dict[str, Any]:
    """What the data turned out to be: sizes, small classes, realised noise."""
    classes = len(labelled.source.class_names)
    content: dict[str, Any] = {
        "examples": len(labelled.given),
        "class_names": list(labelled.source.class_names),
        "given_sizes": np.bincount(labelled.given, minlength=classes).tolist(),
        "small_classes": np.flatnonzero(truth.small).tolist(),
    }
    if labelled.source.skipped:
        content["skipped"] = list(labelled.source.skipped)
    if labelled.source.verified is not None:
        content["verified"] = int(labelled.source.verified.sum())
    if labelled.true is not None:
        content |= {
            "true_sizes": np.bincount(labelled.true, minlength=classes).tolist(),
            "wrong_share": float((labelled.true != labelled.given).mean()),
            "transition": realised_transition(labelled.true, labelled.given, classes).tolist(),
        }
    return content
