"""Finished run folders without training: labels are judged by the map that a test hands over."""

from pathlib import Path

import numpy as np

from ulc.config import DataSpec, RunSpec
from ulc.data.prepare import label
from ulc.labels.files import LabelFiles
from ulc.labels.judgement import Judgement
from ulc.storage.run_folder import RunFolder


def judged_run(data: DataSpec, suspicious: dict[int, str], name="run", **change) -> RunFolder:
    """A run that doubts the rows at these positions and suggests these classes instead.

    The scores of the doubted rows are 0.1, 0.2 and so on.
    """
    spec = RunSpec(data=data, algorithm="ce", options={}, epochs=1, **change)
    source = label(spec).source
    classes, count = len(source.class_names), len(source.labels)
    prediction = np.full((count, classes), 0.1 / classes, np.float32)
    clean = np.full(count, 0.9, np.float32)
    best = source.labels.copy()
    for place, (row, suggested) in enumerate(suspicious.items(), start=1):
        clean[row] = place / 10
        best[row] = source.class_names.index(suggested)
    prediction[np.arange(count), best] += 0.9
    nothing = np.full(count, np.nan, np.float32)
    folder = RunFolder.create(Path(name).absolute(), spec)
    facts = {"examples": count, "class_names": list(source.class_names)}
    folder.write_json("data.json", facts | {"skipped": list(source.skipped)})
    if source.ids is not None:
        folder.write_json("ids.json", list(source.ids))
    judgement = Judgement(source.labels, clean, prediction, nothing, nothing)
    judgement.settle(0.5, source.verified)
    LabelFiles(
        judgement, source.class_names, 0.5, source.ids, source.verified, source.inputs
    ).write(folder)
    folder.write_json("summary.json", {"epochs": 1, "last_epochs": 1})
    folder.finish()
    return folder
