"""An audit of images that do not fit into memory is the audit of the same images in memory."""

import json
from pathlib import Path
from shutil import rmtree

import numpy as np
import pytest
from PIL import Image

import ulc as package
from ulc.data.lazy.images import LazyImages

NAMES = ("cat", "dog", "tea")
QUICK = {"epochs": 2, "options": {"warmup_epochs": 1}, "size": 32}
TOY, PIXELS = {"embed": "toy_backbones:Toy"}, {"embed": "none"}
# 60 images of 32 pixels take 184 KB.
TOO_LITTLE = "150KB"
# These tell times, and the machine, or are digests of the other files.
OTHER = {"environment.json", "checksums.json", "lock", "identity.json"}

pytestmark = pytest.mark.slow


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Sixty photographs of three colours; two are copies, two are almost equal, one is dark."""
    monkeypatch.setenv("ULC_IMAGE_WORKERS", "0")
    monkeypatch.setattr("ulc.labels.near_pictures.PIECE", 16)
    rng = np.random.default_rng(0)
    folder, painted = tmp_path / "photos", []
    for number in range(58):
        small = rng.integers(0, 60, (6, 6, 3), dtype=np.uint8)
        small[..., number % 3] += 150
        painted.append(Image.fromarray(small).resize((40 + number % 2, 36)))
    painted += [painted[0], painted[1].point(lambda value: int(0.8 * value))]
    painted[5] = Image.new("RGB", (40, 36))
    for number, image in enumerate(painted):
        path = folder / NAMES[number % 3] / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    return folder


@pytest.fixture
def read(monkeypatch):
    """How the images of each source were read: the types of its inputs."""
    kinds = []

    def record(inputs, what, check):
        kinds.append(type(inputs))
        check(inputs, what)

    from ulc.data.sources import source

    check = source.check_inputs
    monkeypatch.setattr(source, "check_inputs", lambda *both: record(*both, check))
    return kinds


def audit(data, **settings):
    """A new audit, always in the same folder, whose path is part of its files."""
    rmtree("audits", ignore_errors=True)
    return package.audit(data, "audits", **(QUICK | settings)).folder


def contents(folder):
    """The content of all files of an audit and of its trainings, without times."""
    files = [each for each in sorted(folder.path.rglob("*")) if each.is_file()]
    found = {str(each.relative_to(folder.path)): each for each in files if each.name not in OTHER}
    return {name: without_times(each) for name, each in found.items()}


def without_times(path):
    if path.suffix != ".jsonl":
        return path.read_bytes()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: each[name] for name in each if name != "seconds"} for each in records]


def differing(one, other):
    """Names of the files that differ."""
    return [name for name in one.keys() | other.keys() if one.get(name) != other.get(name)]


@pytest.mark.parametrize("how", [TOY, PIXELS])
def test_memory_changes_no_byte_of_an_audit(photos, monkeypatch, how, read):
    whole = contents(audit(photos, **how))
    assert LazyImages not in read
    monkeypatch.setenv("ULC_MEMORY_LIMIT", TOO_LITTLE)
    lazy = audit(photos, **how)
    assert LazyImages in read
    assert differing(contents(lazy), whole) == []
    health = lazy.read_json("health.json")
    assert health["near_pictures"]["rows_in_conflict"] == 2
    assert {each["kind"]: each["rows"] for each in health["poor_pictures"]["kinds"]}["dark"] >= 1


def test_the_command_reads_lazily_if_asked_and_its_page_shows_the_pictures(photos, ulc, read):
    options = ("--embed", "toy_backbones:Toy", "--epochs", 2, "--size", 32, "--json", "-q")
    told = []
    for how in ("--in-memory", "--lazy"):
        code, printed = ulc("audit", photos, how, *options, "--set", "warmup_epochs=1")
        assert code == 0, printed.err
        assert (LazyImages in read) == (how == "--lazy")
        told.append(json.loads(printed.out))
    labels = [Path(each["folder"], "labels.csv").read_bytes() for each in told]
    assert labels[0] == labels[1]
    read.clear()
    code, printed = ulc("report", told[1]["folder"], "--review", 5)
    assert code == 0, printed.err
    page = Path(told[1]["folder"], "report.html").read_text()
    assert page.count("data:image/") >= 5
    assert read == []


@pytest.mark.parametrize("how", [TOY, PIXELS])
def test_rows_without_a_label_are_predicted_the_same(photos, monkeypatch, how):
    images = sorted(photos.rglob("*.png"))
    labels = ["" if row % 9 == 0 else each.parent.name for row, each in enumerate(images)]
    lines = [f"{each},{label}" for each, label in zip(images, labels, strict=True)]
    Path("list.csv").write_text("\n".join(["image,label", *lines]))
    whole = contents(audit("list.csv", **how))
    monkeypatch.setenv("ULC_MEMORY_LIMIT", TOO_LITTLE)
    lazy = contents(audit("list.csv", **how))
    assert differing(lazy, whole) == []
    assert len(lazy["unlabelled.csv"].splitlines()) == 1 + labels.count("")


def test_both_models_can_be_trained_by_a_launcher(photos, monkeypatch):
    here = contents(audit(photos, **PIXELS))
    monkeypatch.setenv("ULC_MEMORY_LIMIT", TOO_LITTLE)
    assert differing(contents(audit(photos, **PIXELS, launcher="local")), here) == []


def test_worker_processes_change_no_byte_of_an_audit(photos, monkeypatch):
    here = contents(audit(photos, **TOY, lazy=True))
    for name in ("ULC_IMAGE_WORKERS", "ULC_EMBED_PROCESSES"):
        monkeypatch.setenv(name, "2")
    monkeypatch.setenv("ULC_IMAGE_CACHE_LIMIT", "0")
    assert differing(contents(audit(photos, **TOY, lazy=True)), here) == []


def test_new_photographs_that_do_not_fit_into_memory_are_predicted_the_same(photos, monkeypatch):
    run = package.load_run(audit(photos, **TOY).path, trust=True)
    whole = run.predict(photos)
    monkeypatch.setenv("ULC_MEMORY_LIMIT", TOO_LITTLE)
    assert run.predict(photos).equals(whole)
