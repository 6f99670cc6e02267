"""Description of an embedding, stored with its vectors, to embed new images in the same way."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ulc.data.lazy.images import LazyImages
from ulc.embedding.backbones import Backbone, check_backbone_trust, load_backbone
from ulc.embedding.projection import Projection
from ulc.errors import InputError
from ulc.importing import Trust

# Prefix of the array names in an npz file; `ulc.data.sources.npz` finds the arrays by it.
PREFIX = "embedding_"


@dataclass(frozen=True)
class StoredEmbedding:
    """How images became vectors: a backbone, image sizes, and the projection of its features.

    backbone: name of the backbone
    size: height and width of the backbone's input, in pixels
    height, width: height and width of the images before resizing, in pixels
    fingerprint: digest of the backbone's name, weights, preprocessing and own code
    """

    backbone: str
    size: int
    height: int
    width: int
    fingerprint: str
    projection: Projection

    @classmethod
    def of(
        cls, backbone: Backbone, images: NDArray[Any] | LazyImages, projection: Projection
    ) -> Self:
        """Describe the embedding of (N, C, H, W) images."""
        height, width = images.shape[2:]
        return cls(
            backbone.name, backbone.loaded.size, height, width, backbone.fingerprint(), projection
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store with the vectors."""
        directions = self.projection.directions
        content = {
            "backbone": self.backbone,
            "size": self.size,
            "height": self.height,
            "width": self.width,
            "fingerprint": self.fingerprint,
            "mean": self.projection.mean,
            "scale": self.projection.scale,
            "explained": self.projection.explained,
        } | ({} if directions is None else {"directions": directions})
        return {PREFIX + name: np.asarray(value) for name, value in content.items()}

    @classmethod
    def read(cls, arrays: dict[str, NDArray[Any]], where: str) -> Self | None:
        """Read the embedding from arrays that `arrays()` made; None: `arrays` holds no embedding.

        where: name of the file in error messages
        """
        found = {k.removeprefix(PREFIX): v for k, v in arrays.items() if k.startswith(PREFIX)}
        if not found:
            return None
        try:
            projection = Projection(
                mean=found["mean"].astype(np.float64),
                scale=float(found["scale"]),
                directions=found.get("directions"),
                explained=float(found["explained"]),
            )
            return cls(
                backbone=str(found["backbone"]),
                size=int(found["size"]),
                height=int(found["height"]),
                width=int(found["width"]),
                fingerprint=str(found["fingerprint"]),
                projection=projection,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{where}: the description of the embedding is damaged ({error}); "
                "embed the images again"
            ) from None

    def same_as(self, other: "StoredEmbedding") -> bool:
        """Tell whether both embeddings turn an image into the same vector."""
        ours, theirs = self.arrays(), other.arrays()
        return ours.keys() == theirs.keys() and all(
            np.array_equal(ours[name], theirs[name]) for name in ours
        )

    def load_backbone(self, where: str, *, trust: Trust = False) -> Backbone:
        """Load the backbone; raise if weights, code or preprocessing differ from the embedding's.

        where: path of the file that names it; trust: whether code outside the package may run
        """
        check_backbone_trust(self.backbone, where, trust)
        backbone = load_backbone(self.backbone, size=self.size)
        if backbone.fingerprint() != self.fingerprint:
            raise InputError(
                f"backbone '{self.backbone}' differs in weights, code or preprocessing from the "
                "one that made the run's features; install the same version, or embed and train "
                "again"
            )
        return backbone
