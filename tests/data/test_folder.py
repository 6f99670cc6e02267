"""Folders of images: which are found, how they are read, which are refused."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ulc.config import DataSpec
from ulc.data.sources import load_source
from ulc.data.sources.pictures import as_rgb
from ulc.errors import InputError


def paint(path, colour="red", size=(8, 8), mode="RGB", **options):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path, **options)
    return path


def load(path="photos", on_progress=None, **options):
    return load_source(DataSpec(source="folder", path=str(path), **options), on_progress)


@pytest.fixture
def photos():
    """Two classes of two images."""
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        paint(f"photos/{name}")


def refused(message, path="photos", **options):
    with pytest.raises(InputError, match=message) as caught:
        load(path, **options)
    assert "\n" not in str(caught.value)


def test_a_class_is_called_as_its_folder_and_an_image_by_its_full_path(photos):
    source = load()
    assert source.class_names == ("cat", "dog")
    assert source.labels.tolist() == [0, 0, 1, 1]
    here = Path.cwd()
    assert source.ids == tuple(
        str(here / "photos" / name) for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png")
    )
    assert source.true is None
    assert source.test_inputs is None
    assert source.skipped == ()


def test_images_are_found_however_deep_with_any_suffix_and_case(photos):
    for suffix in ("JPG", "jpeg", "Png", "bmp", "gif", "webp", "tif", "TIFF"):
        paint(f"photos/cat/deep/er/{suffix}.{suffix}")
    for name in ("notes.txt", ".hidden.png", ".thumbs/1.png", "Thumbs.db"):
        path = Path("photos/cat", name)
        path.parent.mkdir(exist_ok=True)
        path.write_text("no image")
    for name in (".git", "__MACOSX"):
        Path("photos", name).mkdir()
    source = load()
    assert np.bincount(source.labels).tolist() == [10, 2]
    assert source.class_names == ("cat", "dog")


def test_folders_that_are_numbers_are_sorted_as_numbers():
    for name in ("10", "9", "1"):
        paint(f"photos/{name}/a.png")
    assert load().class_names == ("1", "9", "10")


def test_names_need_not_be_ascii():
    for name in ("Кошка", "犬"):
        paint(f"фото/{name}/é ü.png")
    source = load("фото")
    assert source.class_names == ("Кошка", "犬")
    assert source.ids[0].endswith("Кошка/é ü.png")


def test_a_file_name_that_is_no_text_is_spelled_out(photos):
    Path("photos/cat/1.png").rename(Path("photos/cat") / "\udcff.png")
    assert any(name.endswith("\\udcff.png") for name in load().ids)


def test_a_class_name_that_is_no_text_is_refused(photos):
    Path("photos/cat").rename(Path("photos") / "\udcff")
    refused("name of the folder b'.xff' is not valid text; rename it")


def test_train_and_test_folders_are_two_sets(photos):
    Path("photos").rename("train")
    Path("both").mkdir()
    Path("train").rename("both/train")
    paint("both/test/dog/3.png", "blue")
    paint("both/test/ant/3.png", "blue")
    source = load("both")
    assert source.class_names == ("ant", "cat", "dog")
    assert source.labels.tolist() == [1, 1, 2, 2]
    assert source.test_labels.tolist() == [0, 2]
    assert source.test_inputs.shape == (2, 3, 8, 8)
    assert len(source.ids) == 4


def test_classes_may_be_called_train_and_test():
    for name in ("train", "test"):
        paint(f"photos/{name}/a.png")
    assert load().class_names == ("test", "train")


def test_small_images_of_one_size_stay_as_they_are():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (2, 20, 30, 3), dtype=np.uint8)
    for name, image in zip("ab", pixels, strict=True):
        Path("photos", name).mkdir(parents=True)
        Image.fromarray(image).save(f"photos/{name}/1.png")
    assert np.array_equal(load().inputs, pixels.transpose(0, 3, 1, 2))
    assert load(size=16).inputs.shape == (2, 3, 16, 16)


def test_other_images_become_squares_of_64_or_of_the_size_asked_for(photos):
    paint("photos/cat/wide.png", size=(300, 50))
    paint("photos/cat/thin.png", size=(1, 90))
    assert load().inputs.shape == (6, 3, 64, 64)
    assert load(size=32).inputs.shape == (6, 3, 32, 32)
    one_large = [paint(f"large/{name}/1.png", size=(65, 20)) for name in "ab"]
    assert load(one_large[0].parents[1]).inputs.shape == (2, 3, 64, 64)


def test_the_middle_is_what_is_kept():
    """Left third red, middle third green, right third blue: only green is left."""
    image = Image.new("RGB", (300, 100), "red")
    image.paste("lime", (90, 0, 210, 100))
    image.paste("blue", (210, 0, 300, 100))
    for name in "ab":
        Path("photos", name).mkdir(parents=True)
        image.save(f"photos/{name}/1.png")
    assert (load().inputs.mean((0, 2, 3)) == [0, 255, 0]).all()


def test_a_large_jpeg_is_read_like_any_other(photos):
    paint("photos/cat/large.jpg", "blue", (3000, 2000), quality=95)
    source = load()
    (place,) = (i for i, name in enumerate(source.ids) if name.endswith("large.jpg"))
    assert np.abs(source.inputs[place].mean((1, 2)) - [0, 0, 255]).max() < 3


def test_an_image_is_turned_as_its_exif_says():
    """Orientation 6: stored lying on its left side, so the stored left is the shown top."""
    stored = Image.new("RGB", (32, 16), "white")
    stored.paste("black", (0, 0, 16, 16))
    exif = Image.Exif()
    exif[0x0112] = 6
    for name in "ab":
        Path("photos", name).mkdir(parents=True)
        stored.save(f"photos/{name}/1.png", exif=exif)
    image = load().inputs[0]
    assert image.shape == (3, 32, 16)
    assert (image[:, :16] == 0).all()
    assert (image[:, 16:] == 255).all()


def palette(transparent):
    image = Image.new("P", (4, 4), 0)
    image.putpalette([255, 0, 0, 0, 0, 255])
    if transparent:
        image.info["transparency"] = 0
    return image


def sixteen_bits(value):
    return Image.fromarray(np.full((4, 4), value, np.uint16))


MODES = {
    "grey": (Image.new("L", (4, 4), 100), (100, 100, 100)),
    "black and white": (Image.new("1", (4, 4), 1), (255, 255, 255)),
    "RGBA, nothing there": (Image.new("RGBA", (4, 4), (255, 0, 0, 0)), (255, 255, 255)),
    "RGBA, half there": (Image.new("RGBA", (4, 4), (255, 0, 0, 128)), (255, 127, 127)),
    "grey and nothing there": (Image.new("LA", (4, 4), (0, 0)), (255, 255, 255)),
    "palette": (palette(transparent=False), (255, 0, 0)),
    "transparent palette": (palette(transparent=True), (255, 255, 255)),
    "CMYK": (Image.new("CMYK", (4, 4), (0, 255, 255, 0)), (255, 0, 0)),
    "16 bits, white": (sixteen_bits(65535), (255, 255, 255)),
    "16 bits, grey": (sixteen_bits(100 * 257), (100, 100, 100)),
    "32 bits": (Image.new("I", (4, 4), 65535), (255, 255, 255)),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_becomes_rgb(mode):
    image, colour = MODES[mode]
    assert (np.asarray(as_rgb(image)) == colour).all()


def test_modes_may_be_mixed():
    """From the disk, where PNG keeps 16 bits and transparency, and TIFF keeps CMYK."""
    for place, (image, _) in enumerate(MODES.values()):
        if image.mode == "I":
            continue
        path = Path("photos", "ab"[place % 2])
        path.mkdir(parents=True, exist_ok=True)
        image.save(path / f"{place:02}{'.tif' if image.mode == 'CMYK' else '.png'}")
    source = load()
    for name, pixels in zip(source.ids, source.inputs, strict=True):
        colour = list(MODES.values())[int(Path(name).stem)][1]
        assert (pixels.transpose(1, 2, 0) == colour).all(), name


def break_some():
    noise = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(noise).save("photos/cat/2.png")
    Path("photos/cat/2.png").write_bytes(Path("photos/cat/2.png").read_bytes()[:150])
    Path("photos/dog/3.jpg").write_text("no image")


def test_a_broken_image_stops_with_its_path_and_their_number(photos):
    break_some()
    path = Path("photos/cat/2.png").absolute()
    refused(f"{path}: not a readable image .*; 2 of 5 are not: .*--skip-broken")


def test_broken_images_are_left_out_where_that_is_asked_for(photos):
    break_some()
    source = load(skip_broken=True)
    assert source.labels.tolist() == [0, 1, 1]
    assert [Path(name).name for name in source.skipped] == ["2.png", "3.jpg"]
    assert len(source.ids) == len(source.inputs) == 3


def test_a_broken_test_image_is_left_out_of_the_test_set(photos):
    Path("photos").rename("train")
    Path("photos").mkdir()
    Path("train").rename("photos/train")
    paint("photos/test/cat/1.png")
    paint("photos/test/dog/1.png").write_bytes(b"")
    source = load(skip_broken=True)
    assert source.test_labels.tolist() == [0]
    paint("photos/test/cat/1.png").write_bytes(b"")
    assert load(skip_broken=True).test_inputs is None


def test_fractions_are_no_image(photos):
    Image.new("F", (8, 8), 0.5).save("photos/cat/f.tiff")
    refused("f.tiff: not a readable image .its pixels are floating-point numbers")


def test_nothing_but_broken_images(photos):
    for path in Path("photos").rglob("*.png"):
        path.write_bytes(b"")
    refused("1.png: not a readable image .*, nor is any other of the 4", skip_broken=True)


def test_folders_that_hold_nothing(photos):
    Path("hollow/cow").mkdir(parents=True)
    refused("hollow: its folders hold no images .*; put some into them", "hollow")
    Path("bare").mkdir()
    paint("bare/1.png")
    refused("bare: holds no folders; give a folder that holds a folder of images", "bare")
    refused("nowhere: no such folder", "nowhere")
    refused("1.png: no such folder", "bare/1.png")
    paint("one/cat/1.png")
    refused("all labels are the same class", "one")


def test_empty_class_folders_and_other_files_are_counted(photos):
    before = load().warnings
    Path("photos/cow").mkdir()
    Path("photos/dog/inner").mkdir()
    for name in ("a.HEIC", "b.heic", "inner/c.txt", "Makefile", ".hidden.txt"):
        Path("photos/dog", name).write_bytes(b"")
    source = load()
    assert "cow" not in source.class_names
    empty, unread, *others = source.warnings
    assert tuple(others) == before
    assert empty == "1 class folder holds no images and counts as no class: 'cow'"
    assert unread.startswith("4 files in the class folders are not read")
    assert "(2 .heic, 1 " in unread


def test_progress_is_told_to_the_end(photos):
    seen = []
    load(on_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_thousand_classes():
    packed = io.BytesIO()
    Image.new("RGB", (4, 4)).save(packed, "png")
    for number in range(1000):
        path = Path("photos", str(number))
        path.mkdir(parents=True)
        (path / "1.png").write_bytes(packed.getvalue())
    source = load()
    assert source.class_names == tuple(map(str, range(1000)))
    assert source.labels.tolist() == [int(Path(name).parent.name) for name in source.ids]


def test_a_second_folder_is_the_test_set(photos):
    paint("more/dog/9.png", "blue")
    paint("more/emu/1.png", "green")
    source = load(test="more")
    assert source.class_names == ("cat", "dog", "emu")
    assert source.test_labels.tolist() == [1, 2]
    assert source.test_inputs[0, :, 0, 0].tolist() == [0, 0, 255]


def test_a_second_folder_beside_a_folder_test_or_that_is_missing_is_refused(photos):
    refused("--test nowhere: no such folder", test="nowhere")
    for name in ("cat", "dog"):
        paint(f"both/train/{name}/1.png")
        paint(f"both/test/{name}/1.png")
    refused("--test photos: both holds a folder test already", "both", test="photos")
