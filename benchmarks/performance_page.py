"""Write docs/performance.md and its chart from the JSON files of `python -m benchmarks all`.

    python -m benchmarks.performance_page DIR [--out docs/performance.md]

The rows of every benchmark go to CSV files in benchmarks/results (--results).
"""

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.__main__ import FOLDER, SPEED
from benchmarks.timing import format_value

MOST_ROWS = 15
COLOURS = {"reached": "#4477aa", "not shown": "#bbbbbb", "missed": "#cc6677"}
HEAD = """# Speed and memory

How fast `ulc` trains and how much memory it needs. Each figure has a bound, a goal that the
project set for itself.

![Every figure relative to its bound]({chart})

Each line of the chart is a row of the table: median (dot) and lowest to highest repetition,
relative to the bound. The dashed line is the bound; left of it, the bound is kept.

{table}
*Reached*: every repetition keeps the bound. *Missed*: none does. *Not shown*: the spread spans the
bound, or there is only one repetition. A ratio (÷) names its peer; both sides took turns. n is the
number of repetitions.

Measured on {machine}. Load average before each benchmark: {loads}.
"""


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=FOLDER.parent / "docs" / "performance.md")
    parser.add_argument("--results", type=Path, default=FOLDER / "results")
    options = parser.parse_args(argv)
    found = [options.folder / f"{name}.json" for name in SPEED]
    results = [json.loads(path.read_text(encoding="utf-8")) for path in found if path.is_file()]
    if not results:
        sys.exit(
            f"{options.folder} holds no results; run `python -m benchmarks all --json-dir` first"
        )
    bounds = [bound for each in results for bound in each["bounds"]]
    if len(bounds) > MOST_ROWS:
        sys.exit(f"{len(bounds)} rows are too many for the page; keep {MOST_ROWS} bounds at most")
    chart = options.out.with_suffix(".svg")
    draw_chart(bounds, chart)
    options.out.write_text(make_page(results, bounds, chart.name), encoding="utf-8")
    options.results.mkdir(parents=True, exist_ok=True)
    for each in results:
        write_csv(each["rows"], options.results / f"speed_{each['benchmark']}.csv")
    print(options.out)


def make_page(results: list[dict[str, Any]], bounds: list[dict[str, Any]], chart: str) -> str:
    """Return the page: chart, table, machine, notes."""
    machine = results[0]["machine"]
    threads = ", ".join(sorted({each["settings"]["threads"] for each in results}))
    loads = [f"{each['benchmark']} {each['machine']['load_before']:.1f}" for each in results]
    about = (
        f"{machine['processor']}, {machine['cores']} cores, {threads} threads; "
        f"Python {machine['python']}, torch {machine['torch']}"
    )
    head = HEAD.format(chart=chart, table=make_table(bounds), machine=about, loads=", ".join(loads))
    return head + "\n" + (FOLDER / "performance_notes.md").read_text(encoding="utf-8")


def make_table(bounds: list[dict[str, Any]]) -> str:
    """Return one Markdown row for each bound."""
    lines = [
        "| figure | median | lowest to highest | n | bound | verdict |",
        "|---|---|---|---|---|---|",
    ]
    for each in bounds:
        spread = f"{format_value(each['low'])} to {format_value(each['high'])}"
        spread = "–" if each["repeats"] == 1 else spread
        bound = f"{each['relation']} {format_value(each['limit'])}"
        verdict = each["verdict"] if each["verdict"] == "reached" else f"**{each['verdict']}**"
        cells = [each["what"], format_value(each["median"]), spread, str(each["repeats"])]
        lines.append("| " + " | ".join([*cells, bound, verdict]) + " |")
    return "\n".join(lines) + "\n"


def write_csv(rows: list[dict[str, Any]], path: Path) -> None:
    """Write the rows of a benchmark; columns are the union of their keys."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: format_value(value) for key, value in row.items()} for row in rows)


def draw_chart(bounds: list[dict[str, Any]], path: Path) -> None:
    """Draw the spread of every figure relative to its bound; below 1, the bound is kept."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "ulc"  # the same figures give the same file
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 0.8 + 0.32 * len(bounds)))
    for place, each in enumerate(reversed(bounds)):
        low, middle, high = sorted(
            relative_to_bound(each, key) for key in ("low", "median", "high")
        )
        colour = COLOURS[each["verdict"]]
        axes.plot([low, high], [place, place], color=colour, linewidth=5, solid_capstyle="butt")
        axes.plot(middle, place, "o", color="black", markersize=4)
    axes.axvline(1, color="black", linestyle="--", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("{x:g}")
    axes.set_yticks(range(len(bounds)), [each["what"] for each in reversed(bounds)], fontsize=8)
    axes.set_xlabel("relative to the bound (1)", fontsize=9)
    handles = [mpl.lines.Line2D([], [], color=each, linewidth=5) for each in COLOURS.values()]
    axes.legend(handles, COLOURS, fontsize=8, frameon=False, loc="lower left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def relative_to_bound(bound: dict[str, Any], key: str) -> float:
    """Return value ÷ limit for "≤", limit ÷ value for "≥": at most 1 keeps the bound."""
    ratio = bound[key] / bound["limit"]
    return ratio if bound["relation"] == "≤" else 1 / ratio


if __name__ == "__main__":
    main(sys.argv[1:])
