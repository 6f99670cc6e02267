"""The suspicious labels on the page, as JSON records."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulc.report.examples import Examples
from ulc.report.findings import Findings
from ulc.report.thumbnails import LARGE
from ulc.typing import Integers

FEW = 300  # so many suspects may have large pictures


@dataclass(frozen=True)
class Listed:
    """Suspects as JSON objects, most suspicious first."""

    records: list[str]

    def as_json(self) -> str:
        """A JSON list that is safe inside a script element."""
        return f"[{','.join(self.records)}]"


def list_suspects(
    findings: Findings,
    rows: Integers,
    ids: Sequence[str] | None,
    examples: Examples,
    *,
    room: int,
) -> Listed:
    """The labels of the gallery, but only as many as fit into `room` bytes.

    Few labels have large pictures, if all of them fit.

    rows: their positions in the data, in the order of the gallery
    ids: their ids; None: rows are named by their positions
    """
    if len(rows) <= FEW:
        large = replace(examples, edge=LARGE)
        listed = fill_room(findings, rows, ids, large, room=room)
        if len(listed.records) == len(rows):
            return listed
    return fill_room(findings, rows, ids, examples, room=room)


def fill_room(
    findings: Findings,
    rows: Integers,
    ids: Sequence[str] | None,
    examples: Examples,
    *,
    room: int,
) -> Listed:
    """The first labels that fit into `room` bytes; arguments as in `list_suspects`."""
    records: list[str] = []
    for place, row in enumerate(rows):
        name = ids[place] if ids else str(row)
        record = in_script(suspect_record(findings, int(row), name, examples, place))
        room -= len(record.encode()) + 1
        if room < 0:
            break
        records.append(record)
    return Listed(records)


def suspect_record(
    findings: Findings, row: int, name: str, examples: Examples, place: int
) -> dict[str, Any]:
    """A suspect as the page's scripts read it; missing values are left out.

    row: position in the data; name: its id; place: position among the suspects
    """
    record = {
        "row": row,
        "id": name,
        "path": examples.paths[place] if examples.paths else None,
        "given": int(findings.given[row]),
        "suggested": int(findings.suggested[row]),
        "score": json_number(findings.score[row]),
        "loss": json_number(findings.loss[row]),
        "epistemic": json_number(findings.epistemic[row]),
        "aleatoric": json_number(findings.aleatoric[row]),
        "why": bayes_factors(findings, row),
        "picture": examples.picture(place),
        "values": list(examples.values[place]) if examples.values else None,
    }
    return {key: value for key, value in record.items() if value is not None}


def bayes_factors(findings: Findings, row: int) -> list[list[float | None]] | None:
    """The factors of a label's posterior; None: the scores are no posterior.

    For the given and for the suggested class k: the model's P(k | x), P(given label | k), and the
    posterior of k, which is their product, normalised over all classes.
    """
    evidence = findings.evidence
    if evidence is None:
        return None
    factors = (
        (evidence.given[row], evidence.label_given[row], findings.score[row]),
        (evidence.suggested[row], evidence.label_suggested[row], evidence.posterior[row]),
    )
    return [[json_number(value) for value in each] for each in factors]


def json_number(value: float) -> float | None:
    """The value with six decimals; None in place of NaN."""
    return None if np.isnan(value) else round(float(value), 6)


def in_script(content: Any) -> str:
    """JSON in which no character can end a script element."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
