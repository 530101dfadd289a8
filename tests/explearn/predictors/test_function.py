"""Explaining and judging a function from texts to probabilities."""

import re
from itertools import chain

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from saying import complaint
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import explearn
from explearn import DataError, ModelError, ParamsError, UnsupportedError
from explearn.predictors.pretrained import as_predictor

WEIGHTS = {"good": 2.0, "fine": 1.0, "bad": -3.0, "film": 0.1, "[UNK]": 0.5}
TEXT = "a good film not bad"
OPTIONS = {
    "occlusion": {},
    "lime": {"samples": 60},
    "shap": {"max_evals": 40},
    "kernel_shap": {"samples": 64},
    "slalom": {"samples": 64},
    "solvex": {},
    "hierarchical": {},
    "random": {},
    "every_word": {},
}


def odds(text):
    words = text.split() if isinstance(text, str) else [*text[0].split(), *text[1].split()]
    return sum(WEIGHTS.get(word, 0.0) for word in words)


class Counting:
    """A bag of words with a sigmoid; notes the texts of each call."""

    def __init__(self):
        self.calls = []

    def __call__(self, texts):
        self.calls.append(list(texts))
        p = 1 / (1 + np.exp(-np.array([odds(text) for text in texts])))
        return np.stack([1 - p, p], axis=1)


def of(function=None, **options):
    return explearn.FunctionPredictor(function or Counting(), ["neg", "pos"], **options)


def explain(name, classifier, texts, targets=None):
    return explearn.get_explainer(name, **OPTIONS[name]).explain(classifier, texts, targets)


def probability(text):
    return float(1 / (1 + np.exp(-odds(text))))


class TestExplaining:
    @pytest.mark.parametrize("name", OPTIONS)
    def test_every_method_of_predictions_explains_it(self, name):
        single, pair = explain(name, of(), [TEXT, ("good film", "bad bad")], ["pos", "neg"])
        assert single.words == single.tokens == tuple(TEXT.split())
        assert single.probability == pytest.approx(probability(TEXT), abs=1e-9)
        assert single.predicted == "neg" and single.unaligned == 0 and np.isfinite(single.scores).all()
        assert pair.words == ("good", "film", "bad", "bad")
        assert pair.probability == pytest.approx(1 - probability("good film bad bad"), abs=1e-9)

    @pytest.mark.parametrize(("mask", "masked"), [("", " a\n\nfilm\n"), ("[UNK]", " a\t[UNK]\n\nfilm\n")])
    def test_it_is_asked_about_the_text_as_it_is(self, mask, masked):
        classifier = of(mask=mask)
        (encoding,) = classifier.encode([" a\tgood\n\nfilm\n"])
        assert encoding.input == " a\tgood\n\nfilm\n"
        assert encoding.mask([1], classifier.mask_token_id).input == masked
        assert encoding.delete([1]).input == " a\n\nfilm\n" and encoding.delete([0, 1, 2]).input == ""

    @pytest.mark.parametrize("mask", ["", "[UNK]"])
    def test_occlusion_asks_for_the_text_with_a_word_left_out_or_masked(self, mask):
        function = Counting()
        (attribution,) = explain("occlusion", of(function, mask=mask), [TEXT], ["pos"])
        words = TEXT.split()
        without = [" ".join([*words[:i], *([mask] if mask else []), *words[i + 1 :]]) for i in range(len(words))]
        expected = [probability(TEXT) - probability(text) for text in without]
        np.testing.assert_allclose(attribution.scores, expected, atol=1e-6)
        assert sorted(chain(*function.calls)) == sorted([TEXT, *without])

    @pytest.mark.parametrize("name", OPTIONS)
    def test_a_function_that_takes_no_empty_text(self, name):
        def function(texts):
            assert all(texts), "an empty text"
            return Counting()(texts)

        classifier = of(function, empty="film")
        assert np.isfinite(explain(name, classifier, [TEXT], ["pos"])[0].scores).all()
        (encoding,) = classifier.encode([("good film", "bad")])
        assert encoding.delete([2]).input == ("good film", "film")
        if name in ("lime", "shap", "kernel_shap", "solvex"):
            complaint(lambda: explain(name, of(function), [TEXT], ["pos"]), "name a text for it, empty='...'")

    def test_each_different_text_is_asked_about_once_and_in_batches(self):
        function = Counting()
        explain("lime", of(function, batch_size=7), [TEXT, TEXT], ["pos", "pos"])
        texts = list(chain(*function.calls))
        assert len(texts) == len(set(texts)) <= 2**5
        assert max(map(len, function.calls)) <= 7

    @pytest.mark.parametrize(
        ("mask", "asked"), [("", {"a , film", "a good film"}), ("X", {"a X, film", "a goodX film"})]
    )
    def test_units_that_are_parts_of_words_are_left_out_alone(self, mask, asked):
        function = Counting()
        classifier = of(function, mask=mask)
        method = explearn.get_explainer("occlusion")
        (attribution,) = method.explain(classifier, ["a good, film"], ["pos"], unit=re.compile("good|,"))
        assert attribution.words == ("good", ",")
        assert set(chain(*function.calls)) == {"a good, film", *asked}

    def test_a_scikit_learn_pipeline(self):
        model = pipeline()
        classifier = explearn.FunctionPredictor(model.predict_proba, model.classes_)
        (attribution,) = explain("occlusion", classifier, ["a good film"])
        assert attribution.predicted == "pos" and attribution.words[int(attribution.scores.argmax())] == "good"
        assert classifier.predict(["a bad film", "a fine film"]) == ["neg", "pos"]

    def test_labels_that_hold_each_by_itself(self):
        classifier = of(lambda texts: [[0.7, 0.9 if "good" in text else 0.2] for text in texts], kind="multi_label")
        attributions = explain("occlusion", classifier, ["a good film", "a film"])
        assert [one.target for one in attributions] == ["neg", "pos", "neg"]
        np.testing.assert_allclose(attributions[1].scores, [0, 0.7, 0], atol=1e-6)

    def test_a_value(self):
        classifier = explearn.FunctionPredictor(
            lambda texts: [[odds(text)] for text in texts], ["stars"], kind="regression"
        )
        (attribution,) = explain("occlusion", classifier, [TEXT])
        assert attribution.value == pytest.approx(odds(TEXT))
        np.testing.assert_allclose(attribution.scores, [0, 2, 0.1, 0, -3], atol=1e-6)

    @pytest.mark.parametrize("name", [name for name in tiny.UNTRAINED if name not in OPTIONS])
    def test_what_looks_inside_refuses_by_name(self, name):
        with pytest.raises(UnsupportedError, match=f"^{name}: the function has no model to look into; use"):
            explearn.get_explainer(name).explain(of(), [TEXT])


