"""One module from photographs to class probabilities, for export as ONNX.

Its steps: crop and resize, frozen network, projection, classifier.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ulc.embedding.backbones import Backbone
from ulc.embedding.embed import Embedder, resize_and_normalise
from ulc.embedding.stored import StoredEmbedding
from ulc.importing import Trust
from ulc.prediction.fitting import fit_images
from ulc.prediction.input_spec import resize_and_crop
from ulc.prediction.predictor import read_stored_embedding
from ulc.storage.run_folder import RunFolder


class PhotoGraph(nn.Module):
    """Module from (B, H, W, 3) uint8 images of any size to the (B, K) output of `classifier`.

    classifier: from (B, P) vectors of the embedding to probabilities
    """

    def __init__(self, photos: "PhotoInput", classifier: nn.Module) -> None:
        super().__init__()
        self.size = photos.size
        self.loaded = photos.backbone.loaded
        self.network = photos.backbone.loaded.network
        self.classifier = classifier
        projection = photos.embedding.projection
        self.mean = torch.from_numpy(projection.mean)
        self.scale = projection.scale
        self.directions = (
            None if projection.directions is None else torch.from_numpy(projection.directions)
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return the (B, K) output for (B, H, W, 3) images."""
        fitted = fit_images(images, self.size)
        pooled = self.network(resize_and_normalise(fitted, self.loaded))
        vectors = pooled.double() - self.mean
        if self.directions is not None:
            vectors = vectors @ self.directions
        # `ulc predict` keeps vectors in half precision, too.
        return self.classifier((vectors / self.scale).half().float())


@dataclass(frozen=True)
class PhotoInput:
    """Photographs as the input of a graph, for a run whose images were embedded."""

    embedding: StoredEmbedding
    backbone: Backbone
    dynamic = ("batch", "height", "width")
    # A feature between two numbers of half precision may be rounded to either of them.
    tolerance = 1e-3

    @property
    def size(self) -> tuple[int, int]:
        """Return height and width of the run's images."""
        return self.embedding.height, self.embedding.width

    def module(self, graph: nn.Module) -> nn.Module:
        """Return the module to trace; graph: from vectors to probabilities."""
        self.backbone.loaded.network.cpu()
        return PhotoGraph(self, graph)

    def draw(self, rows: int) -> NDArray[Any]:
        """Draw `rows` images of random pixels; their height and width depend on `rows`."""
        rng = np.random.default_rng(rows)
        height, width = (side + int(rng.integers(side)) for side in self.size)
        return rng.integers(0, 256, (rows, height, width, 3), dtype=np.uint8)

    def to_model(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the vectors that `ulc predict` makes of (B, H, W, 3) images."""
        height, width = self.size
        images = resize_and_crop(inputs.transpose(0, 3, 1, 2), (width, height))
        embedder = Embedder(self.backbone, None, torch.device("cpu"))
        return self.embedding.projection(embedder.run(images)).astype(np.float32)

    def metadata(self) -> dict[str, str]:
        """Return texts about the input to store in the file."""
        return {
            "inputs": "RGB images, batch x height x width x 3, uint8, of any size, decoded and "
            "turned upright",
            "image_size": json.dumps(self.size),  # height and width that the graph fits them to
            "backbone": self.embedding.backbone,
        }


def find_photo_input(folder: RunFolder, *, trust: Trust = False) -> PhotoInput | None:
    """Read how the run's images were embedded; None: the run has no embedding.

    trust: whether a backbone outside the package may be imported
    """
    embedding = read_stored_embedding(folder)
    if embedding is None:
        return None
    where = str(folder.path / "embedding.npz")
    return PhotoInput(embedding, embedding.load_backbone(where, trust=trust))
