"""Make the report: one HTML file from a run folder."""

import base64
import hashlib
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from ulc.errors import InputError
from ulc.labels.health import frequent_pairs
from ulc.labels.review import find_review
from ulc.report import figures, training_record
from ulc.report.data_map import draw_map
from ulc.report.examples import Examples, find_examples
from ulc.report.findings import Findings, check_finished
from ulc.report.gain import gain, judging_run, read_audit
from ulc.report.losses import class_losses
from ulc.report.odd_rows import find_odd_rows
from ulc.report.overview import class_rows, heat_map
from ulc.report.paths import split_root
from ulc.report.references import reference_pictures
from ulc.report.scores import class_scores
from ulc.report.suspects import in_script, list_suspects
from ulc.storage.run_folder import RunFolder
from ulc.training.placing import inputs_changed

HERE = Path(__file__).parent
LARGEST = 10_000_000  # largest size of the page in bytes
LIMIT = 1000  # default number of suspects on the page
HISTOGRAMS = 40  # most classes that get a histogram
FREQUENT_PAIRS = 10
SCORE_RULES = {
    "posterior": "the posterior probability of the given label: the model's prediction, weighed by "
    "how often each class is labelled as which",
    "omega": "ω of the ULC paper: how well the given label fits the losses of its class, weighed "
    "by how sure the model is",
    "mixture": "the probability of the low-loss component in a mixture fitted to the losses",
    "algorithm": "the algorithm's own probability that the given label is right",
}
COLUMNS = 12  # values of a row with a column of their own, as FEW in cards.js
SCRIPTS = ("decisions.js", "cards.js", "gallery.js", "dialogs.js", "map.js", "page.js")


@dataclass(frozen=True)
class Report:
    """The page, the number of labels in its gallery, and how many it was asked for."""

    html: str
    listed: int
    suspects: int


def make_report(folder: RunFolder, limit: int = LIMIT, review: int | None = None) -> Report:
    """The page of a finished run, with at most `limit` suspects in its gallery.

    review: the gallery has so many labels with the lowest scores instead; None: the suspects
    """
    try:
        check_finished(folder)
        findings = Findings.of(folder)
        every = folder.ids
        if every is not None and len(every) != len(findings):
            raise folder.damaged("ids.json", ValueError(f"{len(every)} ids, not {len(findings)}"))
        content = {**facts(folder, findings), **plots(folder, findings)}
    except InputError as error:
        raise explain_version(folder, error) from None
    reviewed = None if review is None else find_review(folder, review)
    rows = findings.suspects[:limit] if reviewed is None else reviewed.rows
    ids = None if every is None else [every[row] for row in rows]
    changed = note_of_change(folder)
    examples = Examples(note=changed) if changed else find_examples(folder, rows, ids)
    references = {}
    if not changed and not examples.columns:
        references = reference_pictures(folder, findings, rows, every)
    root, names = ("", None) if ids is None else split_root(ids)
    marked = findings.suspects if reviewed is None else rows
    content["map"] = None if changed else draw_map(folder, findings, every, marked)
    content["odd"] = find_odd_rows(folder, every, root)
    del every
    examples = replace(examples, paths=split_root(examples.paths)[1])
    content |= {
        "examples_note": examples.note,
        "named": ids is not None,
        "root": root,
        "references": references,
        "as_rows": bool(examples.columns),
        "columns": examples.columns[:COLUMNS],
        "review": reviewed,
        "labels_count": len(marked),
    }
    empty = render(content, findings, examples, "[]", 0)
    room = LARGEST - len(empty.encode()) - 100  # digits of the count
    listed = list_suspects(findings, rows, names, examples, room=room)
    html = render(content, findings, examples, listed.as_json(), len(listed.records))
    return Report(html, len(listed.records), len(marked))


def note_of_change(folder: RunFolder) -> str | None:
    """A sentence if the rows on the disk are not those of the run; None: they are, or unknown."""
    try:
        changed = inputs_changed(folder)
    except Exception:  # data that cannot be read have the note of `find_examples`
        return None
    if not changed:
        return None
    return f"The examples are not shown because {folder.spec.data.path} has changed since the run."


