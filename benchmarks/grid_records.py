"""Records of the grid: one line of JSON for each finished training, in a file for each setting."""

import hashlib
import json
import subprocess
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock

from benchmarks.grid_settings import Cell
from ulc.algorithms import configure
from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.experiments.tables import nested_value
from ulc.storage.files import write_whole
from ulc.storage.run_folder import RunFolder

RESULTS = Path(__file__).parent / "results" / "grid"
SEARCHES = RESULTS.with_name("search")
DIGITS = 5
CURVE_DIGITS = 4  # significant ones
# Values that a record has epoch by epoch; {group}: small and large classes.
CURVES = (
    "test.training.accuracy",
    "test.training.{group}_accuracy",
    "test.balanced.accuracy",
    "test.balanced.{group}_accuracy",
    "labels.auc",
    "labels.{group}.auc",
    "labels.{group}.certainty_auc",
    "labels.{group}.trusted_correct",
    "groups.{group}.epistemic",
    "groups.{group}.aleatoric",
    "groups.{group}.class_noise",
    "groups.{group}.weight_norm",
    "train.moved_by_doubt",
    "train.trusted",
    "train.fallback_classes",
    "train.sure",
)

Record = dict[str, Any]
Key = tuple[str, tuple[str, ...], int]


def key_of(record: Record) -> Key:
    """Return method, changes and seed: a file has one record for each, in this order."""
    return record["method"], tuple(record["changes"]), record["seed"]


def name_of(record: Record) -> str:
    """Return method and changes with slashes between them; those of a search do not count."""
    changes = [] if record.get("searched") else record["changes"]
    return "/".join([record["method"], *changes])


def cell_key(cell: Cell) -> Key:
    return cell.method, cell.changes, cell.seed


def hash_spec(spec: RunSpec) -> str:
    """Return a hash of all that decides the training.

    Of paths only the last part counts, and the folder of CIFAR images may have any name.
    """
    content = spec.content
    if content["data"]["source"].startswith("cifar"):
        content["data"]["path"] = content["data"]["source"]
    for section, key in (("data", "path"), ("noise", "file")):
        if key in content[section]:
            content[section][key] = Path(content[section][key]).name
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def make_record(cell: Cell, folder: RunFolder) -> Record:
    """Return the record of a finished training.

    commit: of the code that made the record; older records have none
    processor_seconds: of the training alone, without scores; one thread
    options: those that differ from the defaults of the algorithm
    curves: values of each epoch, see `read_curves`
    """
    summary = folder.read_json("summary.json")
    spec = cell.spec
    return {
        "setting": cell.setting,
        "method": cell.method,
        "changes": list(cell.changes),
        "searched": cell.searched,
        "seed": cell.seed,
        "spec": hash_spec(spec),
        "version": version("ulc"),
        "commit": commit(),
        **numbers_of(summary),
        "processor_seconds": round(processor_seconds(folder), 2),
        "options": changed_options(spec),
        "curves": read_curves(folder.records),
    }


def commit() -> str | None:
    """Return the commit of the code, with + if files have changed since; None: no checkout."""
    command = ["git", "-C", str(RESULTS), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None


def numbers_of(content: Any) -> Any:
    """Return nested content with rounded numbers and without lists, which hold single classes."""
    if isinstance(content, dict):
        return {
            key: numbers_of(value) for key, value in content.items() if not isinstance(value, list)
        }
    return round(content, DIGITS) if isinstance(content, float) else content


def read_curves(records: Sequence[Record]) -> dict[str, list[float | None]]:
    """Return the values of CURVES by their names with dots, one for each epoch.

    None: the epoch has no such value. Curves without any value are left out.
    """
    names = [
        name.format(group=group)
        for name in CURVES
        for group in (("small", "large") if "{group}" in name else ("",))
    ]
    curves = {
        name: [nested_value(record, tuple(name.split("."))) for record in records] for name in names
    }
    return {
        name: [None if each is None else float(f"{each:.{CURVE_DIGITS}g}") for each in values]
        for name, values in curves.items()
        if any(each is not None for each in values)
    }


def processor_seconds(folder: RunFolder) -> float:
    """Return the sum over epochs; records of older versions have only the seconds of a clock."""
    seconds = [record["seconds"] for record in folder.records]
    return sum(each.get("processor", each["train"]) for each in seconds)


def changed_options(spec: RunSpec) -> Record:
    """Return the options that differ from the defaults of the algorithm, also inside sections."""
    defaults = configure(spec.algorithm, {}).model_dump(mode="json")

    def differing(options: Record, below: Record) -> Record:
        found = {}
        for name, value in options.items():
            if isinstance(value, dict) and isinstance(below.get(name), dict):
                value = differing(value, below[name]) or below[name]
            if value != below.get(name):
                found[name] = value
        return found

    return differing(spec.options, defaults)


def read_records(path: Path) -> list[Record]:
    """Read all records of a file; none if there is no file."""
    if not path.is_file():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except ValueError as error:
        raise InputError(f"{path}: not lines of JSON ({error}); restore the file") from None


def update_records(path: Path, change: Callable[[list[Record]], Sequence[Record]]) -> None:
    """Replace the records of a file by `change` of them, sorted; two grids may do so at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        records = sorted(change(read_records(path)), key=key_of)
        lines = [json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records]
        write_whole(path, "".join(line + "\n" for line in lines).encode())


def add_record(path: Path, record: Record) -> None:
    """Add a record to the file, in place of an older one of the same cell."""
    drop_records(path, {key_of(record)}, [record])


def drop_records(path: Path, keys: set[Key], instead: Sequence[Record] = ()) -> None:
    """Remove the records with these keys, and add those of `instead`."""
    update_records(
        path, lambda records: [each for each in records if key_of(each) not in keys] + [*instead]
    )


def is_recorded(cell: Cell, records: Sequence[Record]) -> bool:
    """Tell whether there is a record of this cell with the same spec."""
    wanted = hash_spec(cell.spec)
    return any(key_of(each) == cell_key(cell) and each["spec"] == wanted for each in records)
