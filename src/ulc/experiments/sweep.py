"""Several algorithms over several seeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ulc.algorithms import configure
from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.experiments.side_by_side import run_side_by_side
from ulc.experiments.tables import markdown_table
from ulc.importing import named_code
from ulc.prediction.run import Run
from ulc.settings.presets import find_preset
from ulc.settings.variants import variant
from ulc.storage.run_folder import RunFolder
from ulc.training.loop import TrainingProgress
from ulc.training.run import run, start_fresh


@dataclass(frozen=True)
class SweepResult:
    """The runs of each algorithm or variant, one for each seed.

    without_preset: algorithms without a preset of their own, and the schedule they got instead
    """

    runs: dict[str, list[Run]]
    without_preset: dict[str, str]

    @property
    def table(self) -> str:
        """A table in Markdown: mean ± standard deviation over the seeds, in %."""
        return markdown_table(
            {name: [run.folder for run in runs] for name, runs in self.runs.items()}
        )

    @property
    def notes(self) -> list[str]:
        """One sentence for each algorithm without a preset, which says how it was trained."""
        return [
            f"{name} has no preset of its own: it trained {self.runs[name][0].spec.epochs} epochs "
            f"with {how} and its own defaults."
            for name, how in self.without_preset.items()
        ]


def sweep(  # noqa: PLR0913 (what to train and where; the rest has defaults)
    spec: RunSpec,
    algorithms: Sequence[str],
    out: str | Path = "runs",
    *,
    seeds: Sequence[int] = (0, 1, 2),
    jobs: int = 2,
    device: str = "auto",
    on_run: Callable[[str, Run], None] | None = None,
    fresh: bool = False,
) -> SweepResult:
    """Train each algorithm with each seed on the data and noise of the spec.

    Each algorithm or variant gets its preset for the data set; epochs and options that the spec
    sets override the preset. Finished runs are only read, and stopped runs are resumed.

    algorithms: names of algorithms or variants; jobs: number of trainings at once
    on_run: called with the name of the algorithm and the run, for each finished run
    fresh: whether to train anew even if a run is finished
    """
    specs = sweep_specs(spec, algorithms, seeds)
    titled = [(name, one) for name, each in specs.items() for one in each]
    if fresh:
        for _, one in titled:
            start_fresh(one, Path(out))

    def report(place: int, folder: RunFolder) -> None:
        if on_run is not None:
            name, one = titled[place]
            on_run(
                name,
                Run(
                    folder,
                    trust=named_code(one.algorithm, one.network.name, one.data.text_model or ""),
                ),
            )

    folders = run_all([one for _, one in titled], Path(out), jobs, device, report)
    runs: dict[str, list[Run]] = {name: [] for name in specs}
    for (name, one), folder in zip(titled, folders, strict=True):
        trust = named_code(one.algorithm, one.network.name, one.data.text_model or "")
        runs[name].append(Run(folder, trust=trust))
    presets = {name: find_preset(each[0]) for name, each in specs.items()}
    without = {
        name: "the SGD schedule of cross entropy" if preset.options else "no schedule of ours"
        for name, preset in presets.items()
        if not preset.tuned
    }
    return SweepResult(runs, without)


def sweep_specs(
    spec: RunSpec, algorithms: Sequence[str], seeds: Sequence[int]
) -> dict[str, list[RunSpec]]:
    """The specs of each algorithm, one for each seed; raise an InputError if an option is wrong."""
    if not algorithms or not seeds:
        raise InputError("nothing to train; name at least one algorithm and one seed")
    specs = {
        name: [variant(spec.model_copy(update={"seed": seed}), name) for seed in seeds]
        for name in algorithms
    }
    for each in specs.values():
        configure(each[0].algorithm, each[0].options)
    return specs


def run_all(
    specs: Sequence[RunSpec],
    out: Path,
    jobs: int,
    device: str,
    on_finish: Callable[[int, RunFolder], None],
) -> list[RunFolder]:
    """Train all specs, `jobs` at once in processes, or one after the other in this process.

    on_finish: called with the position of a spec and its folder when its training has ended
    """
    if jobs > 1:
        progresses = [TrainingProgress() for _ in specs]
        return run_side_by_side(
            specs, out, progresses, jobs=jobs, device=device, on_finish=on_finish
        )
    folders = []
    for place, spec in enumerate(specs):
        folders.append(run(spec, out, device=device))
        on_finish(place, folders[-1])
    return folders
