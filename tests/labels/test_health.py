"""Statistics of a judgement over all labels."""

import json

import numpy as np
import pytest

from stub_runs import judged_run
from ulc.config import DataSpec
from ulc.labels.duplicates import CHUNK, find_copies, hash_rows
from ulc.labels.health import (
    MOST_CLASSES,
    MOST_ROWS,
    collapsed,
    count_predicted,
    health,
    joint_mass,
    noise_matrix,
    wrong_shares,
)
from ulc.labels.judgement import Judgement


def opinion(given, clean, prediction):
    nothing = np.full(len(given), np.nan)
    return Judgement(
        np.asarray(given), np.asarray(clean, float), np.asarray(prediction, float), nothing, nothing
    )


def random_opinion(classes=4, count=200, seed=0):
    rng = np.random.default_rng(seed)
    prediction = rng.dirichlet(np.ones(classes), count)
    return opinion(rng.integers(0, classes, count), rng.random(count), prediction)


@pytest.fixture
def by_hand():
    """Three cats, one of them surely a dog; two dogs, one of them half a cat."""
    return opinion(
        given=[0, 0, 0, 1, 1],
        clean=[1, 1, 0, 1, 0.5],
        prediction=[[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0]],
    )


def test_the_noise_matrix_worked_by_hand(by_hand):
    """Cats by the corrected labels: 2 given cat and ½ given dog; dogs: 1 given cat, 1½ dog."""
    joint = joint_mass(by_hand)
    assert joint.tolist() == [[2, 0.5, 0], [1, 1.5, 0], [0, 0, 0]]
    expected = [[0.8, 0.2, 0], [0.4, 0.6, 0], [0, 0, 1]]  # no mass on cow: the row of the identity
    assert np.allclose(noise_matrix(joint), expected)
    assert np.allclose(wrong_shares(joint), [1 / 3, 0.25, 0])


def test_a_class_that_is_predicted_for_less_than_a_twentieth_of_its_labels_has_collapsed():
    """Of 20 labels one prediction is a twentieth; a class of nine labels is too small to tell."""
    sizes = np.array([20, 20, 9, 100])
    assert collapsed(sizes, np.array([1, 0, 0, 4])).tolist() == [False, True, False, True]


def test_predicted_classes_and_collapse_are_in_the_report():
    """Forty rows are predicted as the first class, though twenty labels name the second."""
    prediction = np.tile([0.7, 0.2, 0.1], (40, 1))
    judged = opinion([0] * 20 + [1] * 20, np.ones(40), prediction)
    assert count_predicted(judged).tolist() == [40, 0, 0]
    classes = health(judged, ("cat", "dog", "cow"), 0.5)["classes"]
    assert [each["predicted"] for each in classes] == [40, 0, 0]
    assert [each["collapsed"] for each in classes] == [False, True, False]


def test_the_report_worked_by_hand(by_hand):
    """The fifth label has score ½: trusted at a threshold of ½, an issue at 0.6."""
    content = health(by_hand, ("cat", "dog", "cow"), 0.5)
    assert content["labels"] == 5
    assert content["issues"] == 1
    assert content["issue_share"] == 0.2
    assert content["expected_wrong_share"] == 0.3  # 1.5 of 5
    assert content["confused_pairs"] == [{"given": "cat", "suggested": "dog", "count": 1}]
    cat, dog, cow = content["classes"]
    assert cat == {
        "class": "cat",
        "size": 3,
        "issues": 1,
        "issue_share": 0.333333,
        "expected_wrong_share": 0.333333,
        "given_frequency": 0.6,
        "corrected_frequency": 0.5,
        "most_suggested": "dog",
        "predicted": 3,
        "collapsed": False,
    }
    assert (dog["issues"], dog["most_suggested"], dog["corrected_frequency"]) == (0, None, 0.5)
    assert (cow["size"], cow["issue_share"], cow["expected_wrong_share"]) == (0, 0, 0)
    assert "duplicates" not in content
    assert len(health(by_hand, ("cat", "dog", "cow"), 0.6)["confused_pairs"]) == 2


