"""Write a corrected copy of a run's data from decisions about its labels."""

import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ulc.applying.decisions import (
    ACCEPT,
    DELETE,
    REJECT,
    RELABEL,
    UNSURE,
    RowDecisions,
    decide,
    read_decisions,
)
from ulc.applying.original import LabelList, NewLabels, Original, check_unchanged
from ulc.applying.run_rows import RunRows
from ulc.config import DataSpec
from ulc.errors import InputError
from ulc.storage.files import check_output_file, write_whole
from ulc.storage.run_folder import RunFolder
from ulc.training.placing import inputs_changed

if TYPE_CHECKING:
    from pandas import DataFrame

CORRECTED = re.compile(r"(.+)\.corrected(?:-(\d+))?")


@dataclass(frozen=True)
class Accepting:
    """Which label issues are accepted although nobody has decided about them.

    below: accept issues with a lower label_score; None: accept all issues
    """

    below: float | None = None

    def __post_init__(self) -> None:
        if self.below is not None and not 0 <= self.below <= 1:
            raise InputError(
                f"--below {self.below}: scores lie between 0 and 1; give such a number"
            )

    def among(self, rows: RunRows) -> NDArray[np.bool_]:
        """Return the (N,) mask of the issues that are accepted."""
        return rows.issue if self.below is None else rows.issue & (rows.score < self.below)


@dataclass(frozen=True)
class Applied:
    """Result of `apply`.

    out: path of the written file
    rows: number of rows of the run
    accepted, rejected, relabelled, unsure, deleted: number of decisions of each kind
    accepted_unseen: number of issues that were accepted without a decision
    changed: number of labels in the file that differ from the run's given labels
    verified: number of labels that are verified in the file
    new_classes: labels in the file that are not classes of the run
    note: remark about the file for the user; None: no remark
    next_command: command that audits the file; None: the file is only a list of labels
    """

    out: str
    rows: int
    accepted: int
    rejected: int
    relabelled: int
    unsure: int
    deleted: int
    accepted_unseen: int
    changed: int
    verified: int
    new_classes: tuple[str, ...]
    note: str | None
    next_command: str | None

    def as_json(self) -> dict[str, Any]:
        """Return the result as a dictionary for JSON."""
        return asdict(self) | {"new_classes": list(self.new_classes)}


def apply(
    folder: RunFolder,
    decisions: "Path | DataFrame | None" = None,
    out: Path | None = None,
    *,
    accepting: Accepting | None = None,
    force: bool = False,
) -> Applied:
    """Write a copy of the run's data with the decided labels.

    decisions: CSV or TSV file, or data frame, of decisions; None: no decisions
    out: the file to write; None: `default_out`
    accepting: which issues without a decision are accepted; they do not become verified; None: none
    force: allow `out` to replace the file that the run learned from
    """
    if decisions is None and accepting is None:
        raise InputError("give the decisions as FILE.csv, or accept all issues with --accept-all")
    given = [] if decisions is None else read_decisions(decisions)
    rows = RunRows.of(folder)
    decided = decide(rows, given)
    original = open_original(folder, rows)
    target = out or default_out(folder.spec.data, original.suffix)
    check_out(target, folder.spec.data, original.suffix, decisions, force=force)
    check_unchanged(original, rows, folder.spec.data.path or folder.spec.data.source)
    check_order(folder, original)
    unseen = np.zeros(len(rows), bool)
    if accepting is not None:
        unseen = accepting.among(rows) & ~decided.mask & ~original.verified
    new_labels = combine_labels(original, rows, decided, unseen)
    if new_labels.deleted.all():
        raise InputError(f"{decisions}: deletes all {len(rows)} rows; keep some of them")
    write_whole(target, original.copy(new_labels, target))
    kept = new_labels.kept
    new = set(new_labels.labels[new_labels.changed & kept]) - set(rows.class_names)
    command = None
    if not isinstance(original, LabelList):
        command = shlex.join(["ulc", "audit", str(target), *original.options()])
    return Applied(
        out=str(target),
        rows=len(rows),
        accepted=decided.count(ACCEPT),
        rejected=decided.count(REJECT),
        relabelled=decided.count(RELABEL),
        unsure=decided.count(UNSURE),
        deleted=decided.count(DELETE),
        accepted_unseen=int(unseen.sum()),
        changed=int((kept & (new_labels.labels != rows.given)).sum()),
        verified=int((kept & (original.verified | new_labels.decided)).sum()),
        new_classes=tuple(sorted(new)),
        note=original.note,
        next_command=command,
    )


