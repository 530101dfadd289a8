"""The ranked table of defaults, and the rosters of the library."""

import pytest

import explearn
from explearn.methods.defaults import FLOOR, RANKED, ROSTERS, defaults, roster


def test_every_default_can_be_made_and_each_use_has_its_own_by_rank():
    for default in RANKED:
        assert explearn.get_explainer(default.method, **default.options).name == default.method
    assert [default.method for default in defaults("demo")] == ["consensus", "attn_lrp", "occlusion"]
    needs = [explearn.get_explainer(one.method, **one.options).needs_model for one in defaults("explain")]
    assert needs == sorted(needs, reverse=True)


@pytest.mark.parametrize("name", ROSTERS)
def test_a_roster_has_the_floor_and_methods_that_need_no_training(name):
    methods = roster(name)
    assert FLOOR in methods
    for method, options in methods.items():
        assert explearn.get_explainer(method, **options) and not explearn.get_info(method).learned


@pytest.mark.parametrize("name", ROSTERS)
def test_a_roster_for_a_function_has_the_floor_and_methods_that_can_explain_it(name):
    function = explearn.FunctionPredictor(lambda texts: [[0.3, 0.7]] * len(texts), ["no", "yes"])
    methods = roster(name, by_predictions=True)
    assert {FLOOR, "occlusion"} <= set(methods)
    for method, options in methods.items():
        explearn.get_explainer(method, **options).check_explains(function)


def test_the_complete_roster_has_every_method_of_the_library():
    infos = map(explearn.get_info, explearn.list_explainers())
    assert set(roster("complete")) == {info.name for info in infos if info.family not in ("learned", "reason")}
