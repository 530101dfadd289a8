from functools import cache, partial
from itertools import permutations

import numpy as np
import pytest
import tiny

import explearn
from explearn.core.errors import UnsupportedError
from explearn.lens.hooks import count_passes
from explearn.methods.perturbation.method import AskedText, PerturbedText
from explearn.methods.perturbation.solvex import Solvex
from explearn.predictors.answers import Answers

METRICS = ("comprehensiveness", "sufficiency", "both")
SHORT = ("lazy", "no refund", "the quick brown fox", "a warm funny sequel", "our guide was friendly today")


def worth(of, text, target, metric, removal, top):
    """As the definitions have it, by the classifier itself."""
    (encoding,) = of.encode([text])
    rest = sorted(set(range(len(encoding.words))) - set(top))
    without = tiny.without(of, encoding, top, removal)
    alone = tiny.without(of, encoding, rest, removal)
    whole, without_top, top_alone = of.predict_proba([encoding, without, alone])[:, target]
    comprehensiveness, sufficiency = whole - without_top, whole - top_alone
    values = {"comprehensiveness": comprehensiveness, "sufficiency": -sufficiency}
    return float(values.get(metric, comprehensiveness - sufficiency))


def search(of, text, target, method):
    (encoding,) = of.encode([text])
    perturbed = PerturbedText(encoding, of.mask_token_id)
    ask = Answers(of)
    order, value = method.search(AskedText(perturbed, ask, target, method.options.removal))
    return order.tolist(), value


@pytest.mark.parametrize("removal", ["delete", "mask"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("text", SHORT)
def test_no_order_is_better_than_that_of_a_wide_beam(text, metric, removal):
    of = tiny.classifier("bert", 3)
    order, value = search(of, text, 1, Solvex(metric=metric, beam=120, removal=removal))
    worth_of = cache(partial(worth, of, text, 1, metric, removal))

    def objective(candidate):
        return float(np.mean([worth_of(tuple(sorted(candidate[:k]))) for k in range(1, len(candidate) + 1)]))

    assert value == pytest.approx(objective(order), abs=1e-6)
    assert value == pytest.approx(max(map(objective, permutations(order))), abs=1e-6)


@pytest.mark.parametrize("metric", METRICS)
def test_a_beam_of_one_is_greedy(metric):
    of = tiny.classifier("bert", 3)
    for text in tiny.TEXTS:
        order = []
        left = set(range(len(text.split())))
        while left:
            best = max(sorted(left), key=lambda w: worth(of, text, 0, metric, "delete", tuple(sorted([*order, w]))))
            order.append(best)
            left.remove(best)
        assert search(of, text, 0, Solvex(metric=metric, beam=1))[0] == order


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_scores_are_ranks(kind):
    of = tiny.classifier(kind)
    for text, actual in zip(SHORT, explearn.get_explainer("solvex").explain(of, SHORT, [1] * 5), strict=True):
        order, _ = search(of, text, 1, Solvex())
        n = len(order)
        assert np.argsort(-actual.scores).tolist() == order
        assert sorted(actual.scores.tolist()) == pytest.approx([k / n for k in range(1, n + 1)])


def test_a_text_too_long_is_refused_before_any_search():
    of = tiny.classifier("bert")
    with count_passes(of.model) as passes, pytest.raises(UnsupportedError, match="a text has 4 words, more than max_w"):
        explearn.get_explainer("solvex", max_words=3).explain(of, ["lazy dog", "the quick brown fox"])
    assert passes.forward == 0
