"""Files that are written whole or not at all."""

import os
import tempfile
from pathlib import Path

from ulc.errors import InputError


def write_whole(path: Path, content: bytes) -> None:
    """Write to a temporary name beside `path`, flush it to the disk, and rename it."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(0o666 & ~current_umask())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); choose another place or free it"
        ) from None


def current_umask() -> int:
    """The mask under which the user creates files (mkstemp ignores it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
