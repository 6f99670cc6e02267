"""Train ULC with a network of your own.

A network is a torch Module from a batch of inputs to one vector of features per input, (B, D).
ULC adds dropout and the layers that classify. This one takes images of one channel. The command
line finds it by its name: `ulc train photos --network own_network:TinyNetwork`.

    python own_network.py
"""

import argparse

import numpy as np
from torch import Tensor, nn

import ulc
from ulc.data.sources.fashion import load


class TinyNetwork(nn.Module):
    """Two convolutions, then the mean over all pixels: (B, 1, H, W) to (B, 32)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip

    def forward(self, images: Tensor) -> Tensor:
        """Images to features."""
        return self.layers(images)


def main() -> None:
    """Train on three classes of Fashion-MNIST with a fifth of the labels wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=900)
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    fashion = load()
    kept = np.isin(fashion.labels, [1, 5, 8]).nonzero()[0][: arguments.rows]
    images, true = fashion.inputs[kept], np.array(fashion.class_names)[fashion.labels[kept]]
    wrong = rng.random(len(true)) < 0.2
    labels = np.where(wrong, rng.permutation(true), true)

    model = ulc.ULCClassifier(network=TinyNetwork, epochs=arguments.epochs, random_state=0)
    model.fit(images, labels)
    issues = model.find_label_issues()
    print("network:", type(model.model_.networks[0].backbone).__name__)
    print(f"accuracy on true labels: {(model.predict(images) == true).mean():.2f}")
    print(f"labels that look wrong: {issues['is_label_issue'].sum()} of {len(issues)}")


if __name__ == "__main__":
    main()
