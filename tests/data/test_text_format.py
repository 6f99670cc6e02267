"""Separator and encoding of text tables: found or given, and kept in the corrected copy."""

from pathlib import Path

import numpy as np
import pytest

from stub_runs import judged_run
from ulc.config import DataSpec
from ulc.data.sources import load_source
from ulc.errors import InputError

ROWS = [("label", "a", "b")] + [(("Grün", "Weiß")[i % 2], str(i), f"{i * i}.5") for i in range(10)]


def written(separator=",", encoding="utf-8", name="data.csv", end="\n"):
    content = end.join(separator.join(row) for row in ROWS) + end
    Path(name).write_bytes(content.encode(encoding))
    return DataSpec(source="table", path=name)


def load(spec, **options):
    return load_source(spec.model_copy(update=options))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_every_format_is_found_and_says_the_same(separator, encoding):
    source = load(written(separator, encoding))
    expected = load(written())
    assert source.class_names == ("Grün", "Weiß")
    assert np.array_equal(source.inputs, expected.inputs)
    notes = source.notes[:-1]  # the last one says which columns are used
    assert any("(--sep)" in note for note in notes) == (separator != ",")
    assert any("(--encoding)" in note for note in notes) == (not encoding.startswith("utf-8"))


def test_the_separator_that_the_ending_names_comes_first():
    Path("data.tsv").write_text("label\ta, b\nx\t1\ny\t2\nx\t3\n")
    assert load_source(DataSpec(source="table", path="data.tsv")).inputs.shape == (3, 1)
    Path("data.csv").write_text('label,"a;b;c;d"\nx,1\ny,2\nx,3\n')
    assert load_source(DataSpec(source="table", path="data.csv")).inputs.shape == (3, 1)


def test_a_separator_that_fits_the_header_but_not_the_rows_is_not_chosen():
    Path("data.csv").write_text("label;height, cm;weight, kg\nx;1;2\ny;2;1\nx;3;5\n")
    source = load_source(DataSpec(source="table", path="data.csv"))
    assert [column.name for column in source.encoding.columns] == ["height, cm", "weight, kg"]


def test_a_given_format_is_used():
    spec = written("#", "cp437")
    source = load(spec, sep="#", encoding="cp437")
    assert source.class_names == ("Grün", "Weiß")
    assert len(source.notes) == 1
    tabbed = written("\t")
    for tab in ("\t", "tab", "\\t"):
        assert load(tabbed, sep=tab).inputs.shape == (10, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sep": ";;"}, "--sep ';;': give one character"),
        ({"encoding": "utf-99"}, "--encoding utf-99: unknown; give a name such as utf-8"),
        ({"encoding": "ascii"}, "data.csv: not in the encoding ascii .*; name another with"),
    ],
)
def test_a_wrong_format_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        load(written(), **options)


def test_decimal_commas_are_numbers_where_semicolons_separate():
    text = "label;a;b;c\n" + "".join(f"{'xy'[i % 2]};{i},5;{i};{i},x\n" for i in range(10))
    Path("data.csv").write_text(text)
    source = load_source(DataSpec(source="table", path="data.csv"))
    kinds = {column.name: column.kind for column in source.encoding.columns}
    assert kinds == {"a": "number", "b": "number"}
    assert "numbers with decimal commas: a" in source.notes


@pytest.mark.parametrize(
    ("separator", "encoding"), [(";", "cp1252"), ("|", "utf-16"), ("\t", "utf-8-sig")]
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_corrected_copy_has_the_format_of_the_table(ulc, separator, encoding, end):
    spec = written(separator, encoding, end=end)
    before = Path("data.csv").read_bytes()
    run = judged_run(spec, {0: "Weiß"})
    assert ulc("apply", run.path, "--accept-all", "-q")[0] == 0
    first = separator.join(ROWS[1])
    changed = before.decode(encoding).replace(first, first.replace("Grün", "Weiß"), 1)
    assert Path("data.corrected.csv").read_bytes() == changed.encode(encoding)


def test_a_new_class_that_the_encoding_lacks_is_refused(ulc):
    run = judged_run(written(";", "cp1252"), {0: "Weiß"})
    Path("decisions.csv").write_text("id;decision;label\n0;relabel;чай\n", encoding="utf-8")
    code, printed = ulc("apply", run.path, "decisions.csv")
    assert code == 2
    assert "cannot be written in the encoding cp1252" in printed.err


def test_the_report_reads_the_format_again():
    from ulc.report.examples import find_examples

    run = judged_run(written(";", "cp1252"), {3: "Grün"})
    shown = find_examples(run, np.array([3]), None)
    assert list(shown.values[0]) == ["3", "9.5"]
