"""Embed images: resize, run the frozen network, project its features, write a features file."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ulc.blocks.learner import evaluating
from ulc.data.lazy.images import LazyImages
from ulc.data.sources.source import Source
from ulc.embedding.backbones import Backbone, LoadedNetwork
from ulc.embedding.cache import Cache
from ulc.embedding.pool import Chunk, EmbeddingPool, Run, Start
from ulc.embedding.projection import Projection, fit_projection
from ulc.embedding.stored import StoredEmbedding
from ulc.errors import InputError, first_line
from ulc.storage.files import write_whole
from ulc.storage.temporary import remove_temporaries
from ulc.typing import CountCallback

CHUNK = 256  # images per cache file; a stopped command loses the work on at most so many


@dataclass(frozen=True)
class Embedder:
    """A backbone with the device, the batch size and the cache that it uses.

    cache_root: folder that holds one cache folder for each backbone; None: no cache
    processes: number of processes that compute features; 1: this one
    """

    backbone: Backbone
    cache_root: Path | None
    device: torch.device
    batch_size: int = 32
    processes: int = 1

    @property
    def cache(self) -> Cache | None:
        """Return the cache of this backbone; None: features are not kept."""
        return None if self.cache_root is None else find_cache(self.backbone, self.cache_root)

    def chunks(self, images: NDArray[np.uint8] | LazyImages) -> Iterator[NDArray[np.float32]]:
        """Yield (n, D) features of (N, C, H, W) images chunk by chunk, from the cache or computed.

        Chunks do not depend on the batch size, so every batch size finds the same files. No batch
        crosses a chunk, so a resumed command gives the same result, bit by bit, and so do several
        processes.
        """
        cache = self.cache
        if cache is not None:
            remove_temporaries(cache.folder)

        def find_features(chunk: Chunk, run: Run) -> NDArray[np.float32]:
            start, part = chunk
            features = None if cache is None else cache.read(part)
            if features is None:
                features = run(part)
                self.check_finite(features, start)
                if cache is not None:
                    cache.write(part, features)
            return features

        parts = read_chunks(images)
        if self.processes > 1:
            yield from self.new_pool().in_order(find_features, parts)
            return
        for chunk in parts:
            yield find_features(chunk, self.run)

    def new_pool(self) -> EmbeddingPool:
        """Return processes for this backbone; together they have as many threads as this one."""
        threads = max(1, torch.get_num_threads() // self.processes)
        backbone, device = self.backbone, str(self.device)
        start = Start(backbone.name, backbone.loaded.size, self.batch_size, device, threads)
        return EmbeddingPool(start, backbone.fingerprint(), self.processes)

    def check_finite(self, features: NDArray[np.float32], start: int) -> None:
        """Raise an InputError if (n, D) features are NaN or infinite; start: the first image."""
        bad = ~np.isfinite(features).all(axis=1)
        if bad.any():
            raise InputError(
                f"backbone '{self.backbone.name}' gives NaN or infinity for image "
                f"{start + int(bad.argmax())}; check its weights"
            )

    def run(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Compute the (n, D) features of (n, C, H, W) images in batches."""
        loaded, name = self.backbone.loaded, self.backbone.name
        network = loaded.network.to(self.device)
        parts = []
        with evaluating(network), torch.no_grad():
            for start in range(0, len(images), self.batch_size):
                batch = torch.tensor(images[start : start + self.batch_size], device=self.device)
                try:
                    features = network(resize_and_normalise(batch, loaded))
                except RuntimeError as error:
                    raise InputError(
                        f"backbone '{name}' fails on a batch of {len(batch)} ({first_line(error)});"
                        " lower --batch-size or --size if memory is short"
                    ) from error
                if features.shape != (len(batch), self.backbone.width):
                    raise InputError(
                        f"backbone '{name}' gives {tuple(features.shape)} for {len(batch)} images; "
                        f"its shape must be ({len(batch)}, {self.backbone.width}) for every batch"
                    )
                parts.append(features.float().cpu().numpy())
        return np.concatenate(parts)


def read_chunks(images: NDArray[np.uint8] | LazyImages) -> Iterator[Chunk]:
    """Yield (N, C, H, W) images chunk by chunk; lazy ones are decoded ahead of their use."""
    starts = range(0, len(images), CHUNK)
    if isinstance(images, LazyImages):
        yield from zip(starts, images.in_pieces(CHUNK), strict=True)
    else:
        yield from ((start, images[start : start + CHUNK]) for start in starts)


