"""Search settings with the same effort for every method, judged by noisy validation labels only.

    python -m benchmarks search_settings demonstration --jobs 2 --runs DIR

Each method has nine candidates: three learning rates, crossed with three values of one further
option (KNOBS). Cross entropy has twelve: a fourth weight decay, because the third was the best. A
fifth of the training rows, with their given labels, takes the place of the test set; neither true
labels nor the real test set are read. The score is the agreement with the given validation labels,
as the mean over classes of the last epochs, under the better of the two priors. It is compared
within a method only: noise and imbalance shift it between methods. The preset stays unless another
candidate is better by more than a standard error.
The seed is none that is reported. Candidates are recorded in benchmarks/results/search; a command
that was stopped goes on. It prints all candidates, and lines for presets.toml.
"""

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.grid import add_run_options, exit_if_failed, forget_cells, train_cells
from benchmarks.grid_records import (
    SEARCHES,
    Record,
    hash_spec,
    make_record,
    read_records,
    update_records,
)
from benchmarks.grid_settings import (
    Cell,
    Setting,
    add_setting_options,
    find_settings,
    make_cell,
)
from benchmarks.grid_table import PRIORS, TITLES, format_table
from ulc.algorithms import ALGORITHMS
from ulc.cli import parse
from ulc.errors import InputError
from ulc.experiments.tables import nested_value
from ulc.experiments.validation import SHARE
from ulc.settings.presets import read_presets
from ulc.storage.run_folder import RunFolder

SEED = 100
RATES = (1.0, 0.4, 2.5)  # factors of the preset's learning rates


@dataclass(frozen=True)
class Knob:
    """The further option of a method.

    values: the preset and the first two of these that differ from it are tried
    factors: of the preset's value, in place of values
    """

    option: str
    values: tuple[float, ...] = ()
    factors: tuple[float, ...] = ()

    def alternatives(self, preset: Any) -> list[float]:
        """Return the values beside that of the preset."""
        if self.factors:
            return [type(preset)(round(factor * preset, 6)) for factor in self.factors]
        return [value for value in self.values if value != preset][:2]


KNOBS = {
    "ce": Knob("sgd.weight_decay", factors=(4, 16, 64)),
    "coteaching_plus": Knob("agree_epochs", factors=(0.5, 2)),
    "pencil": Knob("label_rate", factors=(0.3, 3)),
    "meta_learning": Knob("meta_weight", values=(0.4, 0.1, 1.0)),
    "m_correction": Knob("mixup_alpha", values=(8.0, 1.0, 32.0)),
    "dividemix": Knob("doubtful_weight", values=(0.0, 5.0, 25.0)),
    "elr_plus": Knob("penalty", values=(1.0, 7.0, 3.0)),
    "ulc": Knob("doubtful_weight", values=(0.0, 5.0, 25.0)),
    "ulc_plus": Knob("mixup_alpha", values=(0.2, 1.0, 4.0)),
}


def main(argv: list[str]) -> None:
    options = parse_options(argv)
    options.runs = options.runs / "validation"  # specs do not tell which rows are the test set
    try:
        settings, methods = find_settings(options), find_methods(options)
        cells = [
            cell
            for setting in settings
            for method in methods
            for cell in candidates(setting, method, options.epochs)
        ]
        if options.again:
            forget_cells(cells, options)
        failed = train_cells(cells, options, make_search_record, validation=True)
        for setting in settings:
            report_setting(setting, cells, options.results)
    except InputError as error:
        sys.exit(str(error))
    exit_if_failed(failed)


def parse_options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks search_settings",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_setting_options(parser)
    parser.add_argument("--methods", default=",".join(KNOBS), help=f"of {', '.join(KNOBS)}")
    parser.add_argument("--epochs", type=int, help="epochs for a trial; default: the preset's")
    add_run_options(parser, SEARCHES)
    return parser.parse_args(argv)


def find_methods(options: argparse.Namespace) -> list[str]:
    """Return the methods that the options name."""
    methods = parse.names(options.methods, "--methods") or []
    for method in methods:
        if method not in KNOBS:
            raise InputError(f"no method is called '{method}'; known: {', '.join(KNOBS)}")
    return methods


