"""Draw the figures of the documentation from the records in benchmarks/results.

    python -m benchmarks results_figures              draws docs/images/*.svg
    python -m benchmarks results_figures --keep RUNS  first keeps what figures 1 and 2 need of runs

`demonstration` is the picture of the README; figures 1 to 4 are those of the paper with frozen
features of CIFAR-10. Figures 1 and 2 need every label after the warm-up: `ulc sweep figure1 --scale
cpu` and `figure2` train the runs, and --keep stores them in benchmarks/results/figures.
"""

import argparse
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.comparison.settings import CLASSES
from benchmarks.grid_records import RESULTS, Record, name_of, read_records
from benchmarks.grid_table import TITLES
from benchmarks.recorded_runs import RecordedRun, read_runs
from ulc.errors import InputError
from ulc.experiments.figure_data import (
    AfterWarmUp,
    accuracy_curves,
    auc_by_epoch,
    find_after_warm_up,
)
from ulc.experiments.figures import (
    draw_accuracy,
    draw_auc,
    draw_class_losses,
    draw_uncertainty,
    new_figure,
    render,
    styled,
)
from ulc.experiments.finished_runs import find_runs
from ulc.storage.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IMAGES = Path(__file__).parents[1] / "docs" / "images"
KEPT = RESULTS.with_name("figures")
SHOWN = {"ce": "#9aa0a6", "ulc": "#3b6fb6", "ulc_plus": "#2e8b57", "ceiling": "#d9822b"}
GROUPS = {"small classes": "small_accuracy", "large classes": "large_accuracy", "all": "accuracy"}
# Methods of figures 3 and 4, with changes behind slashes; r of figure 4 is 0.1 in ULC's preset.
MODELS = ("ulc-without-csm/doubt_weight=0.0", "ulc-without-eum", "ulc")
RATES = ("ulc-without-eum", "ulc", *(f"ulc/doubt_weight={r}" for r in (0.2, 0.05, 0.15)))
UNEVEN = ("features-1to10-20", "features-1to10-50")
COLUMNS = ("given", "true", "loss", "epistemic", "clean_probability")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks results_figures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--keep", type=Path, metavar="RUNS", help="folder of runs of figure 1 or 2")
    keep = parser.parse_args(argv).keep
    try:
        if keep is not None:
            print(keep_labels(keep))
        for name, figure in draw_all():
            write_whole(IMAGES / f"{name}.svg", render(figure, "svg"))
            print(f"docs/images/{name}.svg")
    except InputError as error:
        sys.exit(str(error))


def draw_all() -> Iterator[tuple[str, "Figure"]]:
    """Yield every figure whose records are there, by name."""
    for name, (can_be_drawn, draw) in FIGURES.items():
        if can_be_drawn():
            yield name, draw()


def is_kept(name: str) -> Callable[[], bool]:
    """Return whether the labels of a figure are kept, as a function."""
    return (KEPT / f"{name}.npz").is_file


def is_recorded(setting: str, *methods: str) -> Callable[[], bool]:
    """Return whether each method, with its changes behind slashes, has records with curves."""

    def found() -> bool:
        records = read_records(RESULTS / f"{setting}.jsonl")
        return set(methods) <= {name_of(each) for each in records if "curves" in each}

    return found


def draw_demonstration() -> "Figure":
    """Accuracy by class group in the last epochs, and epoch by epoch; balanced prior."""
    records = read_records(RESULTS / "demonstration.jsonl")
    groups = {
        method: [each for each in records if (each["method"], each["changes"]) == (method, [])]
        for method in SHOWN
    }
    with styled():
        figure, panels = new_figure(2)
        draw_bars(panels[0, 0], groups)
        draw_epochs(panels[0, 1], groups)
    return figure


def draw_bars(axes: "Axes", groups: dict[str, list[Record]]) -> None:
    """Draw means of the last epochs, a bar for each method and class group."""
    for place, (method, records) in enumerate(groups.items()):
        last = [[each["balanced"]["last"][key] for key in GROUPS.values()] for each in records]
        where = np.arange(len(GROUPS)) + 0.21 * (place - 1.5)
        drawn = axes.bar(where, 100 * np.mean(last, axis=0), 0.2, color=SHOWN[method],
                         label=title_of(method))  # fmt: skip
        axes.bar_label(drawn, fmt="%.0f", fontsize=8)
    axes.set(xticks=range(len(GROUPS)), xticklabels=list(GROUPS), ylim=(40, 108))
    axes.set_ylabel("test accuracy, %")
    axes.legend(frameon=False, ncols=2, fontsize=8, loc="upper left")
    count = min(map(len, groups.values()))
    axes.set_title(f"last epochs, balanced prior, n = {count}", fontsize=9)


