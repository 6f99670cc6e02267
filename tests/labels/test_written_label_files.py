"""Which files about labels a run gets, and what they say of verified and nearly empty rows."""

import json
from pathlib import Path

import numpy as np
import pytest

from ulc.labels.files import LabelFiles
from ulc.labels.judgement import Judgement
from ulc.storage.run_folder import RunFolder

GIVEN = np.array([0, 1, 0, 1])


@pytest.fixture
def judgement():
    """Every label is doubted, and the other class predicted."""
    return Judgement(
        given=GIVEN, clean_probability=np.full(4, 0.2), prediction=np.eye(2)[1 - GIVEN],
        epistemic=np.zeros(4), aleatoric=np.zeros(4), score_kind="posterior",
    )  # fmt: skip


def written(judgement, **more):
    """The files that are written, and health.json."""
    folder = RunFolder(Path("run"))
    folder.path.mkdir()
    judgement.settle(0.5, more.get("verified"), more.get("nearly_empty"))
    LabelFiles(judgement, ["a", "b"], 0.5, **more).write(folder)
    names = {path.name for path in folder.path.iterdir()} - {"checksums.json", "labels.parquet"}
    return names, json.loads((folder.path / "health.json").read_text())


def test_verified_labels_are_certain_and_the_others_stay(judgement):
    verified = np.array([True, False, False, True])
    judgement.settle(0.5)
    assert judgement.clean_probability.tolist() == [0.2] * 4
    judgement.settle(0.5, verified=verified)
    assert judgement.clean_probability.tolist() == [1, 0.2, 0.2, 1]


def test_without_inputs_nothing_is_said_of_copies_or_odd_rows(judgement):
    names, health = written(judgement, odd_rows=True)
    assert names == {"judgement.npz", "labels.csv", "corrected.csv", "health.json"}
    assert health["issues"] == 4
    assert not {"outliers", "near_duplicates", "nearly_empty"} & set(health)


def test_images_have_no_outliers(judgement):
    images = np.arange(4 * 12, dtype=np.uint8).reshape(4, 3, 2, 2)
    _, health = written(judgement, inputs=images, odd_rows=True)
    assert health["duplicates"]["groups"] == 0
    assert not {"outliers", "near_duplicates"} & set(health)


def test_verified_and_nearly_empty_rows_are_written_by_place_or_id(judgement):
    mask = np.array([False, True, True, False])
    names, health = written(judgement, verified=mask, nearly_empty=~mask, ids=list("pqrs"))
    assert json.loads(Path("run/verified.json").read_text()) == [1, 2]
    assert "verified.json" in names
    assert health["nearly_empty"] == {"rows": 2, "ids": ["p", "s"]}
    assert health["issues"] == 0
