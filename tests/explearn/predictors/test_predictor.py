"""The predictor of CONTRIBUTING, which has no more than the six members: all that is asked of a classifier works."""

import re

import numpy as np
import pytest
from doc_examples import run_example
from places import ROOT

import explearn
from explearn import ModelError, UnsupportedError
from explearn.decision.checking import observed_differences
from explearn.metrics.params import EvaluateParams
from explearn.testing import check_predictor

TEXT = "a warm and funny sequel"
TEXTS = [TEXT, "a dull film", "funny , if dull", ("a warm film", "dull")]


@pytest.fixture(scope="module")
def own():
    return run_example("CONTRIBUTING.md", "predictor")["WordWeights"]()


def test_the_example_is_short():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- example: predictor -->\n *```python\n(.*?)```", text, re.DOTALL)
    assert code.count("\n") < 25


def test_it_is_as_every_predictor(own):
    check_predictor(own)


def occlusion():
    """Without words, since there is no mask."""
    return explearn.get_explainer("occlusion", removal="delete")


def p(weights):
    """The probability of `positive`: the softmax of half of -z and z."""
    return 1 / (1 + np.exp(-weights))


def test_it_is_explained_by_word_and_by_sub_token(own):
    for unit in ("word", "token"):
        attribution = explearn.explain(own, TEXT, unit=unit)
        assert (attribution.target, attribution.words) == ("positive", tuple(TEXT.split()))
        expected = p(3) - p(np.array([3, 2, 3, 1, 3]))
        np.testing.assert_allclose(attribution.scores, expected, atol=1e-6)
    pattern = explearn.explain(own, TEXT, unit=re.compile("warm|warm and funny"))
    assert pattern.words == ("warm",)
    sentences = explearn.explain(own, f"{TEXT} . it is dull .", targets="positive", unit=re.compile(r"[^.]+\."))
    np.testing.assert_allclose(sentences.scores, [p(0) - p(-3), p(0) - p(3)], atol=1e-6)


def test_a_method_that_looks_inside_says_why_it_cannot(own):
    with pytest.raises(UnsupportedError, match="word weights has no model to look into; use a method that needs only"):
        explearn.explain(own, TEXT, "gradient")


def test_it_is_evaluated(own):
    attributions = explearn.explain(own, TEXTS, [occlusion(), "random"])
    evaluation = explearn.evaluate(own, attributions, metrics=["comprehensiveness", "log_odds"])
    best = evaluation.by_text["comprehensiveness"]["occlusion"]
    # The top fifth is one word of each text.
    np.testing.assert_allclose(best, [p(3) - p(1), p(3) - p(0), p(1) - p(-2), p(2) - p(-1)], atol=1e-6)
    assert evaluation.figures["occlusion"]["log_odds"] is None, "it has no mask"
    masking = explearn.EvaluateOptions(params=EvaluateParams(removal="mask"))
    with pytest.raises(ModelError, match="has no mask for a unit"):
        explearn.evaluate(own, attributions, metrics=["comprehensiveness"], options=masking)


def test_methods_are_compared_on_it(own, tmp_path):
    comparison = explearn.compare(own, TEXTS, [occlusion(), "random"], out=tmp_path / "page.html")
    assert set(comparison.figures) == {"occlusion", "random"}
    assert "word weights" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_decision_of_it_is_recorded_and_checked(own, tmp_path):
    record = explearn.record(own, TEXT, out=tmp_path / "record.html")
    assert (record.classifier.sha256, record.answer.label) == ("v1", "positive")
    assert {edit.word for edit in record.change.edits} == {"warm", "funny"}
    method = explearn.get_explainer(record.method.name, **record.method.options)
    assert list(observed_differences(record, own, method, TEXT)) == []
    other = type(own)()
    other.fingerprint = "v2"
    assert len(list(observed_differences(record, other, method, TEXT))) == 1
