"""Small machines run these: one thread a worker, and no test reaches the user's files."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
