"""The run folder: all files of a run, each written atomically."""

import io
import json
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
from ulc.storage.files import read_npz, write_whole

Records = list[dict[str, Any]]


class RunFolder:
    """Reads and writes the files of a run.

    Always: spec.toml, environment.json, data.json, records.jsonl, checkpoint.pt. If they apply:
    ids.json (rows with ids), encoding.json (tables), text.npz (sentences), embedding.npz (images),
    verified.json (labels that somebody has checked), audit.json (audits). When the run ends:
    judgement.npz, labels.csv, labels.parquet (with pyarrow), corrected.csv, health.json,
    outputs.npz, model.safetensors, model.json, summary.json and, last, done.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

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
        """Hold the folder's lock inside a `with` block; raise if another process has it."""
        lock = FileLock(self.path / "lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(
                f"{self.path}: another process trains here; wait for it or choose another --out"
            ) from None
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be written ({error.strerror}); "
                "choose another place with --out"
            ) from None
        try:
            yield
        finally:
            lock.release()

    @property
    def spec(self) -> RunSpec:
        """Return the run's spec."""
        return RunSpec.read(self.path / "spec.toml")

    @property
    def done(self) -> bool:
        """Tell whether the run has finished."""
        return self.has("done")

    def has(self, name: str) -> bool:
        """Tell whether the file exists."""
        return (self.path / name).is_file()

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically."""
        write_whole(self.path / name, content)

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

    def finish(self) -> None:
        """Mark the run as finished."""
        self.write("done", b"")

    def read(self, name: str) -> bytes:
        """Return a file's content."""
        try:
            return (self.path / name).read_bytes()
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
        except OSError as error:
            raise self.damaged(name, error) from None

    def read_json(self, name: str) -> Any:
        """Return a JSON file's content."""
        content = self.read(name)
        try:
            return json.loads(content)
        except ValueError as error:
            raise self.damaged(name, error) from None

    @property
    def records(self) -> Records:
        """Return the records, one per epoch."""
        content = self.read("records.jsonl")
        try:
            return [json.loads(line) for line in content.splitlines()]
        except ValueError as error:
            raise self.damaged("records.jsonl", error) from None

    @property
    def ids(self) -> list[str] | None:
        """Return the ids of the rows; None: rows are named by position."""
        ids: list[str] | None = self.read_json("ids.json") if self.has("ids.json") else None
        return ids

    @property
    def threshold(self) -> float:
        """Return the threshold: a label whose label score is at least this high is trusted."""
        if not self.has("health.json"):
            return float(self.spec.options.get("threshold", 0.5))
        try:
            return float(self.read_json("health.json")["threshold"])
        except (KeyError, TypeError, ValueError) as error:
            raise self.damaged("health.json", error) from None

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
        packed = io.BytesIO(self.read("judgement.npz"))
        try:
            return Judgement.from_stored(read_npz(packed))
        except (ValueError, TypeError) as error:
            raise self.damaged("judgement.npz", error) from None

    def damaged(self, name: str, error: Exception) -> InputError:
        """Return the error for the damaged file `name`; `error` tells what is wrong."""
        return InputError(
            f"{self.path / name} is damaged ({first_line(error)}); train anew with --fresh"
        )


def create_folder(path: Path) -> RunFolder:
    """Create the folder if it does not exist, and return it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be made ({error.strerror}); choose another place with --out"
        ) from None
    return RunFolder(path)
