"""Compare a method with cross entropy on the given labels and on the true labels."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ulc.config import NoiseSpec, RunSpec
from ulc.experiments.side_by_side import available_threads, run_side_by_side
from ulc.importing import named_code
from ulc.prediction.run import Run
from ulc.settings.presets import with_preset
from ulc.storage.run_folder import RunFolder
from ulc.training.device import choose_device
from ulc.training.loop import TrainingProgress
from ulc.training.run import run, start_fresh

NewProgress = Callable[
    [str, RunSpec], TrainingProgress
]  # (title, spec) of a training to its callback


TITLES = {"ulc": "ULC", "ulc_plus": "ULC+"}
PLAIN, CEILING = "cross entropy", "ceiling"


@dataclass(frozen=True)
class Comparison:
    """The runs of a comparison.

    plain: cross entropy on the given labels
    method: the run of the spec that was compared
    beside: runs of other algorithms on the same data, by title
    ceiling: cross entropy on the true labels, which no method can be expected to beat
    """

    plain: Run
    method: Run
    beside: Mapping[str, Run]
    ceiling: Run

    @property
    def by_title(self) -> dict[str, Run]:
        """The runs by the titles of their columns in a table."""
        first = {PLAIN: self.plain, title_of(self.method.spec.algorithm): self.method}
        return first | dict(self.beside) | {CEILING: self.ceiling}


def compare(  # noqa: PLR0913 (what to compare; the rest has defaults)
    spec: RunSpec,
    out: str | Path = "runs",
    *,
    beside: Sequence[str] = (),
    device: str = "auto",
    progress: NewProgress | None = None,
    fresh: bool = False,
) -> Comparison:
    """Train the spec, cross entropy on the given labels and cross entropy on the true labels.

    All train the same number of epochs. The spec is used as it is; `ulc.with_preset(spec)`
    adds the settings of its data set. All others have the preset of the data set. True labels are
    known if the spec injects noise; else the ceiling is cross entropy on the given labels.

    beside: names of other algorithms to train on the same data
    progress: function from title and spec of a training to its progress callback; None: no callback
    fresh: whether to train anew even if a run is finished

    Finished runs are only read, and stopped runs are resumed.
    """
    specs = comparison_specs(spec, beside)
    new_progress = progress or (lambda title, spec: TrainingProgress())  # noqa: ARG005
    progresses = {title: new_progress(title, each) for title, each in specs.items()}
    if fresh:
        for each in specs.values():
            start_fresh(each, Path(out))
    runs = {
        title: Run(
            folder, trust=named_code(spec.algorithm, spec.network.name, spec.data.text_model or "")
        )
        for title, folder in train_all(specs, out, device, progresses)
    }
    plain, ceiling = runs.pop(PLAIN), runs.pop(CEILING)
    method = runs.pop(title_of(spec.algorithm))
    return Comparison(plain, method, runs, ceiling)


def train_all(
    specs: Mapping[str, RunSpec],
    out: str | Path,
    device: str,
    progresses: Mapping[str, TrainingProgress],
) -> Iterator[tuple[str, RunFolder]]:
    """Train all specs; yield title and folder of each.

    A second core does not speed up a training with small batches, so on a CPU the trainings run
    at once, each on its own cores. The longest, which is not cross entropy, starts first.
    """
    threads = available_threads()
    if threads == 1 or choose_device(device).type != "cpu":
        for title, each in specs.items():
            yield title, run(each, Path(out), device=device, progress=progresses[title])
        return
    order = sorted(specs, key=lambda title: title in (PLAIN, CEILING))  # stable
    folders = run_side_by_side(
        [specs[title] for title in order],
        Path(out),
        [progresses[title] for title in order],
        jobs=min(threads, len(specs)),
        device=device,
    )
    yield from zip(order, folders, strict=True)


def comparison_specs(spec: RunSpec, beside: Sequence[str] = ()) -> dict[str, RunSpec]:
    """Specs of the trainings by title.

    They are cross entropy on the given labels, the spec itself, the algorithms `beside`, and cross
    entropy without injected noise (the ceiling).
    """

    def with_algorithm(name: str) -> RunSpec:
        other = spec.model_copy(update={"algorithm": name, "options": {}})
        return with_preset(other, epochs=spec.epochs)

    plain = with_algorithm("ce")
    others = {title_of(name): with_algorithm(name) for name in beside if name != spec.algorithm}
    ceiling = plain.model_copy(update={"noise": NoiseSpec()})
    return {PLAIN: plain, title_of(spec.algorithm): spec} | others | {CEILING: ceiling}


def title_of(algorithm: str) -> str:
    """Title of an algorithm in a table."""
    return TITLES.get(algorithm, algorithm)
