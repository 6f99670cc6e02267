"""What an audit finds out about pictures before any network."""

import numpy as np
from PIL import Image

from ulc.auditing import AuditProgress
from ulc.auditing.pictures import look_at_pictures
from ulc.data.sources.source import Source


class Notes(AuditProgress):
    def __init__(self):
        self.said = []

    def on_note(self, note):
        self.said.append(note)


def pictures(rows=8):
    """Noise in colours; the last picture is a darker one of the first."""
    rng = np.random.default_rng(0)
    small = rng.integers(60, 256, (rows, 6, 6, 3)).astype(np.uint8)
    large = [np.asarray(Image.fromarray(each).resize((32, 32))) for each in small]
    large[-1] = (large[0] * 0.8).astype(np.uint8)
    return np.stack(large).transpose(0, 3, 1, 2)


def test_almost_equal_pictures_with_different_labels_are_a_warning():
    labels = np.array([0, 1] * 4)
    source = Source("photos", pictures(), labels, ("cat", "dog"), ids=tuple("abcdefgh"))
    notes = Notes()
    found, entries = look_at_pictures(source, notes)
    (warning,) = found.warnings
    assert warning == (
        "2 pictures are almost the same as another one that has another label "
        "('a' is cat, 'h' is dog); health.json lists them"
    )
    assert notes.said == [f"Warning: {warning}"]
    assert entries["near_pictures"]["conflicts"] == 1
    assert {"note", "kinds"} & entries["poor_pictures"].keys()


def test_with_the_same_label_they_are_listed_without_a_warning():
    labels = np.array([0, 1, 1, 1, 0, 1, 1, 0])
    source = Source("photos", pictures(), labels, ("cat", "dog"))
    notes = Notes()
    found, entries = look_at_pictures(source, notes)
    assert (found.warnings, notes.said) == ((), [])
    assert entries["near_pictures"]["listed"][0]["ids"] == [0, 7]


def test_vectors_are_no_pictures():
    source = Source("rows", np.ones((4, 3), np.float32), np.array([0, 1, 0, 1]), ("a", "b"))
    assert look_at_pictures(source, Notes()) == (source, {})
