"""Options for several methods at once."""

import pytest

from ulc.errors import InputError
from ulc.settings.common import notes_on_options, own_options

OPTIONS = {"sgd": {"lr": 0.1}, "adam": {"lr": 0.2}, "passes": 3}


def test_each_method_gets_what_it_has():
    assert own_options("ce", OPTIONS) == {"sgd": {"lr": 0.1}}
    assert own_options("coteaching_plus", OPTIONS) == {"adam": {"lr": 0.2}}
    assert own_options("ulc-without-csm", OPTIONS) == {"sgd": {"lr": 0.1}, "passes": 3}
    assert own_options("ce", {"sgd": {"beta1": 0.1}}) == {}
    assert own_options("ce", {"sgd": 3}) == {"sgd": 3}  # wrong, and told where it is checked


def test_those_that_have_not_an_option_are_named_once():
    assert notes_on_options(["ulc"], {"passes": 3}) == []
    assert notes_on_options(["ce", "ulc", "ulc-without-csm", "coteaching_plus"], OPTIONS) == [
        "sgd.lr changes nothing for coteaching_plus: no such option.",
        "adam.lr changes nothing for ce, ulc: no such option.",
        "passes changes nothing for ce, coteaching_plus: no such option.",
    ]


def test_an_option_that_no_method_has_is_an_error():
    with pytest.raises(InputError, match=r"unknown key 'sgd.beta1': ce, ulc have no such option"):
        notes_on_options(["ce", "ulc"], {"sgd": {"beta1": 0.5}})
    with pytest.raises(InputError, match=r"unknown key 'pases': ce has no such option; .*batch_si"):
        notes_on_options(["ce"], {"pases": 3})
    with pytest.raises(InputError, match="unknown algorithm 'ulk'"):
        own_options("ulk", {"pases": 3})
