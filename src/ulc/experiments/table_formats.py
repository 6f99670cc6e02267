"""Tables of runs as Markdown, LaTeX (booktabs) and CSV."""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from ulc.experiments.run_table import SCORES, Numbers, PaperNumber, RunTable

MARKS = "abcdefghijklmnopqrstuvwxyz"
SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "–": "--", "−": "$-$", "≥": r"$\geq$", "≤": r"$\leq$", "…": r"\dots{}",
    "λ": r"$\lambda$", "ε": r"$\varepsilon$", "σ": r"$\sigma$", "ω": r"$\omega$", "τ": r"$\tau$",
    "ℓ": r"$\ell$",
}  # fmt: skip
NARROW = 3  # a LaTeX table with more columns is made as wide as the text, and may be divided


def as_markdown(table: RunTable) -> str:
    """The table in Markdown, with what its numbers are below it."""
    lines = [f"**{table.title}**", ""] if table.title else []
    heads = [", ".join(part for part in head if part) for head in table.heads]
    lines += [row_of(["", "", *map(escape_markdown, heads)]), "|---" * (len(heads) + 2) + "|"]
    for row in table.rows:
        for score in table.scores:
            cells = [
                cell_text(each, table, column, score, markdown_cell)
                for column, each in enumerate(row.numbers[score])
            ]
            title = escape_markdown(row.title) if score == table.scores[0] else ""
            lines.append(row_of([title, score, *cells]))
    lines += ["", " ".join(explain(table)), *remark_lines(table)]
    return "\n".join(lines)


def row_of(cells: Sequence[str]) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


def escape_markdown(text: str) -> str:
    """Text for a cell of a table in Markdown."""
    return text.replace("|", r"\|")


def markdown_cell(own: str, paper: PaperNumber | None, *, highest: bool) -> str:
    """A cell in Markdown: our number, bold if it is the highest, and the paper's in brackets."""
    shown = f"**{own}**" if highest else own
    if paper is None:
        return shown
    marks = marks_of(paper)
    raised = f"<sup>{marks}</sup>" if marks else ""
    return f"{shown} ({with_deviation(paper.value, paper.deviation)}{raised})"


def latex_cell(own: str, paper: PaperNumber | None, *, highest: bool) -> str:
    """A cell in LaTeX: our number, bold if it is the highest, and the paper's in brackets."""
    number = escape_latex(own)
    shown = rf"\textbf{{{number}}}" if highest else number
    if paper is None:
        return shown
    marks = marks_of(paper)
    raised = rf"\textsuperscript{{{marks}}}" if marks else ""
    value = escape_latex(with_deviation(paper.value, paper.deviation))
    return f"{shown} ({value}{raised})"


def with_deviation(value: float, deviation: float | None) -> str:
    """A number with one digit, and its standard deviation if it is known."""
    return f"{value:.1f}" if deviation is None else f"{value:.1f} ± {deviation:.1f}"


def marks_of(paper: PaperNumber) -> str:
    """The letters of the remarks on a number of the paper."""
    return ",".join(MARKS[each % len(MARKS)] for each in paper.remarks)


def cell_text(
    numbers: Numbers,
    table: RunTable,
    column: int,
    score: str,
    put: Callable[..., str],
) -> str:
    """Mean ± standard deviation, the number of seeds if it is unusual, and the paper's number.

    put: makes a cell of our number as text and the paper's
    """
    if numbers.mean is None:
        return put("–", numbers.paper, highest=False)
    own = with_deviation(numbers.mean, numbers.deviation)
    if len(numbers.values) != table.count:
        own += f" [n = {len(numbers.values)}]"
    highest = table.highest("best" if score == "best" else "last", column)
    return put(own, numbers.paper, highest=round(numbers.mean, 1) == highest)


def explain(table: RunTable) -> list[str]:
    """Sentences that say what the numbers are."""
    if not table.count:
        return ["The runs have no test set, so there is no test accuracy.", *table.settings]
    prior = "as trained" if table.prior == "training" else "with the balanced prior"
    seeds = "1 seed" if table.count == 1 else f"{table.count} seeds"
    best = "Best: the best epoch on the test set; last" if "best" in table.scores else "Last"
    sentences = [
        f"Test accuracy in %, {prior}: mean ± standard deviation over n = {seeds}, "
        f"unless a cell says another n. {best}: {table.last}. Bold: the highest of a column."
    ]
    papers = [each.paper for row in table.rows for each in row.numbers["last"] if each.paper]
    if papers:
        deviation = any(each.deviation is not None for each in papers)
        more = " ± standard deviation, where it names one" * deviation
        sentences.append(f"In brackets: the number of the paper{more}.")
    return [*sentences, *table.settings]


def remark_lines(table: RunTable) -> list[str]:
    """A line for each remark on numbers of the paper that are shown."""
    used = used_remarks(table)
    return ["", *(f"- ({MARKS[n]}) {table.remarks[n]}" for n in used)] if used else []


