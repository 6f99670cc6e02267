"""Export a run's model as an ONNX graph."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ulc.blocks.learner import evaluating, mean_prediction
from ulc.data.preprocessing import Preprocessing
from ulc.errors import InputError, first_line
from ulc.labels.prior import Prior, with_prior
from ulc.storage.files import write_whole
from ulc.training.model import Model

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
BATCHES = (1, 3, 16)  # batch sizes at which the graph is compared with PyTorch


class GraphInput(Protocol):
    """What the inputs of a graph are, and how they become the model's inputs.

    dynamic: names of the first axes of the inputs, whose lengths may be any
    tolerance: largest allowed difference between two probabilities
    """

    @property
    def dynamic(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def tolerance(self) -> float: ...  # noqa: D102

    def module(self, graph: nn.Module) -> nn.Module:
        """Return the module to trace; graph: from the model's inputs to probabilities."""

    def draw(self, rows: int) -> NDArray[Any]:
        """Draw random inputs."""

    def to_model(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the model's inputs as `ulc predict` makes them of these inputs."""

    def metadata(self) -> dict[str, str]:
        """Return texts about the inputs to store in the file."""


@dataclass(frozen=True)
class ModelInputs:
    """The model's own inputs as the input of a graph."""

    preprocessing: Preprocessing
    dynamic = ("batch",)
    tolerance = 1e-4

    def module(self, graph: nn.Module) -> nn.Module:
        """Return the graph itself."""
        return graph

    def draw(self, rows: int) -> NDArray[Any]:
        """Draw `rows` images of random pixels, or vectors with the training set's mean and std."""
        return random_inputs(self.preprocessing, rows)

    def to_model(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the inputs themselves."""
        return inputs

    def metadata(self) -> dict[str, str]:
        """Return nothing: the shape of the input says it all."""
        return {}


class Graph(nn.Module):
    """Module from raw inputs to class probabilities: preprocessing, mean of all networks, prior.

    Vectors are standardised in double precision, as in `Preprocessing.stored`.
    """

    def __init__(self, model: Model, prior: Prior) -> None:
        super().__init__()
        self.networks = model.networks
        self.members = model.members
        self.preprocessing = model.spec.preprocessing
        classes = len(model.spec.class_names)
        # `with_prior` multiplies each class by a factor; from uniform input it returns the factors.
        even = np.full((1, classes), 1 / classes)
        factors = with_prior(even, np.asarray(model.spec.class_prior), prior)[0]
        self.factors = None if prior == "training" else torch.tensor(factors * classes).float()
        self.mean = torch.tensor(self.preprocessing.mean, dtype=torch.float64)
        self.std = torch.tensor(self.preprocessing.std, dtype=torch.float64)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return (B, K) probabilities of (B, C, H, W) uint8 images or (B, D) float32 vectors."""
        if self.preprocessing.kind == "image":
            ready = self.preprocessing.ready(inputs)
        else:
            ready = ((inputs.double() - self.mean) / self.std).float()
        probability = mean_prediction(self.members, ready)
        if self.factors is None:
            return probability
        weighted = probability * self.factors
        return weighted / weighted.sum(1, keepdim=True).clamp(min=1e-30)


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX graph that has been compared with PyTorch.

    content: the bytes of the file
    difference: largest difference between the graph's and PyTorch's probabilities, on random inputs
    """

    content: bytes
    difference: float

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        write_whole(path, self.content)


def export_onnx(
    model: Model,
    *,
    prior: Prior = "training",
    metadata: dict[str, str] | None = None,
    inputs: GraphInput | None = None,
) -> OnnxFile:
    """Export one graph from raw inputs to probabilities; raise if PyTorch's probabilities differ.

    metadata: texts to store in the file beside class names, prior and version
    inputs: what the graph takes; None: the model's own inputs
    """
    check_onnx_packages()
    import onnx

    model.networks.cpu()
    inputs = inputs or ModelInputs(model.spec.preprocessing)
    proto = trace_to_onnx(inputs.module(Graph(model, prior)), inputs)
    about = {
        "class_names": json.dumps(model.spec.class_names, ensure_ascii=False),
        "prior": prior if isinstance(prior, str) else json.dumps(list(prior)),
        "ulc": version("ulc"),
    }
    onnx.helper.set_model_props(proto, about | inputs.metadata() | (metadata or {}))
    onnx.checker.check_model(proto)
    content = proto.SerializeToString()
    difference = compare_with_pytorch(content, model, prior, inputs)
    if not difference <= inputs.tolerance:
        raise InputError(
            f"the ONNX graph of '{model.spec.network.name}' differs from PyTorch by "
            f"{difference:.1g}; nothing was written: export it with --safetensors"
        )
    return OnnxFile(content, difference)


def trace_to_onnx(module: nn.Module, inputs: GraphInput) -> Any:
    """Trace the module into an ONNX model that takes every length of the dynamic axes."""
    example = torch.from_numpy(inputs.draw(2))
    dynamic = {axis: torch.export.Dim(name) for axis, name in enumerate(inputs.dynamic)}
    try:
        with silence_exporter(), evaluating(module), torch.no_grad():
            program = torch.onnx.export(
                module,
                (example,),
                dynamo=True,
                verbose=False,
                input_names=["inputs"],
                output_names=["probabilities"],
                dynamic_shapes=(dynamic,),
            )
    except Exception as error:
        # The exporter raises many types for a user's own network that it cannot trace.
        raise InputError(
            f"the model cannot be written as ONNX ({first_line(error)}); "
            "export it with --safetensors"
        ) from error
    if program is None:
        raise InputError("the model cannot be written as ONNX; export it with --safetensors")
    return program.model_proto


def compare_with_pytorch(content: bytes, model: Model, prior: Prior, inputs: GraphInput) -> float:
    """Return the largest difference between onnxruntime's and PyTorch's probabilities."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    differences = []
    for rows in BATCHES:
        drawn = inputs.draw(rows)
        try:
            (found,) = session.run(None, {"inputs": drawn})
        except Exception as error:  # the types are private; a network may allow one batch size
            raise InputError(
                f"the ONNX graph of '{model.spec.network.name}' fails on a batch of {rows} "
                f"({first_line(error)}); nothing was written: export it with --safetensors"
            ) from error
        wanted = model.predict_proba(inputs.to_model(drawn), prior=prior)
        differences.append(np.abs(found - wanted).max())
    return float(max(differences))


def random_inputs(preprocessing: Preprocessing, rows: int) -> NDArray[Any]:
    """Draw `rows` images of random pixels, or vectors with the training set's mean and std."""
    rng = np.random.default_rng(rows)
    shape = (rows, *preprocessing.shape)
    if preprocessing.kind == "image":
        return rng.integers(0, 256, shape, dtype=np.uint8)
    spread = rng.normal(size=shape) * np.asarray(preprocessing.std)
    return (spread + np.asarray(preprocessing.mean)).astype(np.float32)


def check_onnx_packages() -> None:
    """Raise `InputError` if a package of the extra `onnx` is missing."""
    for package in PACKAGES:
        if find_spec(package) is None:
            raise InputError(f"ONNX needs {package}; install it with: pip install 'ulc[onnx]'")


@contextmanager
def silence_exporter() -> Iterator[None]:
    """Suppress the exporter's deprecation warnings and its logs about torchvision."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
