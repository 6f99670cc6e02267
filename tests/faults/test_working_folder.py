"""Modules, packages and programs that lie in the working folder or in the data are not run."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from stub_data import embeddings
from ulc.config import DataSpec
from ulc.data.sources import load_source
from ulc.errors import InputError

POISON = "from pathlib import Path\nPath('ran').write_text(__name__)\n"
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n%%EOF\n"


@pytest.fixture
def folder():
    """The working folder, with data and modules that pandas, torch and Python look for."""
    np.savez("data.npz", **embeddings())
    for name in ("bottleneck", "numexpr", "opt_einsum", "multiprocessing", "evil"):
        Path(f"{name}.py").write_text(POISON)
    Path("evil-1.0.dist-info").mkdir()
    Path("evil-1.0.dist-info", "METADATA").write_text("Name: evil\nVersion: 1.0\n")
    Path("evil-1.0.dist-info", "entry_points.txt").write_text("[ulc.algorithms]\nevil = evil:Own\n")
    return Path.cwd()


def run_ulc(*words, module=False):
    """The output of a command that begins as it does for a user."""
    program = Path(sys.executable).with_name("ulc")
    begin = [sys.executable, "-m", "ulc"] if module else [str(program)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([*begin, *words], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "words",
    [
        ("train", "data.npz", "--algorithm", "ce", "--epochs", "1", "--quiet"),
        ("sweep", "data.npz", "--algorithms", "ce", "--seeds", "0,1", "--epochs", "1"),
        ("algorithms",),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("module", [False, True], ids=["ulc", "python -m ulc"])
def test_no_module_of_the_working_folder_is_imported(words, module):
    code, said = run_ulc(*words, module=module)
    assert code == 0, said
    assert not Path("ran").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_an_algorithm_of_a_package_in_the_working_folder_is_not_known():
    code, said = run_ulc("train", "data.npz", "--algorithm", "evil", "--epochs", "1")
    assert code == 2
    assert "evil" in said
    assert not Path("ran").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_a_module_that_the_user_names_is_imported_from_the_working_folder():
    code, said = run_ulc("train", "data.npz", "--network", "evil:Net", "--epochs", "1")
    assert (code, Path("ran").read_text()) == (2, "evil"), said


def test_a_picture_never_starts_a_program(monkeypatch):
    """Pillow gives EPS to Ghostscript, whatever the file is called."""
    started = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: started.append(1))
    for name in ("a", "b"):
        Path("photos", name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(Path("photos", name, "0.png"))
    Path("photos", "a", "1.png").write_bytes(EPS)
    with pytest.raises(InputError, match=r"1\.png"):
        load_source(DataSpec(source="folder", path="photos"))
    assert not started
