"""A run is a folder of files, each written whole or not at all; read anywhere."""

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
    """spec.toml, environment.json, data.json, records.jsonl, checkpoint.pt; ids.json where rows
    have names, encoding.json where they come from a table, embedding.npz where images were
    embedded; at the end judgement.npz, labels.csv, labels.parquet (with pyarrow), corrected.csv,
    health.json, verified.json (where somebody said which labels were checked), outputs.npz,
    model.safetensors, model.json, summary.json and done; audit.json where it is an audit.
    """  # noqa: D205 (a list of files, not a sentence)

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, spec: RunSpec) -> "RunFolder":
        """Make the folder, or find the one that this spec has already."""
        folder = create_folder(path)
        if not folder.has("spec.toml"):
            folder.write("spec.toml", spec.write().encode())
        elif folder.spec.content != spec.content:
            raise InputError(f"{path}: holds another run; choose another place with --out")
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """A folder that is there already."""
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
        """Keep a second process out."""
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
        """What the run was told."""
        return RunSpec.read(self.path / "spec.toml")

    @property
    def done(self) -> bool:
        """Whether it ended well."""
        return self.has("done")

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return (self.path / name).is_file()

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all."""
        write_whole(self.path / name, content)

    def write_json(self, name: str, content: Any) -> None:
        """Write JSON for people to read too."""
        self.write(name, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())

    def write_arrays(self, name: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Write arrays by name."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
        self.write(name, buffer.getvalue())

    def write_records(self, records: Records) -> None:
        """Write all records, a line each."""
        lines = [json.dumps(record, allow_nan=False) + "\n" for record in records]
        self.write("records.jsonl", "".join(lines).encode())

    def finish(self) -> None:
        """Say that all is written."""
        self.write("done", b"")

    def read(self, name: str) -> bytes:
        """A file's content."""
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
        """A JSON file's content."""
        content = self.read(name)
        try:
            return json.loads(content)
        except ValueError as error:
            raise self.damaged(name, error) from None

    @property
    def records(self) -> Records:
        """One record an epoch."""
        content = self.read("records.jsonl")
        try:
            return [json.loads(line) for line in content.splitlines()]
        except ValueError as error:
            raise self.damaged("records.jsonl", error) from None

    @property
    def ids(self) -> list[str] | None:
        """What the source calls each row; None: positions."""
        ids: list[str] | None = self.read_json("ids.json") if self.has("ids.json") else None
        return ids

    @property
    def threshold(self) -> float:
        """Labels at least as likely right are trusted."""
        if not self.has("health.json"):
            return float(self.spec.options.get("threshold", 0.5))
        try:
            return float(self.read_json("health.json")["threshold"])
        except (KeyError, TypeError, ValueError) as error:
            raise self.damaged("health.json", error) from None

    @property
    def verified(self) -> NDArray[np.bool_]:
        """(N,) the labels that somebody had checked when the run began."""
        mask = np.zeros(self.read_json("data.json")["examples"], bool)
        if self.has("verified.json"):
            try:
                mask[np.asarray(self.read_json("verified.json"), np.int64)] = True
            except (IndexError, TypeError, ValueError) as error:
                raise self.damaged("verified.json", error) from None
        return mask

    @property
    def judgement(self) -> Judgement:
        """What the run thinks of every label."""
        packed = io.BytesIO(self.read("judgement.npz"))
        try:
            return Judgement(**read_npz(packed))
        except (ValueError, TypeError) as error:
            raise self.damaged("judgement.npz", error) from None

    def damaged(self, name: str, error: Exception) -> InputError:
        """The file is there, but not readable."""
        return InputError(
            f"{self.path / name} is damaged ({first_line(error)}); train anew with --fresh"
        )


def create_folder(path: Path) -> RunFolder:
    """The folder, made if it is not there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be made ({error.strerror}); choose another place with --out"
        ) from None
    return RunFolder(path)
