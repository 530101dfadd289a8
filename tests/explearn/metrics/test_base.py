"""A metric of one's own, and what a user calls: one metric, or all with evaluate."""

from importlib.metadata import EntryPoint

import numpy as np
import pytest
import tiny
from doc_examples import run_example
from fakes import FakeClassifier, attribution, random_probability

import explearn
from explearn import DataError, ParamsError, UnknownNameError
from explearn.metrics import registry
from explearn.predictors.answers import Answers
from explearn.testing import check_metric

TEXTS = ["a fine film", "rather dull and long"]


@pytest.fixture(autouse=True)
def _own_names(monkeypatch):
    monkeypatch.setattr(registry, "CATALOGUE", dict(registry.CATALOGUE))


def attributions(method, seed):
    rng = np.random.default_rng(seed)
    return [
        attribution(text.split(), rng.normal(size=len(text.split())), example_id=f"t{number}", method=method)
        for number, text in enumerate(TEXTS)
    ]


def test_the_metric_of_the_docs_is_evaluated_like_any_other():
    run_example("docs/explearn/metrics.md", "metric")
    check_metric(explearn.get_metric("on_longest"))
    texts = [attribution(["a", "wonderful", "film"], [1.0, 2.0, -1.0])]
    assert explearn.get_metric("on_longest")(FakeClassifier(random_probability), texts) == pytest.approx([0.5])
    methods = [*attributions("one", 0), *attributions("two", 1)]
    actual = explearn.evaluate(FakeClassifier(random_probability), methods, metrics=["on_longest"])
    assert set(actual.figures) == {"one", "two"} and actual.by_text["on_longest"]["one"].shape == (2,)
    assert actual.comparisons["on_longest"].methods == ("one", "two")
    assert actual.figures["one"]["on_longest"] == pytest.approx(actual.by_text["on_longest"]["one"].mean())


def test_a_metric_called_alone_gives_what_evaluate_gives():
    classifier = tiny.classifier()
    methods = {}
    for name in ("random", "occlusion"):
        methods[name] = explearn.get_explainer(name).explain(classifier, tiny.TEXTS)
    masks = [[True, *[False] * (len(text.words) - 1)] for text in methods["random"]]
    evaluation = explearn.evaluate(classifier, methods, masks)
    for name in ("f1_topk", "auroc", "comprehensiveness", "infidelity", "stability_lexical", "consistency"):
        metric = explearn.get_metric(name)
        for method, texts in methods.items():
            expected = evaluation.by_text[metric.by_text][method]
            np.testing.assert_allclose(metric(classifier, texts, masks), expected, atol=1e-6, err_msg=name)
    assert evaluation.best("comprehensiveness") in methods
    assert "<td>random</td>" in evaluation._repr_html_()
    assert str(evaluation).startswith(f"2 methods on {len(tiny.TEXTS)} texts.\nMethod")


def test_metrics_that_share_predictions_classify_each_input_once():
    classifier = FakeClassifier(random_probability)
    answers = Answers(classifier)
    for name in ("comprehensiveness", "sufficiency", "log_odds"):
        explearn.get_metric(name)(classifier, attributions("one", 0), answers=answers)
    assert len(classifier.calls) == 1


def test_marks_are_taken_as_masks_by_id_or_as_rationales():
    classifier = FakeClassifier(random_probability)
    texts = attributions("one", 0)
    masks = [[False, True, False], [True, True, False, False]]
    listed = explearn.evaluate(classifier, texts, masks, ["f1_topk"])
    by_id = explearn.evaluate(classifier, texts, {"t0": masks[0], "t1": masks[1]}, ["f1_topk"])
    rationales = [explearn.Rationale(f"t{n}", "ann", "human", tuple(mask)) for n, mask in enumerate(masks)]
    assert listed.figures == by_id.figures == explearn.evaluate(classifier, texts, rationales, ["f1_topk"]).figures
    assert listed.figures["one"]["plausibility_texts"] == 2
    with pytest.raises(DataError, match="rationale of example 't1': 2 entries; expected 4"):
        explearn.evaluate(classifier, texts, {"t1": [True, False]}, ["f1_topk"])
    for marks in ([0, 2, 0], [0, float("nan"), 1]):
        with pytest.raises(DataError, match=r"rationale of example 't0': got .*; expected 0 or 1 a word"):
            explearn.evaluate(classifier, texts, {"t0": marks}, ["f1_topk"])


