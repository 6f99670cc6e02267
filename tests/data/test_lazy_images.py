"""Images that are read when needed: the same images, the same training, a bounded cache."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ulc.config import SGD, DataSpec, RunSpec
from ulc.data.identity import identify
from ulc.data.lazy.cache import cache_root
from ulc.data.lazy.images import LazyImages
from ulc.data.lazy.survey import Survey
from ulc.data.preprocessing import Preprocessing
from ulc.data.sources import load_source
from ulc.errors import InputError
from ulc.training.loop import TrainingProgress
from ulc.training.run import resume, run

SIZE = 8
IMAGE_BYTES = 3 * SIZE * SIZE


def paint(path, rng, size=(12, 10)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(rng.integers(0, 255, (*size, 3), dtype=np.uint8)).save(path)
    return path


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A folder of three classes with a test set and two copies; images of two sizes."""
    monkeypatch.setenv("ULC_IMAGE_WORKERS", "0")
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    for number in range(36):
        size = (12, 10) if number % 2 else (20, 24)
        paint(folder / "train" / "abc"[number % 3] / f"{number:02}.jpg", rng, size)
    for number in range(9):
        paint(folder / "test" / "abc"[number % 3] / f"{number:02}.png", rng)
    copy = folder / "train" / "b" / "copy.jpg"
    copy.write_bytes((folder / "train" / "a" / "00.jpg").read_bytes())
    return folder


def data_spec(folder, **options):
    return DataSpec(source="folder", path=str(folder), size=SIZE, **options)


def load(folder, **options):
    return load_source(data_spec(folder, **options))


def sources(folder, **options):
    return load(folder, lazy=False, **options), load(folder, lazy=True, **options)


def without_times(records):
    return [
        {name: each for name, each in record.items() if name != "seconds"} for record in records
    ]


def results(folder):
    """All that a training gives: model, labels, records."""
    names = ("model.safetensors", "labels.csv", "judgement.npz", "health.json", "data.json")
    return [folder.read(name) for name in names] + [without_times(folder.records)]


def spec_of(data, algorithm="ce", epochs=2, **options):
    settings = {"warmup_epochs": 1} if algorithm in ("ulc", "dividemix", "ulc_plus") else {}
    if algorithm == "ulc_plus":
        settings["sgd"] = SGD(cosine_epochs=epochs, average_epochs=1).model_dump()
    return RunSpec(
        data=data,
        algorithm=algorithm,
        epochs=epochs,
        network={"name": "small_cnn", "width": 4},
        options={**settings, "batch_size": 8},
        **options,
    )


def test_lazy_images_are_the_images_in_memory(photos):
    whole, lazy = sources(photos)
    assert isinstance(lazy.inputs, LazyImages)
    assert lazy.inputs.shape == whole.inputs.shape
    assert np.array_equal(np.asarray(lazy.inputs), whole.inputs)
    assert np.array_equal(np.asarray(lazy.test_inputs), whole.test_inputs)
    chosen = np.array([5, 2, 30])
    assert np.array_equal(np.asarray(lazy.inputs[chosen]), whole.inputs[chosen])
    assert Preprocessing.fit(lazy) == Preprocessing.fit(whole)
    assert lazy.warnings == whole.warnings != ()


def test_lazy_images_have_the_identity_of_the_images_in_memory(photos):
    identities = {identify(each, data_spec(photos), None, None).content for each in sources(photos)}
    assert len(identities) == 1


