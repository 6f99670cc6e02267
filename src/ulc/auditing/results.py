"""The files that an audit writes at its end."""

from dataclasses import dataclass, replace
from typing import Any

from ulc.auditing.data import AuditData
from ulc.auditing.handing_over import HandedOver
from ulc.auditing.judging import THRESHOLD, AuditJudgement
from ulc.auditing.spec import AuditSpec
from ulc.auditing.trainings import HeldOutRun
from ulc.evaluation.judgement_scores import score_judgement
from ulc.storage.run_folder import RunFolder
from ulc.training.own_code import hash_backbone

# Files of the handed-over model's run that are copied into the audit folder.
COPIED = (
    "environment.json", "data.json", "ids.json", "encoding.json", "text.npz", "embedding.npz",
    "records.jsonl", "model.safetensors", "model.json",
)  # fmt: skip


@dataclass(frozen=True)
class AuditResults:
    """What the stages of an audit returned."""

    spec: AuditSpec
    data: AuditData
    plain: HeldOutRun
    robust: HeldOutRun
    judgement: AuditJudgement
    handed_over: HandedOver


def write_audit(folder: RunFolder, results: AuditResults) -> None:
    """Write model, labels, confusion models, summary.json and audit.json."""
    run = results.handed_over.run
    for name in COPIED:
        if run.has(name):
            folder.write(name, run.read(name))
    note_backbone(folder, results.spec.embed)
    spec = run.spec.model_copy(update={"data": results.spec.data})
    folder.write("spec.toml", spec.write().encode())
    replace(results.judgement.labels, other_health=results.data.pictures).write(folder)
    # behind labels.csv
    folder.write_json("confusion.json", results.judgement.confusion.model_dump(mode="json"))
    # for `ulc predict`
    folder.write_json("noise.json", results.handed_over.confusion.model_dump(mode="json"))
    folder.write_json("summary.json", summarise_audit(results))
    folder.write_json("audit.json", describe_audit(results))


def note_backbone(folder: RunFolder, name: str) -> None:
    """Add the hash of the user's own backbone, if there is one, to environment.json."""
    code = hash_backbone(name)
    if code:
        environment = folder.read_json("environment.json")
        own_code = environment.get("own_code", {}) | code
        folder.write_json("environment.json", environment | {"own_code": own_code})


def summarise_audit(results: AuditResults) -> dict[str, Any]:
    """summary.json of the handed-over run, with scores of the audit's own judgement."""
    summary: dict[str, Any] = results.handed_over.run.read_json("summary.json")
    truth = results.data.prepared.all_truth
    if truth.train is not None:
        judgement = results.judgement.labels.judgement
        summary["labels"] = score_judgement(judgement, truth.train, truth.small, THRESHOLD)
    return summary


def describe_audit(results: AuditResults) -> dict[str, Any]:
    """The content of audit.json; docs/audit.md explains each key."""
    facts = results.data.prepared.facts
    return {
        "format": 1,
        "data": results.spec.data.model_dump(mode="json"),
        "choices": [vars(choice) for choice in results.data.choices],
        "noise_rate": results.judgement.noise_rate,
        "noise_interval": results.judgement.noise_interval,
        "held_out": len(results.robust.given),
        "plain": results.plain.summary,
        "ulc_plus": results.robust.summary,
        "handed_over": results.handed_over.run.spec.algorithm,
        "why": f"{results.handed_over.reason}; {describe_agreement(results.plain, results.robust)}",
    } | {name: facts[name] for name in ("skipped", "warnings") if name in facts}


def describe_agreement(plain: HeldOutRun, robust: HeldOutRun) -> str:
    """The agreement of both models with the held-out labels, for people."""
    return (
        f"of {len(plain.given)} held-out labels ULC+ predicts {100 * robust.agreement:.1f} %, "
        f"plain training {100 * plain.agreement:.1f} %"
    )
