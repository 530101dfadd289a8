"""The methods of a run: names, variants and trained ones, with the run's seed."""

import pytest
import tiny

import explearn
from explearn.methods.chance.word_list import WordList
from explearn_study.explaining import make_method
from explearn_study.params import Params, RunMethod
from explearn_study.workspace import Workspace


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A method of a run that trains `word_list`, under the seed 5."""
    trained = RunMethod(name="word_list", of="word_list", options={})
    params = Params.model_construct(methods={"word_list": trained}, learned=None)
    monkeypatch.setattr(Params, "trained", [trained])

    def make(name, of=None, **options):
        method = RunMethod(name=name, of=of or name, options=options)
        return make_method(method, params, Workspace(tmp_path), "toy", 5)

    return make


def test_a_variant_of_a_run_is_its_method_under_another_name(make):
    explainer, options = make("first", "raw_attention", layer=0)
    (attribution,) = explainer.explain(tiny.classifier(), ["lazy dog"])
    same = explearn.explain(tiny.classifier(), "lazy dog", "raw_attention", layer=0)
    assert attribution.method == "first" and options == {"layer": 0}
    assert attribution.scores.tolist() == same.scores.tolist()
    assert "first" not in explearn.list_explainers()


def test_the_seed_is_the_run_s_unless_the_options_have_one(make):
    explainer, options = make("lime_20", "lime", samples=20)
    assert explainer.options.seed == 5 and options == {"samples": 20, "seed": 5}
    explainer, options = make("lime", seed=3)
    assert explainer.options.seed == 3 and options == {"seed": 3}


def test_a_trained_one_comes_from_its_folder_with_the_options_of_its_training(make, tmp_path):
    trained = WordList(seed=7).fit(tiny.classifier(), [("lazy dog", "yes"), ("a fox", "no")], [[True, False]] * 2)
    trained.save_pretrained(Workspace(tmp_path).explainer("toy", "word_list"))
    explainer, options = make("word_list")
    assert (explainer.folder, options) == (Workspace(tmp_path).explainer("toy", "word_list"), {})
    assert repr(explainer) == repr(trained)
