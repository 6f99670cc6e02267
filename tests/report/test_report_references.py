"""Trusted pictures beside the suspects, and relative paths."""

import numpy as np
import pytest
from report_runs import photo_folder, toy_judgement

from ulc.report.findings import Findings
from ulc.report.paths import split_root
from ulc.report.references import needed_classes, reference_pictures, trusted_rows


def found(judgement, classes=3):
    names = tuple(f"class {k}" for k in range(classes))
    return Findings.from_judgement(judgement, names, np.zeros(classes, bool), 0.5)


def test_references_are_trusted_labels_of_the_class_with_high_scores():
    findings = found(toy_judgement(300, 3))
    for number in range(3):
        rows = trusted_rows(findings, number)
        assert len(rows) == 3
        assert not findings.issue[rows].any()
        assert (findings.given[rows] == number).all()
        trusted = (findings.given == number) & ~findings.issue
        assert findings.score[rows].min() >= np.quantile(findings.score[trusted], 0.89)


def test_a_class_without_trusted_labels_has_no_references():
    findings = found(toy_judgement(30, 3), classes=3)
    findings.issue[findings.given == 1] = True
    assert len(trusted_rows(findings, 1)) == 0


def test_only_classes_of_suspects_on_the_page_need_references():
    findings = found(toy_judgement(300, 3))
    first = findings.suspects[:1]
    wanted = {int(findings.suggested[first[0]]), int(findings.given[first[0]])}
    assert set(needed_classes(findings, first)) == wanted
    assert needed_classes(findings, first)[0] == findings.suggested[first[0]]


@pytest.mark.slow
def test_pictures_that_are_gone_are_no_references(tmp_path):
    folder = photo_folder(tmp_path)
    findings = Findings.of(folder)
    shown = findings.suspects
    assert {
        len(each) for each in reference_pictures(folder, findings, shown, folder.ids).values()
    } == {3}
    (tmp_path / "photos").rename(tmp_path / "moved")
    assert reference_pictures(folder, findings, shown, folder.ids) == {}


@pytest.mark.parametrize(
    ("names", "root"),
    [
        (["/data/photos/cat/1.png", "/data/photos/dog/2.png"], "/data/photos/"),
        (["/data/photos/cat/1.png"], "/data/photos/cat/"),
        (["/data/a/1.png", "/other/2.png"], "/"),
        (["/data//a/1.png", "/data/a/2.png"], ""),  # cutting would change them
        (["flower-1", "flower-2"], ""),
        (["/data/1.png", "flower-2"], ""),
        ([], ""),
    ],
)
def test_root_and_rest_are_the_path(names, root):
    found_root, rest = split_root(names)
    assert [found_root + each for each in rest] == names
    assert found_root == root
