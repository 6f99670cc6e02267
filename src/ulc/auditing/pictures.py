"""What an audit finds out about pictures before any network: almost equal ones, poor ones."""

from dataclasses import replace
from typing import Any

from ulc.auditing.poor_pictures import poor_picture_entry
from ulc.auditing.spec import AuditProgress
from ulc.data.lazy.images import LazyImages
from ulc.data.sources.source import Source
from ulc.labels.near_pictures import find_near_pictures, near_picture_entry


def look_at_pictures(source: Source, progress: AuditProgress) -> tuple[Source, dict[str, Any]]:
    """Return the source, with a warning if need be, and entries of health.json.

    There are no entries if the inputs are no images. Images that are not in memory are read piece
    by piece.
    """
    if source.inputs.ndim != 4:
        return source, {}
    digests = source.inputs.digests if isinstance(source.inputs, LazyImages) else None
    found = find_near_pictures(source.inputs, digests)
    near = near_picture_entry(found, source.labels, source.class_names, source.ids)
    if near["conflicts"]:
        warning = warn_of_conflicts(near)
        progress.on_note(f"Warning: {warning}")
        source = replace(source, warnings=(*source.warnings, warning))
    return source, {"near_pictures": near, "poor_pictures": poor_picture_entry(source)}


def warn_of_conflicts(near: dict[str, Any]) -> str:
    """A sentence about almost equal pictures with different labels; near: their entry."""
    first = near["listed"][0]
    # The rarest label comes first, so the last row has another one, unless it is not listed.
    cases = (0, len(first["ids"]) - 1)
    named = ", ".join(f"'{first['ids'][place]}' is {first['labels'][place]}" for place in cases)
    more = ", …" if near["rows_in_conflict"] > 2 else ""
    return (
        f"{near['rows_in_conflict']} pictures are almost the same as another one that has another "
        f"label ({named}{more}); health.json lists them"
    )