def used_remarks(table: RunTable) -> list[int]:
    """The numbers of the remarks on numbers of the paper that are shown."""
    cells = (each for row in table.rows for score in SCORES for each in row.numbers[score])
    return sorted({remark for each in cells if each.paper for remark in each.paper.remarks})


def as_latex(table: RunTable) -> str:
    """The table in LaTeX: a caption, the numbers, and what they are in small print below them.

    A wide table has a part for each data set, one below the other, as wide as the text.
    """
    parts = list(split_columns(table.heads))
    remarks = [f"({MARKS[n]}) {table.remarks[n]}" for n in used_remarks(table)]
    lines = [
        "% needs \\usepackage{booktabs,multirow,graphicx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(caption_of(table))}}}",
        r"\smallskip",
        *(line for part in parts for line in [*latex_part(table, part), r"\par\medskip"]),
        r"\begin{minipage}{\linewidth}\footnotesize",
        escape_latex(" ".join([*explain(table), *remarks])),
        r"\end{minipage}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def split_columns(heads: Sequence[tuple[str, ...]]) -> Iterator[list[int]]:
    """The columns of each part of a table: all, or those of each first heading if they are many."""
    places = range(len(heads))
    if len(heads) <= NARROW:
        yield list(places)
    else:
        for _, part in groupby(places, key=lambda place: heads[place][0]):
            yield list(part)


def latex_part(table: RunTable, columns: Sequence[int]) -> list[str]:
    """The rows of a table with these columns."""
    wide = len(columns) > NARROW
    lines = [
        *([r"\resizebox{\linewidth}{!}{%"] if wide else []),
        rf"\begin{{tabular}}{{ll{'c' * len(columns)}}}",
        r"\toprule",
        *head_lines([table.heads[each] for each in columns]),
        r"\midrule",
    ]
    for place, row in enumerate(table.rows):
        for score in table.scores:
            numbers = row.numbers[score]
            cells = [cell_text(numbers[each], table, each, score, latex_cell) for each in columns]
            first = rf"\multirow{{{len(table.scores)}}}{{*}}{{{escape_latex(row.title)}}}"
            title = first if score == table.scores[0] else ""
            lines.append(" & ".join([title, score, *cells]) + r" \\")
        if place < len(table.rows) - 1:
            lines.append(r"\addlinespace")
    return [*lines, r"\bottomrule", r"\end{tabular}", *(["}"] if wide else [])]


def caption_of(table: RunTable) -> str:
    """The title of a table; LaTeX numbers tables itself, so a number of the paper is named so."""
    number, colon, rest = table.title.partition(": ")
    if colon and number.startswith("Table "):
        return f"As {number} of the ULC paper: {rest}."
    return f"{table.title}." if table.title else "Test accuracy in %."


def head_lines(heads: Sequence[tuple[str, ...]]) -> list[str]:
    """The headings in LaTeX, one line for each level; equal neighbours share a heading.

    A thin rule below a heading of several columns shows which they are.
    """
    lines = []
    for level in range(len(heads[0])):
        upper = [head[: level + 1] for head in heads]
        groups = [(parts[-1], len(list(same))) for parts, same in groupby(upper)]
        cells = [rf"\multicolumn{{{count}}}{{c}}{{{escape_latex(text)}}}" for text, count in groups]
        lines.append(" & ".join(["", "", *cells]) + r" \\")
        ends = [2 + sum(count for _, count in groups[: place + 1]) for place in range(len(groups))]
        lines += [
            rf"\cmidrule(lr){{{end - count + 1}-{end}}}"
            for (_, count), end in zip(groups, ends, strict=True)
            if count > 1 and len(groups) > 1
        ]
    return lines


def escape_latex(text: str) -> str:
    """Text for LaTeX."""
    return "".join(SPECIAL.get(character, character) for character in text)


def as_csv(table: RunTable) -> str:
    """The table as CSV: a line for each row, column and score, with numbers as they are."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = (
        "row",
        "column",
        "score",
        "prior",
        "mean",
        "standard_deviation",
        "n",
        "paper",
        "paper_standard_deviation",
        "remark",
    )
    writer.writerow(names)
    for row in table.rows:
        for score in table.scores:
            for head, each in zip(table.heads, row.numbers[score], strict=True):
                column = ", ".join(part for part in head if part)
                numbers = [exact(each.mean), exact(each.deviation), len(each.values)]
                paper = ["", "", ""] if each.paper is None else paper_columns(table, each.paper)
                writer.writerow([row.title, column, score, table.prior, *numbers, *paper])
    return buffer.getvalue()


def paper_columns(table: RunTable, paper: PaperNumber) -> list[str]:
    """The paper's number, its standard deviation and the remarks on it."""
    remarks = " ".join(table.remarks[number] for number in paper.remarks)
    return [exact(paper.value), exact(paper.deviation), remarks]


def exact(value: float | None) -> str:
    """A number with all its digits; empty for None."""
    return "" if value is None else repr(value)


FORMATS: dict[str, Callable[[RunTable], str]] = {
    "markdown": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
}
