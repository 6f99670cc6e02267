"""A trained model: weights as safetensors, the rest as JSON; no training data."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from ulc.algorithms.base import Algorithm, array, seeded
from ulc.blocks.learner import evaluating, mean_prediction
from ulc.blocks.uncertainty import draw_mask_seeds, monte_carlo_dropout, normalised_entropy
from ulc.config import NetworkSpec, Spec, checked
from ulc.data.lazy.training import LazyInputs
from ulc.data.preprocessing import Preprocessing
from ulc.data.rows import rows_at_once
from ulc.errors import InputError
from ulc.importing import Trust, check_trust
from ulc.labels.prior import Prior, with_prior
from ulc.networks import NewBackbone, network_maker
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.storage.run_folder import RunFolder
from ulc.storage.tensor_file import TensorFileKind, read_tensors, write_tensors
from ulc.training.own_code import hash_network
from ulc.typing import Floats

UNCERTAINTY = 2**31 + 1  # in place of an epoch's number in the seed; no epoch has it
EXPORTED = TensorFileKind("model", "`ulc export` writes one", "export it again")


@dataclass(frozen=True)
class Uncertainty:
    """How unsure a model is of each of N rows.

    epistemic: (N,) entropy of the prediction over log K, 0 (sure) to 1
    aleatoric: (N,) mean standard deviation of the row's logit noise; None: the network has none
    """

    epistemic: Floats
    aleatoric: Floats | None


class ModelSpec(Spec):
    """Everything about a model except its weights."""

    format: int = 1
    network: NetworkSpec
    heads: HeadSpec
    networks: int = Field(ge=1, le=16)
    preprocessing: Preprocessing
    class_names: tuple[str, ...]
    class_prior: tuple[float, ...]
    network_hash: str | None = None  # hash of the source of a network of the user's own

    @model_validator(mode="after")
    def _one_prior_for_each_class(self) -> Self:
        if len(self.class_prior) != len(self.class_names):
            raise ValueError("class_prior and class_names differ in length")
        return self

    @classmethod
    def read(cls, folder: RunFolder) -> Self:
        """Read model.json of a run folder."""
        where = str(folder.path / "model.json")
        return checked(cls, folder.read_json("model.json"), where=where)


class Model:
    """One or two networks that predict together."""

    def __init__(self, spec: ModelSpec, networks: Sequence[Classifier]) -> None:
        self.spec = spec
        self.networks = nn.ModuleList(networks)
        self.members = networks

    def predict_proba(
        self, inputs: NDArray[Any], *, prior: Prior = "training", size: int = 1024
    ) -> Floats:
        """(N, K) class probabilities for (N, …) raw inputs, under a class prior.

        size: largest number of rows in a batch
        """
        probability = self.predict_stored(self.spec.preprocessing.stored(inputs), size)
        return with_prior(probability, np.asarray(self.spec.class_prior), prior)

    def predict_stored(self, stored: Tensor | LazyInputs, size: int = 1024) -> Floats:
        """(N, K) class probabilities for (N, …) stored inputs, under the training prior.

        Raise an InputError if a prediction is not finite.
        """
        ready, device = self.spec.preprocessing.ready, next(self.networks.parameters()).device
        size = rows_at_once(self.spec.preprocessing.shape, size)
        with torch.no_grad(), evaluating(self.networks):
            parts = [
                mean_prediction(self.members, ready(part.to(device))) for part in stored.split(size)
            ]
        probability = array(torch.cat(parts))
        bad = ~np.isfinite(probability).all(axis=1)
        if bad.any():
            raise InputError(
                f"the model predicts NaN or infinity for row {int(bad.argmax())}; its values are "
                "too large for the network: check them, or train on data of that size"
            )
        return probability

    def uncertainty(
        self, inputs: NDArray[Any], *, passes: int, seed: int, size: int = 1024
    ) -> Uncertainty:
        """Uncertainties of (N, …) raw inputs; see `uncertainty_stored`."""
        stored = self.spec.preprocessing.stored(inputs)
        return self.uncertainty_stored(stored, passes=passes, seed=seed, size=size)

    def uncertainty_stored(
        self, stored: Tensor | LazyInputs, *, passes: int, seed: int, size: int = 1024
    ) -> Uncertainty:
        """Uncertainties of (N, …) stored inputs.

        With dropout or logit noise: entropy of the mean over `passes` dropout passes, averaged
        over the networks, as in training; and the learned noise. Without both: entropy of the
        prediction.

        seed: of the dropout masks; size: largest number of rows in a batch
        """
        if self.spec.heads.dropout == 0 and not self.spec.heads.logit_noise:
            probability = self.predict_stored(stored, size).astype(np.float64)
            probability /= probability.sum(1, keepdims=True)
            log_probability = torch.from_numpy(np.log(np.maximum(probability, 1e-30)))
            return Uncertainty(array(normalised_entropy(log_probability).float()), None)
        device = next(self.networks.parameters()).device
        entropies, noises = [], []
        with seeded(seed, UNCERTAINTY), evaluating(self.networks):
            masks = [draw_mask_seeds(network, passes) for network in self.members]
            for part in stored.split(rows_at_once(self.spec.preprocessing.shape, size)):
                inputs = self.spec.preprocessing.ready(part.to(device))
                passed = [
                    monte_carlo_dropout(network, inputs, seeds)
                    for network, seeds in zip(self.members, masks, strict=True)
                ]
                entropy = [normalised_entropy(each.log_probability) for each in passed]
                entropies.append(torch.stack(entropy).mean(0))
                stds = [each.instance_std for each in passed if each.instance_std is not None]
                noises += [torch.stack(stds).mean((0, 2))] if stds else []
        aleatoric = array(torch.cat(noises)) if noises else None
        return Uncertainty(array(torch.cat(entropies)), aleatoric)

    def save(self, folder: RunFolder) -> None:
        """Write model.safetensors and model.json."""
        folder.write("model.safetensors", safetensors.torch.save(self.weights()))
        folder.write("model.json", self.spec.model_dump_json(indent=1).encode())

    def save_file(self, path: Path) -> None:
        """Write weights and spec as one safetensors file, the spec as JSON in its header."""
        names = json.dumps(self.spec.class_names)
        write_tensors(path, self.spec.model_dump_json(), self.weights(), class_names=names)

    def weights(self) -> dict[str, Tensor]:
        """The weights of all networks, by name."""
        state = self.networks.state_dict()
        return {name: value.cpu().contiguous() for name, value in state.items()}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Load what `weights` returned; raise a ValueError if a weight is NaN or infinite."""
        for name, value in weights.items():
            if value.is_floating_point() and not value.isfinite().all():
                raise ValueError(f"{name} holds NaN or infinity")
        self.networks.load_state_dict(weights)

    @classmethod
    def of_algorithm(  # noqa: PLR0913 (all that a model consists of)
        cls,
        algorithm: Algorithm,
        network: NetworkSpec,
        preprocessing: Preprocessing,
        class_names: Sequence[str],
        class_prior: Floats,
        network_hash: str | None = None,
    ) -> "Model":
        """The model that an algorithm has learned."""
        networks = algorithm.networks()
        spec = ModelSpec(
            network=network.model_copy(update={"weights": None}),  # it has its own weights
            heads=networks[0].spec,
            networks=len(networks),
            preprocessing=preprocessing,
            class_names=tuple(class_names),
            class_prior=tuple(map(float, class_prior)),
            network_hash=network_hash,
        )
        return cls(spec, networks)

    @classmethod
    def untrained(cls, spec: ModelSpec, new_backbone: NewBackbone | None = None) -> "Model":
        """A model with new networks, whose weights are loaded later.

        new_backbone: makes the backbone of a network that cannot be imported by its name
        """
        new_network = network_maker(
            new_backbone or spec.network,
            spec.preprocessing.input_shape,
            len(spec.class_names),
            torch.device("cpu"),
        )
        with torch.random.fork_rng(devices=[]):
            return cls(spec, [new_network(spec.heads) for _ in range(spec.networks)])

    @classmethod
    def load(cls, folder: RunFolder, *, trust: Trust = False) -> "Model":
        """Read what `save` wrote; trust: whether a network outside the package may be imported."""
        spec = ModelSpec.read(folder)
        check_network(spec, folder.path / "model.json", trust)
        try:
            weights = safetensors.torch.load(folder.read("model.safetensors"))
            check_weights(spec, weights)
            model = cls.untrained(spec)
            model.load_weights(weights)
        except InputError:
            raise
        except Exception as error:
            # safetensors and torch raise several kinds of error for a damaged file.
            raise folder.damaged("model.safetensors", error) from None
        return model

    @classmethod
    def load_file(cls, path: Path, *, trust: Trust = False) -> "Model":
        """Read what `save_file` wrote; trust: as for `load`."""
        content, weights = read_tensors(path, EXPORTED)
        spec = checked(ModelSpec, content, where=str(path))
        check_network(spec, path, trust)
        try:
            check_weights(spec, weights)
            model = cls.untrained(spec)
            model.load_weights(weights)
        except InputError:
            raise
        except (RuntimeError, ValueError) as error:
            raise EXPORTED.unreadable(path, error) from None
        return model


def check_weights(spec: ModelSpec, weights: Mapping[str, Tensor]) -> None:
    """Raise a ValueError unless a model of this spec has these weights.

    The model is made without memory first: a wrong spec could ask for any amount of it. A network
    of the user's own is not, because its constructor may do anything.
    """
    if ":" in spec.network.name:
        return
    shape, classes = spec.preprocessing.input_shape, len(spec.class_names)
    device = torch.device("meta")
    with device:
        network = network_maker(spec.network, shape, classes, device)(spec.heads)
    wanted = {
        f"{place}.{name}": value.shape
        for place in range(spec.networks)
        for name, value in network.state_dict().items()
    }
    if wanted != {name: value.shape for name, value in weights.items()}:
        raise ValueError("it does not fit the description of the model")


def check_network(spec: ModelSpec, path: Path, trust: Trust) -> None:
    """Raise an InputError if a network of the user's own may not run, or was edited since."""
    check_trust(spec.network.name, "network", str(path), trust)
    if spec.network_hash not in (None, hash_network(spec.network)):
        raise InputError(
            f"{path}: the file of the network '{spec.network.name}' was edited after the model was "
            "trained; undo the edit, or train anew with --fresh"
        )
