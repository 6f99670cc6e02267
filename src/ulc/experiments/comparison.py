"""Compare a method with cross entropy on the given labels and on the true labels."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ulc.config import NoiseSpec, RunSpec
from ulc.experiments.side_by_side import available_threads, run_side_by_side
from ulc.prediction.run import Run
from ulc.settings.presets import with_preset
from ulc.training.device import choose_device
from ulc.training.loop import TrainingProgress
from ulc.training.run import run, start_fresh

NewProgress = Callable[
    [str, RunSpec], TrainingProgress
]  # (title, spec) of a training to its callback


@dataclass(frozen=True)
class Comparison:
    """The three runs of a comparison.

    plain: cross entropy on the given labels
    method: the run of the spec that was compared
    ceiling: cross entropy on the true labels, which no method can be expected to beat
    """

    plain: Run
    method: Run
    ceiling: Run

    @property
    def by_title(self) -> dict[str, Run]:
        """The runs by the titles of their columns in a table."""
        titles = comparison_specs(self.method.spec)
        return dict(zip(titles, (self.plain, self.method, self.ceiling), strict=True))


def compare(
    spec: RunSpec,
    out: str | Path = "runs",
    *,
    device: str = "auto",
    progress: NewProgress | None = None,
    fresh: bool = False,
) -> Comparison:
    """Train the spec, cross entropy on the given labels and cross entropy on the true labels.

    All three train the same number of epochs. The spec is used as it is; `ulc.with_preset(spec)`
    adds the settings of its data set. Cross entropy has the preset of the data set. True labels are
    known if the spec injects noise; else the ceiling is cross entropy on the given labels.

    progress: function from title and spec of a training to its progress callback; None: no callback
    fresh: whether to train anew even if a run is finished

    Finished runs are only read, and stopped runs are resumed.
    """
    specs = comparison_specs(spec)
    new_progress = progress or (lambda title, spec: TrainingProgress())  # noqa: ARG005
    progresses = {title: new_progress(title, each) for title, each in specs.items()}
    if fresh:
        for each in specs.values():
            start_fresh(each, Path(out))
    plain, method, ceiling = specs
    folders = {}
    # A second core does not speed up a training with small batches, so both cross-entropy
    # trainings run at once, each on its own core.
    if available_threads() > 1 and choose_device(device).type == "cpu":
        both = [plain, ceiling]
        done = run_side_by_side(
            [specs[title] for title in both],
            Path(out),
            [progresses[title] for title in both],
            device=device,
        )
        folders = dict(zip(both, done, strict=True))
    for title, each in specs.items():
        if title not in folders:
            folders[title] = run(each, Path(out), device=device, progress=progresses[title])
    return Comparison(Run(folders[plain]), Run(folders[method]), Run(folders[ceiling]))


def comparison_specs(spec: RunSpec) -> dict[str, RunSpec]:
    """Specs of the three trainings by title.

    They are cross entropy on the given labels, the spec itself, and cross entropy without injected
    noise (the ceiling).
    """
    plain = spec.model_copy(update={"algorithm": "ce", "options": {}})
    plain = with_preset(plain, epochs=spec.epochs)
    return {
        "cross entropy": plain,
        spec.algorithm.upper() if spec.algorithm == "ulc" else spec.algorithm: spec,
        "ceiling": plain.model_copy(update={"noise": NoiseSpec()}),
    }
