"""Functions for Python programs: train, audit, apply decisions, load a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulc.applying.apply import Accepting, Applied, apply
from ulc.auditing import AuditProgress, audit_spec, run_audit, start_fresh_audit
from ulc.config import DataSpec, RunSpec
from ulc.data.in_memory import store_data
from ulc.experiments.data_parallel import train_together
from ulc.importing import named_code
from ulc.labels.review import check_count, write_review
from ulc.prediction.run import Run
from ulc.storage.run_folder import RunFolder
from ulc.training.loop import TrainingProgress
from ulc.training.run import run, start_fresh

if TYPE_CHECKING:
    from pandas import DataFrame

    from ulc.experiments.launchers import Launcher


def train(  # noqa: PLR0913 (as the command)
    spec: RunSpec,
    out: str | Path = "runs",
    *,
    device: str = "auto",
    devices: int = 1,
    progress: TrainingProgress | None = None,
    fresh: bool = False,
) -> Run:
    """Train as `spec` says, in a run folder under `out`, and return the finished run.

    A stopped run is resumed. A finished run is only read; with `fresh` it is trained again. No
    setting is added to `spec`; `ulc.with_preset(spec)` adds those that suit the data set.

    devices: number of processes that train together, each on its own GPU or on the CPU; from 2 on,
        a script must call this function below `if __name__ == "__main__":`
    """
    if fresh:
        start_fresh(spec, Path(out))
    if devices > 1:
        folder = train_together(spec, Path(out), devices, device=device, progress=progress)
    else:
        folder = run(spec, Path(out), device=device, progress=progress)
    return Run(
        folder, trust=named_code(spec.algorithm, spec.network.name, spec.data.text_model or "")
    )


def apply_decisions(
    run: Run | str | Path,
    decisions: "str | Path | DataFrame | None" = None,
    out: str | Path | None = None,
    *,
    accepting: Accepting | None = None,
    force: bool = False,
) -> Applied:
    """Write a copy of the run's data with the labels that were decided.

    run: a finished run, or the path of its folder
    decisions: a CSV file or a frame with the columns id, decision (accept, reject, relabel,
        unsure or delete) and label; None: no decisions
    out: the file to write; None: in the current folder, with the name that `ulc apply` gives it
    accepting: `ulc.Accepting()` accepts the suggestion for every issue without a decision,
        `ulc.Accepting(below)` only for issues with a lower label_score; None: issues without a
        decision keep their labels
    force: allow `out` to be the file that the run learned from, which is then overwritten
    """
    folder = run.folder if isinstance(run, Run) else RunFolder.open(Path(run))
    given = Path(decisions) if isinstance(decisions, str) else decisions
    target = None if out is None else Path(out)
    return apply(folder, given, target, accepting=accepting, force=force)


def audit(  # noqa: PLR0913 (as the command)
    data: "str | Path | DataSpec | DataFrame | tuple[Any, Any]",
    out: str | Path = "audits",
    *,
    device: str = "auto",
    progress: AuditProgress | None = None,
    fresh: bool = False,
    review: int | None = None,
    launcher: "str | Launcher | None" = None,
    **settings: Any,
) -> Run:
    """Find the wrong labels in your own data, and get a trained model.

    data: a folder of class folders, a table, an npz or a Hugging Face data set on the disk; or a
        data frame; or a pair (X, y) of inputs and labels, where X is a frame, vectors (N, D) or
        uint8 images. A frame or pair is written to the folder `data` below `out` first
    review: write review.csv with so many labels, the lowest scores first, whether they look wrong
        or not (`Run.review` returns them); None: no such file
    launcher: where the two models are trained, side by side: local (processes of this machine), ray
        or slurm; or a `ulc.RayLauncher` or `ulc.SlurmLauncher`; None: one after the other, here
    settings: label, text, features and other options of reading (`DataSpec`); embed, network,
        epochs, held_out, options (of ULC+), seed; a setting that is not given is chosen to suit
        the data; `run.folder.read_json("audit.json")` holds the choices

    A stopped audit is resumed. A finished audit is only read; with `fresh` it is done again.
    """
    if review is not None:
        check_count(review)  # before anything is trained
    if not isinstance(data, str | Path | DataSpec):
        data = store_data(data, Path(out) / "data")
    spec = audit_spec(data, **settings)
    if fresh:
        start_fresh_audit(spec, Path(out))
    folder = run_audit(spec, Path(out), device=device, progress=progress, launcher=launcher)
    if review is not None:
        write_review(folder, review)
    return Run(folder, trust=named_code(spec.embed, spec.network.name, spec.data.text_model or ""))


def load_run(path: str | Path, *, trust: bool = False) -> Run:
    """Open the run in an existing run folder.

    trust: whether a network or backbone of somebody's own (`module:Class`) that the folder's files
        name may be imported; False: the model of such a run is not loaded
    """
    return Run(RunFolder.open(Path(path)), trust=trust)