def test_what_cannot_be_measured_is_one_sentence():
    classifier = FakeClassifier(random_probability)
    with pytest.raises(UnknownNameError, match="did you mean sufficiency"):
        explearn.evaluate(classifier, attributions("one", 0), metrics=["suficiency"])
    with pytest.raises(ParamsError, match="'throughput' is not computed from attributions"):
        explearn.evaluate(classifier, attributions("one", 0), metrics=["throughput"])
    with pytest.raises(DataError, match="got the methods one, two; expected one"):
        explearn.get_metric("f1")(classifier, [*attributions("one", 0), *attributions("two", 1)])
    wrong = explearn.Metric("wrong", "Wrong", "one value for all texts", "lower", lambda explanations: [1.0])
    with pytest.raises(DataError, match=r"metric 'wrong': got values of shape \(1,\); expected \(2,\)"):
        wrong(classifier, attributions("one", 0))


def test_names_of_our_own_metrics_are_taken():
    with pytest.raises(ParamsError, match="the name is taken"):
        explearn.register_metric(explearn.Metric("f1", "F1", "mine", "higher", lambda explanations: []))
    without = explearn.Metric("mine", "Mine", "mine", "higher")
    for metric in (without, len):
        with pytest.raises(ParamsError, match=r"`function` is missing|expected an explearn\.Metric"):
            explearn.register_metric(metric)


ENTROPY = explearn.Metric("entropy", "Entropy", "mine", "lower", lambda explanations: [0.0] * 2)


def test_metrics_of_installed_packages_are_found(monkeypatch):
    entries = [
        EntryPoint("entropy", "plug_in:ENTROPY", registry.ENTRY_POINTS),
        EntryPoint("broken", "no_such_module:METRIC", registry.ENTRY_POINTS),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)
    monkeypatch.setitem(__import__("sys").modules, "plug_in", type("PlugIn", (), {"ENTROPY": ENTROPY}))
    registry._load_plug_ins.cache_clear()
    with pytest.warns(UserWarning, match=r"metric 'broken' \(no_such_module:METRIC\) cannot be loaded"):
        assert explearn.list_metrics()[-1] == "entropy"
    assert explearn.get_metric("entropy") is ENTROPY


def test_attributions_alone_hold_the_text_that_the_model_reads():
    asked = []

    def predict_proba(texts):
        asked.extend(texts)
        return [[0.25, 0.75] for _ in texts]

    classifier = explearn.FunctionPredictor(predict_proba, ["no", "yes"])
    text = " def f(x):\n\treturn  x"
    (read,) = explearn.explain(classifier, [text], method="random")
    saved = explearn.Attribution.from_dict(read.to_dict())
    asked.clear()
    explearn.evaluate(classifier, [saved], metrics=["comprehensiveness"])
    assert text in asked
    without = explearn.Attribution.from_dict(read.to_dict() | {"gaps": []})
    with pytest.raises(DataError, match="spans do not fit words with a blank between them"):
        explearn.evaluate(classifier, [without], metrics=["comprehensiveness"])


def test_a_metric_that_is_not_registered_is_in_the_table_too():
    def longest_word(explanations):
        return [max(map(len, text.words)) for text in explanations.attributions]

    longest = explearn.Metric("longest", "Longest word", "letters", "lower", longest_word)
    evaluation = explearn.evaluate(tiny.classifier(), attributions("random", 1), metrics=[longest])
    assert evaluation.best("longest") == "random"
    assert str(evaluation).splitlines()[2].startswith("Longest word")
    with pytest.raises(ParamsError, match="metric 'longest': got direction 'up'; expected higher, lower or None"):
        explearn.Metric("longest", "Longest word", "letters", "up", longest_word)
