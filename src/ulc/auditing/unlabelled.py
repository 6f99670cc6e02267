"""Predictions for the rows of the data that have no label."""

from dataclasses import replace

import numpy as np

from ulc.auditing.spec import AuditSpec
from ulc.auditing.workspace import Workspace
from ulc.importing import named_code
from ulc.prediction.new_rows import NewRows
from ulc.prediction.predictor import Predictor
from ulc.prediction.table import frame_as_csv, prediction_frame

FILE = "unlabelled.csv"


def predict_unlabelled(workspace: Workspace, spec: AuditSpec) -> None:
    """Write unlabelled.csv with the model that is handed over, if rows have no label."""
    folder = workspace.folder
    if not folder.read_json("data.json").get("unlabelled"):
        return
    trust = named_code(spec.network.name, spec.data.text_model or "", spec.embed)
    predictor = Predictor.open(folder, workspace.device, trust=trust)
    rows = select_unlabelled(predictor.read(folder.spec.data))
    folder.write(FILE, frame_as_csv(prediction_frame(predictor.predict(rows))).encode())


def select_unlabelled(rows: NewRows) -> NewRows:
    """Return the rows without a label; without ids they are named by position."""
    labels = rows.labels or [None] * len(rows.inputs)
    kept = np.flatnonzero([label is None for label in labels])
    ids = rows.ids or tuple(map(str, range(len(rows.inputs))))
    return replace(rows, inputs=rows.inputs[kept], ids=tuple(ids[row] for row in kept), labels=None)
