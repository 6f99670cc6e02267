"""Draw the README's picture from the run folders that `ulc train` left.

python docs/make_demonstration.py runs docs/demonstration.svg
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch

from ulc.blocks.noise_model import GaussianNoiseModel
from ulc.run_folder import RunFolder

mpl.use("svg")
mpl.rcParams.update(
    {"svg.hashsalt": "ulc", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
)
import matplotlib.pyplot as plt  # noqa: E402 (after the backend is chosen)

BLUE, ORANGE, GREY = "#3b6fb6", "#d9822b", "#9aa0a6"


def main(runs: Path, target: Path) -> None:
    """Seed 0's three runs, in one picture."""
    folders = {name: found(runs, name) for name in ("ce", "ulc", "clean-ce")}
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    accuracies(left, folders)
    losses_of_a_small_class(right, folders["ulc"])
    figure.savefig(target, metadata={"Date": None})


def found(runs: Path, name: str) -> RunFolder:
    """The run of seed 0 with that algorithm, on noisy labels unless it says clean."""
    noise = "" if name.startswith("clean") else "sym0.5-"
    (path,) = runs.glob(f"fashion-half10-{noise}{name}-s0-*")
    return RunFolder.open(path)


def accuracies(axes: plt.Axes, folders: dict[str, RunFolder]) -> None:
    """Bars by class group, each run under the better of its two priors."""
    titles = ("cross entropy", "ULC", "true labels (ceiling)")
    for place, (title, folder) in enumerate(zip(titles, folders.values(), strict=True)):
        summary = folder.read_json("summary.json")
        last = max(
            (summary[prior]["last"] for prior in ("training", "balanced")),
            key=lambda each: each["accuracy"],
        )
        values = [100 * last[key] for key in ("small_accuracy", "large_accuracy", "accuracy")]
        colour = (GREY, BLUE, ORANGE)[place]
        bars = axes.bar(np.arange(3) + 0.27 * (place - 1), values, 0.25, label=title, color=colour)
        axes.bar_label(bars, fmt="%.0f", fontsize=8)
    axes.set(
        xticks=range(3),
        xticklabels=("small classes", "large classes", "all"),
        ylim=(40, 105),
        ylabel="test accuracy, %",
    )
    axes.legend(frameon=False, ncols=3, fontsize=8, loc="upper left")
    axes.set_title("1:10 imbalance, half of the labels wrong (seed 0)", fontsize=9)


def losses_of_a_small_class(axes: plt.Axes, folder: RunFolder) -> None:
    """The losses of the first small class, and the two components fitted to them."""
    judgement, facts = folder.judgement, folder.read_json("data.json")
    place = np.arange(len(judgement.given))
    loss = -np.log(np.maximum(judgement.prediction[place, judgement.given], 1e-8))
    model = GaussianNoiseModel()
    fit = model.fit(
        torch.from_numpy(loss).double(),
        torch.from_numpy(judgement.given),
        len(facts["class_names"]),
    )
    chosen = facts["small_classes"][0]
    mine = loss[judgement.given == chosen]
    scaled = (mine - float(fit.low[chosen])) / float(fit.span[chosen])
    axes.hist(scaled, 30, density=True, color="#dfe3e8")
    grid = torch.linspace(0, 1, 300, dtype=torch.float64)
    density = fit.mixtures.log_joint(grid, torch.full((300,), chosen)).exp()
    for part, (colour, name) in enumerate(((BLUE, "clean"), (ORANGE, "wrong"))):
        axes.plot(grid, density[:, part], color=colour, label=name)
    axes.set(xlabel="loss of the given label, scaled", yticks=[], ylim=(0, None))
    axes.set_title(
        f"labels “{facts['class_names'][chosen]}”: {len(mine)}, its own mixture", fontsize=9
    )
    axes.legend(frameon=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
