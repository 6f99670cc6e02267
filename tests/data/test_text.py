"""Sentences as vectors: recognised, encoded, stored, and encoded again in the same way."""

import io
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from stub_sentences import make_messages
from ulc.config import DataSpec
from ulc.data.columns import looks_like_text
from ulc.data.sources import load_source
from ulc.data.text import pretrained
from ulc.data.text.encoding import TextEncoding
from ulc.data.text.tfidf import TfidfFeatures
from ulc.errors import InputError
from ulc.storage.files import read_npz

MESSAGES = make_messages(200)


def load(table, name="data.csv", **options):
    table.to_csv(name, index=False)
    return load_source(DataSpec(source="table", path=name, **{"label": "topic"} | options))


def stored_and_read(encoding):
    """The encoding as a run folder gives it back."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **encoding.arrays())
    buffer.seek(0)
    return TextEncoding.read(read_npz(buffer))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (MESSAGES["message"], True),
        (["这个产品的质量非常好我很喜欢", "快递太慢了等了两个星期才到", None], True),
        (MESSAGES["number"], False),
        (["田中太郎", "山本花子", "佐藤次郎"], False),
        (["Anna Berg", "Otto Weiss", "Eva Lund"], False),
        (["very good value", "not so good"] * 50, False),
        (["2026-01-31 12:00", "2026-02-01 13:00", "2026-02-02 14:00"], False),
        (["1", "2", "3"], False),
        ([None, None], False),
        ([[1, 2], [3, 4]], False),
    ],
)
def test_a_column_of_sentences_is_recognised(values, expected):
    assert looks_like_text(pd.Series(values, dtype=object)) == expected


def test_many_different_sentences_are_text_even_if_they_repeat():
    assert looks_like_text(pd.Series(list(MESSAGES["message"]) * 3))


def test_sentences_beside_other_columns_are_left_out_with_the_remedy_and_are_no_category():
    table = MESSAGES.assign(length=MESSAGES["message"].str.len())
    table["message"] = table["message"].where(table.index % 2 == 0, "the same sentence again")
    source = load(table, features=("message", "length"))
    assert [column.name for column in source.encoding.columns] == ["length"]
    assert source.encoding.left_out["message"] == "sentences; learn from them with --text message"
    assert source.text is None


def test_the_only_usable_column_is_used_if_it_holds_sentences():
    source = load(MESSAGES.drop(columns="truth"))
    assert source.text.column == "message"
    assert source.encoding is None
    assert np.array_equal(source.inputs, load(MESSAGES, text="message").inputs)


def test_of_two_columns_of_sentences_none_is_chosen():
    table = MESSAGES[["topic", "message"]].assign(answer=MESSAGES["message"] + " Sorry!")
    with pytest.raises(InputError, match=r"'message' is sentences; .*--text message"):
        load(table)


def test_named_sentences_are_all_that_is_learned_from():
    table = MESSAGES.assign(length=range(len(MESSAGES)))
    source = load(table, text="message")
    assert source.text.column == "message"
    other = load(table.assign(length=0), text="message")
    assert np.array_equal(source.inputs, other.inputs)


@pytest.mark.parametrize("option", [{"features": ("number",)}, {"image": "number"}])
def test_sentences_exclude_other_inputs(option):
    with pytest.raises(InputError, match="images, from text or from features; give one"):
        load(MESSAGES, text="message", **option)


def test_the_labels_are_no_sentences_to_learn_from():
    with pytest.raises(InputError, match="'topic' holds labels"):
        load(MESSAGES, text="topic")


def test_sentences_of_the_same_topic_are_closer():
    source = load(MESSAGES, label="truth", text="message")
    vectors, labels = source.inputs - source.inputs.mean(0), source.labels
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    near, same = vectors @ vectors.T, labels[:, None] == labels
    assert near[same].mean() > near[~same].mean() + 0.2


def test_stored_and_read_again_it_gives_the_same_vectors():
    encoding = TextEncoding.fit(MESSAGES, "message", None, "data.csv")
    new = pd.DataFrame({"message": ["the refund is late", None, "", "Ünïcode ✓ 漢字", "zzz qqq"]})
    again = stored_and_read(encoding)
    assert np.array_equal(again.transform(MESSAGES, "x"), encoding.transform(MESSAGES, "x"))
    found = again.transform(new, "x")
    assert np.array_equal(found, encoding.transform(new, "x"))
    assert not found[1].any()
    assert not found[2].any()
    assert np.isfinite(found).all()


def test_a_row_has_the_same_vector_in_every_company():
    encoding = TextEncoding.fit(MESSAGES, "message", None, "data.csv")
    alone = encoding.transform(MESSAGES[3:4], "x")
    assert np.allclose(alone[0], encoding.transform(MESSAGES, "x")[3], atol=1e-6)


def test_fitting_twice_gives_the_same():
    first, second = (TextEncoding.fit(MESSAGES, "message", None, "x") for _ in range(2))
    assert np.array_equal(first.features.components, second.features.components)


@pytest.mark.parametrize("sentences", [["a b c"], ["", "", ""], [None, None, " "]])
def test_sentences_without_words_are_refused(sentences):
    table = pd.DataFrame({"message": sentences})
    with pytest.raises(InputError, match=r"data.csv: column 'message': .*no words"):
        TextEncoding.fit(table, "message", None, "data.csv")


def test_sentences_that_differ_only_in_words_of_their_own_are_refused():
    table = pd.DataFrame({"message": [f"This is number {row}" for row in range(60)]})
    with pytest.raises(InputError, match="do not differ in words that recur"):
        TextEncoding.fit(table, "message", None, "data.csv")


def test_a_new_table_without_the_column_is_told_its_name():
    encoding = TextEncoding.fit(MESSAGES, "message", None, "data.csv")
    with pytest.raises(InputError, match=r"new.csv: no column 'message'"):
        encoding.transform(pd.DataFrame({"text": ["a"]}), "new.csv")


class Stub:
    """A model of sentences: their lengths."""

    def __init__(self, name):
        if name == "unknown":
            raise OSError("no such model")
        self.name = name

    @classmethod
    def from_pretrained(cls, name):
        return cls(name)

    def encode(self, sentences):
        plus = 1.0 if self.name == "shifted" else 0.0
        return [[len(each) + plus, each.count(" ")] for each in sentences]


@pytest.fixture
def _models(monkeypatch):
    kinds = {"model2vec": "StaticModel", "sentence_transformers": "SentenceTransformer"}
    for package, kind in kinds.items():
        module = ModuleType(package)
        setattr(module, kind, Stub)
        monkeypatch.setitem(sys.modules, package, module)


@pytest.mark.usefixtures("_models")
@pytest.mark.parametrize("family", ["model2vec", "sentence-transformers"])
def test_a_pretrained_model_is_named_and_loaded_again_for_new_rows(family):
    source = load(MESSAGES, text="message", text_model=f"{family}:small")
    assert source.inputs.tolist() == Stub("").encode(MESSAGES["message"])
    again = stored_and_read(source.text)
    assert again.transform(pd.DataFrame({"message": ["one two"]}), "x").tolist() == [[7, 1]]


@pytest.mark.usefixtures("_models")
def test_a_model_that_has_changed_is_refused():
    encoding = TextEncoding.fit(MESSAGES, "message", "model2vec:first", "x")
    shifted = replace(encoding.features, name="model2vec:shifted")
    changed = TextEncoding("message", shifted)
    with pytest.raises(InputError, match="other vectors than in the run"):
        changed.transform(MESSAGES, "x")


@pytest.mark.usefixtures("_models")
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("bert", "unknown text model 'bert'; give tfidf, model2vec:NAME"),
        ("model2vec:", "unknown text model"),
        ("model2vec:unknown", r"cannot be loaded \(no such model\); check its name"),
    ],
)
def test_an_unknown_model_is_refused(model, message):
    with pytest.raises(InputError, match=message):
        load(MESSAGES, text="message", text_model=model)


def test_a_package_that_is_missing_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "model2vec", None)
    with pytest.raises(InputError, match=r"needs model2vec, .*; pip install model2vec"):
        load(MESSAGES, text="message", text_model="model2vec:missing")


def test_a_hugging_face_data_set_of_sentences_says_the_same_as_the_table():
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_pandas(MESSAGES).save_to_disk("saved")
    spec = DataSpec(source="huggingface", path="saved", label="topic", text="message")
    assert np.array_equal(load_source(spec).inputs, load(MESSAGES, text="message").inputs)


def test_data_without_columns_have_no_sentences():
    Path("photos").mkdir()
    with pytest.raises(InputError, match="the source 'folder' has no option 'text'"):
        load_source(DataSpec(source="folder", path="photos", text="message"))


def test_sentences_without_words_of_two_letters_are_stored_and_read_again():
    """They have no words, only parts of words: one kind of terms instead of two."""
    features = TfidfFeatures.fit(["a b", "b c", "a c", "c d"], "x")
    assert [each.kind for each in features.terms] == ["parts"]
    again = TfidfFeatures.read(features.arrays())
    assert [each.kind for each in again.terms] == ["parts"]
    new = ["a b c", "d", "unseen"]
    assert np.array_equal(again.transform(new), features.transform(new))


def test_components_that_do_not_fit_the_terms_are_refused():
    arrays = TfidfFeatures.fit(list(MESSAGES["message"]), "x").arrays()
    for damaged in (arrays["components"][:, 1:], arrays["components"].ravel()):
        with pytest.raises(ValueError, match=re.escape(f"have shape {damaged.shape}")):
            TfidfFeatures.read(arrays | {"components": damaged})


@pytest.mark.parametrize("vectors", [[1.0], [[1.0, 2.0]] * 9, [[float("nan")]]])
def test_a_model_without_a_row_of_numbers_for_each_sentence_is_refused(monkeypatch, vectors):
    monkeypatch.setattr(pretrained, "load_encoder", lambda _: lambda _: vectors)
    message = r"text model 'model2vec:odd' gives .* for 1 sentences; it must give a row of finite"
    with pytest.raises(InputError, match=message):
        pretrained.encode_sentences("model2vec:odd", ["one"])


def test_stored_terms_that_do_not_fit_their_weights_are_refused():
    sentences = [f"the {'red' if row % 2 else 'green'} thing number {row}" for row in range(24)]
    arrays = TfidfFeatures.fit(sentences, "t.csv").arrays()
    (name, *_) = (key for key in arrays if key.endswith("_names"))
    terms = arrays[name].tobytes().decode().split("\n")

    def with_terms(changed):
        return arrays | {name: np.frombuffer("\n".join(changed).encode(), np.uint8)}

    for changed in (terms[:-1], [*terms[:-1], terms[0]]):
        with pytest.raises(ValueError, match="do not fit"):
            TfidfFeatures.read(with_terms(changed))
    weights = name.replace("names", "idf")
    for key, damaged in [(weights, np.nan), (weights, np.inf), ("components", np.nan)]:
        changed = arrays[key].copy()
        changed.flat[0] = damaged
        with pytest.raises(ValueError, match="no finite number"):
            TfidfFeatures.read(arrays | {key: changed})
    with pytest.raises(ValueError, match="no terms"):
        TfidfFeatures.read({"components": np.zeros((2, 0), np.float32)})
