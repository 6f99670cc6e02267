"""The library's door: a spec in, a finished run out; decisions in, corrected data out."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulc.applying.apply import Accepting, Applied, apply
from ulc.auditing import AuditProgress, audit_spec, run_audit
from ulc.auditing import start_fresh as start_fresh_audit
from ulc.config import DataSpec, RunSpec, checked
from ulc.data.sources.naming import data_spec
from ulc.errors import InputError
from ulc.labels.judgement import Judgement
from ulc.labels.prior import Prior
from ulc.prediction.input_spec import ModelInput
from ulc.prediction.new_rows import (
    NewRows,
    NewTable,
    load_new_rows,
    rows_from_array,
    rows_from_frame,
)
from ulc.prediction.predictor import Predictor
from ulc.prediction.table import prediction_frame
from ulc.storage.run_folder import Records, RunFolder
from ulc.training.device import choose_device
from ulc.training.loop import TrainingProgress
from ulc.training.model import Model
from ulc.training.run import run, start_fresh

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

    def predict(
        self,
        data: Any,
        *,
        labels: Sequence[Any] | None = None,
        prior: Prior = "training",
        probabilities: bool = False,
        device: str = "auto",
        **options: Any,
    ) -> "DataFrame":
        """What the model says of new data, a row for each: the table that `ulc predict` writes.

        data: a path, as the command takes it; a data frame with the columns learned from; or an
            array of vectors or of uint8 images
        labels: of the rows of an array; those of a path or a frame are in it
        options: label, image, id, skip_broken, as the command has them
        """
        predictor = Predictor.open(self.folder, choose_device(device))
        rows = read_new(data, labels, predictor.model_input, options)
        return prediction_frame(predictor.predict(rows, prior=prior), probabilities=probabilities)


def train(
    spec: RunSpec,
    out: str | Path = "runs",
    *,
    device: str = "auto",
    progress: TrainingProgress | None = None,
    fresh: bool = False,
) -> Run:
    """Train what `spec` says in a folder of its own under `out`.

    A run that was killed goes on where it stopped; a finished one is only read, unless `fresh`.
    The spec is taken as it is; `ulc.with_preset(spec)` is it with its data set's settings.
    """
    if fresh:
        start_fresh(spec, Path(out))
    return Run(run(spec, Path(out), device=device, progress=progress))


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


def audit(
    data: str | Path | DataSpec,
    out: str | Path = "audits",
    *,
    device: str = "auto",
    progress: AuditProgress | None = None,
    fresh: bool = False,
    **settings: Any,
) -> Run:
    """Find the wrong labels of data of your own, and get a model that does no harm.

    data: a folder of class folders, a table, an npz or a Hugging Face data set on the disk
    settings: embed, network, epochs, held_out, options (of ULC), seed; what is not given is chosen
        by the data, and `run.folder.read_json("audit.json")` says how

    An audit that was stopped goes on where it was; a finished one is only read, unless `fresh`.
    """
    spec = audit_spec(data, **settings)
    if fresh:
        start_fresh_audit(spec, Path(out))
    return Run(run_audit(spec, Path(out), device=device, progress=progress))


def load_run(path: str | Path) -> Run:
    """A run that is there already."""
    return Run(RunFolder.open(Path(path)))


def read_new(
    data: Any, labels: Sequence[Any] | None, model_input: ModelInput, options: dict[str, Any]
) -> NewRows:
    """A path, a data frame or an array as rows."""
    in_itself = isinstance(data, str | Path) or hasattr(data, "iloc")
    if in_itself and labels is not None:
        raise InputError("labels belong to an array; of a path or a frame name the column: label=")
    if not in_itself and options:
        raise InputError(f"an array has no '{min(options)}'; give labels= or drop it")
    if isinstance(data, str | Path):
        return load_new_rows(data_spec(str(data), options), model_input)
    if hasattr(data, "iloc"):
        spec = checked(DataSpec, {"source": "table"} | options, where="options")
        table = data.reset_index(drop=True).set_axis(data.columns.map(str), axis=1)
        return rows_from_frame(NewTable("data", table, Path()), spec, model_input)
    return rows_from_array(data, model_input, labels)
