"""The run folder: all files of a run, each written atomically."""

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from ulc.config import RunSpec
from ulc.errors import InputError, first_line
from ulc.labels.judgement import Judgement
from ulc.storage.checksums import Checksums
from ulc.storage.contents import checked_content
from ulc.storage.files import read_npz
from ulc.storage.memory import read_run_file
from ulc.storage.temporary import remove_temporaries

Records = list[dict[str, Any]]


class FolderInUseError(InputError):
    """Another process has the folder's lock."""


class RunFolder:
    """Reads and writes the files of a run; a file that changed after it was written is refused.

    Always: checksums.json, identity.json (of the data), spec.toml, environment.json, data.json,
    records.jsonl, checkpoint.pt. If they apply: ids.json (rows with ids), encoding.json (tables),
    text.npz (sentences), embedding.npz (images), verified.json (labels that somebody has checked),
    audit.json (audits), after_warmup.npz (losses and true labels after the warm-up, if the true
    labels are known). When the run ends: judgement.npz, labels.csv, labels.parquet (with
    pyarrow), corrected.csv, health.json, outputs.npz, model.safetensors, model.json, summary.json
    and, last, done.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checksums = Checksums(path)

    @classmethod
    def create(cls, path: Path, spec: RunSpec) -> "RunFolder":
        """Create the folder, or open it if it holds a run of this spec; raise for another run."""
        folder = create_folder(path)
        if not folder.has("spec.toml"):
            folder.write("spec.toml", spec.write().encode())
        elif folder.spec.content != spec.content:
            raise InputError(f"{path}: holds another run; choose another place with --out")
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Open an existing run folder."""
        if (path / "audit.toml").is_file() and not (path / "spec.toml").is_file():
            raise InputError(f"{path}: an unfinished audit; go on with `ulc resume {path}`")
        if not (path / "spec.toml").is_file():
            lacking = "no spec.toml in it" if path.is_dir() else "it does not exist"
            raise InputError(
                f"{path}: not a run folder ({lacking}); `ulc train` and `ulc audit` make one"
            )
        return cls(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock inside a `with` block; raise if another process has it.

        Temporary files of a process that was killed here are removed.
        """
        lock = FileLock(self.path / "lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise FolderInUseError(
                f"{self.path}: another process trains here; wait for it or choose another --out"
            ) from None
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be written ({error.strerror}); "
                "choose another place with --out"
            ) from None
        try:
            remove_temporaries(self.path)
            yield
        finally:
            lock.release()

    @property
    def spec(self) -> RunSpec:
        """Return the run's spec."""
        self.check_spec_file("spec.toml")
        return RunSpec.read(self.path / "spec.toml")

    def check_spec_file(self, name: str) -> None:
        """Raise an InputError if spec.toml or audit.toml was edited after it was written."""
        try:
            self.checksums.check(name, read_run_file(self.path / name))
        except InputError:
            raise  # it exceeds the bound of memory, or the checksums are damaged
        except (OSError, ValueError) as error:
            raise InputError(
                f"{self.path / name} was changed after the run began ({first_line(error)}); undo "
                "the edit, or use other settings in a new run (`ulc train --spec` takes a copy)"
            ) from None

    @property
    def done(self) -> bool:
        """Tell whether the run has finished."""
        return self.has("done")

    def has(self, name: str) -> bool:
        """Tell whether the file exists."""
        return (self.path / name).is_file()

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically, and its digest to checksums.json."""
        self.checksums.write_file(name, content)

    def write_json(self, name: str, content: Any) -> None:
        """Write a file of indented JSON."""
        self.write(name, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())

    def write_arrays(self, name: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Write named arrays as a compressed npz file."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        self.write(name, buffer.getvalue())

    def write_records(self, records: Records) -> None:
        """Write all records, one per line."""
        lines = [json.dumps(record, allow_nan=False) + "\n" for record in records]
        self.write("records.jsonl", "".join(lines).encode())

    def remove(self) -> None:
        """Remove the folder with all its files; raise if another process trains in it."""
        with self.locked():
            shutil.rmtree(self.path)

    def finish(self) -> None:
        """Mark the run as finished."""
        self.write("done", b"")

    def read(self, name: str) -> bytes:
        """Return a file's content; raise if it changed after it was written."""
        try:
            content = read_run_file(self.path / name)
            self.checksums.check(name, content)
        except InputError:
            raise  # it exceeds the bound of memory, or the checksums are damaged
        except FileNotFoundError:
            state = (
                "is missing from the run"
                if self.done
                else "is not there yet: the run is unfinished"
            )
            remedy = (
                "train it again with --fresh"
                if self.done
                else f"go on with `ulc resume {self.path}`"
            )
            raise InputError(f"{self.path / name} {state}; {remedy}") from None
        except (OSError, ValueError) as error:
            raise self.damaged(name, error) from None
        return content

    def read_arrays(self, name: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of an npz file by name."""
        content = self.read(name)
        try:
            return read_npz(io.BytesIO(content))
        except ValueError as error:
            raise self.damaged(name, error) from None

    def read_json(self, name: str) -> Any:
        """Return a JSON file's content."""
        content = self.read(name)
        try:
            return checked_content(name, json.loads(content))
        except (ValueError, RecursionError) as error:
            raise self.damaged(name, error) from None

    @property
    def records(self) -> Records:
        """Return the records, one per epoch."""
        content = self.read("records.jsonl")
        try:
            records = [json.loads(line) for line in content.splitlines()]
            checked_content("records.jsonl", records)
            check_epochs([record["epoch"] for record in records])
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise self.damaged("records.jsonl", error) from None
        return records

    @property
    def ids(self) -> list[str] | None:
        """Return the ids of the rows; None: rows are named by position."""
        ids: list[str] | None = self.read_json("ids.json") if self.has("ids.json") else None
        return ids

    @property
    def threshold(self) -> float:
        """Return the threshold: a label whose label score is at least this high is trusted."""
        if not self.has("health.json"):
            threshold = self.spec.options.get("threshold", 0.5)
            return float(threshold) if isinstance(threshold, int | float) else 0.5
        return float(self.read_json("health.json")["threshold"])

    @property
    def verified(self) -> NDArray[np.bool_]:
        """Return the (N,) mask of the labels that somebody had checked before the run."""
        mask = np.zeros(self.read_json("data.json")["examples"], bool)
        if self.has("verified.json"):
            try:
                mask[np.asarray(self.read_json("verified.json"), np.int64)] = True
            except (IndexError, TypeError, ValueError) as error:
                raise self.damaged("verified.json", error) from None
        return mask

    @property
    def judgement(self) -> Judgement:
        """Return the algorithm's opinion on every training label."""
        arrays, facts = self.read_arrays("judgement.npz"), self.read_json("data.json")
        try:
            judgement = Judgement.from_stored(arrays)
            judgement.check_shapes(facts["examples"], len(facts["class_names"]))
        except (ValueError, TypeError) as error:
            raise self.damaged("judgement.npz", error) from None
        return judgement

    def damaged(self, name: str, error: Exception) -> InputError:
        """Return the error for the damaged file `name`; `error` tells what is wrong."""
        return InputError(
            f"{self.path / name} is damaged ({first_line(error)}); train anew with --fresh"
        )


class UnwrittenFolder(RunFolder):
    """The folder of a run for a process that leaves all files of it to another process."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Take no lock."""
        yield

    def has(self, name: str) -> bool:  # noqa: ARG002 (as RunFolder)
        """Tell that there is no file."""
        return False

    def write(self, name: str, content: bytes) -> None:
        """Write nothing."""

    @property
    def records(self) -> Records:
        """Return no records."""
        return []


def check_epochs(epochs: list[Any]) -> None:
    """Raise a ValueError unless the epochs are 0, 1, 2 and so on."""
    for expected, epoch in enumerate(epochs):
        if epoch != expected:
            raise ValueError(f"epoch {expected} is missing: there is {epoch} in its place")


def create_folder(path: Path) -> RunFolder:
    """Create the folder if it does not exist, and return it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be made ({error.strerror}); choose another place with --out"
        ) from None
    return RunFolder(path)