def explain_version(folder: RunFolder, error: InputError) -> InputError:
    """The error; if another version of ulc made the run, an error that names the version."""
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
    """The values that the templates show, except plots and warnings."""
    spec, data = folder.spec, folder.read_json("data.json")
    source = Path(spec.data.path).name if spec.data.path else spec.data.source
    return {
        "title": source,
        "run": str(folder.path),
        "algorithm": judging_run(folder).spec.algorithm,
        "epochs": spec.epochs,
        "version": version("ulc"),
        "findings": findings,
        "examples_count": len(findings),
        "threshold": findings.threshold,
        "wrong": findings.wrong_share,
        "known_wrong": data.get("wrong_share"),
        "gain": gain(folder),
        "audit": read_audit(folder),
        "classes": class_rows(findings),
        "heat": heat_map(findings),
        "pairs": frequent_pairs(findings.pairs, FREQUENT_PAIRS),
        "score_rule": SCORE_RULES[findings.score_kind],
        "storage_key": storage_key(findings),
    }


def plots(folder: RunFolder, findings: Findings) -> dict[str, Any]:
    """The plots and the warnings."""
    records = judging_run(folder).records
    # Small classes first, then those with the largest share of labels that look wrong.
    share = findings.pairs.sum(1) / np.maximum(findings.sizes, 1)
    order = [int(k) for k in np.lexsort((-share, ~findings.small)) if findings.sizes[k]]
    return {
        "histograms": histograms(findings, order[:HISTOGRAMS]),
        "undrawn": max(len(order) - HISTOGRAMS, 0),
        "uncertainty_plot": figures.loss_against_uncertainty(findings),
        "curves": training_record.learning_curves(records),
        "warnings": training_record.warnings(folder, findings, records),
    }


def histograms(findings: Findings, chosen: list[int]) -> list[dict[str, Any]]:
    """Histograms of the chosen classes, with their names and notes.

    They show posterior scores if a confusion model decided, else losses with their mixture.
    """
    names = findings.class_names
    if findings.evidence is not None:
        return [
            {
                "name": names[each.number],
                "plot": figures.score_histogram(each, names[each.number], findings.threshold),
                "confusions": [(names[k], share) for k, share in each.confusions],
                "pooled": False,
            }
            for each in class_scores(findings, chosen)
        ]
    return [
        {
            "name": names[each.number],
            "plot": figures.loss_histogram(each, names[each.number]),
            "confusions": [],
            "pooled": not each.own,
        }
        for each in class_losses(findings, chosen)
    ]


def storage_key(findings: Findings) -> str:
    """Key of the decisions in the browser's storage.

    It is a hash of given labels and scores, so that pages of different judgements do not share
    decisions.
    """
    digest = hashlib.sha256(findings.given.tobytes())
    digest.update(np.ascontiguousarray(findings.score).tobytes())
    return f"ulc-decisions-{digest.hexdigest()[:16]}"


def render(
    content: dict[str, Any], findings: Findings, examples: Examples, suspects: str, listed: int
) -> str:
    """The page as HTML; its content-security policy allows our scripts and style by hash.

    content: values of the templates; suspects: JSON list; listed: number of suspects in it
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = percent
    style = read_static("style.css")
    scripts = [read_static(name) for name in SCRIPTS]
    data = {
        "key": content["storage_key"],
        "classes": findings.class_names,
        "columns": examples.columns,
        "named": content["named"],
        "root": content["root"],
        "references": content["references"],
        "score_kind": findings.score_kind,
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


def read_static(name: str) -> str:
    """The content of a script or of the style sheet."""
    return (HERE / "static" / name).read_text(encoding="utf-8")


def policy(style: str, scripts: list[str]) -> str:
    """A content-security policy that allows these scripts and style and data URIs of pictures."""
    allowed = " ".join(map(digest, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(content: str) -> str:
    """The hash of a script or style, as a content-security policy writes it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def percent(share: float | None) -> str:
    """A share in percent, with one decimal below 10 % except for 0; a dash for None."""
    if share is None:
        return "–"
    value = 100 * share
    if 0 < value < 0.05:
        return "< 0.1 %"
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"
