"""Pictures and values come from the rows that were judged, whatever the source and its gaps."""

import base64
import io

import numpy as np
import pytest
from PIL import Image
from report_runs import toy_judgement, write_run

from ulc.config import DataSpec, ImbalanceSpec, RunSpec
from ulc.data.prepare import label
from ulc.data.sources import load_source
from ulc.report.examples import find_examples
from ulc.report.thumbnails import from_array

ROWS = 30


def red(row):
    return 8 * row


def picture_bytes(row):
    buffer = io.BytesIO()
    Image.new("RGB", (20, 20), (red(row), 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def seen(uri):
    with Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1]))) as image:
        return image.convert("RGB").getpixel((3, 3))[0]


def image_table(path, *, ids, broken=()):
    lines = ["id,image,label" if ids else "image,label"]
    for row in range(ROWS):
        content = b"broken" if row in broken else picture_bytes(row)
        (path / f"{row}.png").write_bytes(content)
        lines.append((f"r{row}," if ids else "") + f"{row}.png,{'ab'[row % 2]}")
    (path / "table.csv").write_text("\n".join(lines) + "\n")
    return DataSpec(source="table", path=str(path / "table.csv"), skip_broken=bool(broken))


@pytest.mark.parametrize("broken", [(), (0, 7)])
@pytest.mark.parametrize("ids", [True, False])
def test_a_table_of_pictures(tmp_path, ids, broken):
    spec = RunSpec(data=image_table(tmp_path, ids=ids, broken=broken), epochs=4)
    source = label(spec).source
    judgement = toy_judgement(len(source.labels), 2)
    facts = {"skipped": list(source.skipped)} if broken else {}
    folder = write_run(tmp_path / "run", judgement, "ab", spec=spec, ids=source.ids, facts=facts)
    rows = np.array([11, 3, 20])
    shown = find_examples(folder, rows, [source.ids[row] for row in rows])
    assert shown.note is None
    real = [row for row in range(ROWS) if row not in broken]
    assert [seen(shown.picture(place)) for place in range(3)] == [red(real[row]) for row in rows]
    if ids:
        assert shown.paths[0] == str(tmp_path / f"{real[11]}.png")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_values_of_an_uneven_table_in_any_order_with_gaps(tmp_path, suffix, monkeypatch):
    import pandas as pd

    monkeypatch.setattr("ulc.report.stored_rows.BLOCK", 7)  # several blocks
    path = tmp_path / f"table{suffix}"
    table = pd.DataFrame({"number": np.arange(60) + 0.5, "word": [f"w{row}" for row in range(60)]})
    table["label"] = ["a", "b"] * 30
    table.loc[[4, 5], "word"] = None
    if suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep="," if suffix == ".csv" else "\t")
    spec = RunSpec(
        data=DataSpec(source="table", path=str(path)),
        imbalance=ImbalanceSpec(kind="half", ratio=3),
        epochs=4,
    )
    kept = label(spec).source.inputs  # the number is the first feature, in the same order
    folder = write_run(tmp_path / "run", toy_judgement(len(kept), 2), "ab", spec=spec)
    rows = np.array([9, 0, 25, 3, 2])
    shown = find_examples(folder, rows, None)
    assert shown.note is None
    assert shown.columns == ("number", "word")
    numbers = np.array([float(values[0]) for values in shown.values])
    assert np.corrcoef(numbers, kept[rows, 0])[0, 1] == pytest.approx(1)
    for number, word in shown.values:
        row = int(float(number))
        assert word == ("–" if row in (4, 5) else f"w{row}")


def test_pictures_of_a_hugging_face_data_set(tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {
        "picture": [{"bytes": picture_bytes(row), "path": None} for row in range(ROWS)],
        "label": [row % 2 for row in range(ROWS)],
    }
    kinds = datasets.Features(
        {"picture": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])}
    )
    datasets.Dataset.from_dict(columns, features=kinds).save_to_disk(str(tmp_path / "set"))
    data = DataSpec(source="huggingface", path=str(tmp_path / "set"))
    folder = write_run(tmp_path / "run", toy_judgement(ROWS, 2), "ab", data=data)
    shown = find_examples(folder, np.array([17, 4]), None)
    assert shown.note is None
    assert [seen(shown.picture(place)) for place in range(2)] == [red(17), red(4)]


