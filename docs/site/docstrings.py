"""Griffe extension: the names that `ulc` loads lazily, and lines `name: meaning` as lists."""

import re
from typing import Any

import griffe

import ulc

NAMED = re.compile(r"([a-z_][\w, ]*): ")


class Docstrings(griffe.Extension):
    """Prepare the package for mkdocstrings."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Add the public names; `import ulc` finds them with `__getattr__`, griffe cannot."""
        for name, module in ulc._PLACES.items():
            pkg.set_member(name, griffe.Alias(name, f"{module}.{name}"))

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring for Markdown."""
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(text: str) -> str:
    """Lines `name: meaning` as items of a list."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        named = NAMED.match(line)
        if named is None:
            inside = inside and line.startswith(" ")
            lines.append(line)
            continue
        if not inside and lines and lines[-1]:
            lines.append("")
        names = ", ".join(f"`{name}`" for name in named[1].split(", "))
        lines.append(f"- {names}: {line[named.end() :]}")
        inside = True
    return "\n".join(lines)
