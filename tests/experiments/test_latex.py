"""Tables in LaTeX compile and fit on a page; skipped where pdflatex or a package is missing."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from recorded_runs import recorded_run
from stub_data import embeddings
from ulc.config import DataSpec, RunSpec
from ulc.experiments.paper.cells import paper_sweep
from ulc.settings.variants import variant

PACKAGES = ("booktabs.sty", "multirow.sty", "graphicx.sty")
DOCUMENT = r"""
\documentclass{article}
\usepackage{booktabs,multirow,graphicx}
\begin{document}
\input{table.tex}
\end{document}
"""


@pytest.fixture
def compiled():
    """A function that compiles table.tex in this folder and returns the log."""
    found = shutil.which("pdflatex") and shutil.which("kpsewhich")
    if not found or any(subprocess.call(["kpsewhich", each]) for each in PACKAGES):
        pytest.skip("no pdflatex with booktabs and multirow")

    def call():
        Path("document.tex").write_text(DOCUMENT)
        ended = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-2000:]
        return ended.stdout

    return call


def assert_fits(log):
    assert "Output written on document.pdf (1 page" in log
    for sign in ("Overfull", "Float too large", "Missing character", "Undefined"):
        assert sign not in log


@pytest.mark.parametrize("table", ["table1", "table2", "table4"])
def test_a_table_of_the_paper_with_all_columns_fits_on_a_page(ulc, compiled, table):
    for count in (10, 100):
        np.savez(f"{count}.npz", **embeddings(2 * count, count, 4))
    sweep = paper_sweep(table, {"cifar10": "10.npz", "cifar100": "100.npz"}, scale="cpu")
    for cell in sweep.cells([0, 1]):
        recorded_run(cell.spec, 0.901, 0.8012, classes=int(Path(cell.spec.data.path).stem))
    ulc("table", "runs", "--like", table, "--format", "latex", "--out", "table.tex")
    assert_fits(compiled())


def test_names_with_special_characters_compile(ulc, compiled):
    name = "50%_a&b#c$d~e^f{g}λ–.npz"
    np.savez(name, **embeddings(20, 10, 4))
    base = RunSpec(data=DataSpec(source="npz", path=str(Path(name).absolute())))
    for method in ("ulc", "ulc-without-csm"):
        recorded_run(variant(base, method))
    ulc("table", "runs", "--format", "latex", "--out", "table.tex")
    assert_fits(compiled())