class TestBadInput:
    @pytest.mark.parametrize(
        ("row", "words"),
        [
            ([0.2, 0.3, 0.5], r"gave an array of shape \(1, 3\) for 1 text; expected .* shape \(1, 2\)"),
            ([float("nan"), 1.0], r"gave \[nan, 1.0\] for 'a good film not bad'; expected probabilities, which"),
            (np.ma.array([0.5, 0.5], mask=[True, False]), r"gave \[nan, 0.5\] for .* expected probabilities, which"),
            ([0.9, 0.9], r"gave \[0.9, 0.9\] for .* expected probabilities, which add up to 1"),
        ],
        ids=str,
    )
    def test_of_the_function_s_answers_one_sentence(self, row, words):
        with pytest.raises(ModelError, match=f"^service: {words}"):
            explain("occlusion", of(lambda texts: [row] * len(texts), name="service"), [TEXT])

    def test_answers_that_numpy_cannot_read_or_that_have_other_columns(self):
        with pytest.raises(ModelError, match=r"gave Tensor \(.*requires grad.*\) for 1 text; expected an array"):
            of(lambda texts: torch.full((1, 2), 0.5, requires_grad=True)).predict([TEXT])
        with pytest.raises(ModelError, match=r"gave \[0.5, nan\] for 'a good film not bad'"):
            of(lambda texts: np.ma.masked_equal([[0.5, -1.0]] * len(texts), -1.0)).predict([TEXT])
        with pytest.raises(ModelError, match="gave columns for pos, neg; expected labels in this order"):
            of(lambda texts: pd.DataFrame({"pos": [0.2], "neg": [0.8]})).predict([TEXT])

    def test_labels_in_another_order_than_the_classes_of_scikit_learn(self):
        model = DummyClassifier(strategy="prior").fit(["a", "b"], ["pos", "negative"])
        assert explearn.FunctionPredictor(model.predict_proba, model.classes_).predict([TEXT]) == ["negative"]
        classifier = explearn.FunctionPredictor(model.predict_proba, ["pos", "negative"])
        with pytest.raises(ModelError, match="gave columns for negative, pos; expected labels in this order"):
            classifier.predict([TEXT])

    def test_of_the_function_s_failure_one_sentence(self):
        with pytest.raises(ModelError, match=r"^service: failed on 1 text \(ZeroDivisionError: division by zero\)$"):
            of(lambda texts: 1 / 0, name="service").predict([TEXT])

    def test_texts_of_too_many_words(self):
        with pytest.raises(DataError, match=r"^text 2 has 3,000 words; expected at most 2,000 \(max_words\)$"):
            explain("occlusion", of(), [TEXT, "word " * 3_000])

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"predict_proba": None}, "predict_proba: got nothing; expected a function"),
            ({"labels": ["a", "a"]}, "labels: got the label 'a' twice"),
            ({"labels": {"a", "b"}}, "labels: got set; expected a list of names"),
            ({"mask": "two words"}, "mask: got 'two words'; expected one word"),
            ({"batch_size": 0}, "batch_size: got 0; expected"),
        ],
    )
    def test_of_options_one_sentence(self, options, words):
        with pytest.raises(ParamsError, match=words):
            explearn.FunctionPredictor(**({"predict_proba": Counting(), "labels": ["neg", "pos"]} | options))

    def test_rounded_answers_are_scaled(self):
        classifier = of(lambda texts: [[0.333, 0.666]] * len(texts))
        assert classifier.predict_proba([TEXT]).sum() == pytest.approx(1, abs=1e-12)


