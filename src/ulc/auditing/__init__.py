"""Audits: find wrong labels in a user's data, and hand over a model. `audit.py` has the flow."""

from pathlib import Path
from typing import Any

from ulc.auditing.audit import resume_audit, run_audit, start_fresh_audit
from ulc.auditing.spec import AuditProgress, AuditSpec, Choice
from ulc.config import DataSpec, NetworkSpec, checked
from ulc.data.sources.naming import data_spec

__all__ = [
    "AuditProgress",
    "AuditSpec",
    "Choice",
    "audit_spec",
    "resume_audit",
    "run_audit",
    "start_fresh_audit",
]


def audit_spec(data: str | Path | DataSpec, **settings: Any) -> AuditSpec:
    """The checked spec of an audit; settings: fields of `AuditSpec` and of `DataSpec`."""
    options = {name: settings.pop(name) for name in DataSpec.model_fields if name in settings}
    if isinstance(data, DataSpec):
        content = checked(DataSpec, data.model_dump() | options, where="audit")
    else:
        content = data_spec(str(data), options)
    if isinstance(settings.get("network"), str):
        settings["network"] = NetworkSpec(name=settings["network"])
    return checked(AuditSpec, {"data": content} | settings, where="audit")
