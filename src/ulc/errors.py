"""The error for a user's mistake, and the short form and kind of any error."""

import errno


class InputError(ValueError):
    r"""A user's mistake; the message is one sentence that names the mistake and the remedy.

    Names in a user's data may have line breaks. They are shown as \n, so it is always one line.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__("\\n".join(str(message).splitlines()))


def first_line(error: BaseException) -> str:
    """Return the first line of the error's message; without a message, the name of its class."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def is_out_of_memory(error: Exception) -> bool:
    """Whether Python, NumPy or torch has found no memory."""
    text = str(error)
    return isinstance(error, MemoryError) or "out of memory" in text or "allocate memory" in text


def is_of_system(error: Exception) -> bool:
    """Whether the disk or the system has failed, not a reader of a damaged file.

    Decompression raises an OSError without a number; a damaged archive makes zipfile seek to a
    negative place, which is an invalid argument.
    """
    return isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)
