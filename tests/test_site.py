"""The documentation site: it builds without a warning, and its links are the repository's."""

import os
import re
import runpy
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from pydantic import Field

import ulc
from ulc.config import Spec

ROOT = Path(__file__).parents[1]
SITE = runpy.run_path(str(ROOT / "docs" / "site" / "hooks.py"))
REPOSITORY = "https://example.org/ulc/blob/main"


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("audit.md", "labels.md#files", "labels.md#files"),
        ("audit.md", "#warnings", "#warnings"),
        ("audit.md", "https://example.org/a.md", "https://example.org/a.md"),
        ("audit.md", "../src/ulc/api.py", f"{REPOSITORY}/src/ulc/api.py"),
        ("comparison.md", "../CHANGELOG.md", "changelog.md"),
        ("algorithms/ulc.md", "../results.md", "../results.md"),
        ("algorithms/ulc.md", "../../CONTRIBUTING.md", "../contributing.md"),
        ("contributing.md", "docs/ARCHITECTURE.md", "ARCHITECTURE.md"),
        ("contributing.md", "README.md", "index.md"),
        ("examples.md", "own_table.py", f"{REPOSITORY}/examples/own_table.py"),
        ("examples.md", "../docs/audit.md", "audit.md"),
    ],
)
def test_a_link_that_works_on_github_is_rewritten_for_the_site(page, link, expected):
    text = "[a]({}) and\n```\n[b](../src/x.py)\n```\n"
    rewritten = SITE["adapt_markdown"](text.format(link), page, REPOSITORY)
    assert rewritten == text.format(expected)


def test_a_list_after_a_paragraph_is_a_list_on_the_site():
    adapt = SITE["adapt_markdown"]
    assert adapt("Two:\n- a\n  more\n- b\n", "a.md", REPOSITORY) == "Two:\n\n- a\n  more\n- b\n"
    code = "```\nTwo:\n- a\n```\n"
    assert adapt(code, "a.md", REPOSITORY) == code


class Inner(Spec):
    """A section."""

    rate: float = 0.1


class Outer(Spec):
    """A spec with one field of each kind."""

    name: str
    size: int | None = Field(None, description="rows | columns")
    inner: Inner = Inner(rate=0.5)


def test_a_table_of_fields_holds_type_default_and_meaning():
    assert SITE["fields_table"](Outer).splitlines()[2:] == [
        "| `name` | `str` | required |  |",
        r"| `size` | `int | None` | `None` | rows \| columns |",
        "| `inner` | `Inner` | `Inner(rate=0.5)` |  |",
    ]


def test_the_options_of_every_algorithm_are_shown():
    text = SITE["options_of_algorithms"]()
    for name, algorithm in ulc.ALGORITHMS.items():
        section = text.split(f"## `{name}`\n")[1].split("\n## ")[0]
        assert all(f"| `{field}` |" in section for field in algorithm.config_class.model_fields)


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]
    named = set(re.findall(r": (\S+\.md)$", navigation, re.M))
    docs = ROOT / "docs"
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    assert named == pages | SITE["OUTSIDE"].keys()


def test_the_repository_has_one_address():
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    home = urls["Homepage"]
    assert all(url.startswith(home) for url in urls.values())
    assert f"repo_url: {home}\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"repository-code: {home}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {ulc.__version__}\n" in text


def test_the_lowest_versions_are_those_that_the_package_allows():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)$", lowest, re.M))
    allowed = dict(requirement.split(">=") for requirement in project["dependencies"])
    assert allowed.keys() <= pinned.keys()
    for name, version in allowed.items():
        assert re.fullmatch(rf"{re.escape(version)}(\.0)*", pinned[name]), name


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs the extra docs")
def test_the_site_builds_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT, capture_output=True, encoding="utf-8", check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},  # the theme's notice about mkdocs itself
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not re.search(r"^WARNING", done.stderr, re.MULTILINE)  # the theme advertises in yellow
    options = (tmp_path / "site" / "reference" / "options" / "index.html").read_text("utf-8")
    assert "doubt_weight" in options
    functions = (tmp_path / "site" / "reference" / "functions" / "index.html").read_text("utf-8")
    assert "folder of class folders" in functions
