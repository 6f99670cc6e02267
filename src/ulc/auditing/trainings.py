"""Trainings of an audit: runs in a folder below the audit's, measured on held-out rows."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ulc.auditing.data import AuditData
from ulc.auditing.workspace import Workspace
from ulc.config import RunSpec
from ulc.data.prepare import Prepared
from ulc.errors import InputError
from ulc.experiments.side_by_side import run_side_by_side
from ulc.importing import named_code
from ulc.labels.prior import with_prior
from ulc.storage.run_folder import RunFolder
from ulc.training.model import Model
from ulc.training.placing import place
from ulc.training.run import resolved
from ulc.typing import Floats, Integers


@dataclass(frozen=True)
class HeldOutRun:
    """A finished run, and its predictions for the V held-out rows.

    probability: (V, K) predicted by its model, as trained; given: (V,) labels as they came
    class_prior: (K,) class frequencies that its predictions assume
    """

    folder: RunFolder
    probability: Floats
    given: Integers
    class_prior: Floats

    def under_prior(self, frequency: Floats) -> Floats:
        """(V, K) its predictions for other class frequencies."""
        return with_prior(self.probability, self.class_prior, frequency.tolist())

    @property
    def hits(self) -> NDArray[np.bool_]:
        """(V,) held-out rows whose given label is predicted."""
        return self.probability.argmax(1) == self.given

    @property
    def agreement(self) -> float:
        """Share of the held-out rows whose given label is predicted."""
        return float(self.hits.mean())

    @property
    def summary(self) -> dict[str, Any]:
        """The record of this run in audit.json."""
        records = self.folder.records
        signs = [
            f"epoch {record['epoch']}: {sign}"
            for record in records
            for sign in record["held_out"].get("signs", ())
        ]
        return {
            "run": self.folder.path.name,
            "held_out_agreement": self.agreement,
            "kept_epoch": self.folder.read_json("summary.json")["kept_epoch"],
            "epochs": len(records),
            "warnings": signs,
        }


def train_elsewhere(workspace: Workspace, titles: Mapping[str, RunSpec], data: AuditData) -> None:
    """Train the specs side by side by the workspace's launcher, if there is one.

    Finished ones are not trained again. If one fails, all end; the next call resumes them.
    """
    if workspace.launcher is None:
        return
    left = {
        title: spec
        for title, spec in titles.items()
        if not place(workspace.runs / resolved(spec).folder_name, data.prepared.identity).done
    }
    with ExitStack() as stack:
        shown = [workspace.progress.training(title, spec.epochs) for title, spec in left.items()]
        run_side_by_side(
            list(left.values()),
            workspace.runs,
            [stack.enter_context(each) for each in shown],
            device=workspace.device_there,
            prepare=data.again,
            launcher=workspace.launcher,
        )


def train_and_measure(
    workspace: Workspace, title: str, spec: RunSpec, prepared: Prepared
) -> HeldOutRun:
    """Train a run without the held-out rows, and predict the held-out rows with its model.

    A training that is finished already is read from its folder.
    """
    if prepared.held_out is None:
        raise InputError("an audit needs held-out rows; set held_out above 0")
    folder = workspace.train(title, spec, prepared)
    model = Model.load(folder, trust=named_code(spec.network.name))
    model.networks.to(workspace.device)
    probability = model.predict_stored(prepared.held_out.stored)
    prior = np.asarray(model.spec.class_prior)
    return HeldOutRun(folder, probability, prepared.held_out.given.cpu().numpy(), prior)
