"""Predictions of a finished run for new data."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ulc.config import DataSpec, RunSpec, checked
from ulc.embedding.embed import Embedder, embed_new
from ulc.embedding.stored import StoredEmbedding
from ulc.errors import InputError
from ulc.importing import Trust, check_trust
from ulc.labels.confusion import ConfusionModel
from ulc.labels.judgement import Judgement
from ulc.labels.prior import Prior
from ulc.labels.unseen import judge_unseen
from ulc.prediction.input_spec import ModelInput
from ulc.prediction.new_labels import class_numbers
from ulc.prediction.new_rows import NewRows, load_new_rows
from ulc.storage.run_folder import RunFolder
from ulc.training.device import memory_explained
from ulc.training.model import Model, Uncertainty
from ulc.typing import CountCallback, Floats, Integers

if TYPE_CHECKING:
    from ulc.data.text.encoding import TextEncoding

MOST_PASSES = 10_000  # dropout passes; more would take hours
SHOWN = 10  # most class names in an error message


@dataclass(frozen=True)
class Predictions:
    """Predictions of a run for N new rows.

    probability: (N, K) class probabilities under the chosen prior
    uncertainty: epistemic and aleatoric uncertainty of the rows
    threshold: labels with a lower label score are not trusted
    given: (N,) class numbers of the labels; -1: no label, or no class of the run; None: no labels
    judgement: opinion on the labels that are classes of the run; None: no labels
    """

    rows: NewRows
    class_names: tuple[str, ...]
    probability: Floats
    uncertainty: Uncertainty
    threshold: float
    given: Integers | None = None
    judgement: Judgement | None = None


@dataclass(frozen=True)
class Predictor:
    """A finished run's model, with the conversion of new data to its input.

    embedding: how the training images were embedded; None: the run has no embedding
    trust: whether code outside the package that the folder's files name may run
    """

    folder: RunFolder
    model: Model
    model_input: ModelInput
    embedding: StoredEmbedding | None
    device: torch.device
    trust: Trust = False

    @classmethod
    def open(cls, folder: RunFolder, device: torch.device, *, trust: Trust = False) -> "Predictor":
        """Load the model and the description of its input."""
        model = Model.load(folder, trust=trust)
        model.networks.to(device)
        embedding = read_stored_embedding(folder)
        model_input = find_model_input(folder, model, embedding)
        if model_input.text is not None:
            name = getattr(model_input.text.features, "name", "")
            check_trust(name, "text model", str(folder.path / "text.npz"), trust)
        return cls(folder, model, model_input, embedding, device, trust)

    def read(self, spec: DataSpec, on_progress: CountCallback | None = None) -> NewRows:
        """Read new data of the kind that the run was trained on."""
        return load_new_rows(spec, self.model_input, on_progress)

    @memory_explained()
    def predict(
        self,
        rows: NewRows,
        *,
        prior: Prior = "training",
        cache: Path | None = None,
        on_progress: CountCallback | None = None,
    ) -> Predictions:
        """Predict classes and uncertainties, and judge the labels if the rows have labels.

        prior: class frequencies to assume in the new data
        cache: folder in which features of images are kept for a run with an embedding; None: they
            are not kept
        """
        spec = self.folder.spec
        given = self.number_given_labels(rows)
        inputs = self.prepare_inputs(rows, cache, on_progress)
        unsure = self.model.uncertainty(inputs, passes=count_passes(spec), seed=spec.seed)
        return Predictions(
            rows=rows,
            class_names=self.model_input.class_names,
            probability=self.model.predict_proba(inputs, prior=prior),
            uncertainty=unsure,
            threshold=self.folder.threshold,
            given=given,
            judgement=None if given is None else self.judge(inputs, given, unsure),
        )

    def number_given_labels(self, rows: NewRows) -> Integers | None:
        """Return (N,) class numbers as in `Predictions.given`; raise if no label is a class."""
        if rows.labels is None:
            return None
        given = class_numbers(rows.labels, self.model_input.class_names)
        if (given >= 0).any():
            return given
        first = next((label for label in rows.labels if label is not None), None)
        if first is None:
            return None
        known = ", ".join(self.model_input.class_names[:SHOWN])
        more = len(self.model_input.class_names) - SHOWN
        raise InputError(
            f"{rows.name}: no label is a class of the run (the first is '{first}'; known: {known}"
            + (f" and {more} more" if more > 0 else "")
            + "); name the column of the labels with --label, or remove them"
        )

    def judge(self, inputs: NDArray[Any], given: Integers, unsure: Uncertainty) -> Judgement:
        """Judge the labels that are classes of the run, under the training prior in every case."""
        known = given >= 0
        aleatoric = unsure.aleatoric
        prediction = self.model.predict_proba(inputs[known])
        judgement = judge_unseen(
            self.folder.judgement,
            prediction,
            given[known],
            epistemic=unsure.epistemic[known],
            aleatoric=None if aleatoric is None else aleatoric[known],
        )
        if not self.folder.has("noise.json"):
            return judgement
        noise = checked(ConfusionModel, self.folder.read_json("noise.json"), where="noise.json")
        if len(noise.transition) != prediction.shape[1]:
            reason = f"it has {len(noise.transition)} classes, the model {prediction.shape[1]}"
            raise self.folder.damaged("noise.json", ValueError(reason))
        return judgement.with_posterior(noise.posterior(prediction, given[known]))

    def prepare_inputs(
        self, rows: NewRows, cache: Path | None = None, on_progress: CountCallback | None = None
    ) -> NDArray[Any]:
        """Return the model's inputs; if the run has an embedding, images are embedded."""
        if self.embedding is None:
            return np.asarray(rows.inputs)
        if rows.inputs.ndim == 2:
            theirs = StoredEmbedding.read(rows.embedding or {}, rows.name)
            if theirs is not None and not theirs.same_as(self.embedding):
                raise InputError(
                    f"{rows.name}: not embedded as the run's data were (each `ulc embed` "
                    "fits its own projection); give the images themselves"
                )
            return np.asarray(rows.inputs)
        where = str(self.folder.path / "embedding.npz")
        backbone = self.embedding.load_backbone(where, trust=self.trust)
        embedder = Embedder(backbone, cache, self.device)
        return embed_new(rows.inputs, self.embedding, embedder, on_progress)


