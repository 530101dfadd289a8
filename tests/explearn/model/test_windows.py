"""Texts longer than the classifier reads: cut, or read through windows."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import pytest
import tiny

import explearn
from explearn.core.errors import DataError, ParamsError, UnsupportedError
from explearn.methods.base.asking import questions
from explearn.methods.base.progress import Progress
from explearn.model.classifier import Classifier
from explearn.model.encoding import Encoding
from explearn.model.windows import cut, stretches
from explearn.text.alignment import NO_WORD

LONG = " ".join(tiny.TEXTS) * 3  # over twice the limit of the tiny classifiers
PAIR = ("the fox sleeps", LONG)


class TestCutting:
    @pytest.mark.parametrize("stride", [1, 5, 17, 1000])
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    @pytest.mark.parametrize("text", [LONG, PAIR], ids=["single", "pair"])
    def test_windows_are_within_the_limit_and_read_every_word(self, kind: str, stride: int, text: str) -> None:
        of = tiny.classifier(kind)
        (whole,) = of.encode([text], whole=True)
        assert len(whole) > of.max_length
        found = cut(whole, of.max_length, stride)
        assert max(map(len, found.windows)) <= of.max_length
        assert set.union(*(set(window.word_ids) for window in found.windows)) == set(whole.word_ids)
        for window, places in zip(found.windows, found.places, strict=True):
            assert window.input_ids == tuple(whole.input_ids[i] for i in places)
            assert sum(window.special) == sum(whole.special)

    def test_a_text_within_the_limit_is_one_window(self) -> None:
        of = tiny.classifier()
        (whole,) = of.encode(["lazy dog"], whole=True)
        assert cut(whole, of.max_length, 5).windows == (whole,) == tuple(of.encode(["lazy dog"]))

    def test_stretches_by_hand(self) -> None:
        # Words of 1, 3, 1, 1, 2, 1 sub-tokens.
        owners = np.array([0, 1, 1, 1, 2, 3, 4, 4, 5])
        # Two on from 0 is inside word 1, so back to its start; two on from there still is, so on to word 2. The last
        # one ends with the text and is as long as the others.
        assert stretches(owners, 4, 2) == [(0, 4), (1, 5), (4, 8), (5, 9)]
        # A stride longer than a stretch leaves no gap.
        assert stretches(owners, 4, 9) == [(0, 4), (4, 8), (5, 9)]
        # A word longer than a window is cut.
        assert stretches(np.array([0, 0, 0, 0, 0]), 2, 2) == [(0, 2), (2, 4), (4, 5)]
        # Without words, pieces are free.
        assert stretches(np.full(5, NO_WORD), 3, 2) == [(0, 3), (2, 5)]

    def test_scores_are_weighted_by_the_distance_from_a_cut(self) -> None:
        of = tiny.classifier()
        (whole,) = of.encode(["a b c d e f"], whole=True)
        found = cut(whole, 6, 2)
        assert [window.word_ids[1:-1] for window in found.windows] == [(0, 1, 2, 3), (2, 3, 4, 5)]
        joined = found.join([np.full(6, 1.0), np.full(6, 4.0)])
        # Distances from the cut: 4 3 2 1 of the first, 1 2 3 4 of the second window.
        np.testing.assert_allclose(joined[1:-1], [1, 1, (2 * 1 + 1 * 4) / 3, (1 * 1 + 2 * 4) / 3, 4, 4])

    def test_more_windows_than_a_computer_should_hold_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("explearn.model.windows.MOST_WINDOWS", 3)
        of = tiny.classifier()
        (whole,) = of.encode([LONG], whole=True)
        assert len(cut(whole, of.max_length, 1000).windows) <= 3
        with pytest.raises(DataError, match=r"^text 2: is read through \d+ windows, 1 sub-tokens apart; expected"):
            cut(whole, of.max_length, 1, "text 2")
        (pair,) = of.encode([PAIR], whole=True)
        with pytest.raises(DataError, match=r"expected at most 3: give a larger stride, or a shorter second segment$"):
            cut(pair, of.max_length, 1)

    def test_a_pair_without_room_is_named(self) -> None:
        of = tiny.classifier()
        (whole,) = of.encode([(LONG, LONG)], whole=True)
        with pytest.raises(DataError, match="text 3: its shorter segment leaves no room for the other within 46"):
            cut(whole, of.max_length, 5, "text 3")


class TestExplaining:
    @pytest.mark.parametrize("name", ["attcat", "rollout", "occlusion", "integrated_gradients", "lrp"])
    @pytest.mark.parametrize("text", [LONG, PAIR], ids=["single", "pair"])
    def test_every_word_has_a_score(self, name: str, text: str) -> None:
        of = tiny.classifier("bert", 3)
        (found,) = explearn.get_explainer(name).explain(of, [text], windows=20)
        assert found.windows > 2 and found.unaligned == 0
        assert np.isfinite(found.scores).all() and len(found.scores) == len(found.words)
        assert found.token_scores.shape == (len(found.tokens),)

    def test_the_answer_is_the_mean_of_the_windows_answers(self) -> None:
        of = tiny.classifier("bert", 3)
        (found,) = explearn.get_explainer("attcat").explain(of, [LONG], windows=20)
        windows = cut(of.encode([LONG], whole=True)[0], of.max_length, 20).windows
        mean = of.predict_proba(windows).mean(0)
        assert found.target == found.predicted == of.labels[int(mean.argmax())]
        assert found.probability == pytest.approx(mean.max(), abs=1e-5)

    def test_the_scores_are_those_of_the_windows_joined(self) -> None:
        of = tiny.classifier("bert", 3)
        method = explearn.get_explainer("input_x_gradient")
        (found,) = method.explain(of, [LONG], ["fair"], windows=20)
        cuts = cut(of.encode([LONG], whole=True)[0], of.max_length, 20)
        alone = [method.score_texts(of, [window], [1])[0].scores for window in cuts.windows]
        expected = cuts.join(alone)[cuts.whole.positions]
        np.testing.assert_allclose(found.token_scores, expected, atol=1e-5 * np.abs(expected).max())

    def test_what_the_classifier_reads_whole_is_explained_as_ever(self) -> None:
        of = tiny.classifier("bert", 3)
        method = explearn.get_explainer("attcat")
        plain, mixed = list(method.explain(of, tiny.TEXTS)), list(method.explain(of, [*tiny.TEXTS, LONG], windows=9))
        for one, other in zip(plain, mixed[:-1], strict=True):
            np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)
            assert (one.target, one.windows, other.windows) == (other.target, 1, 1)

    @pytest.mark.parametrize("stride", [0, -3, True, 2.5])
    def test_a_stride_that_cannot_be(self, stride: object) -> None:
        with pytest.raises(ParamsError, match=r"windows: got .*; expected a stride"):
            list(explearn.get_explainer("attcat").explain(tiny.classifier(), [LONG], windows=stride))  # type: ignore[arg-type]

    def test_a_function_reads_texts_whole(self) -> None:
        of = explearn.CallableClassifier(lambda texts: [[0.5, 0.5]] * len(texts), ["no", "yes"])
        with pytest.raises(UnsupportedError, match="which gets them whole"):
            list(explearn.get_explainer("occlusion").explain(of, [LONG], windows=5))


class TestProgress:
    def test_how_many_windows_there_are_is_told_before_the_first_is_explained(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        of = tiny.classifier("bert", 3)
        method = explearn.get_explainer("attcat")
        list(method.explain(of, ["lazy dog", LONG], description="explain by attcat", windows=20))
        windows = len(cut(of.encode([LONG], whole=True)[0], of.max_length, 20).windows)
        assert capsys.readouterr().err == (
            f"explain by attcat: 1 text is longer than the {of.max_length} sub-tokens that are read at once; {windows} "
            "windows are explained\n"
        )

    def test_nothing_is_told_of_texts_that_are_read_whole_or_without_a_description(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        of = tiny.classifier("bert", 3)
        method = explearn.get_explainer("attcat")
        list(method.explain(of, ["lazy dog"], description="explain by attcat", windows=20))
        list(method.explain(of, [LONG], windows=20))
        assert capsys.readouterr().err == ""

    def test_what_takes_over_a_minute_says_how_long_it_will_take(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ten seconds a window; a second line where a minute has passed since the first."""
        clock = iter(range(0, 1000, 10))
        monkeypatch.setattr("explearn.methods.base.progress.monotonic", lambda: float(next(clock)))
        with Progress("lime", windowed=True, limit=46) as progress:
            progress.begin(8)
            for _ in range(8):
                progress.advance(1)
        assert capsys.readouterr().err == (
            "lime: 1 of 8 windows, about 01:10 left\nlime: 7 of 8 windows, about 00:10 left\n"
        )

    @pytest.mark.parametrize(("name", "at_once"), [("lime", 1), ("attcat", 3)])
    def test_windows_are_scored_few_at_a_time_and_texts_come_as_soon_as_theirs_are(
        self, name: str, at_once: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("explearn.methods.base.asking.PART_WINDOWS", at_once)
        of = tiny.make_classifier("bert", 3)
        of.max_tokens = at_once * of.max_length
        method = explearn.get_explainer(name, **({"samples": 5} if name == "lime" else {}))
        whole, scored = method.score_texts, []

        def counted(classifier: Classifier, encodings: Sequence[Encoding], targets: Sequence[int] | None) -> object:
            scored.append(len(encodings))
            return whole(classifier, encodings, targets)

        method.score_texts = counted  # type: ignore[assignment, method-assign]
        texts = [LONG, "lazy dog", "fox", LONG]
        found = method.explain(of, texts, windows=20)
        first = next(found)
        assert first.windows > at_once and sum(scored) < first.windows + 2 + at_once
        rest = list(found)
        assert [one.windows for one in rest] == [1, 1, first.windows]
        np.testing.assert_allclose(rest[-1].scores, first.scores, atol=1e-5)
        # Short texts share a part.
        assert max(scored) > 1 and sum(scored) == 2 * first.windows + 2 > len(scored)


class TestMemory:
    """All windows of the texts that are held at a time are held with them."""

    def test_long_texts_are_held_few_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of = tiny.classifier("bert", 3)
        monkeypatch.setattr("explearn.methods.base.asking.CHUNK_CHARACTERS", len(LONG))
        texts = ["dog", LONG, ("dog", LONG), "lazy", "fox", LONG, "dog"]
        held = [len(chunk) for chunk in questions(of, texts, None, 3, 20)]
        # A chunk ends at the text that fills it, and after each three texts.
        assert held == [2, 1, 3, 1]
        assert [len(chunk) for chunk in questions(of, texts, None, 3, None)] == [3, 3, 1]

    def test_the_numbers_of_texts_and_their_targets_go_on_over_chunks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of = tiny.classifier("bert", 3)
        monkeypatch.setattr("explearn.methods.base.asking.CHUNK_CHARACTERS", 10)
        method = explearn.get_explainer("attcat")
        found = list(method.explain(of, [LONG, "dog", LONG], ["fair", "good", "fair"], windows=20))
        assert [one.target for one in found] == ["fair", "good", "fair"]
        with pytest.raises(DataError, match=r"^text 2: field 'text' is empty"):
            list(method.explain(of, [LONG, "", LONG], windows=20))
        with pytest.raises(ParamsError, match="targets: more than texts"):
            list(method.explain(of, [LONG, "dog"], ["fair", "good", "fair"], windows=20))


class TestCut:
    def test_words_behind_the_end_have_no_score_and_one_line_says_so(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            short, long = explearn.get_explainer("attcat").explain(tiny.classifier(), ["lazy dog", LONG])
        lost = int((~long.read).sum())
        assert lost > 0 and short.read.all()
        assert np.isnan(long.scores[-lost:]).all()  # they are the last ones
        assert [record.getMessage() for record in caplog.records] == [
            f"attcat: {lost} words of 1 of 2 texts were not read, being beyond 46 sub-tokens or of no known "
            "characters; they have no score"
        ]

    def test_a_text_of_100_000_words_is_cut_and_one_of_200_000_refused(self) -> None:
        (found,) = explearn.get_explainer("attcat").explain(tiny.classifier(), ["dog " * 100_000])
        assert len(found.scores) == 100_000 and found.unaligned == 100_000 - 44
        with pytest.raises(DataError, match=r"^text 2: field 'text' has 200,000 words; expected at most 100,000$"):
            list(explearn.get_explainer("attcat").explain(tiny.classifier(), ["dog", "dog " * 200_000]))
