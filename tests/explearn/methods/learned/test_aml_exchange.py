"""Exchanges and chains of AML."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pytest
import tiny

from explearn.judge.protocols import as_sub_tokens
from explearn.methods.aml.candidates import _draw, arranged, exchanged
from explearn.methods.aml.target_metric import MapJudge, Metric, MetricOptions, TriedMaps
from explearn.model.encoding import Encoding
from explearn.text.alignment import aggregate


class TestExchanges:
    @staticmethod
    def found(protocol: Any, draws: int) -> tuple[MapJudge, Encoding, np.ndarray, list[np.ndarray]]:
        of = tiny.classifier("bert")
        (encoding,) = of.encode([" ".join(tiny.TEXTS[:3])])
        judge = MapJudge(of, ["aopc_difference"], MetricOptions(protocol, "delete", (1, 10, 20, 50), 20))
        scores = np.random.default_rng(1).random(len(encoding)).astype(np.float32)
        generator, cuts = np.random.default_rng(2), judge.cuts(encoding)
        return (
            judge,
            encoding,
            scores,
            [
                exchanged(encoding, scores, cuts, judge.by_sub_token, np.zeros(len(encoding)), generator)
                for _ in range(draws)
            ],
        )

    @pytest.mark.parametrize("protocol", ["default", "aml"])
    def test_the_same_scores_in_another_order_with_other_words_above_the_cuts(self, protocol: Any) -> None:
        judge, encoding, scores, maps = self.found(protocol, 60)
        units = as_sub_tokens(encoding).word_ids if protocol == "aml" else encoding.word_ids
        before = aggregate(scores, units, max(units) + 1, "max")[0]
        changed = []
        for scores_after in maps:
            after = aggregate(scores_after, units, max(units) + 1, "max")[0]
            np.testing.assert_array_equal(np.sort(after), np.sort(before))
            assert 0 <= (after != before).sum() <= 4
            order, earlier = np.argsort(-after), np.argsort(-before)
            changed.append([set(order[:cut]) != set(earlier[:cut]) for cut in judge.cuts(encoding)])
        # Two exchanges may undo each other; one changes what is above one cut.
        assert np.mean([any(row) for row in changed]) > 0.8
        assert np.array(changed).any(0).all()

    def test_a_text_in_which_no_order_matters(self) -> None:
        of = tiny.classifier("bert")
        (encoding,) = of.encode(["fox"])
        judge = MapJudge(of, ["comprehensiveness"], MetricOptions("default", "delete", (1, 50), 20))
        scores = np.ones(len(encoding), dtype=np.float32)
        assert judge.cuts(encoding) == []
        assert exchanged(encoding, scores, [], False, np.zeros(1), np.random.default_rng(0)) is scores

    def test_worths_that_differ_by_rounding_are_drawn_evenly(self) -> None:
        worth = np.array([0.25, 0.25 + 1e-16, 0.25 - 3e-15, 0.25])
        found = [_draw(np.arange(4), worth, np.random.default_rng(seed)) for seed in range(400)]
        assert found == [_draw(np.arange(4), np.zeros(4), np.random.default_rng(seed)) for seed in range(400)]

    def test_words_of_little_worth_go_down_and_those_of_much_come_up(self) -> None:
        of = tiny.classifier("bert")
        (encoding,) = of.encode([" ".join(tiny.TEXTS[:3])])
        count = len(encoding.words)
        worth = np.zeros(count)
        worth[0], worth[-1] = -1, 1
        owners = np.array(encoding.word_ids)
        # The first half is on top: the first word is worth least there, the last one most of the others.
        scores = np.where(owners < count // 2, 0.9, 0.1).astype(np.float32)
        draws = np.random.default_rng(3)
        found = [exchanged(encoding, scores, [count // 2], False, worth, draws) for _ in range(60)]
        for position, expected in ((1, 0.1), (int(np.flatnonzero(owners == count - 1)[0]), 0.9)):
            assert np.mean([one[position] == np.float32(expected) for one in found]) > 0.9

    @pytest.mark.parametrize("removal", ["delete", "mask"])
    @pytest.mark.parametrize("protocol", ["default", "aml"])
    def test_worth_finds_what_words_add_in_what_was_asked(
        self, protocol: Any, removal: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        of = tiny.make_classifier("bert")
        (encoding,) = of.encode(["the quick brown fox jumps over"])
        judge = MapJudge(of, ["aopc_difference", "log_odds"], MetricOptions(protocol, removal, (20, 50), 20))
        ids = [encoding.input_ids[i] for i in encoding.positions]
        adds = dict(zip(dict.fromkeys(ids), np.linspace(-0.2, 0.3, len(ids)), strict=False))

        def additive(encodings: Sequence[Encoding], description: str | None = None) -> np.ndarray:
            p = np.array([0.5 + sum(adds.get(token, 0.0) for token in e.input_ids) for e in encodings])
            return np.stack([1 - p, p], axis=1)

        monkeypatch.setattr(of, "predict_proba", additive)
        units = as_sub_tokens(encoding).word_ids if protocol == "aml" else encoding.word_ids
        all_tried = {target: TriedMaps() for target in (0, 1)}
        assert not judge.worth(encoding, 1, all_tried[1]).any()
        generator = np.random.default_rng(4)
        maps = [generator.random(len(encoding)).astype(np.float32) for _ in range(60)]
        for target in (0, 1):
            judge.values([encoding] * 60, maps, [target] * 60, [all_tried[target]] * 60)
        expected = np.zeros(max(units) + 1)
        for position in encoding.positions:
            expected[units[position]] += adds[encoding.input_ids[position]]
        found = judge.worth(encoding, 1, all_tried[1])
        assert found == pytest.approx(expected, abs=0.06)
        assert judge.worth(encoding, 0, all_tried[0]) == pytest.approx(-found)


class TestChains:
    @pytest.mark.parametrize("metric", get_args(Metric))
    @pytest.mark.parametrize("protocol", ["default", "aml"])
    @pytest.mark.parametrize("removal", ["delete", "mask"])
    def test_the_best_of_all_nested_tops_that_were_asked_about(self, metric: Any, protocol: Any, removal: Any) -> None:
        of = tiny.classifier("bert", 3)
        texts = [*tiny.TEXTS[:3], tiny.PAIRS[0]]
        encodings, targets = of.encode(texts), [0, 1, 2, 1]
        # 1 % and 10 % are one word alike in most of these texts, which then counts twice.
        options = MetricOptions(protocol, removal, (1, 10, 35, 60), 35)
        judge = MapJudge(of, [metric, "log_odds"] if metric != "log_odds" else [metric], options)
        all_tried = [TriedMaps() for _ in encodings]
        assert judge.chain(encodings[0], 0, all_tried[0]) == []
        draws = np.random.default_rng(5)
        maps = [[draws.random(len(e)).astype(np.float32) for e in encodings] for _ in range(25)]
        values = np.array([judge.better(judge.values(encodings, row, targets, all_tried))[:, 0] for row in maps])
        asked, bettered = judge.passes, 0
        for column, (encoding, target) in enumerate(zip(encodings, targets, strict=True)):
            tops = [judge.tops(encoding, row[column]) for row in maps]
            sizes = [sorted({found[cut] for found in tops}, key=sorted) for cut in range(len(tops[0]))]
            chain = judge.chain(encoding, target, all_tried[column])
            assert [len(top) for top in chain] == sorted(set(judge.cuts(encoding)))
            assert judge.passes == asked
            # Any map that has these tops, and each other chain, is measured as it is by a judge that knows nothing.
            fresh = MapJudge(of, [metric], options)
            worth = {}
            for nested in itertools.product(*sizes):
                if all(a <= b for a, b in itertools.pairwise(nested)):
                    one = arranged(encoding, maps[0][column], list(dict.fromkeys(nested)), judge.by_sub_token)
                    worth[nested] = float(fresh.better(fresh.values([encoding], [one], [target]))[0, 0])
            own = arranged(encoding, maps[0][column], chain, judge.by_sub_token)
            assert worth[judge.tops(encoding, own)] == pytest.approx(max(worth.values()), abs=1e-6)
            assert set(tops) <= set(worth)
            bettered += max(worth.values()) > values[:, column].max() + 1e-6
        # With a single cut the best top was some map's already.
        assert bool(bettered) == metric.startswith("aopc")

    @pytest.mark.parametrize("protocol", ["default", "aml"])
    def test_tops_come_first_and_the_rest_keeps_its_order(self, protocol: Any) -> None:
        of = tiny.classifier("bert")
        (encoding,) = of.encode([" ".join(tiny.TEXTS[:3])])
        by_sub_token = protocol == "aml"
        scores = np.random.default_rng(6).random(len(encoding)).astype(np.float32)
        units = as_sub_tokens(encoding).word_ids if by_sub_token else encoding.word_ids
        count = max(units) + 1
        before = aggregate(scores, units, count, "max")[0]
        tops = [frozenset({3}), frozenset({3, 0, count - 1})]
        after = aggregate(arranged(encoding, scores, tops, by_sub_token), units, count, "max")[0]
        np.testing.assert_array_equal(np.sort(after), np.sort(before))
        order, earlier = np.argsort(-after).tolist(), np.argsort(-before).tolist()
        assert order[0] == 3 and set(order[:3]) == set(tops[1])
        assert order[3:] == [unit for unit in earlier if unit not in tops[1]]
        np.testing.assert_array_equal(
            aggregate(arranged(encoding, scores, [], by_sub_token), units, count, "max")[0], before
        )