def count_passes(spec: RunSpec) -> int:
    """Return the number of dropout passes that the run's settings ask for."""
    passes = spec.options.get("passes", 1)
    if not isinstance(passes, int) or not 1 <= passes <= MOST_PASSES:
        raise InputError(
            f"spec.toml: 'options.passes' is {passes!r}; give a number from 1 to {MOST_PASSES}"
        )
    return passes


def read_stored_embedding(folder: RunFolder) -> StoredEmbedding | None:
    """Read how the run's images were embedded; None: the run has no embedding."""
    if not folder.has("embedding.npz"):
        return None
    arrays = folder.read_arrays("embedding.npz")
    return StoredEmbedding.read(arrays, str(folder.path / "embedding.npz"))


def find_model_input(
    folder: RunFolder, model: Model, embedding: StoredEmbedding | None
) -> ModelInput:
    """Find the kinds of input that the run's model takes."""
    shape, trained = model.spec.preprocessing.shape, folder.spec.data
    names = model.spec.class_names
    if folder.has("encoding.json"):
        from ulc.data.table_encoding import TableEncoding

        where = str(folder.path / "encoding.json")
        encoding = checked(TableEncoding, folder.read_json("encoding.json"), where=where)
        return ModelInput(names, trained, encoding=encoding)
    if folder.has("text.npz"):
        return ModelInput(names, trained, text=read_text_encoding(folder))
    if embedding is not None:
        return ModelInput(names, trained, (0, embedding.height, embedding.width), vector=shape[0])
    if len(shape) == 3:
        channels, height, width = shape
        return ModelInput(names, trained, (channels, height, width))
    return ModelInput(names, trained, vector=shape[0])


def read_text_encoding(folder: RunFolder) -> "TextEncoding":
    """Read how the run's sentences became vectors."""
    from ulc.data.text.encoding import TextEncoding

    try:
        return TextEncoding.read(folder.read_arrays("text.npz"))
    except (KeyError, ValueError) as error:
        raise folder.damaged("text.npz", error) from None


def name_classes(values: Integers, class_names: tuple[str, ...]) -> NDArray[Any]:
    """Return the class name of each class number in `values`."""
    return np.array(class_names, object)[values]
