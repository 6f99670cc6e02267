"""Find the folder of a run or audit by its spec and by the identity of its data.

The folder is named by the spec. If that folder holds a finished run of other data, the run gets a
folder beside it, whose name ends in the digest of its data. A stopped run of other data is never
touched.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ulc.config import DataSpec, checked, read_toml
from ulc.data.identity import DataIdentity, digest_inputs, files_unchanged
from ulc.data.sources import load_source
from ulc.errors import InputError
from ulc.storage import checksums
from ulc.storage.run_folder import RunFolder

NAME = "identity.json"
BESIDE = "-data-"  # between the name by the spec and the digest of the data


def find_finished(
    path: Path, data: DataSpec, label_file: str | None, weights: Path | None = None
) -> RunFolder | None:
    """Return the finished run at or beside `path` whose data files have not changed.

    The data are not read. None: there is none, or only reading the data can tell.

    weights: file of the initial weights; None: there is none
    """
    for folder in folders_at(path):
        identity = stored_identity(folder) if folder.done else None
        if identity is not None and files_unchanged(identity, data, label_file, weights):
            return folder
    return None


def folders_at(path: Path) -> list[RunFolder]:
    """Return the folder at `path` and the folders beside it that have other data."""
    paths = [path, *sorted(path.parent.glob(f"{path.name}{BESIDE}*"))]
    return [RunFolder(each) for each in paths if each.is_dir()]


def place(path: Path, identity: DataIdentity) -> RunFolder:
    """Return the folder for a run of these data, at `path` or beside it; nothing is written.

    Raise an InputError if `path` holds a stopped run of other data.
    """
    folder = RunFolder(path)
    if is_free(folder) or has_data(folder, identity):
        return folder
    if not folder.done:
        raise other_data(folder)
    return RunFolder(path.with_name(f"{path.name}{BESIDE}{identity.content[:8]}"))


def claim(folder: RunFolder, identity: DataIdentity) -> None:
    """Store the identity in a free folder; raise an InputError if it holds a run of other data.

    To be called first of all, while the folder is locked.
    """
    if is_free(folder):
        folder.write_json(NAME, identity.model_dump(mode="json"))
    elif not has_data(folder, identity):
        raise other_data(folder)


def remember_files(folder: RunFolder, identity: DataIdentity) -> None:
    """Store that the files of a finished run have new times but the same content."""
    with suppress(InputError), folder.locked():  # an archive may be read-only
        folder.write_json(NAME, identity.model_dump(mode="json"))


def remove_run(
    path: Path,
    data: DataSpec,
    label_file: str | None,
    read: Callable[[], DataIdentity],
    weights: Path | None = None,
) -> None:
    """Remove the run of these data at or beside `path`, and a stopped run of any data at `path`.

    read: reads the data; it is only called if their files do not tell which run is theirs
    """
    folder = RunFolder(path)
    if is_free(folder):
        return
    if folder.done and is_readable(folder):
        folder = find_finished(path, data, label_file, weights) or place(path, read())
    if folder.path.is_dir():
        folder.remove()


def is_free(folder: RunFolder) -> bool:
    """Whether no run or audit has begun in the folder, or it does not exist."""
    if not folder.path.is_dir():
        return True
    names = {each.name for each in folder.path.iterdir() if not each.name.startswith(".")}
    return names <= {"lock", checksums.NAME}


def is_readable(folder: RunFolder) -> bool:
    """Whether the identity of the folder's data is not damaged."""
    try:
        stored_identity(folder)
    except InputError:
        return False
    return True


def has_data(folder: RunFolder, identity: DataIdentity) -> bool:
    """Whether the run in the folder was made from these data."""
    stored = stored_identity(folder)
    return stored is not None and stored.content == identity.content


def same_data(one: RunFolder, other: RunFolder) -> bool:
    """Whether both runs were made from the same data; True also if neither says from which."""
    identities = stored_identity(one), stored_identity(other)
    contents = {None if each is None else each.content for each in identities}
    return len(contents) == 1


def inputs_changed(folder: RunFolder) -> bool:
    """Whether the rows on the disk have other inputs than the rows that the run read.

    The data are read only if their files have changed. False also if this is unknown: for image
    files, which have paths, for data that the run made uneven, and for sentences whose model would
    have to be loaded.
    """
    spec, identity = folder.spec, stored_identity(folder)
    if identity is None or identity.inputs is None:
        return False
    if identity.images and spec.data.source != "npz":
        return False
    if spec.imbalance.kind != "none" or spec.data.text_model not in (None, "tfidf"):
        return False
    if files_unchanged(identity, spec.data, spec.noise.file, spec.network.weights_file):
        return False
    return digest_inputs(load_source(spec.data)) != identity.inputs


def stored_identity(folder: RunFolder) -> DataIdentity | None:
    """Return the identity of the data of the run in the folder; None: unknown."""
    if not folder.has(NAME):
        return None
    return checked(DataIdentity, folder.read_json(NAME), where=str(folder.path / NAME))


def other_data(folder: RunFolder) -> InputError:
    """Return the error for a stopped run whose data have changed."""
    what = "data or weights" if names_weights(folder) else "data"
    return InputError(
        f"{folder.path}: a stopped run whose {what} have changed since it began; undo the change "
        "to resume it, choose another --out, or remove it and start anew with --fresh"
    )


def names_weights(folder: RunFolder) -> bool:
    """Whether the spec of the run or audit in the folder names initial weights."""
    names = [name for name in ("spec.toml", "audit.toml") if folder.has(name)]
    specs = [read_toml(folder.path / name) for name in names]
    return any(each.get("network", {}).get("weights") is not None for each in specs)


def first_folder(path: Path) -> Path:
    """Return the absolute path by the spec alone: of a folder beside another, that of the other."""
    path = path.absolute()
    return path.with_name(re.sub(f"{BESIDE}[0-9a-f]{{8}}$", "", path.name))


def check_name(path: Path, name: str) -> None:
    """Raise an InputError if the folder of a run or audit has not the name by its spec."""
    if first_folder(path).name != name:
        raise InputError(f"{path}: the folder was renamed; rename it to {name} to resume it")
