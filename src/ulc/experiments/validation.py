"""Data for choosing settings: part of the training rows, with given labels, as the test set."""

from dataclasses import replace

import numpy as np
import torch

from ulc.config import ImbalanceSpec, NoiseSpec, RunSpec
from ulc.data.held_out import draw_held_out
from ulc.data.prepare import Prepared, label, prepare, random_streams

SHARE = 0.2
CPU = torch.device("cpu")


def prepare_validation(spec: RunSpec, device: torch.device = CPU) -> Prepared:
    """Prepare the data of a spec with a fifth of its training rows as the test set.

    Imbalance and noise come first, so labels of both parts are given labels. True labels and the
    real test set are left out.
    """
    labelled = label(spec)
    source, given = labelled.source, labelled.given
    rng = np.random.default_rng(random_streams(spec.seed)[2])
    tested = draw_held_out(given, SHARE, rng)
    learned = np.delete(np.arange(len(given)), tested)
    split = replace(
        source,
        inputs=source.inputs[learned],
        labels=given[learned],
        true=None,
        test_inputs=source.inputs[tested],
        test_labels=given[tested],
        ids=None,
        verified=None,
    )
    done = {"imbalance": ImbalanceSpec(), "noise": NoiseSpec()}
    return prepare(spec.model_copy(update=done), device, source=split)
