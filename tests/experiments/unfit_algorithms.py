"""Algorithms that keep every law of one process, and break the one about several."""

import os

import torch

from ulc.algorithms.cross_entropy import CrossEntropy


class DrawsByProcess(CrossEntropy):
    """Weights change by random numbers that are others in each process."""

    def train_epoch(self, epoch):
        record = super().train_epoch(epoch)
        generator = torch.Generator().manual_seed(os.getpid())
        with torch.no_grad():
            for weight in self.learner.network.head.parameters():
                weight += 0.1 * torch.randn(weight.shape, generator=generator)
        return record


class MixesInsideTheBackbone(CrossEntropy):
    """Each row's features have a share of those of the next row: mixup inside the backbone."""

    def train_epoch(self, epoch):
        last = list(self.learner.network.backbone.children())[-1]
        handle = last.register_forward_hook(lambda _, __, hidden: hidden + 0.5 * hidden.roll(1, 0))
        try:
            return super().train_epoch(epoch)
        finally:
            handle.remove()
