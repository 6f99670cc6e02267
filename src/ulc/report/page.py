"""From a run folder to one HTML file that needs nothing else."""

import base64
import hashlib
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from ulc.errors import InputError
from ulc.report import figures, training_record
from ulc.report.examples import Examples, find_examples
from ulc.report.findings import Findings, finished
from ulc.report.losses import class_losses
from ulc.report.overview import class_rows, frequent_pairs, heat_map
from ulc.report.suspects import in_script, list_suspects
from ulc.storage.run_folder import RunFolder

HERE = Path(__file__).parent
LARGEST = 10_000_000  # bytes of the page, however large the data
LIMIT = 1000  # suspects, unless the user says otherwise
HISTOGRAMS = 40  # classes whose losses are drawn
SCRIPTS = ("decisions.js", "cards.js", "gallery.js", "page.js")


@dataclass(frozen=True)
class Report:
    """The page, and how many of the suspects are on it."""

    html: str
    listed: int
    suspects: int


def make_report(folder: RunFolder, limit: int = LIMIT) -> Report:
    """The page of a finished run, with at most `limit` suspects; the rest is in labels.csv."""
    try:
        finished(folder)
        findings = Findings.of(folder)
        every = folder.ids
        if every is not None and len(every) != len(findings):
            raise folder.damaged("ids.json", ValueError(f"{len(every)} ids, not {len(findings)}"))
        content = {**facts(folder, findings), **plots(folder, findings)}
    except InputError as error:
        raise of_this_version(folder, error) from None
    rows = findings.suspects[:limit]
    ids = None if every is None else [every[row] for row in rows]
    del every
    examples = find_examples(folder, rows, ids)
    content |= {"examples_note": examples.note, "named": ids is not None}
    empty = render(content, findings, examples, "[]", 0)
    room = LARGEST - len(empty.encode()) - 100  # digits of the count
    listed = list_suspects(findings, ids, examples, most=limit, room=room)
    html = render(content, findings, examples, listed.as_json(), len(listed.records))
    return Report(html, len(listed.records), len(findings.suspects))


def of_this_version(folder: RunFolder, error: InputError) -> InputError:
    """The same complaint, with the reason where another version made the run."""
    try:
        made = folder.read_json("environment.json")["packages"]["ulc"]
    except (InputError, KeyError, TypeError):
        return error
    here = version("ulc")
    if made == here:
        return error
    reason = str(error).split("; ")[0]
    return InputError(
        f"{folder.path}: made by ulc {made}, which this version ({here}) cannot read ({reason}); "
        f"train it again, or make the report with ulc {made}"
    )


def facts(folder: RunFolder, findings: Findings) -> dict[str, Any]:
    """Numbers and words."""
    spec, data = folder.spec, folder.read_json("data.json")
    source = Path(spec.data.path).name if spec.data.path else spec.data.source
    return {
        "title": source,
        "run": str(folder.path),
        "algorithm": training_record.judging_run(folder).spec.algorithm,
        "epochs": spec.epochs,
        "version": version("ulc"),
        "findings": findings,
        "examples_count": len(findings),
        "threshold": folder.threshold,
        "wrong": findings.wrong_share,
        "known_wrong": data.get("wrong_share"),
        "gain": training_record.gain(folder),
        "audit": training_record.audit(folder),
        "classes": class_rows(findings),
        "heat": heat_map(findings),
        "pairs": frequent_pairs(findings),
        "storage_key": storage_key(findings),
    }


def plots(folder: RunFolder, findings: Findings) -> dict[str, Any]:
    """Everything drawn, and the warnings that go with it."""
    records = training_record.judging_run(folder).records
    # Small classes first, then those with most labels that look wrong: both are to be seen.
    wrong = np.bincount(findings.given[findings.issue], minlength=findings.classes)
    share = wrong / np.maximum(findings.sizes, 1)
    order = [int(k) for k in np.lexsort((-share, ~findings.small)) if findings.sizes[k]]
    drawn = class_losses(findings, order[:HISTOGRAMS])
    names = findings.class_names
    return {
        "histograms": [
            (names[each.number], figures.loss_histogram(each, names[each.number]), each)
            for each in drawn
        ],
        "undrawn": len(order) - len(drawn),
        "uncertainty_plot": figures.loss_against_uncertainty(findings),
        "curves": training_record.learning_curves(records),
        "warnings": training_record.warnings(folder, findings, records),
    }


def storage_key(findings: Findings) -> str:
    """Under which the browser keeps decisions: another judgement, another key."""
    digest = hashlib.sha256(findings.given.tobytes())
    digest.update(np.ascontiguousarray(findings.score).tobytes())
    return f"ulc-decisions-{digest.hexdigest()[:16]}"


def render(
    content: dict[str, Any], findings: Findings, examples: Examples, suspects: str, listed: int
) -> str:
    """Fill the template; scripts and style are allowed by their hashes, and nothing else is."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    style = plain("style.css")
    scripts = [plain(name) for name in SCRIPTS]
    data = {
        "key": content["storage_key"],
        "classes": findings.class_names,
        "columns": examples.columns,
        "named": content["named"],
    }
    return environment.get_template("page.html").render(
        **content,
        listed=listed,
        policy=policy(style, scripts),
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        data=Markup(in_script(data)),
        suspects=Markup(suspects),
    )


def plain(name: str) -> str:
    """A file of ours, as it stands in the page."""
    return (HERE / "static" / name).read_text(encoding="utf-8")


def policy(style: str, scripts: list[str]) -> str:
    """Only our own scripts and style run, pictures are inside the page, nothing is fetched."""
    allowed = " ".join(map(digest, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(content: str) -> str:
    """As a content-security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def percent(share: float | None) -> str:
    """As people write it: fewer digits for more."""
    if share is None:
        return "–"
    value = 100 * share
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"
