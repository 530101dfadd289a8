"""shap (the library's text masker) and kernel_shap."""

import re
from itertools import chain, combinations
from math import comb

import numpy as np
import pytest
import shap
import tiny

import explearn
from explearn.lens.hooks import count_passes

LONG = "our guide was friendly , and the castle looked beautiful in the morning light : no refund !"


def direct(of, text, value, seed, **options):
    """The library by itself; the masker is made of the classifier's tokenizer."""

    def function(strings):
        return value(of.predict_proba(of.encode([str(string) for string in strings])))

    explainer = shap.Explainer(function, shap.maskers.Text(of.tokenizer), algorithm="partition", seed=seed)
    np.random.seed(seed)
    return explainer([text], silent=True, **options)


@pytest.mark.parametrize(("output", "value"), [("probability", np.array), ("log_probability", np.log)])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_sub_tokens_have_what_the_library_gives(kind, output, value):
    """With a budget that opens the whole hierarchy of the shorter texts alone."""
    of = tiny.classifier(kind, 3)
    texts = [*tiny.TEXTS[1:], LONG]
    targets = [i % 3 for i in range(len(texts))]
    method = explearn.get_explainer("shap", max_evals=80, seed=4, output=output)
    for actual, text, target in zip(method.explain(of, texts, targets), texts, targets, strict=True):
        expected = direct(of, text, value, 4, max_evals=80)
        np.testing.assert_allclose(actual.token_scores, expected.values[0][1:-1, target], atol=1e-5)
        assert actual.completeness_error is not None and actual.completeness_error < 1e-5


def shapley(worth, players):
    """By the definition: mean gain of a player over all sets of the others, each size counting alike."""
    values = np.zeros(players)
    for player in range(players):
        others = [p for p in range(players) if p != player]
        for size in range(players):
            for group in map(frozenset, combinations(others, size)):
                gain = worth[group | {player}] - worth[group]
                values[player] += gain / (players * comb(players - 1, size))
    return values


def worths(of, text, target, removal="mask"):
    """Probability with each set of words present."""
    (encoding,) = of.encode([text])
    words = range(len(encoding.words))
    sizes = range(len(words) + 1)
    groups = list(map(frozenset, chain(*(combinations(words, size) for size in sizes))))
    gone = [sorted(set(words) - group) for group in groups]
    encodings = [tiny.without(of, encoding, words, removal) for words in gone]
    return dict(zip(groups, of.predict_proba(encodings)[:, target].tolist(), strict=True))


class TestWords:
    @pytest.mark.parametrize("kind", tiny.KINDS_OF_TOKENIZER)
    @pytest.mark.parametrize("text", ["lazy", "lazy dog", ("slow", "refund")])
    def test_of_one_or_two_are_shapley_values(self, text, kind):
        of = tiny.classifier(kind, 3)
        (attribution,) = explearn.get_explainer("shap", level="word").explain(of, [text], [2])
        expected = shapley(worths(of, text, 2), len(attribution.words))
        np.testing.assert_allclose(attribution.scores, expected, atol=5e-6)
        assert attribution.completeness_error == pytest.approx(0, abs=1e-6)

    @pytest.mark.parametrize("kind", tiny.KINDS_OF_TOKENIZER)
    def test_of_a_pair_are_owen_values_of_its_segments(self, kind):
        """Segments are players first; a word's gain counts with the other segment whole or absent, never in part."""
        of = tiny.classifier(kind)
        worth = worths(of, ("slow", "no refund"), 1)
        (attribution,) = explearn.get_explainer("shap").explain(of, [("slow", "no refund")], [1])

        def gain(player, *others):
            return worth[frozenset(player.union(*others))] - worth[frozenset().union(*others)]

        slow = (gain({0}) + gain({0}, {1, 2})) / 2
        no = (gain({1}) + gain({1}, {2}) + gain({1}, {0}) + gain({1}, {0}, {2})) / 4
        refund = (gain({2}) + gain({2}, {1}) + gain({2}, {0}) + gain({2}, {0}, {1})) / 4
        np.testing.assert_allclose(attribution.scores, [slow, no, refund], atol=1e-6)


