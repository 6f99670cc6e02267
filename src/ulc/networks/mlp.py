"""Backbone for vectors: embeddings and table rows."""

from torch import Tensor, nn


class MLP(nn.Module):
    """(B, D) vectors to (B, width) features: one hidden layer.

    There is no second hidden layer, because it would memorise wrong labels sooner.
    """

    def __init__(self, shape: tuple[int, ...], width: int = 512) -> None:
        super().__init__()
        self.width = width
        self.early_stages = nn.Identity()
        self.last_stage = nn.Sequential(
            nn.Linear(shape[0], width, bias=False), nn.BatchNorm1d(width), nn.ReLU(inplace=True)
        )

    def forward(self, vectors: Tensor) -> Tensor:
        """Vectors to features."""
        return self.last_stage(vectors)
