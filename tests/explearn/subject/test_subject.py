"""What a call is about."""

import pytest
import tiny

from explearn import ModelError, UnsupportedError, get_explainer
from explearn.predictors.labelled import Problem
from explearn.subject.subject import make_subject
from explearn.subject.texts import given_texts

TEXTS = ["a warm funny sequel", "slow delivery"]


def subject(**arguments):
    given = {"classifier": tiny.classifier(), "texts": given_texts(TEXTS, [1, 0]), **arguments}
    return make_subject("a call", **given)


def test_labels_are_those_of_the_classifier_and_methods_have_names():
    found = subject(explainers=["lime", get_explainer("random", seed=7)], seed=3)
    assert [example.label for example in found.texts.examples] == [found.classifier.labels[i] for i in (1, 0)]
    assert list(found.explainers) == ["lime", "random"]
    assert found.explainers["lime"].options.seed == 3 and found.explainers["random"].options.seed == 7
    assert subject(explainers=[None]).explainers.keys() == {"attn_lrp"}


def test_a_request_is_all_that_results_depend_on():
    request = subject(explainers=["random"], settings={"unit": "word"}).origin.request
    changes = ({"explainers": ["lime"]}, {"seed": 4}, {"settings": {"unit": "token"}}, {"texts": given_texts(TEXTS)})
    for change in changes:
        assert subject(**{"explainers": ["random"], "settings": {"unit": "word"}, **change}).origin.request != request
    assert subject(explainers=["random"], settings={"unit": "word"}, work=None).origin.request == request


def test_what_does_not_fit_the_classifier_is_refused():
    with pytest.raises(ModelError, match="labels"):
        subject(texts=given_texts(TEXTS, ["good", "bad"]))
    with pytest.raises(UnsupportedError, match="expected"):
        subject(problems={Problem.REGRESSION})
