"""Read decisions about labels: a table with the columns id, decision, label."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ulc.applying.run_rows import RunRows, Texts
from ulc.data.sources.table import read_text
from ulc.data.sources.text_format import SEPARATORS, find_format
from ulc.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

ACCEPT, REJECT, RELABEL, UNSURE, DELETE = DECISIONS = (
    "accept",
    "reject",
    "relabel",
    "unsure",
    "delete",
)


@dataclass(frozen=True)
class Decision:
    """One row of the table of decisions; `where` names the row in error messages."""

    id: str
    decision: str
    label: str
    where: str


@dataclass(frozen=True)
class RowDecisions:
    """Decisions for the N rows of a run.

    kind: (N,) one of DECISIONS; None: the row has no decision
    label: (N,) label after the decision, for unsure and delete the given one; None: the row has no
        decision
    """

    kind: Texts
    label: Texts

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Return the (N,) mask of the rows that have a decision."""
        decided: NDArray[np.bool_] = self.kind != None  # noqa: E711 (element by element)
        return decided

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Return the (N,) mask of the rows whose label a person has decided."""
        return np.isin(self.kind, (ACCEPT, REJECT, RELABEL)) & self.mask

    @property
    def deleted(self) -> NDArray[np.bool_]:
        """Return the (N,) mask of the rows that the copy leaves out."""
        mask: NDArray[np.bool_] = self.kind == DELETE
        return mask

    def count(self, kind: str) -> int:
        """Count the decisions of this kind."""
        return int((self.kind == kind).sum())


def read_decisions(source: "Path | DataFrame") -> list[Decision]:
    """Read decisions from a CSV or TSV file or a data frame; skip rows without a decision."""
    if isinstance(source, Path):
        table, name = read_decision_file(source), str(source)
    else:
        table, name = source, "decisions"
    missing = [column for column in ("id", "decision") if column not in table.columns]
    if missing:
        raise InputError(
            f"{name}: no column '{missing[0]}'; give the columns id, decision and label"
        )
    if "label" not in table.columns:
        table = table.assign(label="")
    columns = [table[column].fillna("").astype(str) for column in ("id", "decision", "label")]
    rows = zip(*columns, strict=True)
    return [
        check_decision(
            Decision(each, decision.strip().lower(), label.strip(), f"{name}: row {place}")
        )
        for place, (each, decision, label) in enumerate(rows, start=1)
        if decision.strip()
    ]


def read_decision_file(path: Path) -> "DataFrame":
    """Read the table of decisions; every value stays text."""
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise InputError(f"{path}: {what}; give the decisions as FILE.csv")
    if path.suffix.lower() not in SEPARATORS:
        raise InputError(
            f"{path}: decisions are read from {' or '.join(SEPARATORS)}; save them as such a file"
        )
    try:
        table = read_text(path, find_format(path), missing=())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check it") from None
    twice = table.columns[table.columns.duplicated()]
    if len(twice):
        raise InputError(f"{path}: two columns are called {twice[0]!r}; rename one")
    return table


def check_decision(decision: Decision) -> Decision:
    """Return the decision; raise if it is unknown, or if it is relabel and the label is empty."""
    if decision.decision not in DECISIONS:
        raise InputError(
            f"{decision.where}: unknown decision {decision.decision!r}; "
            f"give {', '.join(DECISIONS[:-1])} or {DECISIONS[-1]}, or nothing"
        )
    if decision.decision == RELABEL and not decision.label:
        raise InputError(
            f"{decision.where}: relabels {decision.id!r} but the column 'label' is empty; fill it"
        )
    return decision


def decide(rows: RunRows, decisions: list[Decision]) -> RowDecisions:
    """Assign every decision to its row; raise if a row has two different decisions."""
    decided = RowDecisions(np.full(len(rows), None, object), np.full(len(rows), None, object))
    for each in decisions:
        place = rows.place(each.id, each.where)
        label = resulting_label(rows, place, each)
        before = decided.kind[place]
        if before is not None and (before, decided.label[place]) != (each.decision, label):
            raise InputError(
                f"{each.where}: {each.id!r} has another decision in a row above "
                f"({before} {decided.label[place]!r}); keep one of the two"
            )
        decided.kind[place], decided.label[place] = each.decision, label
    return decided


def resulting_label(rows: RunRows, place: int, decision: Decision) -> str:
    """Return the row's label after the decision; raise if the table has another label for it."""
    if decision.decision == RELABEL:
        return decision.label
    expected = rows.suggested[place] if decision.decision == ACCEPT else rows.given[place]
    if decision.label and decision.label != expected.strip():
        kind = "suggested" if decision.decision == ACCEPT else "given"
        raise InputError(
            f"{decision.where}: {decision.decision} of {decision.id!r} as {decision.label!r}, but "
            f"in {rows.where} the {kind} label is {expected!r}; give the run that the decisions "
            f"are about, or write {RELABEL}"
        )
    label: str = expected
    return label
