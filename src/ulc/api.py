"""The library's door: a spec in, a finished run out; decisions in, corrected data out."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulc.applying.apply import Accepting, Applied, apply
from ulc.config import RunSpec
from ulc.judgement import Judgement
from ulc.run_folder import Records, RunFolder
from ulc.training.model import Model
from ulc.training.run import run, start_fresh
from ulc.training.trainer import Watcher

if TYPE_CHECKING:
    from pandas import DataFrame


class Run:
    """A run folder, read."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder.path

    @property
    def spec(self) -> RunSpec:
        """What the run was told."""
        return self.folder.spec

    @property
    def records(self) -> Records:
        """One record an epoch."""
        return self.folder.records

    @property
    def judgement(self) -> Judgement:
        """What the run thinks of every label."""
        return self.folder.judgement

    @property
    def summary(self) -> dict[str, Any]:
        """Best and last epochs."""
        summary: dict[str, Any] = self.folder.read_json("summary.json")
        return summary

    @property
    def model(self) -> Model:
        """What it learned, ready to predict."""
        return Model.load(self.folder)


def train(
    spec: RunSpec,
    out: str | Path = "runs",
    *,
    device: str = "auto",
    watcher: Watcher | None = None,
    fresh: bool = False,
) -> Run:
    """Train what `spec` says in a folder of its own under `out`.

    A run that was killed goes on where it stopped; a finished one is only read, unless `fresh`.
    The spec is taken as it is; `ulc.with_preset(spec)` is it with its data set's settings.
    """
    if fresh:
        start_fresh(spec, Path(out))
    return Run(run(spec, Path(out), device=device, watcher=watcher))


def apply_decisions(
    run: Run | str | Path,
    decisions: "str | Path | DataFrame | None" = None,
    out: str | Path | None = None,
    *,
    accepting: Accepting | None = None,
    force: bool = False,
) -> Applied:
    """Write a copy of the run's data with labels as decided, ready to be trained on again.

    decisions: a CSV file or a frame with the columns id, decision (accept, reject or relabel) and
        label
    out: where to; None: as `ulc apply` calls it, in the current folder
    accepting: `ulc.Accepting()` accepts all issues that nobody decided, `ulc.Accepting(below)`
        those with a lower label_score
    force: `out` may be the file that the run learned from
    """
    folder = run.folder if isinstance(run, Run) else RunFolder.open(Path(run))
    given = Path(decisions) if isinstance(decisions, str) else decisions
    target = None if out is None else Path(out)
    return apply(folder, given, target, accepting=accepting, force=force)


def load_run(path: str | Path) -> Run:
    """A run that is there already."""
    return Run(RunFolder.open(Path(path)))
