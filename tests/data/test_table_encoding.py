"""Encoding of columns as vectors: every rule, for training rows and new rows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ulc.config import checked
from ulc.data.table_encoding import MOST_LEVELS, TableEncoding
from ulc.errors import InputError


def fit(**columns):
    return TableEncoding.fit(pd.DataFrame(columns), "t.csv")


def encode(encoding, **columns):
    return encoding.transform(pd.DataFrame(columns), "new.csv")


def standardised(values):
    values = np.asarray(values, float)
    return ((values - values.mean(0)) / values.std(0)).astype(np.float32)


def test_numbers_are_standardised_column_by_column():
    columns = {"a": [1, 2, 6], "b": ["0.5", " 1e3", "-2"]}
    expected = standardised([[1, 0.5], [2, 1000], [6, -2]])
    assert np.allclose(encode(fit(**columns), **columns), expected)


def test_a_missing_number_is_the_median_and_marked():
    """Of 1, 2 and 9 the median is 2."""
    columns = {"a": [1, None, 2, 9]}
    expected = standardised([[1, 0], [2, 1], [2, 0], [9, 0]])
    assert np.allclose(encode(fit(**columns), **columns), expected)


def test_what_is_infinite_is_missing():
    columns = {"a": [1, np.inf, 2, 9, -np.inf, 1e300]}
    found = encode(fit(**columns), **columns)
    assert np.isfinite(found).all()
    assert (found[:, 1] > 0).tolist() == [False, True, False, False, True, True]


def test_a_constant_with_gaps_is_only_its_gaps():
    columns = {"a": [0.1, None, 0.1, 0.1]}
    assert np.allclose(encode(fit(**columns), **columns), standardised([[0], [1], [0], [0]]))


@pytest.mark.parametrize("yes", [True, "True", "yes", "T", "y"])
def test_booleans_are_zero_and_one(yes):
    no = False if yes is True else "no"
    encoding = fit(a=[yes, no, no])
    assert encoding.columns[0].kind == "boolean"
    assert np.allclose(encode(encoding, a=["true", "false", "0"]), standardised([[1], [0], [0]]))
    assert np.allclose(encode(encoding, a=[1, 0, 0]), standardised([[1], [0], [0]]))


def test_dates_are_days():
    """A day, and a week later."""
    texts = ["2026-01-01", "2026-01-02", "2026-01-08T00:00:00Z"]
    expected = standardised([[0], [1], [7]])
    for values in (texts, pd.to_datetime(texts, format="ISO8601", utc=True)):
        encoding = fit(a=values)
        assert encoding.columns[0].kind == "date"
        assert np.allclose(encode(encoding, a=texts), expected)


def test_categories_have_a_column_a_level_and_one_for_nothing():
    columns = {"a": ["u", "v", None, "u"]}
    encoding = fit(**columns)
    expected = standardised([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
    assert encoding.columns[0].levels == ("u", "v")
    assert np.allclose(encode(encoding, **columns), expected)


def test_a_level_never_met_is_all_zeros():
    """Zeros before standardisation, so −mean/std after it."""
    encoding = fit(a=["u", "v", "u", "v"])
    assert np.allclose(encode(encoding, a=["w", None]), [[-1, -1], [-1, -1]])


def test_levels_beyond_the_most_frequent_share_a_column():
    values = [f"l{i:03}" for i in range(60) for _ in range(1 + (i >= 10))]
    encoding = fit(a=values)
    (column,) = encoding.columns
    assert column.levels == tuple(f"l{i:03}" for i in range(10, 10 + MOST_LEVELS))
    assert column.others
    found = encode(encoding, a=["l000", "l009", "new", "l010"])
    assert found.shape == (4, MOST_LEVELS + 1)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    assert not np.array_equal(found[0], found[3])


def test_constants_and_identifiers_are_left_out_with_the_reason():
    encoding = fit(
        a=[1, 2, 3], b=["u", "u", "u"], c=[None] * 3, d=["u", "v", "w"], e=["1", "1.0", "1"]
    )
    assert [column.name for column in encoding.columns] == ["a"]
    assert encoding.left_out == {
        "b": "constant",
        "c": "constant",
        "d": "an identifier (every value is different)",
        "e": "constant",
    }


def test_nothing_left_is_one_sentence():
    with pytest.raises(InputError, match=r"t.csv: nothing to learn from \('b' is constant\); give"):
        fit(b=[1, 1])
    with pytest.raises(InputError, match="nothing to learn from"):
        fit(b=[np.inf, -np.inf, None])


def test_a_new_table_must_have_the_columns_and_their_kind():
    encoding = fit(a=[1, 2], b=["2026-01-01", "2026-01-03"])
    with pytest.raises(
        InputError, match=r"new.csv: no column 'b', which the model was trained on; add it"
    ):
        encode(encoding, a=[1])
    with pytest.raises(InputError, match="column 'a': row 2 below the header is 'x'; give a num"):
        encode(encoding, a=["1", "x"], b=["2026-01-01"] * 2)
    with pytest.raises(InputError, match=r"column 'b': row 1 .* '3'; give a date"):
        encode(encoding, a=[1], b=[3])


def test_rows_are_encoded_alone_as_in_company_and_other_columns_do_not_matter():
    columns = {"a": [1, None, 2, 9], "b": ["u", "v", None, "u"]}
    encoding = fit(**columns)
    together = encode(encoding, **columns, more=[1, 2, 3, 4])
    for row in range(4):
        alone = encode(
            encoding, **{name: values[row : row + 1] for name, values in columns.items()}
        )
        assert np.array_equal(alone, together[row : row + 1])


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.none() | st.floats(-1e6, 1e6),
            st.none() | st.sampled_from(["u", "v", 'é, "w"', "2"]),
            st.booleans(),
        ),
        min_size=3,
    )
)
def test_it_is_written_and_read_to_the_bit(rows):
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    try:
        encoding = TableEncoding.fit(frame, "t")
    except InputError:
        return
    again = TableEncoding.model_validate_json(encoding.model_dump_json())
    assert again == encoding
    found = again.transform(frame, "t")
    assert np.array_equal(found, encoding.transform(frame, "t"))
    assert np.isfinite(found).all()
    assert np.abs(found.mean(0)).max() < 1e-3


@pytest.mark.parametrize(
    ("column", "changed"),
    [
        (0, {"mean": ()}),
        (0, {"std": (1.0, 1.0)}),
        (0, {"std": (0.0,)}),
        (0, {"missing": True}),
        (1, {"levels": ("x", "x")}),
        (1, {"levels": ("x",)}),
        (1, {"others": True}),
    ],
)
def test_a_stored_column_that_does_not_fit_itself_is_refused(column, changed):
    table = pd.DataFrame({"a": range(8), "kind": list("xyxyxyxy")})
    content = TableEncoding.fit(table, "t.csv").model_dump(mode="json")
    assert checked(TableEncoding, content, where="encoding.json")
    content["columns"][column] |= changed
    with pytest.raises(InputError, match=r"encoding.json: .*column '(a|kind)'"):
        checked(TableEncoding, content, where="encoding.json")


def test_a_stored_encoding_has_columns():
    with pytest.raises(InputError, match="columns"):
        checked(TableEncoding, {"columns": [], "left_out": {}}, where="encoding.json")
