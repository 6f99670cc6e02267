"""A few hundred changed files for each reader; `python -m benchmarks fuzz` gives it many more."""

import sys
from dataclasses import replace

import pytest

if sys.platform == "win32":
    pytest.skip("Windows has no alarm signal", allow_module_level=True)

from benchmarks.fuzz import FILES, NAMES, fuzz, make_input
from benchmarks.fuzzing.readers import make_readers
from benchmarks.fuzzing.run_folders import RUN_FILES, STEPS, opens
from ulc.errors import InputError
from ulc.storage.run_folder import RunFolder

INPUTS = {name: 300 if name in FILES else 60 for name in NAMES}


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    """The readers and the folder of their files; the bound of one file is low."""
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ULC_MEMORY_LIMIT", "256MB")
        yield make_readers(folder), folder


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_changed_file_is_read_or_refused_in_one_sentence(readers, name):
    made, folder = readers
    found = fuzz(made[name], folder, range(INPUTS[name]))
    assert found["failed"] == []
    assert found["refused"] > 0
    assert found["read"] > 0  # some changes do no harm: the reader is not refusing everything


def test_an_equal_input_is_read_once_and_counted_each_time(readers):
    made, folder = readers
    calls = []
    reader = replace(made["binary"], read=calls.append, changes=[lambda content, rng: content])
    found = fuzz(reader, folder, range(5))
    assert (found["inputs"], found["different"], found["read"]) == (5, 1, 5)
    assert len(calls) == 2  # the good file, then the first of the five


@pytest.mark.parametrize("name", RUN_FILES)
def test_steps_that_do_not_open_a_file_do_not_depend_on_it(readers, name):
    _, folder = readers
    path = folder / "run" / name
    good = path.read_bytes()
    chosen = [step for step in STEPS if opens(step, path)]
    assert chosen
    path.write_bytes(b"\0")
    try:
        for step in STEPS:
            if step in chosen:
                with pytest.raises(InputError):
                    step(RunFolder.open(path.parent))
            else:
                step(RunFolder.open(path.parent))
    finally:
        path.write_bytes(good)


def test_an_input_depends_on_its_number_and_the_seed_alone(readers):
    reader = readers[0]["npz"]
    assert make_input(reader, 7, 0) == make_input(reader, 7, 0)
    assert len({make_input(reader, number, 0) for number in range(20)}) > 10


@pytest.mark.parametrize(
    "read",
    [lambda _: [][0], lambda _: {}["x"], lambda _: int("x")],
    ids=["index", "key", "value"],
)
def test_the_fuzzer_notices_an_error_that_is_no_input_error(readers, read, monkeypatch):
    made, folder = readers
    calls = []

    def break_later(path):
        calls.append(path)
        return read(path) if len(calls) > 2 else None

    reader = replace(made["binary"], read=break_later)
    found = fuzz(reader, folder, range(3))
    assert len(found["failed"]) == 2
    assert (found["read"], found["refused"]) == (1, 2)