def find_cache(backbone: Backbone, root: Path) -> Cache:
    """Return the cache of a backbone; other weights or another size have another cache."""
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in backbone.name)
    folder = f"{name}-{backbone.loaded.size}-{backbone.fingerprint()[:16]}"
    return Cache(root / folder, backbone.width)


def resize_and_normalise(images: Tensor, loaded: LoadedNetwork) -> Tensor:
    """Convert (B, C, H, W) uint8 images, grey or colour, to (B, 3, size, size) network input."""
    batch = images.float() / 255
    # Antialiasing is for shrinking only: with it, PyTorch enlarges with another bicubic kernel.
    shrinks = loaded.size < max(images.shape[2:])
    batch = F.interpolate(
        batch, (loaded.size, loaded.size), mode=loaded.interpolation, antialias=shrinks
    ).expand(-1, 3, -1, -1)
    mean, std = (batch.new_tensor(values).view(1, 3, 1, 1) for values in (loaded.mean, loaded.std))
    return (batch - mean) / std


@dataclass(frozen=True)
class Embedded:
    """The arrays of a features file; how: description of the embedding that made them."""

    arrays: dict[str, NDArray[Any]]
    how: StoredEmbedding

    @property
    def projection(self) -> Projection:
        """Return the projection from pooled features to the vectors in the file."""
        return self.how.projection

    def write(self, path: Path) -> None:
        """Write arrays and description as an npz file for `ulc train`."""
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **self.arrays, **self.how.arrays())
        write_whole(path, buffer.getvalue())


def embed(
    source: Source,
    embedder: Embedder,
    *,
    pca: int | None = None,
    on_progress: CountCallback | None = None,
) -> Embedded:
    """Embed the training and test images of a source; labels, ids and flags are copied.

    pca: number of principal components; 0: no PCA; None: as `fit_projection` chooses
    """
    check_images(source)
    test = source.test_inputs if source.test_labels is not None else None
    total = len(source.inputs) + (0 if test is None else len(test))
    done = 0

    def pooled(images: NDArray[np.uint8] | LazyImages) -> NDArray[np.float32]:
        nonlocal done
        found = np.empty((len(images), embedder.backbone.width), np.float32)
        start = 0
        for features in embedder.chunks(images):
            found[start : start + len(features)] = features
            start += len(features)
            done += len(features)
            if on_progress:
                on_progress(done, total)
        return found

    if on_progress:
        on_progress(0, total)
    train = pooled(source.inputs)
    # The projection is fitted on training rows only: test rows must not influence training.
    projection = fit_projection(train, pca)
    arrays = {"X": projection(train), "y": source.labels} | other_arrays(source)
    del train  # before the test images take memory
    if test is not None:
        arrays |= {"X_test": projection(pooled(test)), "y_test": source.test_labels}
    return Embedded(arrays, StoredEmbedding.of(embedder.backbone, source.inputs, projection))


def embed_new(
    images: NDArray[np.uint8] | LazyImages,
    how: StoredEmbedding,
    embedder: Embedder,
    on_progress: CountCallback | None = None,
) -> NDArray[np.float32]:
    """Turn (N, C, H, W) new images into (N, P) vectors with a stored embedding."""
    parts: list[NDArray[np.float16]] = []
    done = 0
    for features in embedder.chunks(images):
        parts.append(how.projection(features))
        done += len(features)
        if on_progress:
            on_progress(done, len(images))
    return np.concatenate(parts).astype(np.float32)


def check_images(source: Source) -> None:
    """Raise unless the inputs are grey or colour images."""
    if source.inputs.ndim != 4:
        raise InputError(
            f"{source.name}: holds vectors of {source.inputs.shape[1]} numbers, not images; "
            "train on them directly"
        )
    if source.inputs.shape[1] not in (1, 3):
        raise InputError(
            f"{source.name}: images have {source.inputs.shape[1]} channels; "
            "give grey (1) or colour (3) images"
        )


def other_arrays(source: Source) -> dict[str, NDArray[Any]]:
    """Return true labels, class names, ids and verified flags, if the source has them."""
    known = {
        "y_true": source.true,
        "class_names": source.class_names,
        "ids": getattr(source, "ids", None),
        "verified": getattr(source, "verified", None),
    }
    arrays = {name: np.asarray(value) for name, value in known.items() if value is not None}
    # Object arrays would need pickle, and our readers do not load pickles.
    return {k: v.astype(str) if v.dtype == object else v for k, v in arrays.items()}
