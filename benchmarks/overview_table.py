"""One table of many settings: a row for each setting, a column for each method."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.grid_records import RESULTS, Record, name_of, read_records
from benchmarks.grid_settings import SETTINGS
from benchmarks.grid_table import format_table, title_of, values_of
from ulc.config import read_toml
from ulc.experiments.tables import mean_and_deviation


def overview_table(
    column: str, settings: Sequence[str], methods: Sequence[str], results: Path = RESULTS
) -> str:
    """Accuracy of each method in each setting, over the seeds that all of them have.

    column: "better prior", "training prior" or "balanced prior" of grid_table, or another column
    The highest mean of a row is bold. Settings without such seeds are left out.
    """
    table = read_toml(SETTINGS)
    rows = []
    for setting in settings:
        groups = common_records(results / f"{setting}.jsonl", methods)
        if not groups[0]:
            continue
        values = [values_of(group, column) for group in groups]
        means = [np.mean([each for each in seeds if each is not None] or [0.0]) for seeds in values]
        cells = [mean_and_deviation(seeds) for seeds in values]
        best = int(np.argmax(means))
        cells[best] = f"**{cells[best]}**"
        rows.append([table[setting]["title"], str(len(groups[0])), *cells])
    heads = [title_of({"method": method, "changes": []}) for method in methods]
    return "\n".join(format_table(["", "n", *heads], rows))


def common_records(path: Path, methods: Sequence[str]) -> list[list[Record]]:
    """The records of each method with the seeds that every method has, in their order.

    Of trainings with searched options and with the preset, the searched ones count.
    """
    by_method: list[dict[int, Record]] = []
    records = read_records(path)
    for method in methods:
        own = [record for record in records if name_of(record) == method]
        own.sort(key=lambda record: bool(record.get("searched")))
        by_method.append({record["seed"]: record for record in own})
    seeds = sorted(set.intersection(*map(set, by_method)))
    return [[known[seed] for seed in seeds] for known in by_method]
