"""All metrics of a task together."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import tiny
from fakes import FakeClassifier, attribution, random_probability

import explearn
from explearn import DataError, EvaluateOptions, Example
from explearn.evaluation.run import evaluate as evaluate_methods
from explearn.lens import representations
from explearn.metrics.params import EvaluateParams
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.runs import MethodRun

PARAMS = EvaluateParams()
RULES = {"threshold": "threshold", "chance": "positive_rate"}


def example(i, text, label="yes"):
    return Example(id=i, words=tuple(text.split()), label=label, split="test", task="t")


EXAMPLES = {
    e.id: e
    for e in (
        example("a", "a fine film"),
        example("b", "rather dull and long"),
        example("c", "wrongly classified text"),
        example("d", "nobody marked this", "no"),
    )
}
GOLD = {"a": [0, 1, 0], "b": [0, 1, 0, 1], "c": [1, 0, 0], "d": [0, 0, 0]}
PREDICTED = {"a": "yes", "b": "yes", "c": "no", "d": "no"}
SCORES = {"a": [0.1, 0.9, 0.2], "b": [0.6, 0.7, 0.3, 0.4], "c": [0.2, 0.8, 0.4], "d": [0.5, 0.1, 0.0]}
STATES = [[float(n), n * n, 1.0] for n in range(4)]
EMBEDDINGS = [np.random.default_rng(n).normal(size=(len(e.words), 3)) for n, e in enumerate(EXAMPLES.values())]


def attributions(scores=SCORES, unaligned=0):
    return [
        attribution(
            EXAMPLES[i].all_words, s, example_id=i, target=PREDICTED[i], predicted=PREDICTED[i], unaligned=unaligned
        )
        for i, s in scores.items()
    ]


def evaluation(methods, gold=GOLD, examples=EXAMPLES, classifier=None, params=PARAMS, k=2, **named):
    rules = {name: RULES.get(name, "top_k") for name in methods}
    options = EvaluateOptions(params=params, task="t", rules=rules, k=k, positive_rate=0.25, **named)
    runs = {name: MethodRun(name, texts, forward_passes=1.0, threshold=0.5) for name, texts in methods.items()}
    model = classifier or FakeClassifier(random_probability)
    return evaluate_methods(model, runs, gold, texts=examples.values(), options=options)


def evaluate(methods, **named):
    return evaluation(methods, **named).figures


EVALUATED = [metric for metric in CATALOGUE.values() if metric.compared and metric.group != "known"]
"""Mosaics are texts of their own: `explearn.metrics.mosaics` explains them."""

METHODS = {
    "top": attributions(),
    "turned": attributions({i: s[::-1] for i, s in SCORES.items()}),
    "threshold": attributions({i: np.negative(s) for i, s in SCORES.items()}),
}


@pytest.fixture
def open_model(monkeypatch):
    """A classifier with a model inside that tells its states and embeddings."""
    monkeypatch.setattr(representations, "aggregate_states", lambda *_: np.array(STATES))
    monkeypatch.setattr(representations, "word_embeddings", lambda *_: EMBEDDINGS)
    monkeypatch.setattr(FakeClassifier, "transformer", object())
    return FakeClassifier(random_probability)


def test_each_method_chooses_by_its_own_rule_and_all_by_top_k():
    actual = evaluate({"threshold": attributions(), "top": attributions(), "chance": attributions()})
    # Judged are a and b. Score >= 0.5: fine | rather, dull. TP 2, FP 1, FN 1.
    assert actual["threshold"]["f1"] == pytest.approx(4 / 6)
    assert (actual["threshold"]["precision"], actual["threshold"]["recall"]) == pytest.approx((2 / 3, 2 / 3))
    # Top 2: fine, film | rather, dull. TP 2, FP 2, FN 1.
    assert actual["top"]["f1"] == pytest.approx(4 / 7)
    assert {m["f1_topk"] for m in actual.values()} == {actual["top"]["f1"]}
    # Score >= 1 - 0.25: fine alone. TP 1, FP 0, FN 2.
    assert actual["chance"]["f1"] == pytest.approx(2 / 4)
    # Macro: fine 1, nothing 0.
    assert actual["chance"]["macro_f1"] == pytest.approx(0.5)


def test_plausibility_takes_texts_with_marks_and_a_right_answer_and_faithfulness_every_text():
    actual = evaluate({"top": attributions(unaligned=2)})["top"]
    assert (actual["texts"], actual["plausibility_texts"], actual["unaligned_words"]) == (4, 2, 8)
    # Marked 0.9, 0.7, 0.4 against 0.1, 0.2, 0.6, 0.3: 4 + 4 + 3 pairs in order, of 12.
    assert actual["auroc"] == pytest.approx(11 / 12)
    assert actual["f1_low"] is None, "two texts say too little for an interval"


def test_what_is_undefined_is_null_in_strict_json():
    actual = evaluate({"top": attributions()}, gold={})
    assert json.loads(json.dumps(actual, allow_nan=False)) == actual
    for name in ("f1", "f1_low", "f1_high", "precision", "recall", "f1_topk", "macro_f1", "iou_f1", "auroc", "auprc"):
        assert actual["top"][name] is None
    assert math.isfinite(actual["top"]["aopc_comprehensiveness"])


def test_bad_input_is_named():
    good = attributions()
    for texts, message in (
        (good[:2], "method 'top': example 'c' is not explained by all"),
        ([*good, replace(good[0], example_id="z")], "method 'top': example 'z' is not explained by all"),
        ([replace(good[0], words=("a", "bad", "film")), *good[1:]], "example 'a': 3 words; expected those of an exam"),
        ([replace(good[0], scores=np.array([0.1, np.inf, 0.2])), *good[1:]], "'a': 3 scores; expected a finite one"),
    ):
        with pytest.raises(DataError, match=message):
            evaluate({"threshold": good, "top": texts})
    assert evaluate({}) == {}


def for_class(target):
    return [replace(text, target=target) for text in attributions()]


def test_several_targets_of_a_text_are_one_text_whose_value_is_their_mean():
    yes = evaluation({"top": for_class("yes")})
    no = evaluation({"top": for_class("no")})
    both = evaluation({"top": [*for_class("yes"), *for_class("no")]})
    assert both.example_ids == yes.example_ids
    assert both.figures["top"]["texts"] == 4 and both.figures["top"]["plausibility_texts"] == 2
    for name in ("sufficiency", "stability_lexical"):
        expected = (yes.by_text[name]["top"] + no.by_text[name]["top"]) / 2
        np.testing.assert_allclose(both.by_text[name]["top"], expected)
        assert both.figures["top"][name] == pytest.approx(np.nanmean(expected))
    # Marks do not depend on the target.
    for name in ("f1", "macro_f1"):
        assert both.figures["top"][name] == pytest.approx(yes.figures["top"][name])


def test_a_text_may_have_more_targets_than_others_but_the_same_for_each_method():
    more = [*for_class("yes"), for_class("no")[1]]
    both = evaluation({"top": more, "again": more[::-1]})
    one = evaluation({"top": for_class("yes")}).by_text["sufficiency"]["top"]
    other = evaluation({"top": for_class("no")}).by_text["sufficiency"]["top"]
    expected = [one[0], (one[1] + other[1]) / 2, *one[2:]]
    np.testing.assert_allclose(both.by_text["sufficiency"]["top"], expected)
    np.testing.assert_allclose(both.by_text["sufficiency"]["again"], expected)
    for runs in ({"top": more, "again": for_class("yes")}, {"top": for_class("yes"), "again": more}):
        with pytest.raises(DataError, match="example 'b' is not explained by all"):
            evaluation(runs)


def test_free_texts_are_counted_by_their_words():
    free = [replace(text, example_id="") for text in [*for_class("yes"), *for_class("no")]]
    classifier = FakeClassifier(random_probability)
    assert len(evaluate_methods(classifier, free, metrics=["sufficiency"]).example_ids) == 4
    assert len(evaluate_methods(classifier, free[:4] * 2, metrics=["sufficiency"]).example_ids) == 8


def test_marks_of_no_text_are_told(caplog):
    explained = {"top": attributions()}
    with pytest.raises(DataError, match=r"2 of 2 ids name no text \(\['1', '2'\]\); expected ids .* such as 'a'"):
        evaluate(explained, gold={"1": [1, 0, 0], "2": [0, 1]})
    assert evaluate(explained, gold={**GOLD, "z": [1]}) == evaluate(explained)
    assert "1 of 5 ids name no text (['z']); they are left out" in caplog.text
    with pytest.raises(DataError, match="rationale of example 'a'"):
        evaluate(explained, gold={"a": np.ma.array([0, 1, 0], mask=[1, 0, 0])})


def test_every_metric_of_the_catalogue_has_a_figure_an_interval_and_values_by_text(open_model, monkeypatch):
    monkeypatch.setattr("explearn.metrics.base.FEWEST_TEXTS", 2)
    actual = evaluation(METHODS, classifier=open_model)
    for method in METHODS:
        figures = actual.figures[method]
        for metric in EVALUATED:
            name = metric.name
            value, low, high = (figures[name + end] for end in ("", "_low", "_high"))
            if low is not None:  # undefined for equal values of a metric without a range
                assert low <= value + 1e-12 and value <= high + 1e-12, name
                assert low >= (-np.inf if metric.lowest is None else metric.lowest), name
                assert high <= (np.inf if metric.highest is None else metric.highest), name
            assert actual.by_text[metric.by_text][method].shape == (4,)
    assert json.loads(json.dumps(actual.figures, allow_nan=False)) == actual.figures
    assert set(actual.comparisons) == {metric.name for metric in EVALUATED}
    assert actual.agreement.shape == (3, 3)


def test_means_by_text_are_the_figures(open_model):
    actual = evaluation(METHODS, classifier=open_model)
    pooled = {"f1", "f1_topk", "iou_f1", "auroc", "auprc", "consistency"}
    for metric in EVALUATED:
        name = metric.name
        if name in pooled:
            continue
        values = actual.by_text[metric.by_text]["top"]
        assert np.nanmean(values) == pytest.approx(actual.figures["top"][name]), name
    judged = np.array([True, True, False, False])
    assert (np.isnan(actual.by_text["text_f1"]["top"]) == ~judged).all()
    # Marked in a: fine, chosen fine and film; in b: dull and long, chosen rather and dull.
    assert actual.by_text["text_f1_topk"]["top"][judged] == pytest.approx([2 / 3, 1 / 2])
    # Marked words against others: 1 of 1 ranked above both; 0.7 above 0.6 and 0.3, 0.4 above 0.3.
    assert actual.by_text["text_auroc"]["top"][judged] == pytest.approx([1, 3 / 4])
    # Spans: film and fine are one, which overlaps fine by half; rather and dull overlap dull by half, long is missed.
    assert actual.figures["top"]["iou_f1"] == pytest.approx(2 * 1 * 0.75 / 1.75)


def test_protocol_eraser_takes_the_words_that_a_method_chose():
    actual = {
        protocol: evaluate({"threshold": attributions()}, params=PARAMS.model_copy(update={"protocol": protocol}))[
            "threshold"
        ]
        for protocol in ("default", "eraser")
    }
    # At 0.5: fine | rather, dull | bad | nobody; by default one word of each text.
    assert actual["eraser"]["comprehensiveness"] != actual["default"]["comprehensiveness"]
    assert actual["eraser"]["aopc_comprehensiveness"] == pytest.approx(actual["default"]["aopc_comprehensiveness"])


def test_who_explains_another_classifier_is_compared_in_agreement_with_people_alone():
    methods = {"top": attributions(), "own": attributions()}
    actual = evaluation(methods, own={"own": FakeClassifier(random_probability)}).comparisons
    assert actual["f1_topk"].methods == ("top", "own")
    assert actual["aopc_comprehensiveness"].methods == actual["infidelity"].methods == ("top",)
    assert evaluation(methods).comparisons["aopc_comprehensiveness"].methods == ("top", "own")


class TwoWords(FakeClassifier):
    """Reads two words of a text."""

    def encode(self, texts):
        return [encoding.keep([0, 1]) for encoding in super().encode(texts)]


def test_words_that_were_not_read_are_never_chosen_and_ranked_last_and_alike():
    texts = {"top": [attribution("abcd", [0.5, -1.0, np.nan, np.nan], unaligned=2)]}
    named = {"examples": {"a": example("a", "a b c d")}, "gold": {"a": [True, False, False, True]}}
    actual = evaluate(texts, classifier=TwoWords(random_probability), k=5, **named)["top"]
    # Five of four words: the text is chosen whole, except what was not read. TP a, FP b, FN d.
    assert (actual["precision"], actual["recall"], actual["f1_topk"]) == (0.5, 0.5, 0.5)
    # Marked a and d, unmarked b and c: a > b, a > c, d < b, d = c.
    assert actual["auroc"] == pytest.approx((1 + 1 + 0 + 0.5) / 4)


def test_free_texts_are_matched_in_any_order():
    """A text that is there twice is two texts, which stay in their order."""
    texts = ["the quick brown fox", "lazy", "a warm sequel", "lazy"]
    of = tiny.classifier()
    random = explearn.get_explainer("random").explain(of, texts)
    occlusion = explearn.get_explainer("occlusion").explain(of, texts)
    in_order, other_order = [
        explearn.evaluate(of, {"random": random, "occlusion": others}, metrics=["comprehensiveness"])
        for others in (occlusion, occlusion[::-1])
    ]
    for method in ("random", "occlusion"):
        expected = in_order.by_text["comprehensiveness"][method]
        np.testing.assert_array_equal(other_order.by_text["comprehensiveness"][method], expected)
    with pytest.raises(DataError, match="is not explained by all methods"):
        explearn.evaluate(of, {"random": random, "occlusion": occlusion[:-1]}, metrics=["comprehensiveness"])
