"""A user's own class or function by its `module:name`."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from ulc.errors import InputError
from ulc.importing import imported, source_hash


def test_what_a_module_holds_is_found_by_its_name():
    assert imported("json:loads", "network") is json.loads
    assert imported("json.decoder:JSONDecoder", "network") is json.JSONDecoder


def test_a_module_in_a_folder_on_the_path_is_found(monkeypatch):
    Path("my_own_module_of_a_test.py").write_text("answer = 42\n", encoding="utf-8")
    monkeypatch.syspath_prepend(Path.cwd())
    assert imported("my_own_module_of_a_test:answer", "network") == 42


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_module:Net", "No module named 'no_such_module'"),
        ("json.no_such_part:Net", "No module named 'json.no_such_part'"),
        ("json:Net", "has no attribute 'Net'"),
        ("json:", "has no attribute ''"),
        ("json", "has no attribute ''"),
        (":Net", "Empty module name"),
        ("", "Empty module name"),
        (".relative:Net", ""),
    ],
)
@pytest.mark.parametrize("what", ["network", "algorithm"])
def test_what_cannot_be_imported_is_said_with_its_name_reason_and_remedy(name, reason, what):
    with pytest.raises(InputError) as caught:
        imported(name, what)
    message = str(caught.value)
    assert message.startswith(f"{what} '{name}' cannot be imported (")
    assert reason in message
    assert message.endswith("check the name and that the module is in this folder or on PYTHONPATH")


def test_a_module_that_needs_one_that_is_missing_names_that(monkeypatch):
    Path("needy_module_of_a_test.py").write_text("import no_such_thing\n", encoding="utf-8")
    monkeypatch.syspath_prepend(Path.cwd())
    with pytest.raises(InputError, match="No module named 'no_such_thing'"):
        imported("needy_module_of_a_test:Net", "network")


@pytest.fixture
def own_hash(tmp_path, monkeypatch):
    """Write files, import them anew, and hash `own_hashed:Thing`."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)

    def call(**files):
        for name, content in files.items():
            (tmp_path / f"{name}.py").write_bytes(content.encode())
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return source_hash(imported("own_hashed:Thing", "network"))

    return call


BASE, THING = "class Base: pass\n", "from own_base import Base\nclass Thing(Base): pass\n"


def test_the_hash_changes_with_the_file_of_the_class_and_of_its_base(own_hash):
    first = own_hash(own_base=BASE, own_hashed=THING)
    assert first is not None
    assert own_hash(own_base=BASE, own_hashed=THING) == first
    assert own_hash(own_base=BASE, own_hashed=THING + "x = 1\n") != first
    assert own_hash(own_base=BASE + "x = 1\n", own_hashed=THING) != first


def test_line_endings_do_not_count(own_hash):
    first = own_hash(own_base=BASE, own_hashed=THING)
    assert own_hash(own_base=BASE, own_hashed=THING.replace("\n", "\r\n")) == first


def test_a_function_has_the_hash_of_its_file(own_hash):
    assert own_hash(own_hashed="def Thing(): pass\n") != own_hash(own_hashed="Thing = lambda: 1\n")


def test_the_hash_is_of_the_file_as_it_was_imported(own_hash, tmp_path):
    before = own_hash(own_hashed="class Thing: pass\n")
    (tmp_path / "own_hashed.py").write_text("class Thing: x = 1\n")
    assert source_hash(imported("own_hashed:Thing", "network")) == before


@pytest.mark.parametrize("name", ["json:JSONDecoder", "ulc.networks.mlp:MLP", "torch.nn:Linear"])
def test_python_installed_packages_and_this_package_have_no_hash(name):
    assert source_hash(imported(name, "network")) is None