def test_the_exact_mean_and_deviation_of_image_files_are_those_of_their_pixels(photos):
    whole, _ = sources(photos)
    fitted, pixels = Preprocessing.fit(whole), whole.inputs.astype(np.float64) / 255
    assert np.allclose(fitted.mean, pixels.mean((0, 2, 3)), rtol=1e-12)
    assert np.allclose(fitted.std, pixels.std((0, 2, 3)), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ce", "ulc", "ulc_plus", "dividemix", "elr_plus"])
def test_a_lazy_training_gives_the_same_bits_as_one_in_memory(photos, algorithm):
    whole, lazy = (
        run(spec_of(data_spec(photos, lazy=each), algorithm, held_out=0.2), Path("runs"))
        for each in (False, True)
    )
    assert whole.path != lazy.path
    assert results(lazy) == results(whole)


@pytest.mark.slow
def test_worker_processes_do_not_change_a_training(photos, monkeypatch):
    without = run(spec_of(data_spec(photos, lazy=True), "ulc"), Path("without"))
    monkeypatch.setenv("ULC_IMAGE_WORKERS", "2")
    monkeypatch.setenv("ULC_IMAGE_CACHE_LIMIT", "0")
    assert results(run(spec_of(data_spec(photos, lazy=True), "ulc"), Path("with"))) == results(
        without
    )


def test_a_lazy_training_that_was_stopped_resumes_to_the_same_bits(photos):
    class Stop(TrainingProgress):
        def on_epoch(self, record):
            if record["epoch"] == 1:
                raise KeyboardInterrupt

    spec = spec_of(data_spec(photos, lazy=True), epochs=4)
    unbroken = run(spec, Path("unbroken"))
    with pytest.raises(KeyboardInterrupt):
        run(spec, Path("broken"), progress=Stop(), save_every=0)
    resumed = resume(Path("broken") / unbroken.path.name)
    assert results(resumed) == results(unbroken)


def test_images_that_would_exceed_the_memory_bound_are_read_lazily(photos, monkeypatch):
    data = DataSpec(source="folder", path=str(photos), size=32)
    assert isinstance(load_source(data).inputs, np.ndarray)
    monkeypatch.setenv("ULC_MEMORY_LIMIT", "100KB")
    lazy = load_source(data).inputs
    assert isinstance(lazy, LazyImages)
    with pytest.raises(InputError, match=r"37 images .* of memory, more than"):
        np.asarray(lazy)


def cached(name):
    (found,) = Path("image-cache").glob(f"*/{name}")
    return found


def test_images_in_the_cache_are_not_decoded_again(photos, monkeypatch):
    first = np.asarray(load(photos, lazy=True).inputs)
    monkeypatch.setattr("ulc.data.lazy.pool.DecodingPool.submit", None)
    assert np.array_equal(np.asarray(load(photos, lazy=True).inputs), first)


def test_the_cache_keeps_to_its_bound_and_gives_place_to_newer_data(photos, monkeypatch):
    monkeypatch.setenv("ULC_IMAGE_CACHE_LIMIT", str(10 * IMAGE_BYTES))
    whole, lazy = sources(photos)
    assert np.array_equal(np.asarray(lazy.inputs), whole.inputs)
    assert cached("pixels.bin").stat().st_size == 10 * IMAGE_BYTES
    before = cached("pixels.bin")
    (photos / "train" / "a" / "00.jpg").unlink()
    np.asarray(load(photos, lazy=True).inputs)
    assert cached("pixels.bin") != before


def test_without_a_cache_nothing_is_written(photos, monkeypatch):
    monkeypatch.setenv("ULC_IMAGE_CACHE_LIMIT", "0")
    whole, lazy = sources(photos)
    assert np.array_equal(np.asarray(lazy.inputs), whole.inputs)
    assert not Path("image-cache").exists()


@pytest.mark.parametrize("name", ["pixels.bin", "checks.bin", "survey.npz"])
@pytest.mark.parametrize("damage", ["flipped", "shortened"])
def test_a_damaged_cache_changes_nothing(photos, name, damage):
    whole, lazy = sources(photos)
    del lazy
    content = bytearray(cached(name).read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 255
    else:
        del content[len(content) // 2 - 3 :]
    cached(name).write_bytes(content)
    again = load(photos, lazy=True)
    assert np.array_equal(np.asarray(again.inputs), whole.inputs)
    assert Preprocessing.fit(again) == Preprocessing.fit(whole)


@pytest.mark.parametrize("place", [-1, 1000])
def test_a_cache_that_knows_of_images_that_do_not_exist_counts_as_damaged(photos, place):
    rng = np.random.default_rng(0)
    survey = Survey.empty(3)
    survey.add(np.arange(3), rng.integers(0, 255, (3, SIZE, SIZE, 3), dtype=np.uint8))
    survey.write(photos / "survey.npz")
    assert np.array_equal(Survey.read(photos / "survey.npz", 3).sums, survey.sums)
    survey.broken[place] = "cut short"
    survey.write(photos / "survey.npz")
    assert Survey.read(photos / "survey.npz", 3) is None


def test_an_image_that_was_replaced_is_not_taken_from_the_cache(photos):
    load(photos, lazy=True)
    Image.new("RGB", (9, 9), "red").save(photos / "train" / "a" / "00.jpg")
    whole, lazy = sources(photos)
    assert np.array_equal(np.asarray(lazy.inputs), whole.inputs)


def test_a_cache_that_cannot_be_written_is_one_sentence_with_the_remedy(photos, monkeypatch):
    Path("occupied").write_text("a file")
    monkeypatch.setenv("ULC_IMAGE_CACHE", "occupied")
    with pytest.raises(InputError, match=r"cache of images cannot be written .*ULC_IMAGE_CACHE"):
        load(photos, lazy=True)


def test_broken_images_are_found_before_training_and_left_out_if_asked(photos):
    broken = photos / "train" / "a" / "03.jpg"
    broken.write_text("no image")
    with pytest.raises(InputError, match=r"03.jpg: not a readable image .*1 of 46 .*--skip-broken"):
        load(photos, lazy=True)
    whole, lazy = sources(photos, skip_broken=True)
    assert lazy.skipped == whole.skipped == (str(broken),)
    assert np.array_equal(np.asarray(lazy.inputs), whole.inputs)
    assert Preprocessing.fit(lazy) == Preprocessing.fit(whole)


def test_an_image_that_was_broken_only_for_a_time_is_read_at_the_next_start(photos, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("ulc.data.sources.pictures.read_pixels", None)
        with pytest.raises(InputError, match="not a readable image"):
            load(photos, lazy=True)
    whole, lazy = sources(photos)
    assert np.array_equal(np.asarray(lazy.inputs), whole.inputs)


def test_an_image_that_vanishes_during_training_is_named(photos, monkeypatch):
    monkeypatch.setenv("ULC_IMAGE_CACHE_LIMIT", "0")
    lazy = load(photos, lazy=True)
    (photos / "train" / "a" / "00.jpg").unlink()
    with pytest.raises(InputError, match=r"00.jpg: not a readable image \(no such file\)"):
        np.asarray(lazy.inputs)


def test_a_worker_process_that_dies_is_one_sentence(photos, monkeypatch):
    monkeypatch.setenv("ULC_IMAGE_WORKERS", "1")
    monkeypatch.setenv("ULC_IMAGE_CACHE_LIMIT", "0")
    lazy = load(photos, lazy=True)
    pool = lazy.inputs.reader.pool
    pool.processes[0].kill()
    pool.processes[0].wait()
    with pytest.raises(InputError, match="process that decodes images has died"):
        np.asarray(lazy.inputs)
    pool.end()
    assert all(each.poll() is not None for each in pool.processes)


def test_a_wrong_number_of_workers_is_refused(photos, monkeypatch):
    monkeypatch.setenv("ULC_IMAGE_WORKERS", "two")
    with pytest.raises(InputError, match="ULC_IMAGE_WORKERS=two: give a whole number"):
        load(photos, lazy=True)


def test_a_table_that_lists_images_is_read_lazily_too(photos):
    images = sorted((photos / "train").rglob("*.jpg"))
    lines = [f"{each},{each.parent.name}" for each in images]
    Path("list.csv").write_text("\n".join(["image,label", *lines]))
    spec = DataSpec(source="table", path="list.csv", size=SIZE)
    lazy = load_source(spec.model_copy(update={"lazy": True}))
    assert isinstance(lazy.inputs, LazyImages)
    assert np.array_equal(np.asarray(lazy.inputs), load_source(spec).inputs)


def test_the_command_has_an_option_for_it(photos, ulc):
    options = ("-a", "ce", "--epochs", "1", "--size", SIZE, "--network", "small_cnn", "--json")
    code, printed = ulc("train", photos, "--lazy", *options, "-q")
    assert code == 0, printed.err
    assert Path("image-cache").is_dir()
    assert json.loads(printed.out)[0]
    code, printed = ulc("train", "fashion", "--lazy")
    assert code != 0
    assert "has no option 'lazy'" in printed.err


def test_an_audit_in_memory_is_refused_at_once_if_it_does_not_fit(photos, monkeypatch, ulc):
    monkeypatch.setenv("ULC_MEMORY_LIMIT", "100KB")
    code, printed = ulc("audit", photos, "--size", 32, "--in-memory", "-q")
    assert code == 2
    assert "46 images of 32 by 32 pixels would take" in printed.err
    assert not Path("image-cache").exists()


def test_the_cache_lies_where_the_environment_says_else_in_that_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("ULC_IMAGE_CACHE", " here ")
    assert cache_root() == Path("here")
    monkeypatch.setenv("ULC_IMAGE_CACHE", "  ")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of the user"))
    assert cache_root() == tmp_path / "of the user" / "ulc" / "images"
