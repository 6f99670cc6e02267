"""A user's own class or function by its `module:name`."""

import json
from pathlib import Path

import pytest

from ulc.errors import InputError
from ulc.importing import imported


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
