"""Sub-tokens, sentences and spans in the place of words."""

import re
from itertools import pairwise, product

import numpy as np
import pytest
import tiny

import explearn
from explearn import Attribution, DataError, ParamsError, UnsupportedError
from explearn.text.units import find_phrases

WEIGHTS = {"good": 2.0, "fine": 1.0, "bad": -3.0, "plot": 0.5}
TEXT = "Mr. Fox: a good, fine film. Bad plot!  这部电影。好"
SENTENCES = ("Mr. Fox: a good, fine film.", "Bad plot!", "这部电影。", "好")


def probability(text):
    odds = sum(WEIGHTS.get(word, 0.0) for word in re.findall(r"\w+", text.lower()))
    return float(1 / (1 + np.exp(-odds)))


def explain(method, classifier, text, unit, **options):
    (attribution,) = explearn.get_explainer(method, **options).explain(classifier, [text], [1], unit=unit)
    return attribution


class TestPerturbing:
    def test_one_pass_a_sentence_which_is_left_out_whole(self):
        asked = []

        def function(texts):
            asked.extend(texts)
            return [[1 - probability(text), probability(text)] for text in texts]

        of = explearn.FunctionPredictor(function, ["neg", "pos"])
        result = explain("occlusion", of, TEXT, "sentence", removal="delete")
        assert (result.words, result.unit) == (SENTENCES, "sentence")
        assert [TEXT[a:b] for a, b in result.spans] == list(SENTENCES)
        left = ["Bad plot!  这部电影。好", "Mr. Fox: a good, fine film.  这部电影。好"]
        assert len(set(asked)) == 1 + len(SENTENCES) and set(left) < set(asked)
        whole = probability(TEXT)
        expected = [whole - probability(text) for text in left] + [0, 0]
        np.testing.assert_allclose(result.scores, expected, atol=1e-7)


@pytest.mark.parametrize(("method", "together"), [("gradient", np.max), ("decompx", np.sum)], ids=["max", "sum"])
def test_other_methods_put_the_scores_of_a_unit_s_sub_tokens_together(method, together):
    of = tiny.classifier()
    text = "The quick fox, which was lazy, slept"
    by_word = explain(method, of, text, "word")
    by_token = explain(method, of, text, "token")
    assert by_token.scores.tolist() == by_token.token_scores.tolist() == by_word.token_scores.tolist()
    assert "".join(by_token.words) == text.replace(" ", "")
    by_span = explain(method, of, text, lambda _text: [(4, 13), (31, 36)])
    assert (by_span.words, by_span.unit) == (("quick fox", "slept"), "span")
    inside = [[i for i, (a, b) in enumerate(by_token.spans) if start <= a and b <= end] for start, end in by_span.spans]
    np.testing.assert_allclose(by_span.scores, [together(by_token.scores[i]) for i in inside], rtol=1e-5)


def test_a_pattern_in_both_segments_of_a_pair():
    result = explain("gradient", tiny.classifier(), ("lazy dog, fox", "no, dog"), re.compile(r"[^, ][^,]*"))
    assert (result.words, result.pair_start) == (("lazy dog", "fox", "no", "dog"), 2)
    assert result.spans == ((0, 8), (10, 13), (0, 2), (4, 7))
    tokens = explain("gradient", tiny.classifier(), ("lazy dog", "no"), "token")
    assert tokens.pair_start == len(tokens.words) - 1 and tokens.spans[-1] == (0, 2)


def test_units_of_a_text_that_is_read_through_windows():
    of = tiny.classifier()
    text = " ".join(["The lazy dog slept."] * 30)
    result = explearn.explain(of, text, "gradient", windows=20, unit="sentence")
    assert result.windows > 1 and result.words == ("The lazy dog slept.",) * 30
    assert np.isfinite(result.scores).all()


class TestPhrases:
    @pytest.mark.parametrize(
        ("scores", "pair_start", "expected"),
        [([4, 4, 4], 1, [(0, 1), (1, 3)]), ([4, np.nan, 4, np.nan], None, [(0, 1), (2, 3)]), ([0, 0], None, [])],
    )
    def test_end_with_a_text_and_where_a_word_was_not_read(self, scores, pair_start, expected):
        assert find_phrases(scores, pair_start) == expected

    def test_are_the_best_of_all_runs(self):
        rng = np.random.default_rng(0)
        for _ in range(20):
            scores = rng.normal(size=6)
            shares = scores / np.abs(scores).max()

            def value(states, shares=shares):
                runs = sum(state != before and state != 0 for before, state in pairwise((0, *states)))
                gain = sum(state * s - 0.5 for state, s in zip(states, shares, strict=True) if state)
                return float(gain - 0.1 * runs)

            states = np.zeros(6, dtype=int)
            for first, end in find_phrases(scores):
                states[first:end] = np.sign(scores[first])
            best = max(value(states) for states in product((-1, 0, 1), repeat=6))
            assert value(tuple(states.tolist())) == pytest.approx(best)

    @pytest.mark.parametrize("method", ["occlusion", "gradient", "decompx"])
    def test_are_made_of_the_method_s_own_words(self, method):
        of = tiny.classifier()
        text = "The quick fox, which was lazy, slept. 这部电影很好"
        by_word, by_phrase = (explain(method, of, text, unit) for unit in ("word", "phrase"))
        assert by_phrase.token_scores.tolist() == by_word.token_scores.tolist()
        joined = sum(end - first - 1 for first, end in find_phrases(by_word.scores))
        assert len(by_phrase.words) == len(by_word.words) - joined
        assert by_phrase.words == tuple(text[start:end] for start, end in by_phrase.spans)
        assert set(by_phrase.read) == {True}


def test_records_keep_units():
    result = explain("gradient", tiny.classifier(), "lazy dog. Fox", "sentence")
    read = Attribution.from_dict(result.to_dict())
    assert (read.words, read.unit) == (("lazy dog.", "Fox"), "sentence") and "lazy dog." in str(read)


class TestRefusals:
    @pytest.mark.parametrize(
        ("unit", "error", "said"),
        [
            ("line", ParamsError, "unit: got 'line'; expected token, word, phrase, sentence"),
            (re.compile("cat"), DataError, "text 1: has a segment without any span"),
            (lambda text: [(0, len(text) + 1)], ParamsError, r"gave \(0, 9\); expected \[start, end\)"),
            (lambda _text: None, ParamsError, "the function gave nothing"),
        ],
    )
    def test_what_is_no_unit(self, unit, error, said):
        with pytest.raises(error, match=said):
            explain("gradient", tiny.classifier(), "lazy dog", unit)

    def test_questions(self):
        with pytest.raises(UnsupportedError, match="explained by words"):
            explain("occlusion", tiny.make_answerer(), ("dog", "lazy dog"), "phrase")
