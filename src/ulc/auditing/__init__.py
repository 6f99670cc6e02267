"""Audits: wrong labels in a user's own data, and a model that does no harm."""

from pathlib import Path
from typing import Any

from ulc.auditing.audit import audit as run_audit
from ulc.auditing.spec import AuditProgress, AuditSpec, Choice
from ulc.config import DataSpec, NetworkSpec, checked
from ulc.data.sources.naming import data_spec

__all__ = ["AuditProgress", "AuditSpec", "Choice", "audit_spec", "run_audit"]


def audit_spec(data: str | Path | DataSpec, **settings: Any) -> AuditSpec:
    """The spec of an audit, checked."""
    content = data if isinstance(data, DataSpec) else data_spec(str(data))
    if isinstance(settings.get("network"), str):
        settings["network"] = NetworkSpec(name=settings["network"])
    return checked(AuditSpec, {"data": content} | settings, where="audit")
