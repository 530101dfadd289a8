"""Texts longer than the classifier reads: cut, or read through windows."""

import numpy as np
import pytest
import tiny

import explearn
from explearn import DataError, ParamsError, UnsupportedError
from explearn.predictors.windows import cut

LONG = " ".join(tiny.TEXTS) * 3  # over twice the limit of the tiny classifiers
PAIR = ("the fox sleeps", LONG)


class TestCutting:
    @pytest.mark.parametrize("stride", [5, 1000])
    @pytest.mark.parametrize("kind", tiny.KINDS_OF_TOKENIZER)
    @pytest.mark.parametrize("text", [LONG, PAIR], ids=["single", "pair"])
    def test_windows_are_within_the_limit_and_read_every_word(self, kind, stride, text):
        of = tiny.classifier(kind)
        (whole,) = of.read([text], whole=True)
        assert len(whole) > of.max_length
        actual = cut(whole, of.max_length, stride)
        assert max(map(len, actual.windows)) <= of.max_length
        assert set.union(*(set(window.word_ids) for window in actual.windows)) == set(whole.word_ids)
        for window, places in zip(actual.windows, actual.positions, strict=True):
            assert window.input_ids == tuple(whole.input_ids[i] for i in places)
            assert sum(window.special) == sum(whole.special)

    def test_scores_are_weighted_by_the_distance_from_a_cut(self):
        of = tiny.classifier()
        (whole,) = of.read(["a b c d e f"], whole=True)
        actual = cut(whole, 6, 2)
        assert [window.word_ids[1:-1] for window in actual.windows] == [(0, 1, 2, 3), (2, 3, 4, 5)]
        joined = actual.join([np.full(6, 1.0), np.full(6, 4.0)])
        # Distances from the cut: 4 3 2 1 of the first, 1 2 3 4 of the second window.
        np.testing.assert_allclose(joined[1:-1], [1, 1, (2 * 1 + 1 * 4) / 3, (1 * 1 + 2 * 4) / 3, 4, 4])

    def test_a_pair_without_room_is_named(self):
        of = tiny.classifier()
        (whole,) = of.read([(LONG, LONG)], whole=True)
        with pytest.raises(DataError, match="text 3: its shorter segment leaves no room for the other within 46"):
            cut(whole, of.max_length, 5, "text 3")


class TestExplaining:
    @pytest.mark.parametrize("name", ["attcat", "occlusion", "lrp"])
    @pytest.mark.parametrize("text", [LONG, PAIR], ids=["single", "pair"])
    def test_every_word_has_a_score(self, name, text):
        of = tiny.classifier("bert", 3)
        attribution = explearn.explain(of, text, name, windows=20)
        assert attribution.windows > 2 and attribution.unaligned == 0
        assert np.isfinite(attribution.scores).all() and len(attribution.scores) == len(attribution.words)
        assert attribution.token_scores.shape == (len(attribution.tokens),)

    def test_the_answer_is_the_mean_of_the_windows_answers(self):
        of = tiny.classifier("bert", 3)
        attribution = explearn.explain(of, LONG, "attcat", windows=20)
        windows = cut(of.read([LONG], whole=True)[0], of.max_length, 20).windows
        mean = of.predict_proba(windows).mean(0)
        assert attribution.target == attribution.predicted == of.labels[int(mean.argmax())]
        assert attribution.probability == pytest.approx(mean.max(), abs=1e-5)

    def test_the_scores_are_those_of_the_windows_joined(self):
        of = tiny.classifier("bert", 3)
        method = explearn.get_explainer("input_x_gradient")
        (attribution,) = method.explain(of, [LONG], ["fair"], windows=20)
        cuts = cut(of.read([LONG], whole=True)[0], of.max_length, 20)
        alone = [method.score_texts(of, [window], [1])[0].scores for window in cuts.windows]
        expected = cuts.join(alone)[cuts.whole.positions]
        np.testing.assert_allclose(attribution.token_scores, expected, atol=1e-5 * np.abs(expected).max())

    @pytest.mark.parametrize("stride", [0, True])
    def test_a_stride_that_cannot_be(self, stride):
        with pytest.raises(ParamsError, match=r"windows: got .*; expected a stride"):
            explearn.get_explainer("attcat").explain(tiny.classifier(), [LONG], windows=stride)

    def test_a_function_reads_texts_whole(self):
        of = explearn.FunctionPredictor(lambda texts: [[0.5, 0.5]] * len(texts), ["no", "yes"])
        with pytest.raises(UnsupportedError, match="which gets them whole"):
            explearn.get_explainer("occlusion").explain(of, [LONG], windows=5)
