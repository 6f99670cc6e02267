"""Specs: frozen settings that are validated, written to TOML and read from it."""

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from ulc.errors import InputError
from ulc.validating import MOST_BYTES, check_size, without_none
from ulc.validating import checked as checked
from ulc.validating import configured as configured
from ulc.validating import merge as merge
from ulc.validating import read_toml as read_toml


class Spec(BaseModel):
    """Base class of all settings: frozen and validated; an unknown key is an error.

    unbounded: names of the fields whose numbers may have any size
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    unbounded: ClassVar[frozenset[str]] = frozenset({"seed"})

    @field_validator("*")
    @classmethod
    def _numbers_have_a_bound(cls, value: Any, info: ValidationInfo) -> Any:
        if info.field_name not in cls.unbounded:
            check_size(value)
        return value


class StoredSpec(Spec):
    """A spec that is stored as TOML and names the folder of its results."""

    @property
    def content(self) -> dict[str, Any]:
        """Return all values as JSON types, without None values, because TOML has no null."""
        content: dict[str, Any] = without_none(self.model_dump(mode="json"))
        return content

    def write(self) -> str:
        """Return the spec as TOML text; raise an InputError if `read` would refuse it."""
        text = tomli_w.dumps(self.content)
        if len(text.encode()) > MOST_BYTES:
            raise InputError(
                f"the spec takes more than {MOST_BYTES:,} bytes as TOML; shorten it, such as a "
                "noise matrix by giving the noisy labels as a file"
            )
        return text

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a spec from a TOML file."""
        return checked(cls, read_toml(path), where=str(path))

    @property
    def title(self) -> str:
        """The readable start of the folder's name."""
        raise NotImplementedError

    @property
    def folder_name(self) -> str:
        """The title and a hash of all values, so that different specs have different folders."""
        content = json.dumps(self.content, sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()[:6]
        return re.sub(r"[^\w.-]", "_", f"{self.title}-{digest}")


class Averaging(Spec):
    """Averaging of weights, an option of every optimiser."""

    average_epochs: float = Field(
        0.0, ge=0, description="epochs over which predicting weights are averaged; 0: no average"
    )


class SGD(Averaging):
    """Stochastic gradient descent with momentum and a step or cosine schedule."""

    lr: float = Field(0.02, gt=0, description="learning rate")
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(5e-4, ge=0)
    milestones: tuple[int, ...] = Field((150,), description="epochs at which the rate is decayed")
    decay: float = Field(0.1, gt=0, le=1, description="factor at each milestone")
    cosine_epochs: int = Field(
        0, ge=0, description="length of a cosine schedule, in place of milestones; 0: milestones"
    )

    def learning_rate(self, epoch: int) -> float:
        """The learning rate of this epoch; after a cosine schedule it stays at its last value."""
        if self.cosine_epochs:
            done = min(epoch, self.cosine_epochs - 1) / self.cosine_epochs
            return self.lr * (1 + math.cos(math.pi * done)) / 2
        return self.lr * self.decay ** sum(epoch >= milestone for milestone in self.milestones)

    def settings(self, epoch: int) -> dict[str, Any]:
        """The optimiser's settings for this epoch."""
        return {"lr": self.learning_rate(epoch)}


class Adam(Averaging):
    """Adam with a learning rate that falls linearly to 0 and a lower momentum while it falls."""

    lr: float = Field(1e-3, gt=0, description="learning rate")
    beta1: float = Field(0.9, ge=0, lt=1, description="momentum")
    later_beta1: float = Field(0.1, ge=0, lt=1, description="momentum while the rate falls")
    weight_decay: float = Field(0.0, ge=0)
    constant_epochs: int = Field(80, ge=0, description="epochs before the rate falls")
    falling_epochs: int = Field(120, ge=1, description="epochs in which the rate falls to 0")

    def learning_rate(self, epoch: int) -> float:
        """The learning rate of this epoch; after the fall it stays at its last value above 0."""
        left = self.constant_epochs + self.falling_epochs - epoch
        return self.lr * min(max(left, 1) / self.falling_epochs, 1.0)

    def settings(self, epoch: int) -> dict[str, Any]:
        """The optimiser's settings for this epoch."""
        beta1 = self.beta1 if epoch < self.constant_epochs else self.later_beta1
        return {"lr": self.learning_rate(epoch), "betas": (beta1, 0.999)}


Descent = SGD | Adam


class DataSpec(Spec):
    """Where inputs and labels come from."""

    source: str = Field("fashion", description="a name that `ulc datasets` lists")
    path: str | None = Field(None, description="folder or file, where the source needs one")
    label: str | None = Field(None, description="column of the given labels")
    image: str | None = Field(None, description="column of the images or of their paths")
    text: str | None = Field(None, description="column of sentences to learn from")
    text_model: str | None = Field(None, description="tfidf or a model, as `ulc audit --help` says")
    id: str | None = Field(None, description="column that names each row")
    sep: str | None = Field(None, description="separator of a text table; None: found in the file")
    encoding: str | None = Field(None, description="of a text table; None: found in the file")
    true: str | None = Field(None, description="column of the true labels, only for evaluation")
    verified: str | None = Field(None, description="column: was this label checked by a person?")
    features: tuple[str, ...] | None = Field(
        None, description="columns to learn from; None: all other columns"
    )
    test: str | None = Field(
        None, description="second folder or table, with right labels: the test set"
    )
    size: int | None = Field(None, ge=8, le=1024, description="pixels a side; None: common or 64")
    skip_broken: bool = Field(False, description="leave out images that cannot be read")
    lazy: bool | None = Field(
        None, description="read images when needed, or all into memory; None: by their size"
    )

    @property
    def options(self) -> dict[str, Any]:
        """The options that differ from their defaults, without source and path."""
        return self.model_dump(mode="json", exclude={"source", "path"}, exclude_defaults=True)


class ImbalanceSpec(Spec):
    """How class sizes are made unequal."""

    kind: Literal["none", "half", "long_tail"] = "none"
    ratio: float = Field(10.0, ge=1, description="size of the largest class over the smallest")

    @property
    def tag(self) -> str:
        """Short name for folders and tables."""
        return "balanced" if self.kind == "none" else f"{self.kind.replace('_', '')}{self.ratio:g}"


class NoiseSpec(Spec):
    """Which wrong labels are injected."""

    kind: Literal[
        "none", "symmetric", "symmetric_inclusive", "asymmetric", "pair_flip", "matrix", "file"
    ] = "none"
    rate: float = Field(0.5, ge=0, le=1, description="share of labels that are drawn anew")
    matrix: tuple[tuple[float, ...], ...] | None = Field(
        None, description="row: true class, column: given class; for kind = 'matrix'"
    )
    file: str | None = Field(None, description="file that holds the labels; for kind = 'file'")
    key: str | None = Field(None, description="name of the labels in a file that holds several")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "matrix" and self.matrix is None:
            raise ValueError("noise.kind = 'matrix' needs noise.matrix")
        if self.kind == "file" and self.file is None:
            raise ValueError("noise.kind = 'file' needs noise.file")
        return self

    @property
    def tag(self) -> str:
        """Short name for folders and tables."""
        short = {"symmetric": "sym", "symmetric_inclusive": "symincl", "asymmetric": "asym"}
        if self.kind == "none":
            return "clean"
        if self.kind == "file":
            return self.key or Path(self.file or "").stem
        rate = "" if self.kind == "matrix" else f"{self.rate:g}"
        return f"{short.get(self.kind, self.kind.replace('_', ''))}{rate}"


class NetworkSpec(Spec):
    """Which backbone is used; a backbone maps a batch of inputs to pooled features."""

    name: str = Field("auto", description="auto, a built-in name, or your own module:Class")
    width: int | None = Field(
        None, ge=1, description="width of the first layer of a built-in network; None: its default"
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="constructor arguments of your own module:Class"
    )
    weights: str | None = Field(
        None, description="of resnet50 at the start: imagenet or a file; None: random"
    )

    @property
    def weights_file(self) -> Path | None:
        """The file of the initial weights; None: they are random or those of ImageNet."""
        return None if self.weights in (None, "imagenet") else Path(str(self.weights))

    @model_validator(mode="after")
    def _options_fit_the_kind(self) -> Self:
        own = ":" in self.name
        if self.weights is not None and self.name not in ("auto", "resnet50"):
            raise ValueError(f"weights are for the network 'resnet50', not for '{self.name}'")
        if own and self.width is not None:
            raise ValueError(
                f"width is for built-in networks; give '{self.name}' its arguments as options"
            )
        if not own and self.options:
            raise ValueError(
                f"the built-in network '{self.name}' has no option "
                f"'{min(self.options)}'; it has width"
            )
        return self


class ComputeSpec(Spec):
    """How a training computes: settings for large networks and GPUs (docs/gpu.md)."""

    precision: Literal["float32", "bfloat16", "float16", "auto"] = Field(
        "float32",
        description="of the backbone, by autocast; the rest stays float32; auto: by the device",
    )
    accumulate: int = Field(1, ge=1, description="batches whose mean gradient makes one step")
    compiled: bool = Field(False, description="compile the backbones with torch.compile")
    score_every: int = Field(
        1, ge=1, description="epochs between scores of test set and labels; the last has them"
    )


class RunSpec(StoredSpec):
    """All settings of a run."""

    data: DataSpec = DataSpec()
    imbalance: ImbalanceSpec = ImbalanceSpec()
    noise: NoiseSpec = NoiseSpec()
    network: NetworkSpec = NetworkSpec()
    algorithm: str = "ulc"
    options: dict[str, Any] = Field(default_factory=dict, description="options of the algorithm")
    epochs: int = Field(300, ge=1)
    seed: int = Field(0, ge=0)
    held_out: float = Field(
        0.0, ge=0, lt=1, description="share of the rows that are held out from training"
    )
    compute: ComputeSpec | None = Field(None, description="how it computes; None: as by default")

    @property
    def title(self) -> str:
        """Data, imbalance, noise, algorithm and seed."""
        parts = (self.data.source, self.imbalance.tag, self.noise.tag, self.algorithm)
        return re.sub(r"[^\x00-\x7F]", "_", "-".join([*parts, f"s{self.seed}"]))
