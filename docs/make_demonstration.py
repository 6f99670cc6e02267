"""Draw the README's picture from the run folders that `ulc train --seed 0` to `4` left.

python docs/make_demonstration.py runs docs/demonstration.svg
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

from ulc.storage.run_folder import RunFolder

mpl.use("svg")
mpl.rcParams.update(
    {
        "svg.hashsalt": "ulc",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
)
import matplotlib.pyplot as plt  # noqa: E402 (after the backend is chosen)

RUNS = {  # title: (folder name before the seed, colour)
    "cross entropy": ("fashion-half10-sym0.5-ce", "#9aa0a6"),
    "ULC": ("fashion-half10-sym0.5-ulc", "#3b6fb6"),
    "ULC+": ("fashion-half10-sym0.5-ulc_plus", "#2e8b57"),
    "true labels (ceiling)": ("fashion-half10-clean-ce", "#d9822b"),
}


def main(runs: Path, target: Path) -> None:
    """Draw all seeds of all trainings as one picture."""
    folders = {
        title: [RunFolder.open(path) for path in sorted(runs.glob(f"{name}-s[0-4]-*"))]
        for title, (name, _) in RUNS.items()
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    bars(left, folders)
    curves(right, folders)
    figure.savefig(target, metadata={"Date": None})


def bars(axes: plt.Axes, folders: dict[str, list[RunFolder]]) -> None:
    """Accuracy by class group, every run under the balanced prior."""
    for place, (title, several) in enumerate(folders.items()):
        values = 100 * np.mean([last_epochs(folder) for folder in several], axis=0)
        where = np.arange(3) + 0.21 * (place - 1.5)
        drawn = axes.bar(where, values, 0.2, label=title, color=RUNS[title][1])
        axes.bar_label(drawn, fmt="%.0f", fontsize=8)
    axes.set(xticks=range(3), xticklabels=("small classes", "large classes", "all"))
    axes.set(ylim=(40, 105), ylabel="test accuracy, %")
    axes.legend(
        frameon=False, ncols=4, columnspacing=1, handlelength=1, fontsize=8, loc="upper left"
    )
    axes.set_title(f"last epochs, balanced prior, n = {len(several)}", fontsize=9)


def last_epochs(folder: RunFolder) -> list[float]:
    """Accuracy on small classes, large classes and all under the balanced prior."""
    last = folder.read_json("summary.json")["balanced"]["last"]
    return [last[key] for key in ("small_accuracy", "large_accuracy", "accuracy")]


def curves(axes: plt.Axes, folders: dict[str, list[RunFolder]]) -> None:
    """Accuracy with the balanced prior, epoch by epoch: mean, and all seeds as a band."""
    for title, several in folders.items():
        seeds = 100 * np.array(
            [
                [record["test"]["balanced"]["accuracy"] for record in folder.records]
                for folder in several
            ]
        )
        axes.plot(seeds.mean(0), color=RUNS[title][1], label=title)
        axes.fill_between(
            range(seeds.shape[1]),
            seeds.min(0),
            seeds.max(0),
            color=RUNS[title][1],
            alpha=0.15,
            lw=0,
        )
    axes.set(xlabel="epoch", ylim=(40, 105))
    axes.set_title("balanced prior, epoch by epoch: mean and range of the seeds", fontsize=9)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
