"""Faithfulness: values by hand, ERASER's own figures, and what merging equal inputs may not change."""

import json
import math
from dataclasses import replace

import golden
import numpy as np
import pytest
from fakes import MASK, FakeClassifier, attribution, encode, random_probability
from places import ROOT

from explearn import DataError
from explearn.metrics.faithfulness import faithfulness, logit
from explearn.metrics.params import EvaluateParams
from explearn.metrics.protocols import EPSILON

REFERENCE = ROOT / "tests" / "reference" / "metrics.json"

WORDS = ("a", "fine", "film", "but", "long")


def weigh(weights):
    """p(yes) = 0.1 + the weights of the words present; a masked or deleted word weighs nothing."""
    by_id = {encode([word]).input_ids[1]: weight for word, weight in weights.items()}

    def probability(encoding):
        p = 0.1 + sum(by_id.get(token, 0.0) for token in encoding.input_ids)
        return np.array([1 - p, p])

    return probability


@pytest.mark.parametrize("removal", ["delete", "mask"])
def test_values_by_hand(removal):
    classifier = FakeClassifier(weigh({"fine": 0.5, "film": 0.2, "long": 0.1}))
    params = EvaluateParams(percents=[20, 60], headline_percent=20, removal=removal)
    # Ranked: fine, long, film, ...; p(x) = 0.9.
    scored = attribution(WORDS, [0.0, 0.9, 0.4, -0.5, 0.6])
    result = faithfulness(classifier, {"a": encode(WORDS)}, {"m": [scored]}, params)["m"]
    # 20 %: without fine 0.4, fine only 0.6. 60 %: without fine, long, film 0.1; those only 0.9.
    assert result.comprehensiveness_by_percent[0] == pytest.approx([0.5, 0.8])
    assert result.sufficiency_by_percent[0] == pytest.approx([0.3, 0.0])
    expected = {
        "comprehensiveness": 0.5,
        "sufficiency": 0.3,
        "log_odds": math.log(0.4 / 0.9),
        "aopc_comprehensiveness": 0.65,
        "aopc_sufficiency": 0.15,
        # Without fine 0.4; without but, the one word that speaks against, still 0.9; fine alone is a yes too.
        "delta_log_odds_positive": math.log(0.9 / 0.1) - math.log(0.4 / 0.6),
        "delta_log_odds_negative": 0.0,
        "prediction_agreement": 1.0,
        "confidence_full": 0.9,
        "confidence_without": 0.6,
        "confidence_only": 0.6,
        "confidence_masked": 0.6,
    }
    assert result.means() == pytest.approx(expected)


def test_log_odds_masks_whatever_the_removal():
    classifier = FakeClassifier(lambda e: np.array([0.75, 0.25] if MASK in e.input_ids else [0.5, 0.5]))
    params = EvaluateParams(removal="delete")
    result = faithfulness(classifier, {"a": encode(WORDS)}, {"m": [attribution(WORDS, range(5))]}, params)["m"]
    assert result.values["log_odds"] == pytest.approx([math.log(0.25 / 0.5)])
    assert result.values["comprehensiveness"] == pytest.approx([0.0])


def test_inputs_are_merged_across_methods_and_shares():
    classifier = FakeClassifier(random_probability)
    texts = {m: [attribution(WORDS, [0, 4, 3, 1, 2])] for m in ("one", "two")}
    params = EvaluateParams(percents=[1, 5, 10, 20, 50], headline_percent=20)
    results = faithfulness(classifier, {"a": encode(WORDS)}, texts, params)
    # Of five words, 1 to 20 % are one word and 50 % three: the full text, one word out, one kept, one masked, three
    # out, three kept.
    assert len(classifier.calls) == 1 and len(classifier.calls[0]) == 6
    assert results["one"].means() == results["two"].means()


def test_words_for_and_against_the_class_are_masked_apart():
    classifier = FakeClassifier(weigh({"fine": 0.5, "long": -0.2, "film": 0.3}))
    params = EvaluateParams(percents=[40], headline_percent=40)
    scores = [0.0, 0.9, -0.1, 0.0, -0.6]
    encodings = {"a": encode(WORDS)}
    signed = attribution(WORDS, scores)
    result = faithfulness(classifier, encodings, {"m": [signed], "u": [replace(signed, signed=False)]}, params)
    # p(x) = 0.7. Of the two best words only fine is above 0, of the two worst both are below.
    assert result["m"].values["delta_log_odds_positive"] == pytest.approx([math.log(0.7 / 0.3) - math.log(0.2 / 0.8)])
    assert result["m"].values["delta_log_odds_negative"] == pytest.approx([math.log(0.7 / 0.3) - math.log(0.6 / 0.4)])
    # Without signs the two best words count as they are, and none is against.
    assert np.isnan(result["u"].values["delta_log_odds_negative"]).all()
    assert result["u"].means()["delta_log_odds_negative"] is None
    assert result["u"].values["delta_log_odds_positive"] == pytest.approx(result["m"].values["delta_log_odds_positive"])


def test_logit_keeps_its_digits_near_one_and_stays_finite():
    near = np.array([[1.0, 1e-12], [1.0, 0.0], [0.25, 0.75]])
    actual = logit(near, np.array([0, 0, 1]))
    assert actual == pytest.approx([12 * math.log(10), -math.log(EPSILON), math.log(3)])


