"""Settings that an audit chooses where the user sets none, each with its reason."""

import math
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch

from ulc.auditing.spec import AuditSpec, Choice
from ulc.config import NetworkSpec
from ulc.data.held_out import count_held_out
from ulc.data.sources.source import Source
from ulc.errors import InputError
from ulc.settings.automatic import Size, settings
from ulc.typing import Integers

if TYPE_CHECKING:
    from ulc.data.text.encoding import TextEncoding

BACKBONE = "efficientnet-lite0"
# Vectors: about 2,000 steps in 12 to 24 epochs, and at least 400 steps in up to 100 epochs. Longer
# trainings memorise wrong labels, shorter ones learn too little.
VECTOR_STEPS, FEWEST_VECTOR_STEPS = 2_000, 400
FEWEST_VECTOR_EPOCHS, MOST_VECTOR_EPOCHS, MOST_EPOCHS_FOR_FEW_STEPS = 12, 24, 100
HELD_OUT, HELD_OUT_OF_FEW, FEW = 0.1, 0.2, 2_000
MOST_HELD_OUT = 2_000  # rows; more would hardly make the comparison more precise
MANY_IMAGES = 10_000  # enough for a deep network on a GPU
SET_BY_USER = "your setting"
# The plain model has so many epochs for each one of ULC+. Early stopping keeps one of the first
# epochs of a longer training anyway, or a worse one (development rows: docs/audit.md).
PLAIN_SHARE = 0.5


def choose_backbone(
    spec: AuditSpec, source: Source, device: torch.device
) -> tuple[str | None, Choice]:
    """The frozen network that embeds images; None: inputs are used as they are."""
    if source.text is not None:
        return None, choose_text_features(spec, source.text)
    images = source.inputs.ndim == 4
    if spec.embed != "auto" or not images:
        wanted = None if spec.embed in ("auto", "none") else spec.embed
        why = SET_BY_USER if spec.embed != "auto" else "these are no images"
        return wanted, Choice("pretrained features", wanted or "none", why, "--embed")
    if device.type != "cpu":
        why = "with a GPU, a network is trained on the images themselves"
        return None, Choice("pretrained features", "none", why, "--embed")
    if find_spec("efficientnet_lite_pytorch") is None:
        why = "they would help; pip install 'ulc[embed]' installs them"
        return None, Choice("pretrained features", "none", why, "--embed")
    why = "without a GPU, a network trained on the images learns less"
    return BACKBONE, Choice("pretrained features", BACKBONE, why, "--embed")


def choose_text_features(spec: AuditSpec, text: "TextEncoding") -> Choice:
    """How sentences became vectors, which reading them decided."""
    if spec.embed not in ("auto", "none"):
        raise InputError(
            f"--embed {spec.embed}: embeds images, but these are sentences; "
            "give a model of sentences with --text-model"
        )
    why = SET_BY_USER if spec.data.text_model else "needs no pretrained weights"
    return Choice("features of sentences", text.features.about, why, "--text-model")


def choose_held_out(spec: AuditSpec, given: Integers) -> tuple[float, Choice]:
    """The share of rows that are held out, for rows with these given labels."""
    rows = len(given)
    if spec.held_out is not None:
        share, why = spec.held_out, SET_BY_USER
    else:
        few = rows < FEW
        share = HELD_OUT_OF_FEW if few else min(HELD_OUT, MOST_HELD_OUT / rows)
        why = "both models are compared on them; they are judged like all rows"
    count = count_held_out(given, share)
    return share, Choice("rows held out", f"{count} of {rows}", why, "--held-out")


def choose_network(
    spec: AuditSpec, source: Source, device: torch.device
) -> tuple[NetworkSpec, Choice]:
    """The network of both trainings."""
    shape = source.inputs.shape[1:]
    if spec.network.name != "auto":
        return spec.network, Choice("network", spec.network.name, SET_BY_USER, "--network")
    if len(shape) == 1:
        name, why = "mlp", f"for {shape[0]} numbers a row"
    else:
        deep = device.type != "cpu" and len(source.labels) >= MANY_IMAGES
        name = "preact_resnet18" if deep else "small_cnn"
        why = f"for {len(source.labels)} images of {shape[1]} by {shape[2]} pixels"
    chosen = spec.network.model_copy(update={"name": name})
    return chosen, Choice("network", name, why, "--network")


def choose_epochs(spec: AuditSpec, size: Size) -> tuple[int, Choice]:
    """Epochs of ULC+, for data of this size."""
    if spec.epochs is not None:
        return spec.epochs, Choice("epochs", str(spec.epochs), SET_BY_USER, "--epochs")
    preset = settings("ulc_plus", size, None, spec.options)
    if len(size.shape) == 1:
        steps = max(1, size.rows // preset.options["batch_size"])
        epochs = max(FEWEST_VECTOR_EPOCHS, math.ceil(VECTOR_STEPS / steps))
        epochs = min(MOST_VECTOR_EPOCHS, epochs)
        least = math.ceil(FEWEST_VECTOR_STEPS / steps)
        epochs = max(epochs, min(MOST_EPOCHS_FOR_FEW_STEPS, least))
        why = f"{epochs * steps} steps for {size.rows} rows"
    else:
        epochs = preset.epochs
        why = f"the preset for images, for {size.rows} training images"
    return epochs, Choice("epochs", str(epochs), why, "--epochs")


def plain_epochs(epochs: int) -> int:
    """Epochs of the plain training, if ULC+ has `epochs`."""
    return math.ceil(PLAIN_SHARE * epochs)