def test_a_source_that_cannot_be_read_costs_the_examples_only(tmp_path):
    data = DataSpec(source="cifar10", path=str(tmp_path / "nowhere"))
    folder = write_run(tmp_path / "run", toy_judgement(ROWS, 2), "ab", data=data)
    shown = find_examples(folder, np.array([1]), None)
    assert shown.picture(0) is None
    assert "cannot be read again" in shown.note
    assert str(tmp_path / "nowhere") in shown.note


def save_pictures(path, *, broken=(), unlabelled=()):
    datasets = pytest.importorskip("datasets")
    columns = {
        "picture": [
            {"bytes": b"broken" if row in broken else picture_bytes(row), "path": None}
            for row in range(ROWS)
        ],
        "label": [None if row in unlabelled else "ab"[row % 2] for row in range(ROWS)],
        "id": [f"r{row}" for row in range(ROWS)],
    }
    text = datasets.Value("string")
    kinds = datasets.Features({"picture": datasets.Image(), "label": text, "id": text})
    datasets.Dataset.from_dict(columns, features=kinds).save_to_disk(str(path))


def test_pictures_of_a_hugging_face_data_set_with_gaps(tmp_path):
    """Rows are counted without those that the run could not read or that have no label."""
    save_pictures(tmp_path / "set", broken=(0, 7), unlabelled=(3, 12))
    data = DataSpec(source="huggingface", path=str(tmp_path / "set"), skip_broken=True)
    source = load_source(data)
    assert (len(source.skipped), source.unlabelled) == (2, 2)
    facts = {"skipped": list(source.skipped), "unlabelled": source.unlabelled}
    judgement = toy_judgement(len(source.labels), 2)
    folder = write_run(tmp_path / "run", judgement, "ab", data=data, ids=source.ids, facts=facts)
    rows = np.array([17, 0, 6])
    ids = [source.ids[row] for row in rows]
    shown = find_examples(folder, rows, ids)
    assert shown.note is None
    assert [seen(shown.picture(place)) for place in range(3)] == [
        red(int(name.removeprefix("r"))) for name in ids
    ]


def test_a_hugging_face_data_set_that_has_changed_is_not_shown(tmp_path):
    save_pictures(tmp_path / "set")
    data = DataSpec(source="huggingface", path=str(tmp_path / "set"))
    folder = write_run(tmp_path / "run", toy_judgement(ROWS - 1, 2), "ab", data=data)
    shown = find_examples(folder, np.array([1]), None)
    assert f"{tmp_path / 'set'} has changed since the run; train again" in shown.note
    assert shown.picture(0) is None


def test_values_of_a_hugging_face_data_set_without_pictures(tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {"size": list(range(ROWS)), "label": ["a", "b"] * (ROWS // 2)}
    datasets.Dataset.from_dict(columns).save_to_disk(str(tmp_path / "set"))
    data = DataSpec(source="huggingface", path=str(tmp_path / "set"))
    folder = write_run(tmp_path / "run", toy_judgement(ROWS, 2), "ab", data=data)
    shown = find_examples(folder, np.array([17, 4]), None)
    assert (shown.columns, shown.values, shown.note) == (("size",), [["17"], ["4"]], None)


def test_an_array_that_is_not_stored_row_by_row_is_not_shown(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.asfortranarray(np.ones((ROWS, 3))), y=np.arange(ROWS) % 2)
    data = DataSpec(source="npz", path=str(tmp_path / "x.npz"))
    folder = write_run(tmp_path / "run", toy_judgement(ROWS, 2), "ab", data=data)
    shown = find_examples(folder, np.array([1]), None)
    assert shown.note.endswith(f"{tmp_path / 'x.npz'}: X is not stored row by row")


@pytest.mark.parametrize(("channels", "shown"), [(1, True), (2, False), (3, True), (5, False)])
def test_only_grey_and_colour_are_pictures(channels, shown):
    assert (from_array(np.full((channels, 6, 6), 200, np.uint8)) is not None) == shown
