"""The shapes of JSON files: a value at its bound is accepted, one beyond it is damage."""

import pytest

from ulc.storage.contents import LARGEST, checked_content

HEALTH = {
    "labels": 1, "score_kind": "a", "threshold": 0.5, "issues": 0, "issue_share": 0.0,
    "expected_wrong_share": 0.0, "classes": [], "confused_pairs": [],
}  # fmt: skip
TRAINING = {"run": "a", "held_out_agreement": 0.5, "kept_epoch": 0, "warnings": []}
GOOD = {
    "data.json": {"examples": 1, "class_names": ["a"]},
    "environment.json": {},
    "health.json": HEALTH,
    "summary.json": {"last_epochs": 1},
    "audit.json": {
        "data": {"source": "npz", "path": None}, "noise_rate": 0.0, "noise_interval": [0.0, 1.0],
        "plain": TRAINING, "ulc_plus": TRAINING, "why": "",
    },
}  # fmt: skip
# File, key, values at the bounds, values beyond them.
BOUNDS = [
    ("data.json", "examples", (1, LARGEST), (0, LARGEST + 1)),
    ("data.json", "class_names", (["a"],), ([],)),
    ("data.json", "unlabelled", (0, LARGEST), (-1, LARGEST + 1)),
    ("data.json", "small_classes", ([], [0]), ([1], [-1])),
    ("environment.json", "threads", (1, LARGEST), (0, LARGEST + 1)),
    ("health.json", "labels", (1, LARGEST), (0, LARGEST + 1)),
    ("health.json", "threshold", (0.0, 1.0), (-0.001, 1.001, float("nan"))),
    ("health.json", "issues", (0,), (-1,)),
    ("summary.json", "last_epochs", (1, LARGEST), (0, LARGEST + 1)),
    ("audit.json", "noise_interval", ([0.0, 1.0],), ([0.0], [0.0, 0.5, 1.0])),
    ("audit.json", "plain", (TRAINING | {"run": "a" * 255},),
     (TRAINING | {"run": "a" * 256}, TRAINING | {"run": "../a"}, TRAINING | {"run": ""})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "key", "within", "beyond"), BOUNDS)
def test_a_value_at_its_bound_is_accepted_and_one_beyond_is_damage(name, key, within, beyond):
    for value in within:
        content = GOOD[name] | {key: value}
        assert checked_content(name, content) is content
    for value in beyond:
        with pytest.raises(ValueError, match=key.split("_")[0]):
            checked_content(name, GOOD[name] | {key: value})


@pytest.mark.parametrize("name", GOOD)
def test_a_value_of_another_type_and_a_key_too_many_are_damage_and_no_damage(name):
    for key in GOOD[name]:
        with pytest.raises(ValueError, match=key):
            checked_content(name, GOOD[name] | {key: object()})
    more = GOOD[name] | {"later": 1}
    assert checked_content(name, more) is more


@pytest.mark.parametrize("epoch", [-1, LARGEST + 1, 0.5, True, "0"])
def test_a_record_has_the_number_of_its_epoch(epoch):
    good = [{"epoch": 0, "train": {}}, {"epoch": LARGEST, "train": {"loss": None}}]
    assert checked_content("records.jsonl", good) is good
    with pytest.raises(ValueError, match=r"'1.epoch'"):
        checked_content("records.jsonl", [good[0], {"epoch": epoch, "train": {}}])


def test_a_file_without_a_shape_is_returned_as_it_is():
    assert checked_content("model.json", [1]) == [1]


@pytest.mark.parametrize("row", [-1, LARGEST + 1, 10**30, True, "0"])
def test_a_verified_row_is_named_by_its_position(row):
    good = [0, LARGEST]
    assert checked_content("verified.json", good) is good
    with pytest.raises(ValueError, match="'1'"):
        checked_content("verified.json", [0, row])
