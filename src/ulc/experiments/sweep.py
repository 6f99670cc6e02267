"""Several algorithms over several seeds, or a table or figure of the paper."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ulc.algorithms import configure
from ulc.config import RunSpec
from ulc.errors import InputError
from ulc.experiments.finished_runs import FinishedRun
from ulc.experiments.grid import Cell, Failure, SweepProgress, train_cells
from ulc.experiments.launchers import Launcher, find_launcher
from ulc.experiments.paper.cells import PaperSweep
from ulc.experiments.paper_table import paper_table
from ulc.experiments.table_formats import as_markdown
from ulc.experiments.tables import markdown_table
from ulc.importing import named_code
from ulc.prediction.run import Run
from ulc.settings.common import notes_on_options, own_options
from ulc.settings.presets import find_preset
from ulc.settings.variants import variant
from ulc.storage.run_folder import RunFolder
from ulc.training.run import start_fresh


@dataclass(frozen=True)
class SweepResult:
    """The finished runs of each algorithm or variant, one for each seed.

    runs: by the name of the algorithm or variant; of a table of the paper, by row and column
    without_preset: algorithms without a preset of their own, and the schedule they got instead
    failures: the trainings that failed, with their reasons
    option_notes: a sentence for each option that some of the methods do not have
    paper: the table or figure of the paper; None: it is none
    """

    runs: dict[str, list[Run]]
    without_preset: dict[str, str]
    failures: tuple[Failure, ...] = ()
    paper: PaperSweep | None = None
    option_notes: tuple[str, ...] = ()

    @property
    def table(self) -> str:
        """A table in Markdown: mean ± standard deviation over the seeds, in %.

        Of a table of the paper: in its rows and columns, with its numbers in brackets.
        """
        if self.paper is not None:
            finished = [FinishedRun(run.folder) for runs in self.runs.values() for run in runs]
            names = sorted({run.method.name for run in finished})
            return as_markdown(paper_table(self.paper.grid, finished, also=names))
        return markdown_table(
            {name: [run.folder for run in runs] for name, runs in self.runs.items()}
        )

    @property
    def notes(self) -> list[str]:
        """Sentences on options that methods have not, and on algorithms without a preset."""
        return [*self.option_notes, *self.preset_notes]

    @property
    def preset_notes(self) -> list[str]:
        """One sentence for each algorithm without a preset, which says how it was trained."""
        return [
            f"{name} has no preset of its own: it trained {self.runs[name][0].spec.epochs} epochs "
            f"with {how} and its own defaults."
            for name, how in self.without_preset.items()
            if self.runs[name]
        ]


def sweep(  # noqa: PLR0913 (what to train and where; the rest has defaults)
    what: RunSpec | PaperSweep,
    algorithms: Sequence[str] | None = None,
    out: str | Path = "runs",
    *,
    seeds: Sequence[int] = (0, 1, 2),
    jobs: int = 2,
    device: str = "auto",
    on_run: Callable[[str, Run], None] | None = None,
    progress: SweepProgress | None = None,
    fresh: bool = False,
    launcher: str | Launcher = "local",
) -> SweepResult:
    """Train each algorithm with each seed on the data and noise of a spec, or a table of the paper.

    Finished runs are only read, and stopped runs are resumed. A training that fails does not stop
    the others; the result lists it. If all fail for the same reason, an InputError says it.

    what: a spec; each algorithm or variant gets its preset for the data set, and epochs and options
        that the spec sets override the preset; options count for each method that has them. Or
        what `ulc.paper_sweep` returns
    algorithms: names of algorithms or variants, with a spec; None: with a table of the paper
    jobs: number of trainings at once
    device: its name, or several such as cuda:0,cuda:1, over which trainings are spread
    on_run: called with the name of the algorithm and the run, for each finished run
    progress: callback for all trainings; None: no callback
    fresh: whether to train anew even if a run is finished
    launcher: where trainings run: local (this machine), ray or slurm; or a `ulc.RayLauncher` or
        `ulc.SlurmLauncher` with options
    """
    chosen = find_launcher(launcher) if isinstance(launcher, str) else launcher
    cells = list_cells(what, algorithms, seeds)
    if fresh:
        for cell in cells:
            start_fresh(cell.spec, Path(out))
    results = train_cells(
        cells, Path(out), jobs=jobs, device=device, progress=progress or SweepProgress(),
        launcher=chosen,
    )  # fmt: skip
    found, failures = collect(cells, results, on_run)
    runs: dict[str, list[Run]] = {name_of(cell): [] for cell in cells}
    for place in sorted(found):
        runs[name_of(cells[place])].append(found[place])
    notes = tuple(option_notes(what, algorithms))
    if isinstance(what, PaperSweep):
        return SweepResult(runs, {}, tuple(failures), what, notes)
    return SweepResult(runs, find_without_preset(cells), tuple(failures), None, notes)


def list_cells(
    what: RunSpec | PaperSweep, algorithms: Sequence[str] | None, seeds: Sequence[int]
) -> list[Cell]:
    """All trainings of a sweep; raise an InputError if an option is wrong.

    A method gets those options that it has.
    """
    if isinstance(what, PaperSweep):
        if algorithms is not None:
            raise InputError("a table of the paper has its own algorithms; leave them out")
        option_notes(what, None)  # only to raise
        return what.cells(seeds)
    if not algorithms or not seeds:
        raise InputError("nothing to train; name at least one algorithm and one seed")
    option_notes(what, algorithms)  # only to raise
    bases = {
        name: what.model_copy(update={"options": own_options(name, what.options)})
        for name in algorithms
    }
    cells = [
        Cell(name, "", variant(base.model_copy(update={"seed": seed}), name))
        for name, base in bases.items()
        for seed in seeds
    ]
    for cell in cells:
        configure(cell.spec.algorithm, cell.spec.options)
    return cells


def option_notes(what: RunSpec | PaperSweep, algorithms: Sequence[str] | None) -> list[str]:
    """A sentence for each option that some of the methods do not have.

    Raise an InputError if none of them has it.
    """
    own = [row.method for row in what.rows] if isinstance(what, PaperSweep) else algorithms
    return notes_on_options(own or [], what.options)


def collect(
    cells: Sequence[Cell],
    results: Iterable[tuple[int, RunFolder | Failure]],
    on_run: Callable[[str, Run], None] | None,
) -> tuple[dict[int, Run], list[Failure]]:
    """The runs by position of their cell, and the failures; raise if all failed alike."""
    found: dict[int, Run] = {}
    failures: list[Failure] = []
    for place, result in results:
        if isinstance(result, Failure):
            failures.append(result)
            continue
        found[place] = opened(cells[place], result)
        if on_run is not None:
            on_run(name_of(cells[place]), found[place])
    reasons = {failure.reason for failure in failures}
    if not found and len(reasons) == 1:
        raise InputError(reasons.pop())
    return found, failures


def find_without_preset(cells: Sequence[Cell]) -> dict[str, str]:
    """The algorithms without a preset of their own, and the schedule they got instead."""
    presets = {cell.row: find_preset(cell.spec) for cell in cells}
    return {
        name: "the SGD schedule of cross entropy" if preset.options else "no schedule of ours"
        for name, preset in presets.items()
        if not preset.tuned
    }


def name_of(cell: Cell) -> str:
    """Row and column of a cell."""
    return ", ".join(each for each in (cell.row, cell.column) if each)


def opened(cell: Cell, folder: RunFolder) -> Run:
    """The run in a folder; code outside the package that the cell's spec names is trusted."""
    spec = cell.spec
    trust = named_code(spec.algorithm, spec.network.name, spec.data.text_model or "")
    return Run(folder, trust=trust)
