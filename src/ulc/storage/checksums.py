"""Digests of a folder's files: a file that changed after it was written is noticed when read."""

import hashlib
import json
from pathlib import Path

from ulc.errors import InputError
from ulc.storage.files import write_whole
from ulc.storage.memory import read_run_file

NAME = "checksums.json"


def digest(content: bytes) -> str:
    """Return the digest of a file's content."""
    return hashlib.sha256(content).hexdigest()


class Checksums:
    """The valid digests of each file of a folder, in checksums.json.

    A file has more than one valid digest only if the process may have been killed while it was
    replaced: the new digest is stored before the new file, and the old one stays valid until the
    file is written again.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.written: dict[str, str] = {}  # digests of the files that this object has written

    def write_file(self, name: str, content: bytes) -> None:
        """Write a file of the folder, and before it its digest."""
        stored, new = self.read() or {}, digest(content)
        old = [self.written[name]] if name in self.written else stored.get(name, [])
        if old != [new]:
            stored[name] = [*(each for each in old if each != new), new]
            text = json.dumps(stored, indent=1, sort_keys=True) + "\n"
            write_whole(self.path, text.encode())
        write_whole(self.path.with_name(name), content)
        self.written[name] = new

    def check(self, name: str, content: bytes) -> None:
        """Raise a ValueError unless this is what was written; a folder without digests passes.

        To be called after the file was read: its digest is always stored before it is.
        """
        stored = self.read()
        if stored is not None and digest(content) not in stored.get(name, ()):
            raise ValueError("its checksum differs")

    def read(self) -> dict[str, list[str]] | None:
        """Return the valid digests of each file by name; None: there is no checksums.json."""
        try:
            content = read_run_file(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.damaged(error) from None
        try:
            return parse(content)
        except (ValueError, RecursionError) as error:
            raise self.damaged(error) from None

    def damaged(self, error: Exception) -> InputError:
        """Return the error for a damaged checksums.json; `error` tells what is wrong."""
        return InputError(
            f"{self.path} is damaged ({error}); put it back, or train anew with --fresh"
        )


def parse(content: bytes) -> dict[str, list[str]]:
    """Return the content of checksums.json; raise a ValueError if it has another shape."""
    parsed = json.loads(content)
    if not isinstance(parsed, dict) or not all(isinstance(each, list) for each in parsed.values()):
        raise ValueError("not an object of lists")
    return parsed