def draw_epochs(axes: "Axes", groups: dict[str, list[Record]]) -> None:
    """Draw the mean of the seeds epoch by epoch, and their range as a band."""
    for method, records in groups.items():
        seeds = 100 * np.array([each["curves"]["test.balanced.accuracy"] for each in records])
        axes.plot(seeds.mean(0), color=SHOWN[method])
        axes.fill_between(range(seeds.shape[1]), seeds.min(0), seeds.max(0), color=SHOWN[method],
                          alpha=0.15, lw=0)  # fmt: skip
    axes.set(xlabel="epoch", ylim=(40, 108))
    axes.set_title("epoch by epoch: mean and range of the seeds", fontsize=9)


def title_of(method: str) -> str:
    """Return the name of a method in the legend."""
    return "true labels (ceiling)" if method == "ceiling" else TITLES[method]


def keep_labels(runs: Path) -> Path:
    """Keep the labels after warm-up of the first run in a folder, and return the file.

    Runs with small classes are of figure 1, balanced ones of figure 2.
    """
    found, _ = find_runs([runs])
    name = "figure1" if found[0].spec.imbalance.kind != "none" else "figure2"
    data = find_after_warm_up(found, name)
    content: dict[str, Any] = {key: compact(getattr(data, key)) for key in COLUMNS}
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, **content, class_names=np.array(data.class_names), small=np.array(data.small, int),
        threshold=data.threshold, title=data.title,
    )  # fmt: skip
    KEPT.mkdir(exist_ok=True)
    write_whole(KEPT / f"{name}.npz", buffer.getvalue())
    return KEPT / f"{name}.npz"


def compact(values: Any) -> Any:
    """Return labels as bytes and other values as half floats."""
    return values.astype(np.uint8 if values.dtype.kind in "iu" else np.float16)


def read_labels(name: str) -> AfterWarmUp:
    """Read the kept labels of a figure."""
    with np.load(KEPT / f"{name}.npz") as file:
        columns = {
            key: file[key].astype(np.int64 if file[key].dtype.kind in "iu" else np.float32)
            for key in COLUMNS
        }
        return AfterWarmUp(
            **columns,
            class_names=CLASSES,  # files of features have none
            small=tuple(file["small"].tolist()),
            threshold=float(file["threshold"]),
            title=in_words(str(file["title"])),
        )


def in_words(title: str) -> str:
    """Return a title that says what the file of features holds."""
    return title.replace("cifar10_features.npz", "frozen features of CIFAR-10")


def draw_figure_3() -> "Figure":
    """AUC of finding wrong labels by epoch, for the three noise models of the paper.

    Only seeds that all three have count, so that curves differ by the noise model alone.
    """
    runs = runs_of(UNEVEN[1:], MODELS)
    seeds = [{run.spec.seed for run in runs if name_of(run.record) == each} for each in MODELS]
    common = set.intersection(*seeds)
    data = auc_by_epoch([run for run in runs if run.spec.seed in common])
    return draw_auc(replace(data, title=in_words(data.title)))


def draw_figure_4() -> "Figure":
    """Accuracy against r, as trained."""
    curves = accuracy_curves(runs_of(UNEVEN, RATES), "training")
    return draw_accuracy([replace(each, title=in_words(each.title)) for each in curves])


def runs_of(settings: Sequence[str], methods: Sequence[str]) -> list[RecordedRun]:
    """Return the recorded trainings of these methods."""
    return [run for run in read_runs(settings) if name_of(run.record) in methods]


# Name of the file: whether its records are there, and the function that draws it.
FIGURES: dict[str, tuple[Callable[[], bool], Callable[[], "Figure"]]] = {
    "demonstration": (is_recorded("demonstration", *SHOWN), draw_demonstration),
    "figure1": (is_kept("figure1"), lambda: draw_class_losses(read_labels("figure1"))),
    "figure2": (is_kept("figure2"), lambda: draw_uncertainty(read_labels("figure2"))),
    "figure3": (is_recorded(UNEVEN[1], *MODELS), draw_figure_3),
    "figure4": (is_recorded(UNEVEN[1], *RATES[:3]), draw_figure_4),
}


if __name__ == "__main__":
    main(sys.argv[1:])