@pytest.mark.parametrize("scores", ["random", "attcat"])
def test_protocol_aml_is_amls(scores):
    """Values of AML's own code, in float64; every sub-token but [CLS] and [SEP] is free."""
    reference = json.loads(REFERENCE.read_text(encoding="utf-8"))["aml"]
    classifier = golden.classifier("float64")
    expected = [row for row in reference["outputs_float64"] if row["score_set"] == scores]
    encodings = {}
    texts = []
    for row in expected:
        name = str(row["input"])
        encoding = encodings[name] = replace(golden.encoding(golden.inputs()[row["input"]]), example_id=name)
        values = np.asarray(reference["inputs"]["scores"][scores][name])[encoding.positions]
        target = classifier.labels[row["target"]]
        # Ranked as sub-tokens: the words' own scores, here reversed, must not matter.
        texts.append(
            replace(
                attribution(encoding.words, -values, example_id=name, target=target, predicted=target),
                token_scores=values,
            )
        )
    params = EvaluateParams(protocol="aml", percents=[1, 5, 10, 20, 50], headline_percent=20)
    result = faithfulness(classifier, encodings, {"m": texts}, params)["m"]
    for name, theirs in (
        ("sufficiency", "SUFFICIENCY"),
        ("comprehensiveness", "COMPREHENSIVENESS"),
        ("log_odds", "EVAL_LOG_ODDS"),
        ("aopc_sufficiency", "AOPC_SUFFICIENCY"),
        ("aopc_comprehensiveness", "AOPC_COMPREHENSIVENESS"),
    ):
        assert result.values[name] == pytest.approx([row[theirs] for row in expected], abs=1e-9), name
    for name in ("sufficiency", "comprehensiveness"):
        theirs = [[k[name] for k in row["per_k"] if k["k"] <= 50] for row in expected]
        assert getattr(result, f"{name}_by_percent") == pytest.approx(np.array(theirs), abs=1e-9), name
    assert any(row["per_k"][0]["n_tokens"] == 0 for row in expected)


def test_protocol_aml_needs_a_score_for_every_sub_token():
    encoding = golden.encoding(golden.inputs()[0])
    bad = replace(attribution(encoding.words, range(len(encoding.words)), example_id="0", target="x"), token_scores=[1])
    classifier = golden.classifier("float64")
    bad = replace(bad, target=classifier.labels[0])
    with pytest.raises(DataError, match="1 sub-token scores; expected one for each of the text's 3"):
        faithfulness(classifier, {"0": encoding}, {"m": [bad]}, EvaluateParams(protocol="aml"))


def test_protocol_eraser_is_erasers():
    """ERASER is given probabilities, not a model: texts of 100 words make each of its inputs a text of its own."""
    reference = json.loads(REFERENCE.read_text(encoding="utf-8"))["eraser_faithfulness"]
    labels = ["neg", "neu", "pos"]
    table = {}
    encodings = {}
    attributions = []
    percents = []
    chosen = {}
    for instance in reference["inputs"]["instances"]:
        name = instance["annotation_id"]
        words = [f"{name}-{i}" for i in range(100)]
        encoding = encodings[name] = encode(words)

        def distribution(scores):
            return np.array([scores[label] for label in labels])

        def write(top, scores, encoding=encoding):
            table[encoding.delete(top).key] = distribution(scores["comprehensiveness_classification_scores"])
            table[encoding.keep(top).key] = distribution(scores["sufficiency_classification_scores"])

        table[encoding.key] = distribution(instance["classification_scores"])
        percents = [round(100 * t["threshold"]) for t in instance["thresholded_scores"]]
        for percent, scores in zip(percents, instance["thresholded_scores"], strict=True):
            write(range(percent), scores)
        # The chosen words are no share of the best ones.
        write(range(60, 90), instance)
        chosen[name] = [60 <= i < 90 for i in range(100)]
        attributions.append(attribution(words, range(100, 0, -1), example_id=name, target=instance["classification"]))
    # At 50 % the words without the top and the top alone are different texts, so no entry is written twice.
    assert len(table) == len(attributions) * (1 + 2 * (len(percents) + 1))
    unknown = np.full(3, 1 / 3)
    classifier = FakeClassifier(lambda e: table.get(e.key, unknown), labels=labels)
    params = EvaluateParams(percents=percents, protocol="eraser")
    result = faithfulness(classifier, encodings, {"m": attributions}, params, {"m": chosen})["m"]
    expected = reference["outputs"]["all_instances"]
    for name in ("comprehensiveness", "sufficiency"):
        assert result.means()[name] == pytest.approx(expected[name], abs=1e-9)
        assert result.means()[f"aopc_{name}"] == pytest.approx(expected[f"{name}_aopc"], abs=1e-9)
        points = getattr(result, f"{name}_by_percent").mean(axis=0)
        assert points == pytest.approx(np.ravel(expected[f"{name}_aopc_points"]), abs=1e-9)
        each = [reference["outputs"]["per_instance"][a.example_id][name] for a in attributions]
        assert result.values[name] == pytest.approx(each, abs=1e-9)
