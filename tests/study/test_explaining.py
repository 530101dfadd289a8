"""The methods of a run, made by its names, with its seed."""

import pytest
import tiny

import explearn
from explearn_study.explaining import make_method
from explearn_study.params import Params, RunMethod
from explearn_study.workspace import Workspace


@pytest.fixture
def make(tmp_path):
    def make(name, of, **options):
        params = Params.model_construct(methods={})
        return make_method(RunMethod(name=name, of=of, options=options), params, Workspace(tmp_path), "toy", 5)

    return make


def test_a_variant_is_its_method_under_another_name(make):
    explainer, options = make("first", "raw_attention", layer=0)
    (attribution,) = explainer.explain(tiny.classifier(), ["lazy dog"])
    same = explearn.explain(tiny.classifier(), "lazy dog", "raw_attention", layer=0)
    assert (attribution.method, options) == ("first", {"layer": 0})
    assert attribution.scores.tolist() == same.scores.tolist()


def test_the_seed_is_the_run_s_unless_the_options_have_one(make):
    assert make("lime_20", "lime", samples=20)[1] == {"samples": 20, "seed": 5}
    assert make("lime", "lime", seed=3)[0].options.seed == 3
