"""Small networks for tests, named `toy_backbones:…`."""

import torch
from torch import nn


class Toy(nn.Module):
    """Random convolution, batch norm and dropout, pooled; needs evaluation mode."""

    size = 8

    def __init__(self, features=12, seed=0):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.convolution = nn.Conv2d(3, features, 3, padding=1)
        self.norm = nn.BatchNorm2d(features)
        self.dropout = nn.Dropout(0.5)
        self.seen = 0

    def forward(self, images):
        self.seen += len(images)
        features = self.norm(self.convolution(images)).relu().mean(dim=(2, 3))
        return self.dropout(features)


class Traceable(Toy):
    """Does not count its images, so its graph takes every batch size."""

    def forward(self, images):
        return self.norm(self.convolution(images)).relu().mean(dim=(2, 3))


class Killed(Toy):
    """Raises KeyboardInterrupt after some images."""

    survives = 400

    def forward(self, images):
        if self.seen + len(images) > self.survives:
            raise KeyboardInterrupt
        return super().forward(images)


class Colours(nn.Module):
    """Returns the mean of each input channel."""

    size, mean, std = 4, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)

    def forward(self, images):
        return images.mean(dim=(2, 3))


class Maps(Toy):
    """Returns a feature map without pooling."""

    def forward(self, images):
        return self.convolution(images)


class Fickle(Toy):
    """Changes its width with the size of the batch."""

    def forward(self, images):
        return super().forward(images)[:, : 12 if len(images) == 2 else 11]


class Poor(Toy):
    """Runs out of memory on more than two images."""

    def forward(self, images):
        if len(images) > 2:
            raise torch.OutOfMemoryError("out of memory\nand a long story")
        return super().forward(images)


class Undefined(Toy):
    """Gives NaN for white images."""

    def forward(self, images):
        features = super().forward(images)
        features[images.mean(dim=(1, 2, 3)) > 2] = torch.nan
        return features


class Greedy(Toy):
    """Asks for an unknown interpolation."""

    interpolation = "lanczos"


class Flat(Toy):
    """Divides by zero."""

    std = (1.0, 0.0, 1.0)


def number():
    """Returns no network."""
    return 3
