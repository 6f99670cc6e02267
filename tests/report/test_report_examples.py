"""Pictures and values come from the rows that were judged, whatever the source and its gaps."""

import base64
import io

import numpy as np
import pytest
from PIL import Image
from report_runs import toy_judgement, write_run

from ulc.config import DataSpec, ImbalanceSpec, RunSpec
from ulc.data.prepare import label
from ulc.report.examples import find_examples

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
