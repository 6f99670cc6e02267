"""Pages of algorithms: the code that their tables of equations name exists and says the same."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ulc"
PAGES = sorted((ROOT / "docs" / "algorithms").glob("*.md"))
NAME = re.compile(r"`([A-Za-z_][\w./]*)`")  # a name, dotted names or a file; nothing with a value


def definitions():
    """All definitions of the package by name: (docstring, names inside a class, names of bases)."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found.setdefault(path.stem, []).append((ast.get_docstring(tree) or "", members(tree), ()))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                bases = [ast.unparse(base) for base in getattr(node, "bases", ())]
                entry = (ast.get_docstring(node) or "", members(node), bases)
                found.setdefault(node.name, []).append(entry)
            for name in fields(node):
                found.setdefault(name, []).append(("", set(), ()))
    return found


def fields(node):
    """The names that an assignment defines."""
    if isinstance(node, ast.AnnAssign):
        return [ast.unparse(node.target).removeprefix("self.")]
    if isinstance(node, ast.Assign):
        return [ast.unparse(target).removeprefix("self.") for target in node.targets]
    return []


def members(node):
    """The names that are defined in a class, a module or a function."""
    inside = {each.name for each in ast.walk(node) if hasattr(each, "name")}
    return inside | {name for each in ast.walk(node) for name in fields(each)}


KNOWN = definitions()


def equation_rows(page):
    """The rows of the page's table of equations: (paper, code)."""
    text = page.read_text(encoding="utf-8")
    section = text.partition("## Equations")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return [(paper, code) for paper, code in rows if code.strip() not in ("code", "---")]


def has_member(owner, name):
    return any(
        name in inside or any(has_member(base, name) for base in bases if base in KNOWN)
        for _, inside, bases in KNOWN[owner]
    )


def problem(name):
    """What is wrong with a name in a table; None: nothing."""
    if name.endswith(".py"):
        return None if (SOURCE / name).is_file() else "no such file"
    owner, *inside = name.split(".")
    if owner not in KNOWN:
        return "defined nowhere"
    return None if all(has_member(owner, each) for each in inside[:1]) else "no such member"


def numbers(text):
    """The equations that a text names, "Eq. 7 to 9" and "Eq. 2 and 10" among them."""
    found = set()
    for first, word, last in re.findall(r"Eq\. (\d+)(?: (to|and) (\d+))?", text):
        end = int(last or first)
        found |= {*range(int(first), end + 1)} if word == "to" else {int(first), end}
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_that_equations_name_exists(page):
    rows = equation_rows(page)
    wrong = {
        name: problem(name)
        for _, code in rows
        for name in NAME.findall(code)
        if problem(name) is not None
    }
    assert not wrong
    if page.stem != "ce":
        assert len(rows) > 3


def test_every_equation_of_ulc_is_in_the_table_and_in_a_docstring():
    """The paper and its appendix have twelve numbered equations."""
    rows = equation_rows(ROOT / "docs" / "algorithms" / "ulc.md")
    assert set().union(*(numbers(paper) for paper, _ in rows)) == {*range(1, 13)}
    for paper, code in rows:
        names = [name.split(".")[-1] for name in NAME.findall(code) if not name.endswith(".py")]
        said = " ".join(text for name in names for text, *_ in KNOWN[name])
        assert numbers(paper) <= numbers(said), paper


def test_a_name_that_is_gone_is_found():
    assert problem("ULC.train_epoch") is None
    assert problem("ULC.no_such_method") == "no such member"
    assert problem("no_such_function") == "defined nowhere"
    assert problem("blocks/no_such_file.py") == "no such file"
    assert numbers("Eq. 7 to 9, Eq. 2 and 10") == {2, 7, 8, 9, 10}
