"""The pages: links lead somewhere, and the reference holds all that is public."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page):
    """What the headings of a page are called in links, as GitHub makes it."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {link}"


def test_there_are_pages_and_links():
    assert {"README.md", "audit.md", "quickstart.md", "from_the_paper.md"} <= {
        page.name for page in PAGES
    }
    assert sum(len(LINK.findall(page.read_text(encoding="utf-8"))) for page in PAGES) > 50


def test_the_readme_leads_to_every_page_of_the_docs():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    linked = {link.partition("#")[0] for link in LINK.findall(text)}
    missing = {f"docs/{page.name}" for page in DOCS.glob("*.md")} - linked
    assert not missing, "README.md has no link to them under Documentation"


def test_the_reference_holds_all_that_is_public():
    import ulc

    pages = (DOCS / "reference").glob("*.md")
    shown = {
        name
        for page in pages
        for name in re.findall(r"^::: ulc\.(\w+)$", page.read_text(encoding="utf-8"), flags=re.M)
    }
    assert "audit" in ulc.__all__
    assert shown == set(ulc.__all__)


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import ulc, sys; print(sorted({'torch', 'numpy', 'pandas', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
