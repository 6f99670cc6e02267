"""From checked arrays to a trained model and a judgement of every label."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ulc.algorithms import configure, find_algorithm
from ulc.algorithms.base import Algorithm
from ulc.blocks.averages import Record
from ulc.config import NetworkSpec, Spec
from ulc.data.augment import strong_augmentation, weak_augmentation
from ulc.data.held_out import HeldOutRows, draw_held_out
from ulc.data.preprocessing import Preprocessing
from ulc.data.sources.source import Source
from ulc.data.training import TensorData
from ulc.errors import InputError
from ulc.estimators.checks import LabelledRows
from ulc.estimators.network import Network, choose_backbone, network_name
from ulc.labels.judgement import Judgement
from ulc.networks import network_maker
from ulc.networks.classifier import Classifier
from ulc.settings.automatic import Size, settings
from ulc.training.best_epoch import BestEpoch
from ulc.training.collapse import CollapseMonitor
from ulc.training.device import choose_device
from ulc.training.held_out import judge_held_out
from ulc.training.inference import judge_labels
from ulc.training.loop import train
from ulc.training.model import Model
from ulc.typing import Integers


@dataclass(frozen=True)
class EarlyStopping:
    """Early stopping by held-out rows.

    validation_fraction: share of the rows to hold out
    patience: number of epochs without a better one after which training stops
    """

    validation_fraction: float
    patience: int

    def __post_init__(self) -> None:
        if not 0 < self.validation_fraction < 1:
            raise InputError(
                f"validation_fraction is {self.validation_fraction}; give a share between 0 and 1"
            )
        if self.patience < 1:
            raise InputError(f"patience is {self.patience}; give a number of epochs above 0")


@dataclass(frozen=True)
class FitSettings:
    """The parameters of an estimator that `fit` needs, and the seed of this fit."""

    algorithm: str
    options: Mapping[str, Any] | None
    network: Network
    width: int | None
    epochs: int | None
    early_stopping: EarlyStopping | None
    seed: int
    device: str


@dataclass(frozen=True)
class Fitted:
    """The result of a fit.

    n_iter: number of epochs trained, with those before a warm start
    best_epoch: number of the epoch whose weights the model has
    passes: number of dropout passes for uncertainties
    records: values that the algorithm reports after each epoch of this fit
    validation_scores: share of held-out labels that is predicted, after each epoch of this fit;
        empty without early stopping
    """

    model: Model
    judgement: Judgement
    n_iter: int
    best_epoch: int
    passes: int
    threshold: float
    records: list[Record]
    validation_scores: list[float]


@dataclass(frozen=True)
class TrainingSet:
    """All rows of a fit, on a device.

    learned: positions of the rows that are learned from
    """

    rows: LabelledRows
    learned: Integers
    preprocessing: Preprocessing
    device: torch.device

    def training_data(self, seed: int) -> TensorData:
        """The rows that are learned from, as an algorithm gets them."""
        rows, preprocessing = self.rows.select(self.learned), self.preprocessing
        uneven = bool((rows.weights != rows.weights[0]).any())
        return TensorData(
            stored=preprocessing.stored(rows.inputs).to(self.device),
            given=torch.from_numpy(rows.given.astype(np.int64)).to(self.device),
            num_classes=len(rows.classes),
            seed=seed,
            preprocessing=preprocessing,
            augment=weak_augmentation(preprocessing.shape),
            strong=strong_augmentation(preprocessing.shape),
            weights=torch.from_numpy(rows.weights).to(self.device) if uneven else None,
            verified=torch.from_numpy(rows.verified).to(self.device)
            if rows.verified.any()
            else None,
        )

    def held_out_rows(self, positions: Integers) -> HeldOutRows:
        """The rows at `positions`, which are not learned from."""
        rows = self.rows.select(positions)
        return HeldOutRows(
            positions=positions,
            stored=self.preprocessing.stored(rows.inputs).to(self.device),
            given=torch.from_numpy(rows.given).to(self.device),
            preprocessing=self.preprocessing,
            weights=torch.from_numpy(rows.weights).to(self.device),
        )


def fit_rows(
    rows: LabelledRows, wanted: FitSettings, model: Model | None = None, start: int = 0
) -> Fitted:
    """Train in memory, and judge all rows.

    model: the model to continue with in a warm start; None: train anew
    start: number of epochs that the model was trained for
    """
    learned, held_out = split_rows(rows, wanted)
    size = Size(rows.inputs.shape[1:], len(learned), len(rows.classes))
    spec = settings(wanted.algorithm, size, wanted.epochs, wanted.options)
    config = configure(wanted.algorithm, spec.options)
    device = choose_device(wanted.device)
    if model is None:
        preprocessing = fit_preprocessing(rows.select(learned))
    else:
        preprocessing = model.spec.preprocessing
    data = TrainingSet(rows, learned, preprocessing, device)
    algorithm = build_algorithm(data, wanted, config)
    if model is not None:
        load_weights(algorithm, model.members)
    epochs = range(start, start + spec.epochs)
    best = None
    if wanted.early_stopping is not None:
        first = min(getattr(config, "warmup_epochs", 0), epochs[-1])
        monitor = CollapseMonitor(data.held_out_rows(held_out), rows.class_names, first)
        best = BestEpoch(monitor, patience=wanted.early_stopping.patience)
    records = train(algorithm, epochs, [] if best is None else [best])
    last = records[-1]["epoch"]
    passes = getattr(config, "passes", 1)
    model, judgement = judge_all_rows(data, algorithm, wanted, passes)
    return Fitted(
        model=model,
        judgement=judgement,
        n_iter=last + 1,
        best_epoch=last if best is None or best.best is None else best.best.epoch,
        passes=passes,
        threshold=algorithm.threshold,
        records=[record["train"] for record in records],
        validation_scores=[record["held_out"]["agreement"] for record in records if best],
    )


def split_rows(rows: LabelledRows, wanted: FitSettings) -> tuple[Integers, Integers]:
    """Positions of the rows to learn from and of the rows to hold out.

    Rows of weight 0 are in neither. Without early stopping no row is held out.
    """
    weighted = np.flatnonzero(rows.weights > 0)
    if wanted.early_stopping is None:
        return weighted, weighted[:0]
    share, rng = wanted.early_stopping.validation_fraction, np.random.default_rng(wanted.seed)
    held_out = weighted[draw_held_out(rows.given[weighted], share, rng)]
    if len(held_out) == 0:
        raise InputError(
            "every class has one row, so none can be held out; set early_stopping=False"
        )
    return np.setdiff1d(weighted, held_out), held_out


def fit_preprocessing(rows: LabelledRows) -> Preprocessing:
    """Preprocessing (shift and scale) fitted to these rows."""
    return Preprocessing.fit(
        Source(name="X", inputs=rows.inputs, labels=rows.given, class_names=rows.class_names)
    )


def build_algorithm(data: TrainingSet, wanted: FitSettings, config: Spec) -> Algorithm:
    """The algorithm with new networks."""
    training = data.training_data(wanted.seed)
    new_network = network_maker(
        choose_backbone(wanted.network, wanted.width),
        data.preprocessing.shape,
        training.num_classes,
        data.device,
    )
    return find_algorithm(wanted.algorithm).build(config, training, new_network)


def load_weights(algorithm: Algorithm, networks: Sequence[Classifier]) -> None:
    """Give every network of the algorithm the weights of the networks that predicted before."""
    for group in (algorithm.networks(), [each.network for each in algorithm.learners()]):
        for place, network in enumerate(group):
            try:
                network.load_state_dict(networks[place % len(networks)].state_dict())
            except RuntimeError:
                raise InputError(
                    "warm_start needs the network of the first fit; set warm_start=False to train "
                    "another network anew"
                ) from None


def judge_all_rows(
    data: TrainingSet, algorithm: Algorithm, wanted: FitSettings, passes: int
) -> tuple[Model, Judgement]:
    """The trained model, and the judgement of all rows, also of those not learned from."""
    rows, learned = data.rows, data.learned
    judgement = judge_labels(algorithm)
    for parameter in nn.ModuleList(algorithm.networks()).parameters():
        parameter.grad = None
    model = Model.of_algorithm(
        algorithm,
        NetworkSpec(name=network_name(wanted.network), width=wanted.width),
        data.preprocessing,
        rows.class_names,
        algorithm.learned_prior(judgement.with_verified(rows.verified[learned])),
    )
    others = np.setdiff1d(np.arange(len(rows.given)), learned)
    if len(others):
        held_out = data.held_out_rows(others)
        unseen = judge_held_out(judgement, model, held_out, passes=passes, seed=wanted.seed)
        judgement = judgement.combined_with(unseen, learned, others)
    return model, judgement.with_verified(rows.verified)
