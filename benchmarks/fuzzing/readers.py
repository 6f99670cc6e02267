"""The readers that are fuzzed, each with good files to begin with and changes of them."""

import io
import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from benchmarks.fuzzing import cache_files, data_files, other_files
from benchmarks.fuzzing import mutations as change
from benchmarks.fuzzing.other_runs import make_other_runs, other_reader
from benchmarks.fuzzing.run_folders import RUN_FILES, make_run, run_reader
from ulc.applying.decisions import DECISIONS, decide, read_decisions
from ulc.applying.run_rows import RunRows
from ulc.config import DataSpec
from ulc.data.label_files import read_label_file
from ulc.data.sources import load_source
from ulc.data.sources.cifar import read_binary, read_pickled
from ulc.storage.run_folder import RunFolder

# How files of a run folder are changed, beside their bytes.
CHANGES = {
    ".json": change.change_json,
    ".jsonl": change.change_json,
    ".toml": change.change_toml,
    ".npz": change.change_members,
    ".pt": change.change_members,
    ".safetensors": change.change_tensors,
}


@dataclass(frozen=True)
class Reader:
    """A reader: raises an InputError for a bad file, and nothing else.

    name: path of the file below the folder in which the fuzzer works
    goods: contents of good files
    read: reads the file
    changes: ways to change a good file
    """

    name: str
    goods: Sequence[bytes]
    read: Callable[[Path], object]
    changes: Sequence[change.Mutation]


def make_readers(folder: Path) -> dict[str, Reader]:
    """Make all readers; their other files are written below `folder`."""
    pixels, labels = np.arange(4 * 3072, dtype=np.uint8).reshape(4, 3072), [0, 1, 2, 9]
    batch = {"batch_label": "a batch", "labels": labels, "data": pixels, "filenames": ["a"] * 4}
    rows = np.hstack([np.array(labels, np.uint8)[:, None], pixels])
    readers = {
        "npz": Reader(
            "f.npz", npz_files(), source("npz"), (change.change_bytes, change.change_members)
        ),
        "pickle": Reader(
            "batch",
            [pickle.dumps(batch, protocol) for protocol in (2, 4)],
            lambda path: read_pickled([path], "labels"),
            (change.change_bytes,),
        ),
        "binary": Reader(
            "f.bin",
            [rows.tobytes()],
            lambda path: read_binary([path], label_bytes=1),
            (change.change_bytes,),
        ),
        "csv": Reader(
            "f.csv", csv_files(), source("table"), (change.change_bytes, change.change_cells)
        ),
        "parquet": Reader("f.parquet", [parquet_file()], source("table"), (change.change_bytes,)),
        "image": Reader(
            "photos/a/0.png",
            image_files(folder),
            lambda path: source("folder")(path.parents[1]),
            (change.change_bytes, change.change_png),
        ),
        "labels": Reader(
            "l.json",
            [json.dumps(labels * 3).encode()],
            read_label_file,
            (change.change_bytes, change.change_json),
        ),
    }
    made = make_run(folder)
    for name in RUN_FILES:
        good, read = (made / name).read_bytes(), run_reader(made / name)
        readers[f"run/{name}"] = Reader(f"run/{name}", [good], read, changes_of(name))
    for name, path in make_other_runs(folder).items():
        place, good = f"{path.parent.name}/{name}", path.read_bytes()
        readers[f"run/{name}"] = Reader(place, [good], other_reader(name), changes_of(name))
    for module in (other_files, data_files):
        for name, good in module.good_files(folder).items():
            place = module.PLACES[name]
            readers[name] = Reader(place, [good], module.READS[name], changes_of(place))
    for name, path in cache_files.good_files(folder).items():
        place = str(path.relative_to(folder))
        good = path.read_bytes()
        readers[name] = Reader(place, [good], cache_files.READS[name], changes_of(place))
    rows = RunRows.of(RunFolder.open(made))
    readers["decisions"] = Reader(
        "d.csv",
        [decisions_file(rows)],
        lambda path: decide(rows, read_decisions(path)),
        (change.change_bytes, change.change_cells),
    )
    return readers