class TestLevels:
    @pytest.mark.parametrize("level", ["auto", "word"])
    def test_a_text_of_a_single_token_has_what_masking_it_takes_away(self, level):
        of = tiny.classifier("gpt2")
        (encoding,) = of.encode(["a"])
        assert len(encoding) == 1
        (attribution,) = explearn.get_explainer("shap", level=level).explain(of, ["a"], [1])
        p = of.predict_proba([encoding, encoding.mask([0], of.mask_token_id)])[:, 1]
        assert attribution.scores == pytest.approx([p[0] - p[1]], abs=1e-6)

    @pytest.mark.parametrize(
        ("kind", "text"),
        [("bert", tiny.PAIRS[0]), ("roberta", "fox \U0001f600 dog"), ("roberta", "lazy  dog"), ("albert", "quick")],
    )
    def test_texts_that_do_not_come_back_from_a_string_go_by_words(self, kind, text):
        of = tiny.classifier(kind)
        (actual,) = explearn.get_explainer("shap").explain(of, [text])
        (by_words,) = explearn.get_explainer("shap", level="word").explain(of, [text])
        assert (actual.token_scores == by_words.token_scores).all()


def test_the_budget_is_kept():
    of = tiny.classifier("bert")
    with count_passes(of.model) as passes:
        explearn.get_explainer("shap", max_evals=60).explain(of, [LONG])
    assert passes.forward <= 60


def test_nothing_is_printed(capfd):
    for name in ("shap", "kernel_shap"):
        explearn.get_explainer(name).explain(tiny.classifier("bert"), tiny.TEXTS)
    assert capfd.readouterr() == ("", "")


class TestKernelShap:
    @pytest.mark.parametrize("removal", ["mask", "delete"])
    @pytest.mark.parametrize("kind", ["bert", "albert"])
    @pytest.mark.parametrize("text", ["lazy", "lazy dog", ("slow", "no refund"), "our guide was friendly today"])
    def test_is_exact_where_all_sets_of_words_are_evaluated(self, text, kind, removal):
        of = tiny.classifier(kind, 3)
        (attribution,) = explearn.get_explainer("kernel_shap", removal=removal).explain(of, [text], [1])
        expected = shapley(worths(of, text, 1, removal), len(attribution.words))
        np.testing.assert_allclose(attribution.scores, expected, atol=1e-6)

    @pytest.mark.parametrize("kind", ["bert", "albert"])
    def test_is_what_the_library_gives(self, kind):
        of = tiny.classifier(kind, 3)
        method = explearn.get_explainer("kernel_shap", samples=100, seed=6)
        texts = [*tiny.TEXTS, LONG]
        for actual, encoding in zip(method.explain(of, texts, [2] * len(texts)), of.encode(texts), strict=True):
            seen = max(encoding.word_ids) + 1

            def probability(kept, encoding=encoding):
                gone = [np.flatnonzero(np.asarray(row) == 0).tolist() for row in kept]
                return of.predict_proba([encoding.mask(words, of.mask_token_id) for words in gone])[:, 2]

            np.random.seed(6)
            explainer = shap.KernelExplainer(probability, np.zeros((1, seen)))
            expected = explainer.shap_values(np.ones(seen), nsamples=100, l1_reg=False, silent=True)
            np.testing.assert_allclose(actual.scores[:seen], expected, atol=2e-5)
            assert actual.completeness_error == pytest.approx(0, abs=1e-6)


def test_units_are_left_out_whole():
    of = tiny.classifier("bert", 3)
    text = "a warm funny sequel"
    (actual,) = explearn.get_explainer("shap").explain(of, [text], [1], unit=re.compile("a warm|funny sequel"))
    (encoding,) = of.encode([text])
    left_out = [[], [0, 1], [2, 3], [0, 1, 2, 3]]
    whole, first, second, none = of.predict_proba([encoding.mask(words, of.mask_token_id) for words in left_out])[:, 1]
    # By hand, for two players.
    expected = [(whole - first + second - none) / 2, (whole - second + first - none) / 2]
    np.testing.assert_allclose(actual.scores, expected, atol=1e-5)


def test_kernel_shap_asks_for_sets_in_pairs():
    asked = set()

    def predict_proba(texts):
        asked.update(frozenset(text.split()) for text in texts)
        return [[0.5, 0.5]] * len(texts)

    words = frozenset(f"word{number}" for number in range(31))
    function = explearn.FunctionPredictor(predict_proba, ["no", "yes"])
    explearn.explain(function, " ".join(sorted(words)), "kernel_shap", samples=50)
    assert len(asked) == 52 and all(words - kept in asked for kept in asked)