@pytest.mark.parametrize("seed", range(5))
def test_every_row_of_the_noise_matrix_sums_to_one_and_shares_agree(seed):
    judgement = random_opinion(seed=seed)
    joint = joint_mass(judgement)
    matrix = noise_matrix(joint)
    assert np.allclose(matrix.sum(1), 1)
    assert (matrix >= 0).all()
    assert joint.sum() == pytest.approx(len(judgement.given))
    content = health(judgement, tuple("abcd"), 0.5)
    # The whole is the mean of the classes, each by its size; so are the issues.
    for share in ("issue_share", "expected_wrong_share"):
        parts = [each["size"] * each[share] for each in content["classes"]]
        assert sum(parts) / content["labels"] == pytest.approx(content[share], abs=1e-5)
    assert sum(each["count"] for each in content["confused_pairs"]) == content["issues"] > 0
    # Read backwards, the matrix leads from corrected to given frequencies.
    given, corrected = (
        np.array([each[name] for each in content["classes"]])
        for name in ("given_frequency", "corrected_frequency")
    )
    assert np.allclose(corrected @ matrix, given, atol=1e-5)


def test_a_judgement_that_believes_every_label_has_the_identity_and_nothing_wrong():
    judgement = random_opinion()
    perfect = judgement.with_verified(np.ones(len(judgement.given), bool))
    content = health(perfect, tuple("abcd"), 0.5)
    assert content["noise_matrix"] == np.eye(4).tolist()
    assert content["issues"] == content["issue_share"] == content["expected_wrong_share"] == 0
    assert content["confused_pairs"] == []


def test_pairs_come_most_frequent_first():
    given = [0] * 3 + [1] * 5 + [2] * 2
    suggested = [1] * 3 + [2] * 5 + [0] * 2
    judgement = opinion(given, [0] * 10, np.eye(3)[suggested])
    pairs = health(judgement, tuple("abc"), 0.5)["confused_pairs"]
    assert [(each["given"], each["suggested"], each["count"]) for each in pairs] == [
        ("b", "c", 5), ("a", "b", 3), ("c", "a", 2),
    ]  # fmt: skip


def test_the_matrix_of_very_many_classes_is_left_out():
    classes = MOST_CLASSES + 1
    content = health(random_opinion(classes), tuple(map(str, range(classes))), 0.5)
    assert content["noise_matrix"] is None
    assert len(content["classes"]) == classes


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("shape", [(3,), (8,), (3, 5, 5)])
def test_copies_are_found_wherever_they_are(dtype, shape):
    inputs = np.arange(20 * np.prod(shape)).reshape(20, *shape) % 251
    inputs = inputs.astype(dtype)
    inputs[[7, 19]] = inputs[3]
    inputs[11] = inputs[2]
    copies = find_copies(inputs)
    assert [copies.group(i).tolist() for i in range(len(copies.starts))] == [[2, 11], [3, 7, 19]]
    assert copies.sizes.tolist() == [2, 3]
    labels = np.zeros(20, int)
    assert not copies.in_conflict(labels).any()
    labels[19] = 1
    assert copies.in_conflict(labels).tolist() == [False, True]


@pytest.mark.parametrize("shape", [(6, 4), (6, 2, 3, 3)])
def test_the_order_of_numbers_in_memory_does_not_matter(shape):
    inputs = np.random.default_rng(0).normal(size=shape)
    inputs[4] = inputs[1]
    for each in (inputs, np.asfortranarray(inputs), np.repeat(inputs, 2, axis=0)[::2]):
        found = find_copies(each)
        assert found.rows.tolist() == [1, 4]
        assert found.starts.tolist() == [0]


def test_without_copies_there_are_no_groups_and_all_alike_are_one():
    nothing = find_copies(np.arange(12).reshape(6, 2))
    assert len(nothing.rows) == len(nothing.starts) == len(nothing.in_conflict(np.arange(6))) == 0
    alike = find_copies(np.zeros((6, 2)))
    assert (alike.rows.tolist(), alike.starts.tolist()) == (list(range(6)), [0])


def test_equal_hashes_of_different_rows_are_no_copies(monkeypatch):
    monkeypatch.setattr(
        "ulc.labels.duplicates.hash_rows", lambda rows: np.zeros(len(rows), np.uint64)
    )
    copies = find_copies(np.array([[1], [2], [3], [2]]))
    assert copies.rows.tolist() == [1, 3]


def test_copies_are_found_across_the_pieces_that_are_hashed(monkeypatch):
    monkeypatch.setattr("ulc.labels.duplicates.CHUNK", 64)
    inputs = np.random.default_rng(0).normal(size=(50, 4))
    inputs[49] = inputs[0]
    assert find_copies(inputs).rows.tolist() == [0, 49]
    assert CHUNK > 64


