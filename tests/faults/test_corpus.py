"""Every bad input of the table ends in its one sentence: no traceback, no hang, nothing written."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from bad_inputs import DATA, FOLDER

from ulc.config import DataSpec, RunSpec
from ulc.training.run import run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run of twelve rows, and its data."""
    home = tmp_path_factory.mktemp("finished")
    data = home / "good.npz"
    np.savez(data, X=np.arange(24.0).reshape(12, 2), y=np.array(["a", "b"] * 6))
    source = DataSpec(source="npz", path=str(data))
    spec = RunSpec(data=source, algorithm="ce", options={"batch_size": 8}, epochs=1)
    return run(spec, home / "runs").path, data


def say_one_sentence(ulc, bad):
    if sys.platform == "win32" and any(word in str(bad.says) for word in ("regular", "link")):
        pytest.skip("Windows has no pipes and links of this kind")
    code, printed = ulc(*bad.command)
    assert code == 2, printed
    assert printed.err.startswith("ulc: ")
    assert printed.err.count("\n") == 1, printed.err
    assert "Traceback" not in printed.err
    assert len(printed.err) < 1000
    for words in bad.says:
        assert words in printed.err


@pytest.mark.parametrize("name", DATA)
def test_bad_data_is_one_sentence(ulc, name):
    DATA[name].make()
    say_one_sentence(ulc, DATA[name])
    assert not Path("runs").exists()


@pytest.mark.parametrize("name", FOLDER)
def test_a_damaged_run_folder_is_one_sentence(ulc, finished, name):
    path, data = finished
    shutil.copytree(path, "RUN")
    Path("RUN/checksums.json").unlink()  # who forges a folder forges its checksums
    shutil.copy(data, "good.npz")
    bad = FOLDER[name]
    bad.make()
    if bad.command[0] == "resume":
        Path("RUN").rename(path.name)
        bad = type(bad)(bad.make, ("resume", path.name, "-q"), bad.says)
    say_one_sentence(ulc, bad)
