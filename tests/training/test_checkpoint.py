"""Checkpoints: what a user's own algorithm keeps must be readable when its run is resumed."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ulc.errors import InputError
from ulc.storage.run_folder import create_folder
from ulc.training import checkpoint


class Own(nn.Module):
    """An algorithm of a user, as far as a checkpoint sees it."""

    def __init__(self, kept):
        super().__init__()
        self.kept = kept

    def get_extra_state(self):
        return self.kept

    def set_extra_state(self, state):
        self.kept = state


def test_the_state_of_an_own_algorithm_comes_back():
    kept = {"history": [1.5, {"a": torch.arange(3)}], "counts": Counter(a=2), "none": None}
    folder = create_folder(Path("run"))
    checkpoint.save(Own(kept), 0, folder)
    fresh = Own(None)
    assert checkpoint.restore(fresh, folder).start == 1
    assert fresh.kept["history"][1]["a"].tolist() == [0, 1, 2]
    assert fresh.kept["counts"] == kept["counts"]


@pytest.mark.parametrize(
    "kept",
    [
        {"pairs": {(1, 2): 3}},
        {"object": SimpleNamespace(a=1)},
        {"sparse": torch.eye(2).to_sparse()},
    ],
    ids=lambda kept: next(iter(kept)),
)
def test_a_state_that_could_not_be_resumed_is_refused_after_the_first_epoch(kept):
    """Not at the first resume, when the training would be lost."""
    folder = create_folder(Path("run"))
    with pytest.raises(InputError, match=r"the state of Own cannot be resumed \(.+\); keep only"):
        checkpoint.save(Own(kept), 0, folder)
    assert not folder.has(checkpoint.NAME)


def test_memory_that_is_not_there_is_no_damaged_checkpoint(monkeypatch):
    folder = create_folder(Path("run"))
    checkpoint.save(Own({"a": torch.ones(3)}), 0, folder)

    def empty(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("ulc.data.torch_file.torch.empty", empty)
    with pytest.raises(MemoryError):
        checkpoint.restore(Own(None), folder)