def combine_labels(
    original: Original, rows: RunRows, decided: RowDecisions, unseen: NDArray[np.bool_]
) -> NewLabels:
    """Return the new label of each row.

    It is the decided label, else the suggested label if the row is in the mask `unseen` of issues
    accepted without a decision, else the label now in the data. A person who is unsure has decided
    no label.
    """
    labels = original.labels.copy()
    labels[unseen] = rows.suggested[unseen]
    labels[decided.labelled] = decided.label[decided.labelled]
    return NewLabels(labels, labels != original.labels, decided.labelled, decided.deleted)


def open_original(folder: RunFolder, rows: RunRows) -> Original:
    """Open the data that the run learned from; return a `LabelList` if they cannot be copied."""
    spec = folder.spec
    if spec.noise.kind != "none" or spec.imbalance.kind != "none":
        return LabelList(
            rows,
            "The run added noise or imbalance to its data, so this is a list of its rows by id, "
            "not a copy of the data.",
        )
    if spec.data.path and not Path(spec.data.path).exists():
        raise InputError(f"{spec.data.path}: the run's data no longer exist; put them back")
    skipped = folder.read_json("data.json").get("skipped", [])
    # Imported here, because pandas and Pillow are slow to import.
    if spec.data.source == "npz":
        from ulc.applying.npz_file import NpzFile

        return NpzFile(spec.data)
    if spec.data.source == "table":
        from ulc.applying.table_file import TableFile

        return TableFile(spec.data, skipped)
    if spec.data.source == "folder":
        from ulc.applying.image_folder import ImageFolder

        return ImageFolder(spec.data, skipped)
    called = "the position, from 0, of" if rows.ids is None else "the id of"
    return LabelList(
        rows,
        f"Data of the kind '{spec.data.source}' cannot be copied, so this is a list: the column id "
        f"is {called} each row of the training set; use it to put the labels into your data.",
    )


def check_order(folder: RunFolder, original: Original) -> None:
    """Raise if rows that only their position names are no longer the rows of the run."""
    if isinstance(original, LabelList) or original.ids is not None:
        return
    if inputs_changed(folder):
        raise InputError(
            f"{folder.spec.data.path}: its rows have changed or moved since the run, and without "
            "ids decisions cannot find them; put them back as they were, or train again"
        )


def default_out(data: DataSpec, suffix: str) -> Path:
    """Return NAME.corrected in the current folder; for a corrected copy, NAME.corrected-2."""
    name = Path(data.path).absolute().name if data.path else data.source
    stem = Path(name).stem if Path(name).suffix.lower() == suffix else name
    match = CORRECTED.fullmatch(stem)
    if match is None:
        return Path(f"{stem}.corrected{suffix}")
    return Path(f"{match[1]}.corrected-{int(match[2] or 1) + 1}{suffix}")


def check_out(
    out: Path,
    data: DataSpec,
    suffix: str,
    decisions: "Path | DataFrame | None",
    *,
    force: bool,
) -> None:
    """Raise an InputError if the copy cannot be written, or would replace data or decisions.

    force: the copy may replace the data
    """
    inputs = {"the decisions": decisions} if isinstance(decisions, Path) else {}
    check_output_file("--out", out, endings=[suffix], inputs=inputs)
    if data.path and not force:
        check_output_file(
            "--out",
            out,
            inputs={"the data": Path(data.path)},
            remedy="give another name, or overwrite them with --force",
        )
