"""MkDocs hooks: pages from outside docs/, links that also work on GitHub, tables of fields."""

import json
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from posixpath import join, normpath, relpath
from typing import Any

ROOT = Path(__file__).parents[2]
# Where a page lies in the repository, for pages of the site that lie outside docs/.
OUTSIDE = {
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "examples.md": "examples/README.md",
}
INSIDE = {place: page for page, place in OUTSIDE.items()} | {"README.md": "index.md"}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FIELDS = re.compile(r"^<!-- fields of ([\w.]+) -->$", re.M)
OPTIONS = "<!-- options of every algorithm -->"


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie outside docs/."""
    from mkdocs.structure.files import File

    for page, place in OUTSIDE.items():
        text = (ROOT / place).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Adapt the page to the site, and fill in tables of fields."""
    uri = page.file.src_uri
    markdown = adapt_markdown(markdown, uri, f"{config.repo_url}/blob/main")
    markdown = FIELDS.sub(lambda found: fields_table(import_class(found[1])), markdown)
    return markdown.replace(OPTIONS, options_of_algorithms()) if OPTIONS in markdown else markdown


def adapt_markdown(markdown: str, page: str, repository: str) -> str:
    """Links and lists as the site needs them; the pages have them as GitHub needs them."""
    place = OUTSIDE.get(page, f"docs/{page}")  # in the repository

    def rewrite(found: re.Match[str]) -> str:
        name, mark, anchor = found[2].partition("#")
        if not name or re.match(r"[a-z]+:", name):
            return found[0]
        target = normpath(join(Path(place).parent.as_posix(), name))
        if target in INSIDE or target.startswith("docs/"):
            inside = INSIDE.get(target, target.removeprefix("docs/"))
            link = relpath(inside, Path(page).parent.as_posix())
        else:
            link = f"{repository}/{target}"
        return f"{found[1]}{link}{mark}{anchor}{found[3]}"

    blocks = re.split(r"(^```.*?^```)", markdown, flags=re.M | re.S)
    return "".join(
        block if block.startswith("```") else LINK.sub(rewrite, separate_lists(block))
        for block in blocks
    )


def separate_lists(markdown: str) -> str:
    """A blank line between a paragraph and its list: Python-Markdown needs it, GitHub does not."""
    return re.sub(r"^((?![-*#|\s]|\d+\. ).+)\n(?=- )", r"\1\n\n", markdown, flags=re.M)


def options_of_algorithms() -> str:
    """A heading, a sentence and a table for each algorithm."""
    from ulc import ALGORITHMS

    return "\n\n".join(
        f"## `{name}`\n\n{algorithm.__doc__.splitlines()[0]} "
        f"[How it works](../algorithms/{name}.md).\n\n{fields_table(algorithm.config_class)}"
        for name, algorithm in ALGORITHMS.items()
    )


def import_class(path: str) -> Any:
    """The class with this full name."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def fields_table(spec: Any) -> str:
    """The fields of a pydantic model as a table."""
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name, field in spec.model_fields.items():
        default = "required" if field.is_required() else f"`{default_text(field)}`"
        meaning = (field.description or "").replace("|", r"\|")
        rows.append(f"| `{name}` | `{type_text(field.annotation)}` | {default} | {meaning} |")
    return "\n".join(rows)


def type_text(annotation: Any) -> str:
    """A type without its modules."""
    plain = isinstance(annotation, type) and not hasattr(annotation, "__args__")
    text = annotation.__name__ if plain else str(annotation)
    return re.sub(r"\b\w+\.", "", text)


def default_text(field: Any) -> str:
    """A default as Python writes it; of a section, what differs from the section's own defaults."""
    value = field.get_default(call_default_factory=True)
    if not hasattr(value, "model_dump"):
        return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else repr(value)
    changed = value.model_dump(exclude_defaults=True)
    inner = ", ".join(f"{name}={each!r}" for name, each in changed.items())
    return f"{type(value).__name__}({inner})"