def test_conflicts_are_listed_by_id_and_a_large_group_in_part():
    count = MOST_ROWS + 5
    judgement = opinion([0, 1] + [0] * count, [1] * (count + 2), np.eye(2)[[0] * (count + 2)])
    inputs = np.array([[1.0], [1.0]] + [[2.0]] * count)
    ids = [f"r{i}" for i in range(count + 2)]
    found = health(judgement, ("a", "b"), 0.5, ids=ids, copies=find_copies(inputs))["duplicates"]
    assert found == {
        "groups": 2,
        "rows": count + 2,
        "conflicts": 1,
        "rows_in_conflict": 2,
        "conflicting": [{"size": 2, "ids": ["r0", "r1"], "labels": ["a", "b"]}],
    }
    judgement.given[2:] = np.arange(count) % 2
    found = health(judgement, ("a", "b"), 0.5, copies=find_copies(inputs))["duplicates"]
    assert [len(each["ids"]) for each in found["conflicting"]] == [2, MOST_ROWS]
    assert found["conflicting"][1]["size"] == count
    assert found["conflicting"][1]["ids"][0] == 2


def test_show_tells_the_health_of_a_run(ulc):
    inputs = np.arange(24.0).reshape(12, 2)
    inputs[1] = inputs[0]
    np.savez("toy.npz", X=inputs, y=["cat", "dog [x]"] * 6)
    folder = judged_run(DataSpec(source="npz", path="toy.npz"), {3: "cat", 5: "cat"})
    code, printed = ulc("show", folder.path)
    assert code == 0
    assert "2 of 12 labels are issues (16.7 %)" in printed.out
    assert "dog [x]" in printed.out
    assert "in 1 of 1 groups of copies the labels differ" in " ".join(printed.out.split())
    code, printed = ulc("show", folder.path, "--json")
    (run,) = json.loads(printed.out)
    assert run["health"] == json.loads((folder.path / "health.json").read_text())
    assert run["health"]["confused_pairs"] == [{"given": "dog [x]", "suggested": "cat", "count": 2}]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_run_whose_health_is_missing_says_so(ulc, options):
    np.savez("toy.npz", X=np.arange(24.0).reshape(12, 2), y=["cat", "dog"] * 6)
    folder = judged_run(DataSpec(source="npz", path="toy.npz"), {})
    (folder.path / "health.json").unlink()
    code, printed = ulc("show", folder.path, *options)
    assert code == 2
    assert "health.json is missing from the run; train it again with --fresh" in printed.err


@pytest.mark.parametrize("there", [True, False])
def test_parquet_is_written_where_pyarrow_is_installed(monkeypatch, there):
    monkeypatch.setattr("ulc.labels.files.find_spec", lambda name: object() if there else None)
    if there:
        pytest.importorskip("pyarrow")
    np.savez("toy.npz", X=np.arange(24.0).reshape(12, 2), y=["cat", "dog"] * 6)
    folder = judged_run(DataSpec(source="npz", path="toy.npz"), {})
    assert folder.has("labels.parquet") == there
    assert folder.has("labels.csv")


@pytest.mark.parametrize("bytes_in_a_row", [8, 13])
def test_rows_that_differ_in_one_bit_have_different_hashes(bytes_in_a_row):
    bits = 8 * bytes_in_a_row
    row = np.random.default_rng(0).integers(0, 256, bytes_in_a_row, dtype=np.uint8)
    flipped = np.packbits(np.eye(bits, dtype=np.uint8), axis=1) ^ row
    assert len(set(hash_rows(np.vstack([row, flipped])).tolist())) == bits + 1


def test_a_class_whose_only_label_is_an_issue_is_wrong_throughout():
    one = Judgement(
        given=np.array([0, 1, 1]),
        clean_probability=np.array([0.1, 1, 1]),
        prediction=np.array([[0.0, 1], [0, 1], [0, 1]]),
        epistemic=np.full(3, np.nan),
        aleatoric=np.full(3, np.nan),
    )
    first, second = health(one, ("a", "b"), 0.5)["classes"]
    assert (first["size"], first["issues"], first["issue_share"]) == (1, 1, 1)
    assert (second["size"], second["issues"], second["issue_share"]) == (2, 0, 0)
