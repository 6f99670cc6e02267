"""A trained model: weights as safetensors, the rest as JSON; no training data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import nn

from ulc.blocks.learner import evaluating, mean_prediction
from ulc.config import NetworkSpec, Spec, checked
from ulc.data.preprocessing import Preprocessing
from ulc.errors import InputError
from ulc.judgement import Floats
from ulc.networks import NewBackbone, network_maker
from ulc.networks.classifier import Classifier, HeadSpec
from ulc.prior import Prior, with_prior
from ulc.run_folder import RunFolder


class ModelSpec(Spec):
    """What the weights alone do not say."""

    format: int = 1
    network: NetworkSpec
    heads: HeadSpec
    networks: int
    preprocessing: Preprocessing
    class_names: tuple[str, ...]
    class_prior: tuple[float, ...]


class Model:
    """One or two networks that predict together."""

    def __init__(self, spec: ModelSpec, networks: Sequence[Classifier]) -> None:
        self.spec = spec
        self.networks = nn.ModuleList(networks)
        self.members = networks

    def predict_proba(
        self, inputs: NDArray[Any], *, prior: Prior = "training", size: int = 1024
    ) -> Floats:
        """(N, …) stored inputs to (N, K) probabilities under the prior."""
        preprocessing = self.spec.preprocessing
        device = next(self.networks.parameters()).device
        with torch.no_grad(), evaluating(self.networks):
            parts = [
                mean_prediction(self.members, preprocessing.ready(stored.to(device)))
                for stored in preprocessing.stored(inputs).split(size)
            ]
        probability: Floats = torch.cat(parts).cpu().numpy()
        return with_prior(probability, np.asarray(self.spec.class_prior), prior)

    def save(self, folder: RunFolder) -> None:
        """Write model.safetensors and model.json."""
        weights = {name: value.contiguous() for name, value in self.networks.state_dict().items()}
        folder.write("model.safetensors", safetensors.torch.save(weights))
        folder.write("model.json", self.spec.model_dump_json(indent=1).encode())

    @classmethod
    def untrained(cls, spec: ModelSpec, new_backbone: NewBackbone | None = None) -> "Model":
        """The spec's networks before their weights are loaded; the user may bring a backbone."""
        new_network = network_maker(
            new_backbone or spec.network,
            spec.preprocessing.shape,
            len(spec.class_names),
            torch.device("cpu"),
        )
        with torch.random.fork_rng(devices=[]):
            return cls(spec, [new_network(spec.heads) for _ in range(spec.networks)])

    @classmethod
    def load(cls, folder: RunFolder) -> "Model":
        """Read what `save` wrote."""
        content = folder.read_json("model.json")
        model = cls.untrained(checked(ModelSpec, content, where=str(folder.path / "model.json")))
        try:
            weights = safetensors.torch.load(folder.read("model.safetensors"))
            model.networks.load_state_dict(weights)
        except InputError:
            raise
        except Exception as error:
            # safetensors and torch raise several kinds for a damaged file.
            raise folder.damaged("model.safetensors", error) from None
        return model