def pipeline(c=10.0):
    model = make_pipeline(CountVectorizer(), LogisticRegression(C=c))
    return model.fit(["good film", "fine good film", "bad film", "bad bad film"], ["pos", "pos", "neg", "neg"])


class TestFingerprint:
    def test_labels_mask_and_empty_text_count_and_names_do_not(self):
        different = [{}, {"mask": "UNK"}, {"empty": "nothing"}, {"version": "2"}, {"version": "3"}]
        assert len({of(**options).fingerprint for options in different}) == 5
        assert of(name="another").fingerprint == of().renamed({"neg": "bad"}).fingerprint == of().fingerprint

    def test_of_a_version_asks_nothing(self):
        predictor = of(lambda texts: 1 / 0, version=3)
        assert predictor.fingerprint == of(version="3").fingerprint
        assert "version" in predictor.fingerprint_kind

    def test_of_an_estimator_s_method_is_of_the_estimator(self):
        made = [explearn.FunctionPredictor(pipeline(c).predict_proba, ["neg", "pos"]) for c in (10.0, 10.0, 0.01)]
        assert made[0].fingerprint == made[1].fingerprint != made[2].fingerprint
        assert "parameters and fitted attributes" in made[0].fingerprint_kind

    def test_of_any_other_function_is_of_its_answers(self):
        function = Counting()
        first, same, other = of(function), of(), of(lambda texts: Counting()(texts)[:, ::-1])
        explain("occlusion", first, [TEXT])
        calls = len(function.calls)
        assert first.fingerprint == same.fingerprint != other.fingerprint
        assert "answers" in first.fingerprint_kind and len(function.calls) == calls + 1
        # An estimator with a part of which nothing but its name is known.
        lost = make_pipeline(CountVectorizer(preprocessor=lambda text: text), LogisticRegression())
        lost.fit(["good", "bad"], ["pos", "neg"])
        assert "answers" in explearn.FunctionPredictor(lost.predict_proba, lost.classes_).fingerprint_kind

    def test_of_a_function_of_pairs(self):
        def function(pairs):
            return [[0.2, 0.8] if first < second else [0.7, 0.3] for first, second in pairs]

        assert of(function).fingerprint == of(function).fingerprint


class TestWithoutAPredictor:
    def test_a_fitted_estimator_and_its_method_are_explained_with_its_classes(self):
        model = pipeline()
        for classifier in (model, model.predict_proba):
            attribution = explearn.explain(classifier, "a good film", targets="pos")
            assert attribution.method == "occlusion" and attribution.words[int(attribution.scores.argmax())] == "good"
        made = as_predictor(model)
        assert made.name == "CountVectorizer + LogisticRegression" and made.labels == ["neg", "pos"]
        assert made.fingerprint == as_predictor(model.predict_proba).fingerprint

    def test_a_function_has_the_names_of_its_columns_or_their_numbers(self):
        def named(texts):
            return pd.DataFrame(Counting()(texts), columns=["neg", "pos"])

        assert as_predictor(named).labels == ["neg", "pos"]
        assert as_predictor(lambda texts: Counting()(texts)).labels == ["0", "1"]

    @pytest.mark.parametrize("model", [LogisticRegression(), LinearSVC().fit([[0], [1]], [0, 1]), Counting()])
    def test_what_is_not_fitted_or_has_no_probabilities_is_told(self, model):
        with pytest.raises(ParamsError, match="fitted estimator of scikit-learn with predict_proba"):
            explearn.explain(model, TEXT)

    def test_a_function_that_fails_is_told_where_it_goes(self):
        with pytest.raises(ModelError, match=r"failed on a text .* goes in an explearn\.FunctionPredictor"):
            explearn.explain(lambda pairs: [[0.1 * len(b), 0.5] for a, b in pairs], TEXT)
