"""The comparison with plain training on a report's page, and the run that judged the labels."""

from dataclasses import dataclass
from typing import Any

from ulc.errors import InputError
from ulc.storage.run_folder import RunFolder
from ulc.training.placing import same_data


@dataclass(frozen=True)
class Gain:
    """The same measure of plain training and of the method.

    measured: name of the measure; title: heading on the page
    own: whether it is the accuracy on a test set of the user's own data. Only then it is in the
        summary: given labels that were held out may be wrong, and a benchmark is not theirs.
    """

    plain: float
    ours: float
    measured: str
    title: str = "Gain over plain training"
    own: bool = False


def gain(folder: RunFolder) -> Gain | None:
    """The comparison with plain training, of an audit or of `ulc train`; None: there is none."""
    compared = read_audit(folder)
    key = "held_out_agreement"
    plain, ours = (number_at(compared, (name, key)) for name in ("plain", "ulc_plus"))
    if plain is not None and ours is not None:
        measured = "held-out labels that are predicted"
        return Gain(plain, ours, measured, "ULC+ against plain training")
    beside = plain_run(folder)
    if beside is None:
        return None
    path = ("balanced", "last", "accuracy")
    plain, ours = (number_at(each.read_json("summary.json"), path) for each in (beside, folder))
    if plain is None or ours is None:
        return None
    own = folder.spec.data.path is not None and folder.spec.noise.kind == "none"
    return Gain(plain, ours, "test accuracy", own=own)


def plain_run(folder: RunFolder) -> RunFolder | None:
    """A finished run of cross entropy on the same data, beside this run; None: there is none."""
    spec = folder.spec
    if spec.algorithm == "ce":
        return None
    tags = (spec.data.source, spec.imbalance.tag, spec.noise.tag, "ce", f"s{spec.seed}", "*")
    fixed = {"algorithm", "options"}
    for path in sorted(folder.path.absolute().parent.glob("-".join(tags))):
        other = RunFolder(path)
        try:
            same = (
                other.done
                and other.spec.model_dump(exclude=fixed) == spec.model_dump(exclude=fixed)
                and same_data(other, folder)
            )
        except InputError:  # not a readable run
            continue
        if same:
            return other
    return None


def judging_run(folder: RunFolder) -> RunFolder:
    """The run whose curves the page shows: in an audit the run that judged, else the run itself."""
    compared = read_audit(folder)
    judge = compared.get("ulc_plus")
    if isinstance(judge, dict) and isinstance(judge.get("run"), str):
        inner = RunFolder(folder.path / "runs" / judge["run"])
        if inner.has("records.jsonl"):
            return inner
    return folder


def number_at(record: Any, path: tuple[str, ...]) -> float | None:
    """The number at this path of keys; None: there is no number."""
    for key in path:
        record = record.get(key) if isinstance(record, dict) else None
    is_number = isinstance(record, int | float) and not isinstance(record, bool)
    return float(record) if is_number else None


def read_audit(folder: RunFolder) -> dict[str, Any]:
    """The content of audit.json; empty if the folder is no audit."""
    return read_optional(folder, "audit.json")


def read_optional(folder: RunFolder, name: str) -> dict[str, Any]:
    """The content of a JSON file; empty if it is missing."""
    content = folder.read_json(name) if folder.has(name) else {}
    return content if isinstance(content, dict) else {}
