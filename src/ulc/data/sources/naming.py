"""Find the source for the text by which a user names data: a path, or SOURCE:PATH."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ulc.config import DataSpec, checked
from ulc.data.sources import SOURCES
from ulc.errors import InputError

FILES = {".npz": "npz", ".csv": "table", ".tsv": "table", ".parquet": "table"}
HUGGING_FACE = ("dataset_info.json", "dataset_dict.json", "state.json")


def data_spec(text: str, options: Mapping[str, Any] | None = None) -> DataSpec:
    """Return the spec of the data that `text` names, with `options` as further fields.

    text: a file (its ending tells the source), a folder (its content tells it) or `SOURCE[:PATH]`
    """
    source, path = source_of(text)
    where = str(Path(path).absolute()) if path else None
    given = {name: value for name, value in (options or {}).items() if value is not None}
    if "test" in given:
        given["test"] = str(Path(given["test"]).absolute())
    return checked(DataSpec, {"source": source, "path": where} | given, where="data")


def source_of(text: str) -> tuple[str, str]:
    """Return the name of the source, and the path; a source without a path has ''."""
    suffix = Path(text).suffix.lower()
    if suffix in FILES:
        return FILES[suffix], text
    source, _, path = text.partition(":")
    if source in SOURCES:
        return source, path
    if text and Path(text).is_dir():
        marked = any((Path(text) / name).is_file() for name in HUGGING_FACE)
        return "huggingface" if marked else "folder", text
    what = "unknown kind of data" if text and Path(text).exists() else "no such file or folder"
    raise InputError(
        f"{text}: {what}; give FILE.npz, .csv, .tsv or .parquet, a folder of class folders, "
        "cifar10:DIR, cifar100:DIR, clothing1m:DIR or fashion"
    )