def candidates(setting: Setting, method: str, epochs: int | None = None) -> list[Cell]:
    """Return the candidates of a method; the first is the preset."""
    fixed = [] if epochs is None else [f"epochs={epochs}"]
    preset = make_cell(setting, method, SEED, fixed).spec.options
    knob = KNOBS[method]
    current = nested_value(preset, knob.option.split("."))
    tried = [[], *([f"{knob.option}={value}"] for value in knob.alternatives(current))]
    return [
        make_cell(setting, method, SEED, sorted([*fixed, *scale_rates(preset, factor), *change]))
        for factor in RATES
        for change in tried
    ]


def scale_rates(options: dict[str, Any], factor: float) -> list[str]:
    """Return the changes that multiply every learning rate of a method; none for the factor 1."""
    rates = {f"{name}.lr": value["lr"] for name, value in options.items() if is_optimiser(value)}
    if "final_lr" in options:
        rates["final_lr"] = options["final_lr"]
    return [f"{name}={factor * rate:.6g}" for name, rate in rates.items() if factor != 1]


def is_optimiser(value: Any) -> bool:
    """Tell whether an option is the section of an optimiser."""
    return isinstance(value, dict) and "lr" in value


def make_search_record(cell: Cell, folder: RunFolder) -> Record:
    """Return the record of a candidate.

    score: see above; agreement: without regard to classes; prior: of both
    rows: number of validation rows
    """
    record = make_record(cell, folder)
    del record["curves"]
    scores = {prior: record.pop(prior)["last"] for prior in PRIORS}
    better = max(PRIORS, key=lambda prior: scores[prior]["balanced_accuracy"])
    return record | {
        "score": scores[better]["balanced_accuracy"],
        "agreement": scores[better]["accuracy"],
        "prior": better,
        "rows": round(SHARE / (1 - SHARE) * folder.read_json("data.json")["examples"]),
    }


def report_setting(setting: Setting, cells: Sequence[Cell], results: Path) -> None:
    """Mark the chosen candidates of a setting in its file, and print tables and preset lines."""
    path = results / f"{setting.name}.jsonl"
    mine = {hash_spec(cell.spec) for cell in cells if cell.setting == setting.name}
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in read_records(path):
        if record["spec"] in mine:
            groups[record["method"]].append(record)
    best = {choose(group)["spec"] for group in groups.values()}

    def mark(record: Record) -> Record:
        searched = record["method"] in groups
        return record | {"chosen": record["spec"] in best} if searched else record

    if groups:
        update_records(path, lambda records: [mark(record) for record in records])
    rows = [
        row_of(record, chosen=record["spec"] in best)
        for method in ALGORITHMS
        for record in groups.get(method, [])
    ]
    print(f"### {setting.name}\n")
    head = ["", "candidate", "agreement by class", "agreement", "prior", "chosen"]
    print("\n".join(format_table(head, rows)), end="\n\n")
    for group in groups.values():
        print("\n".join(preset_lines(setting, choose(group), len(group))), end="\n\n")


def choose(group: Sequence[Record]) -> Record:
    """Return the best candidate of a method if it is better than the preset by a standard error.

    The standard error is that of a share among the validation rows. Otherwise return the preset,
    which is the candidate with the fewest changes.
    """
    best = max(group, key=lambda record: record["score"])
    preset = min(group, key=lambda record: len(record["changes"]))
    error = math.sqrt(best["score"] * (1 - best["score"]) / best["rows"])
    return best if best["score"] - preset["score"] > error else preset


def row_of(record: Record, *, chosen: bool) -> list[str]:
    """Return the row of a candidate."""
    title, changes = TITLES[record["method"]], ", ".join(record["changes"]) or "preset"
    scores = [f"{100 * record[name]:.2f}" for name in ("score", "agreement")]
    return [title, changes, *scores, record["prior"], "yes" if chosen else ""]


def preset_lines(setting: Setting, chosen: Record, count: int) -> list[str]:
    """Return the lines for presets.toml; count: number of candidates that were recorded."""
    source = setting.base.data.source
    lines = [f"[{source}.{chosen['method']}]  # the best of {count} candidates"]
    by_noise = {
        name
        for row in read_presets()[source].get("noise", ())
        if setting.base.noise.kind in row["kinds"]
        for name in row["options"]
    }
    changes = [each for each in chosen["changes"] if not each.startswith("epochs=")]
    for name, value in parse.settings(changes).items():
        if isinstance(value, dict):
            inner = ", ".join(f"{key} = {each}" for key, each in value.items())
            lines.append(f"{name} = {{ {inner} }}")
        else:
            note = f"  # belongs into [[{source}.noise]]" if name in by_noise else ""
            lines.append(f"{name} = {value}{note}")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
