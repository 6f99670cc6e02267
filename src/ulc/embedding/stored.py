"""How images became vectors, as it lies beside them: enough to embed new images alike."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ulc.embedding.backbones import Backbone, load_backbone
from ulc.embedding.projection import Projection
from ulc.errors import InputError

# Each array is called `embedding_` and its key; `ulc.data.sources.npz` passes them on by that.
PREFIX = "embedding_"


@dataclass(frozen=True)
class StoredEmbedding:
    """A backbone by its name, what it was given, and the projection of what it gave.

    size: pixels a side that the backbone takes
    height, width: of the images before that
    fingerprint: of the backbone with its weights
    """

    backbone: str
    size: int
    height: int
    width: int
    fingerprint: str
    projection: Projection

    @classmethod
    def of(cls, backbone: Backbone, images: NDArray[Any], projection: Projection) -> Self:
        """What was done to (N, C, H, W) images."""
        height, width = images.shape[2:]
        return cls(
            backbone.name, backbone.recipe.size, height, width, backbone.fingerprint(), projection
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """To be stored beside the vectors."""
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
        """What `arrays` gave; None where nothing was stored."""
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
                f"{where}: what it holds of the embedding is damaged ({error}); "
                "embed the images again"
            ) from None

    def same_as(self, other: "StoredEmbedding") -> bool:
        """Whether both turn an image into the same vector."""
        ours, theirs = self.arrays(), other.arrays()
        return ours.keys() == theirs.keys() and all(
            np.array_equal(ours[name], theirs[name]) for name in ours
        )

    def load_backbone(self) -> Backbone:
        """The network itself, if it is the same here."""
        backbone = load_backbone(self.backbone, size=self.size)
        if backbone.fingerprint() != self.fingerprint:
            raise InputError(
                f"backbone '{self.backbone}' has other weights or another preprocessing here than "
                "where the run's features were made; install that version, or embed and train anew"
            )
        return backbone