def changes_of(place: str) -> tuple[change.Mutation, ...]:
    """The ways to change a file, by the ending of its name; every file can have other bytes."""
    own = CHANGES.get(Path(place).suffix)
    return (change.change_bytes,) if own is None else (own, change.change_bytes)


def source(kind: str) -> Callable[[Path], object]:
    """A function that reads a file or folder as this kind of source."""
    return lambda path: load_source(DataSpec(source=kind, path=str(path)))


def npz_files() -> list[bytes]:
    files = []
    texts = {"y": np.array(["a", "b"] * 6), "ids": np.array([f"r{i}" for i in range(12)])}
    numbers = {
        "y": np.arange(12) % 2,
        "verified": np.arange(12) % 2 == 0,
        "class_names": ["a", "b"],
    }
    for more in (texts, numbers):
        for inputs in (np.arange(24.0).reshape(12, 2), np.zeros((12, 4, 4), np.uint8)):
            buffer = io.BytesIO()
            np.savez(buffer, X=inputs, **more)
            files.append(buffer.getvalue())
    return files


def csv_files() -> list[bytes]:
    """Small tables, so that a change meets each kind of column often; the first has all kinds."""
    kinds = {
        "number": [f"{i * 0.5}" for i in range(12)],
        "day": [f"2026-01-{i + 1:02}" for i in range(12)],
        "kind": [f"{'ab'[i % 2]}c" for i in range(12)],
        "sure": [("yes", "no", "")[i % 3] for i in range(12)],
    }
    names = [tuple(kinds), ("number",), ("day",), ("kind", "sure")]
    tables = [csv_table({name: kinds[name] for name in each}) for each in names]
    commas = csv_table({"id": [f"é{i}" for i in range(12)], "number": kinds["number"]})
    return [
        *tables,
        commas.translate(bytes.maketrans(b",.", b";,")),
        tables[1].decode().encode("utf-16"),
    ]


def csv_table(columns: dict[str, list[str]]) -> bytes:
    """Write a CSV file of these columns and a label."""
    rows = zip(["x", "y"] * 6, *columns.values(), strict=True)
    lines = [("label", *columns), *rows]
    return "".join(",".join(line) + "\n" for line in lines).encode()


def parquet_file() -> bytes:
    table = pd.read_csv(io.BytesIO(csv_files()[0]))
    return table.to_parquet(compression=None)


def decisions_file(rows: RunRows) -> bytes:
    """One decision of each kind, as a person writes them."""
    labels = (rows.suggested[0], rows.given[1], "new", "", "")
    lines = [f"{rows.ids[i]},{each},{labels[i]}" for i, each in enumerate(DECISIONS)]
    return ("id,decision,label\n" + "\n".join(lines) + "\n").encode()


def image_files(folder: Path) -> list[bytes]:
    """Small images of several formats; the fuzzed one lies beside three good ones."""
    pixels = np.random.default_rng(0).integers(0, 256, (12, 10, 3), np.uint8)
    image = Image.fromarray(pixels)
    for name in ("a/1", "b/0", "b/1"):
        path = folder / f"photos/{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    files = []
    for mode, kind in (
        ("RGB", "PNG"), ("P", "PNG"), ("I;16", "PNG"), ("RGBA", "PNG"), ("RGB", "JPEG"),
        ("P", "GIF"), ("RGB", "BMP"), ("RGB", "TIFF"), ("RGB", "WEBP"),
    ):  # fmt: skip
        buffer = io.BytesIO()
        grey = Image.fromarray(pixels[..., 0].astype(np.uint16) * 200)
        (grey if mode == "I;16" else image.convert(mode)).save(buffer, kind)
        files.append(buffer.getvalue())
    return files
