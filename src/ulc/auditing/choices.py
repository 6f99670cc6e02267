"""What an audit decides by itself, each with its reason."""

import math
from importlib.util import find_spec

import torch

from ulc.auditing.spec import AuditSpec, Choice
from ulc.config import NetworkSpec, RunSpec, merge
from ulc.data.sources.source import Source
from ulc.settings.automatic import settings

BACKBONE = "efficientnet-lite0"
# Longer trainings learn wrong labels by heart, shorter ones learn too little: about 2,000 steps in
# 12 to 25 epochs; where that makes less than 400 steps, more epochs.
STEPS, FEWEST_STEPS = 2_000, 400
FEWEST_EPOCHS, MOST_EPOCHS, MOST_OF_ALL = 12, 25, 100
HELD_OUT, HELD_OUT_OF_FEW, FEW = 0.1, 0.2, 2_000
MOST_HELD_OUT = 2_000  # rows; more would say little more
MUCH_NOISE = 0.35  # halfway between the rates for which the literature sets λ_u to 0 and to 25
MANY_IMAGES = 10_000  # on a GPU they are worth a deep network


def embedding(spec: AuditSpec, source: Source, device: torch.device) -> tuple[str | None, Choice]:
    """Which frozen network images go through first, if any."""
    images = source.inputs.ndim == 4
    if spec.embed != "auto" or not images:
        wanted = None if spec.embed in ("auto", "none") else spec.embed
        why = "as told" if spec.embed != "auto" else "these are no images"
        return wanted, Choice("pretrained features", wanted or "none", why, "--embed")
    if device.type != "cpu":
        why = "a GPU trains a network on the images themselves"
        return None, Choice("pretrained features", "none", why, "--embed")
    if find_spec("efficientnet_lite_pytorch") is None:
        why = "pip install 'ulc[embed]' brings them, and they help"
        return None, Choice("pretrained features", "none", why, "--embed")
    why = "without a GPU a network learns little from images alone"
    return BACKBONE, Choice("pretrained features", BACKBONE, why, "--embed")


def held_out(spec: AuditSpec, rows: int) -> tuple[float, Choice]:
    """Which share of the rows only watches."""
    if spec.held_out is not None:
        share, why = spec.held_out, "as told"
    else:
        few = rows < FEW
        share = HELD_OUT_OF_FEW if few else min(HELD_OUT, MOST_HELD_OUT / rows)
        why = "their labels show how training goes; they are judged like all others"
    count = max(1, round(share * rows))
    return share, Choice("rows held out", f"{count} of {rows}", why, "--held-out")


def network(spec: AuditSpec, source: Source, device: torch.device) -> tuple[NetworkSpec, Choice]:
    """Which network learns."""
    shape = source.inputs.shape[1:]
    if spec.network.name != "auto":
        return spec.network, Choice("network", spec.network.name, "as told", "--network")
    if len(shape) == 1:
        name, why = "mlp", f"for {shape[0]} numbers a row"
    else:
        deep = device.type != "cpu" and len(source.labels) >= MANY_IMAGES
        name = "preact_resnet18" if deep else "small_cnn"
        why = f"for {len(source.labels)} images of {shape[1]} by {shape[2]} pixels"
    chosen = spec.network.model_copy(update={"name": name})
    return chosen, Choice("network", name, why, "--network")


def trainings(spec: AuditSpec, source: Source, share: float) -> tuple[RunSpec, RunSpec, Choice]:
    """The plain run and ULC's, before anything is known of the noise."""
    shape, rows = source.inputs.shape[1:], len(source.labels)
    learned = rows - max(1, round(share * rows))
    epochs, why = spec.epochs, "as told"
    if epochs is None and len(shape) == 1:
        batch = settings("ulc", shape, learned, None, spec.options).options["batch_size"]
        steps = max(1, learned // batch)
        epochs = min(MOST_EPOCHS, max(FEWEST_EPOCHS, math.ceil(STEPS / steps)))
        epochs = max(epochs, min(MOST_OF_ALL, math.ceil(FEWEST_STEPS / steps)))
        why = f"{epochs * steps} steps for {learned} rows"
    plain = settings("ce", shape, learned, epochs, None)
    ulc = settings("ulc", shape, learned, epochs, spec.options)
    if epochs is None:
        epochs, why = ulc.epochs, f"as for images, with {learned} of them"
    return (
        plain.model_copy(update={"epochs": epochs}),
        ulc.model_copy(update={"epochs": epochs}),
        Choice("epochs", str(epochs), why, "--epochs"),
    )


def by_noise(ulc: RunSpec, spec: AuditSpec, rate: float) -> tuple[RunSpec, Choice]:
    """ULC's run with what depends on the noise."""
    told = "doubtful_weight" in spec.options
    weight = ulc.options.get("doubtful_weight", 25.0) if rate > MUCH_NOISE else 0.0
    if told:
        weight = spec.options["doubtful_weight"]
    options = merge(ulc.options, {"doubtful_weight": weight})
    why = "as told" if told else f"about {100 * rate:.0f} % of the labels are estimated wrong"
    choice = Choice("weight of doubtful labels", f"{weight:g}", why, "--set doubtful_weight=…")
    return ulc.model_copy(update={"options": options}), choice
