"""README.md, executed: every command and every Python block, on tiny data of the same names.

Data are made under the names that README.md gives them. A command that names something else fails,
and what stands for something else in capitals (RUN) needs a line in `PLACEHOLDERS`.
"""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import ulc as package
from stub_data import embeddings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLASSES = ("cat", "dog", "emu")
PRINTED = {"text", "bibtex"}  # shown, not run
# The tests cannot wait for whole trainings.
SHORTER = {
    'ulc.audit("photos")': 'ulc.audit("photos", epochs=1)',
    "ULCClassifier()": "ULCClassifier(epochs=1)",
}


def blocks(text):
    """(comment before it, language, content) of each fenced block."""
    fence = r"^(?:<!-- (.*?) -->\n)?```([^\n]*)\n(.*?)^```"
    return re.findall(fence, text, re.M | re.S)


def commands(text):
    """The commands of blocks that are for a shell; several may stand in a line, widely apart."""
    contents = [
        content
        for mark, language, content in blocks(text)
        if not mark and language in ("", "sh", "bash")
    ]
    lines = [re.sub(r"(^|\s)#.*", "", line) for line in "\n".join(contents).splitlines()]
    return [each for line in lines for each in re.split(r"\s{2,}(?=\w)", line.strip()) if each]


SETUP = {mark: content for mark, _, content in blocks(README) if mark}
COMMANDS = commands(README)
PYTHON = "".join(content for _, language, content in blocks(README) if language == "python")


# ---- data by the names that README.md gives them


def make_photos(folder, per_class):
    rng = np.random.default_rng(0)
    for label, name in enumerate(CLASSES):
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            pixels = rng.integers(0, 100, (16, 16, 3))
            pixels[4 * label + 2 : 4 * label + 5] += 150
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{number}.png")


def make_table(path):
    arrays = embeddings()
    frame = pd.DataFrame(arrays["X"], columns=["length", "width", "height", "mass"])
    frame.assign(species=np.array(CLASSES)[arrays["y"]]).to_csv(path, index=False)


def make_cifar10(folder, human):
    """The official binary layout, and human labels for it."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    labels = np.arange(10)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        content = np.hstack([labels[:, None], rng.integers(0, 256, (10, 3072))])
        (folder / f"{name}.bin").write_bytes(content.astype(np.uint8).tobytes())
    true = np.tile(labels, 5)
    worse = np.where(np.arange(50) % 3 == 0, (true + 1) % 10, true)
    torch.save({"clean_label": true, "worse_label": worse}, human)


def train_photos():
    """A short training on the photographs, and a decision about one of its labels."""
    spec = package.RunSpec(data={"source": "folder", "path": "photos"}, epochs=1)
    path = package.train(spec, "runs").folder.path
    table = pd.read_csv(path / "labels.csv")
    table.head(1).assign(decision="accept")[["id", "decision"]].to_csv("decisions.csv", index=False)
    return str(path)


PLACEHOLDERS = {"RUN": train_photos, "DIR": lambda: "DIR"}


def prepare(line):
    """The words of a command: placeholders replaced, trainings short, and no output there yet."""
    program, *words = shlex.split(line)
    assert program == "ulc", f"{line}: this test knows no program {program}"
    found = set(re.findall(r"\b[A-Z]{2,}\b(?![-.])", line))
    unknown = found - PLACEHOLDERS.keys()
    assert not unknown, f"{line}: PLACEHOLDERS does not say what {', '.join(unknown)} stands for"
    for name in found:
        words = [re.sub(rf"\b{name}\b", PLACEHOLDERS[name](), word) for word in words]
    for option in {"--out", "--onnx"} & set(words):
        Path(words[words.index(option) + 1]).unlink(missing_ok=True)
    if words[0] == "sweep":
        words += ["--jobs", "1"]  # in this process
    if words[0] == "train" and words[1].startswith("cifar"):
        words += ["--network", "small_cnn"]
    trains = words[0] in ("train", "audit", "sweep") and "--epochs" not in words
    return [*words, "--epochs", "1"] if trains else words


@pytest.fixture(autouse=True)
def _data_of_all_names(tmp_path, monkeypatch):
    make_photos(tmp_path / "photos", 12)
    make_photos(tmp_path / "new_photos", 2)
    make_table(tmp_path / "table.csv")
    np.savez(tmp_path / "embeddings.npz", **embeddings())
    make_cifar10(tmp_path / "DIR" / "cifar-10-batches-bin", tmp_path / "CIFAR-10_human.pt")
    monkeypatch.setattr("typer.launch", lambda _: 0)  # no browser


def check_extras(text):
    """Every extra that a command installs is one that pyproject.toml has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {name for names in re.findall(r"\[([\w,]+)\]", text) for name in names.split(",")}
    assert named <= project["optional-dependencies"].keys(), text


def run(ulc, line):
    """Run a command; of an installation, only check its words."""
    if line.startswith("pip install "):
        check_extras(line)
        return
    code, printed = ulc(*prepare(line))
    assert code == 0, f"{line}: {printed.err}"


@pytest.mark.slow
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_runs(ulc, line):
    run(ulc, line)


@pytest.mark.slow
def test_the_python_runs():
    code, arrays = PYTHON, embeddings()
    for long, short in SHORTER.items():
        code = code.replace(long, short)
    probabilities = np.full((len(arrays["y"]), len(CLASSES)), 0.2)
    probabilities[np.arange(len(arrays["y"])), arrays["y"]] = 0.6
    names = {"X": arrays["X"], "y": arrays["y"], "probabilities": probabilities}
    exec(compile(code, "README.md", "exec"), names)


def test_the_setup_commands_are_sound():
    """CI runs the test command; both are one line for a shell."""
    assert SETUP.keys() >= {"main command", "test command"}
    for content in SETUP.values():
        assert len(content.splitlines()) == 1
        subprocess.run(["bash", "-n", "-c", content], check=True)
        check_extras(content)


def test_every_block_is_of_a_known_kind():
    languages = {language for _, language, _ in blocks(README)}
    assert languages <= {"", "sh", "bash", "python", *PRINTED}
    assert len(COMMANDS) > 10
    assert "import ulc" in PYTHON
    assert any(line.startswith("ulc audit") for line in COMMANDS)


# ---- and this test can fail


def test_commands_are_found():
    shell = "```sh\nulc show RUN   ulc datasets  # why\n\nulc train a#b # c\n```\n"
    text = f"a\n{shell}```text\nulc no\n```\n"
    assert commands(text) == ["ulc show RUN", "ulc datasets", "ulc train a#b"]
    assert commands("<!-- main command -->\n```\npython3\n```\n") == []


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("ulc train NEWDATA", "NEWDATA"),
        ("rm -r photos", "no program rm"),
        ("pip install 'ulc[emded]'", "emded"),
        ("ulc audit photographs", "photographs"),
        ("ulc train photos --epoch 3", "--epoch"),
    ],
)
def test_what_cannot_run_is_noticed(ulc, line, says):
    with pytest.raises(AssertionError, match=says):
        run(ulc, line)
