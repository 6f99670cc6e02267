"""How well `ulc embed` reproduces a features file of CIFAR-10 made by another program.

    python benchmarks/embed_cifar10.py CIFAR_FOLDER FEATURES.npz [--images 2000]

FEATURES.npz holds X, in the original order of the training images: EfficientNet-Lite0 at 128
pixels, pooled, principal components, scaled. A least-squares map takes our pooled features to it.
The figures are the explained shares of its variance.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

from ulc.data.sources.cifar import load_cifar10
from ulc.embedding.backbones import load_backbone
from ulc.embedding.embed import Embedder
from ulc.embedding.projection import fit_projection


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cifar", type=Path)
    parser.add_argument("features", type=Path)
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--cache", type=Path, default=Path("embedded"))
    options = parser.parse_args(argv)
    embedder = Embedder(load_backbone(), options.cache, torch.device("cpu"))
    images = load_cifar10(options.cifar).inputs[: options.images]
    ours = np.concatenate(list(embedder.chunks(images)))
    with np.load(options.features) as content:
        theirs = content["X"][: len(ours)].astype(np.float64)
    print_explained("pooled", ours, theirs)
    for components in (512, 256):
        if components < len(ours):
            projected = fit_projection(ours, components).exact(ours)
            print_explained(f"{components} components of these images", projected, theirs)


def print_explained(title: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    whole = slice(None)
    half, most = len(ours) // 2, 3 * len(ours) // 4
    splits = {
        "fitted and measured on all": (whole, whole),
        f"fitted on {half}, measured on the rest": (slice(half), slice(half, None)),
        f"fitted on {most}, measured on the rest": (slice(most), slice(most, None)),
    }
    for name, (fit, measure) in splits.items():
        share = 100 * explained_share(ours, theirs, fit, measure)
        print(f"{title} ({ours.shape[1]}), {name}: {share:.3f} %")


def explained_share(ours: np.ndarray, theirs: np.ndarray, fit: slice, measure: slice) -> float:
    """Return 1 − residual / total of the affine least-squares map (minimum norm)."""
    centre, level = ours[fit].mean(axis=0, dtype=np.float64), theirs[fit].mean(axis=0)
    weights = np.linalg.lstsq(ours[fit] - centre, theirs[fit] - level, rcond=None)[0]
    target = theirs[measure]
    residual = target - (level + (ours[measure] - centre) @ weights)
    return float(1 - (residual**2).sum() / ((target - target.mean(axis=0)) ** 2).sum())


if __name__ == "__main__":
    main(sys.argv[1:])
