"""The ranked table of defaults, and the rosters of the library."""

import pytest

import explearn
from explearn.methods.defaults import FLOOR, RANKED, ROSTERS, defaults, roster


def test_every_default_can_be_made_with_its_options():
    for default in RANKED:
        assert explearn.get_explainer(default.method, **default.options).name == default.method


def test_the_defaults_of_a_classifier_need_less_and_less_of_it():
    needs = [explearn.get_explainer(one.method, **one.options).needs_model for one in defaults("explain")]
    assert needs == sorted(needs, reverse=True) and len(needs) == 4


def test_each_use_has_its_own_in_the_order_of_the_table():
    assert [default.method for default in defaults("paid")] == ["hierarchical"]
    assert [default.method for default in defaults("demo")] == ["consensus", "attn_lrp", "occlusion"]
    assert [default.method for default in defaults("serve")] == ["attn_lrp", "attcat", "gae", "occlusion"]


@pytest.mark.parametrize("name", ROSTERS)
def test_a_roster_has_the_floor_and_methods_that_need_no_training(name):
    methods = roster(name)
    assert FLOOR in methods and not any(explearn.get_info(method).learned for method in methods)
    for method, options in methods.items():
        explearn.get_explainer(method, **options)


def test_the_complete_roster_is_that_of_the_registry():
    named = set(roster("complete"))
    for name in explearn.list_explainers():
        info = explearn.get_info(name)
        assert (name in named) == (info.family not in ("learned", "reason")), name
    assert set(roster("quick")) < set(roster("light")) < named
