"""Text for the screen: names and paths of a user's data cannot control the terminal."""

import io
import sys
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

HIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # control characters, halves of characters, ends of lines
TURNING = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # change writing direction


def printable(text: str, keep: str = "\n\t") -> str:
    """Return the text with control characters as visible escapes; those in `keep` stay."""
    if text.isprintable():
        return text
    return "".join(each if each in keep or not is_control(each) else escape(each) for each in text)


def is_control(character: str) -> bool:
    """Whether a terminal would obey this character, or could not show it."""
    return unicodedata.category(character) in HIDDEN or character in TURNING


def escape(character: str) -> str:
    """Return the escape by which Python writes this character."""
    return character.encode("unicode_escape").decode()


def cell(text: Any) -> str:
    """Return a value for one cell of a table, or a name inside a sentence: one printable line."""
    return printable(str(text), keep="")


def say(text: str, *, error: bool = False) -> None:
    """Print text to the screen; error: to stderr."""
    print(printable(text), file=sys.stderr if error else sys.stdout)


def buffer_output() -> None:
    """Give stdout a buffer if PYTHONUNBUFFERED took it away; lines are written at their end.

    Without a buffer Python does not notice that a full disk has taken only a part of a text.
    """
    out = sys.stdout
    raw = getattr(out, "buffer", None)
    if isinstance(raw, io.RawIOBase):
        whole = io.BufferedWriter(raw)
        sys.stdout = io.TextIOWrapper(whole, out.encoding, out.errors, line_buffering=True)


def console(*, error: bool = False) -> "Console":
    """Return a console that prints text as it is: square brackets and colons are no markup."""
    from rich.console import Console

    return Console(stderr=error, markup=False, emoji=False)
