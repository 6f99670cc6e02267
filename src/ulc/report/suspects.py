"""The suspicious labels that the page lists, as many as it has room for."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulc.report.examples import Examples
from ulc.report.findings import Findings


@dataclass(frozen=True)
class Listed:
    """Suspects as JSON objects, most suspicious first, and how many bytes they take."""

    records: list[str]

    def as_json(self) -> str:
        """All of them, safe inside a script element."""
        return f"[{','.join(self.records)}]"


def list_suspects(
    findings: Findings, ids: Sequence[str] | None, examples: Examples, *, most: int, room: int
) -> Listed:
    """The first `most`, or as many as fit into `room` bytes."""
    records: list[str] = []
    for place, row in enumerate(findings.suspects[:most]):
        record = in_script(
            one(findings, int(row), ids[place] if ids else str(row), examples, place)
        )
        room -= len(record.encode()) + 1
        if room < 0:
            break
        records.append(record)
    return Listed(records)


def one(findings: Findings, row: int, name: str, examples: Examples, place: int) -> dict[str, Any]:
    """A suspect as the page's scripts read it; what it lacks is left out."""
    record = {
        "row": row,
        "id": name,
        "path": examples.paths[place] if examples.paths else None,
        "given": int(findings.given[row]),
        "suggested": int(findings.suggested[row]),
        "score": number(findings.score[row]),
        "loss": number(findings.loss[row]),
        "epistemic": number(findings.epistemic[row]),
        "aleatoric": number(findings.aleatoric[row]),
        "picture": examples.picture(place),
        "values": list(examples.values[place]) if examples.values else None,
    }
    return {key: value for key, value in record.items() if value is not None}


def number(value: float) -> float | None:
    """Six digits are enough; None where there is no number."""
    return None if np.isnan(value) else round(float(value), 6)


def in_script(content: Any) -> str:
    """JSON in which no character can end a script element."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
