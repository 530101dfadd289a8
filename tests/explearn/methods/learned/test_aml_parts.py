"""Parts of AML: loss and masking, the metric of interest, another tokenizer's sub-tokens, maps made from a map."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import tiny
import torch

from explearn.judge.faithfulness import faithfulness
from explearn.judge.params import EvaluateParams
from explearn.judge.protocols import FaithfulnessProtocol
from explearn.methods.aml.attribution_model import Bridge, Reading, links
from explearn.methods.aml.faml import arranged, drawn, exchanged
from explearn.methods.aml.loss import Weights, embedded_logits, loss_terms, weighted
from explearn.methods.aml.target_metric import JudgedText, MapJudge, Metric
from explearn.methods.base.explainer import Explainer, TextScores
from explearn.methods.info import About
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, Encoding

ALL = Weights(1, 1, 1)
PROTOCOLS = ("default", "aml")
REMOVALS = ("delete", "mask")


def batch_of(of: Classifier, texts: Any = tiny.TEXTS) -> Batch:
    return of.batch(of.encode(texts))


class TestLoss:
    def test_terms_by_hand(self) -> None:
        """Every a is 1/2: both masked texts are the same half-masked one, and -log(1 - a) is log 2."""
        of = tiny.classifier("bert", 3)
        batch = batch_of(of)
        y = of.logits(batch).softmax(-1)
        prediction, size, inverse = terms = loss_terms(of, batch, torch.zeros(batch.input_ids.shape), y, ALL)
        words, mask = of.model.get_input_embeddings()(batch.input_ids), of.model.get_input_embeddings().weight[4]
        special = torch.tensor([[*e.special, *[True] * (batch.input_ids.shape[1] - len(e))] for e in batch.encodings])
        p = embedded_logits(of, batch, torch.where(special[..., None], words, (words + mask) / 2)).softmax(-1)
        assert size.tolist() == pytest.approx([math.log(2)] * len(batch))
        torch.testing.assert_close(prediction, -(y * p.log()).sum(-1))
        torch.testing.assert_close(inverse, -(1 - p.gather(1, y.argmax(-1, keepdim=True))).log()[:, 0])
        torch.testing.assert_close(weighted(terms, Weights(0.5, 0.25, 1)), prediction / 2 + size / 4 + inverse)

    def test_whole_and_empty_masks(self) -> None:
        """a = 1 keeps the text, so L_p is the prediction's entropy; a = 0 for the inverse keeps it, too."""
        of = tiny.classifier("bert")
        batch = batch_of(of)
        y = of.logits(batch).softmax(-1)
        kept = loss_terms(of, batch, torch.full(batch.input_ids.shape, 40.0), y, ALL)
        gone = loss_terms(of, batch, torch.full(batch.input_ids.shape, -40.0), y, ALL)
        torch.testing.assert_close(kept[0], -(y * y.log()).sum(-1), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(gone[2], -(1 - y.max(-1).values).log(), atol=1e-5, rtol=1e-4)
        assert kept[1].tolist() == pytest.approx([40.0] * len(batch))
        assert gone[1].max() < 1e-6

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_gradients_reach_every_sub_token_and_no_special_one(self, kind: str) -> None:
        of = tiny.make_classifier(kind)
        batch = batch_of(of, [*tiny.PAIRS])
        scores = torch.zeros(batch.input_ids.shape, requires_grad=True)
        weighted(loss_terms(of, batch, scores, of.logits(batch).softmax(-1), ALL), ALL).sum().backward()
        assert scores.grad is not None
        for row, encoding in enumerate(batch.encodings):
            assert scores.grad[row].nonzero().flatten().tolist() == encoding.positions
        assert all(p.grad is None and not p.requires_grad for p in of.model.parameters())
        assert tiny.hooks(of.model) == 0

    def test_a_term_of_weight_zero_costs_no_pass(self) -> None:
        of = tiny.make_classifier("bert")
        batch = batch_of(of)
        y = of.logits(batch).softmax(-1)
        rows: list[int] = []
        of.model.register_forward_pre_hook(
            lambda _m, _a, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
        )
        for weights in (ALL, Weights(1, 1, 0), Weights(0, 1, 1), Weights(0, 1, 0)):
            terms = loss_terms(of, batch, torch.zeros(batch.input_ids.shape), y, weights)
            assert [bool(term.any()) for term in terms] == [bool(weight) for weight in weights]
        assert rows == [10, 5, 5]

    def test_the_inverse_term_is_finite_where_the_classifier_is_sure(self) -> None:
        of = tiny.make_classifier("bert")
        with torch.no_grad():
            of.model.classifier.weight.mul_(1e3)
        batch = batch_of(of)
        scores = torch.zeros(batch.input_ids.shape, requires_grad=True)
        weighted(loss_terms(of, batch, scores, of.logits(batch).softmax(-1), ALL), ALL).sum().backward()
        assert scores.grad is not None and torch.isfinite(scores.grad).all()


class ScoresAsTheyAre(Explainer):
    about = About(name="as_they_are", family="chance", cost="one forward pass")

    def __init__(self, scores: list[np.ndarray]) -> None:
        self.scores = scores

    def score_texts(self, classifier: Any, encodings: Any, targets: Any) -> list[TextScores]:
        p = classifier.predict_proba(encodings)
        return [TextScores(s, np.log(row), t, 0.0) for s, row, t in zip(self.scores, p, targets, strict=True)]


class TestMapJudge:
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    @pytest.mark.parametrize("removal", REMOVALS)
    def test_its_values_are_those_of_the_evaluation(self, protocol: Any, removal: Any) -> None:
        of = tiny.classifier("bert", 3)
        texts = [*tiny.TEXTS, *tiny.PAIRS]
        encodings = [replace(e, example_id=str(i)) for i, e in enumerate(of.encode(texts))]
        rng = np.random.default_rng(0)
        scores = [rng.random(len(e)).astype(np.float32) for e in encodings]
        targets = [i % 3 for i in range(len(texts))]
        params = EvaluateParams(protocol=protocol, removal=removal, percents=[5, 20, 50], headline_percent=30)
        attributions = ScoresAsTheyAre(scores).explain(of, texts, targets)
        named = [replace(a, example_id=str(i)) for i, a in enumerate(attributions)]
        expected = faithfulness(of, {e.example_id: e for e in encodings}, {"": named}, params)[""].values
        wanted = {
            "difference": expected["comprehensiveness"] - expected["sufficiency"],
            "aopc_difference": expected["aopc_comprehensiveness"] - expected["aopc_sufficiency"],
        }
        names = get_args(Metric)
        for group in [names, *((name,) for name in names)]:
            judge = MapJudge(of, group, FaithfulnessProtocol.of(params))
            maps = [(judge.text(e, t), s) for e, t, s in zip(encodings, targets, scores, strict=True)]
            for name, column in zip(group, judge.measure(maps).T, strict=True):
                value = wanted[name] if name in wanted else expected[name]
                np.testing.assert_allclose(column, value, atol=1e-6, err_msg=name)

    def test_better_turns_the_sign_where_smaller_is_better(self) -> None:
        protocol = FaithfulnessProtocol("default", "delete", (20,), 20)
        judge = MapJudge(tiny.classifier("bert"), ["log_odds", "comprehensiveness", "aopc_sufficiency"], protocol)
        assert judge.better(np.array([[1.0, 2.0, 3.0]])).tolist() == [[-1, 2, -3]]
        assert not judge.larger_is_better

    @pytest.mark.parametrize("removal", REMOVALS)
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_worth_is_what_words_add_in_what_was_asked(
        self, protocol: Any, removal: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        of = tiny.make_classifier("bert")
        (encoding,) = of.encode(["the quick brown fox jumps over"])
        judge = MapJudge(of, ["aopc_difference", "log_odds"], FaithfulnessProtocol(protocol, removal, (20, 50), 20))
        ids = [encoding.input_ids[i] for i in encoding.positions]
        adds = dict(zip(dict.fromkeys(ids), np.linspace(-0.2, 0.3, len(ids)), strict=False))

        def additive(encodings: Sequence[Encoding], description: str | None = None) -> np.ndarray:
            p = np.array([0.5 + sum(adds.get(token, 0.0) for token in e.input_ids) for e in encodings])
            return np.stack([1 - p, p], axis=1)

        monkeypatch.setattr(of, "predict_proba", additive)
        generator = np.random.default_rng(4)
        maps = [generator.random(len(encoding)).astype(np.float32) for _ in range(60)]
        texts = [judge.text(encoding, target) for target in (0, 1)]
        assert not judge.worth(texts[1]).any()
        for text in texts:
            judge.measure([(text, scores) for scores in maps])
        expected = np.zeros(texts[1].units)
        for position in encoding.positions:
            expected[texts[1].owners[position]] += adds[encoding.input_ids[position]]
        assert judge.worth(texts[1]) == pytest.approx(expected, abs=0.06)
        assert judge.worth(texts[0]) == pytest.approx(-judge.worth(texts[1]))

    @pytest.mark.parametrize("metric", ["log_odds", "aopc_sufficiency", "aopc_comprehensiveness", "aopc_difference"])
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_the_chain_is_the_best_of_all_nested_tops_that_were_asked_about(self, metric: Any, protocol: Any) -> None:
        of = tiny.classifier("bert", 3)
        # 1 % and 10 % are one word alike in most of these texts, which then counts twice.
        counted = FaithfulnessProtocol(protocol, "delete", (1, 10, 35, 60), 35)
        judge, fresh = (MapJudge(of, [metric], counted) for _ in range(2))
        draws, bettered = np.random.default_rng(5), 0
        for target, encoding in enumerate(of.encode([*tiny.TEXTS[:2], tiny.TEXTS[2]])):
            text = judge.text(encoding, target)
            assert judge.chain(text) == []
            maps = [draws.random(len(encoding)).astype(np.float32) for _ in range(25)]
            values = judge.better(judge.measure([(text, scores) for scores in maps]))[:, 0]
            tops = [judge.tops(text, scores) for scores in maps]
            sizes = [sorted({of_map[cut] for of_map in tops}, key=sorted) for cut in range(len(tops[0]))]
            chain = judge.chain(text)
            assert [len(top) for top in chain] == sorted(set(judge.cuts(text)))
            # Any map with nested tops is measured as by a judge that knows nothing.
            worth = {}
            for nested in itertools.product(*sizes):
                if all(a <= b for a, b in itertools.pairwise(nested)):
                    one = arranged(text, maps[0], list(dict.fromkeys(nested)))
                    worth[nested] = float(fresh.better(fresh.measure([(fresh.text(encoding, target), one)]))[0, 0])
            of_chain = worth[judge.tops(text, arranged(text, maps[0], chain))]
            assert of_chain == pytest.approx(max(worth.values()), abs=1e-6)
            bettered += of_chain > values.max() + 1e-6
        # With a single cut the best top was some map's already.
        assert bool(bettered) == metric.startswith("aopc")


class TestMapsFromAMap:
    @staticmethod
    def text(protocol: Any = "default") -> tuple[MapJudge, JudgedText, np.ndarray]:
        of = tiny.classifier("bert")
        (encoding,) = of.encode([" ".join(tiny.TEXTS[:3])])
        judge = MapJudge(of, ["aopc_difference"], FaithfulnessProtocol(protocol, "delete", (1, 10, 20, 50), 20))
        return judge, judge.text(encoding, 0), np.random.default_rng(1).random(len(encoding)).astype(np.float32)

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_exchanges_put_other_words_above_the_cuts(self, protocol: Any) -> None:
        judge, text, scores = self.text(protocol)
        draws, before = np.random.default_rng(2), text.values(scores)
        changed = []
        for _ in range(60):
            one = exchanged(text, scores, judge.cuts(text), np.zeros(text.units), draws)
            np.testing.assert_array_equal(np.sort(text.values(one)), np.sort(before))
            assert 0 <= (text.values(one) != before).sum() <= 4
            pairs = zip(judge.tops(text, one), judge.tops(text, scores), strict=True)
            changed.append([a != b for a, b in pairs])
        # Two exchanges may undo each other; one changes what is above one cut.
        assert np.mean([any(row) for row in changed]) > 0.8
        assert np.array(changed).any(0).all()

    def test_a_text_in_which_no_order_matters(self) -> None:
        of = tiny.classifier("bert")
        judge = MapJudge(of, ["comprehensiveness"], FaithfulnessProtocol("default", "delete", (1, 50), 20))
        text = judge.text(of.encode(["fox"])[0], 0)
        scores = np.ones(len(text.encoding), dtype=np.float32)
        assert judge.cuts(text) == []
        assert exchanged(text, scores, [], np.zeros(1), np.random.default_rng(0)) is scores

    def test_worths_that_differ_by_rounding_are_drawn_evenly(self) -> None:
        worth = np.array([0.25, 0.25 + 1e-16, 0.25 - 3e-15, 0.25])
        units = [drawn(np.arange(4), worth, np.random.default_rng(seed)) for seed in range(400)]
        assert units == [drawn(np.arange(4), np.zeros(4), np.random.default_rng(seed)) for seed in range(400)]

    def test_words_of_little_worth_go_down_and_those_of_much_come_up(self) -> None:
        _, text, _ = self.text()
        worth = np.zeros(text.units)
        worth[0], worth[-1] = -1, 1
        half = text.units // 2
        # The first half is on top: the first word is worth least there, the last one most of the others.
        scores = np.where(text.owners < half, 0.9, 0.1).astype(np.float32)
        draws = np.random.default_rng(3)
        maps = [text.values(exchanged(text, scores, [half], worth, draws)) for _ in range(60)]
        for unit, expected in ((0, 0.1), (-1, 0.9)):
            assert np.mean([one[unit] == np.float32(expected) for one in maps]) > 0.9

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_tops_come_first_and_the_rest_keeps_its_order(self, protocol: Any) -> None:
        _, text, scores = self.text(protocol)
        tops = [frozenset({3}), frozenset({3, 0, text.units - 1})]
        after = arranged(text, scores, tops)
        np.testing.assert_array_equal(np.sort(text.values(after)), np.sort(text.values(scores)))
        order = text.order(after)
        assert order[0] == 3 and set(order[:3]) == set(tops[1])
        assert order[3:] == [unit for unit in text.order(scores) if unit not in tops[1]]


class TestBridge:
    def test_a_split_token_copies_and_merged_ones_give_their_largest(self) -> None:
        """BERT's "unbeliev" "##ably" against ALBERT's own pieces of the word, by the characters that both cover."""
        bert, albert = (tiny.classifier(kind).encode(["unbelievably lazy"])[0] for kind in ("bert", "albert"))
        for target, source in ((bert, albert), (albert, bert)):
            for position, linked in enumerate(links(target, source)):
                start, end = target.characters[position]
                same_word = [
                    j
                    for j in range(len(source))
                    if not source.special[j] and source.word_ids[j] == target.word_ids[position]
                ]
                shared = [j for j in same_word if source.characters[j][0] < end and start < source.characters[j][1]]
                assert linked == ([] if target.word_ids[position] < 0 else shared)

    @pytest.mark.parametrize(
        ("scores", "linked", "expected"),
        [
            ([3.0, 1.0, 2.0], [[0, -1], [1, 2]], [3.0, 2.0]),
            ([3.0, 1.0], [[0], [-1], [1]], [3.0, 1.0, 1.0]),
            ([3.0], [[-1]], [0.0]),
        ],
    )
    def test_a_piece_gets_the_largest_of_its_sources_or_the_lowest_of_its_text(
        self, scores: list[float], linked: list[list[int]], expected: list[float]
    ) -> None:
        batch = batch_of(tiny.classifier("bert"))
        reading = Reading(batch, batch, torch.tensor([linked]))
        assert reading.to_target(torch.tensor([scores])).tolist() == [expected]

    def test_pairs_are_read_as_pairs(self) -> None:
        bridge = Bridge(tiny.tokenizer("roberta"), tiny.model("roberta").config)
        texts = [tiny.TEXTS[0], *tiny.PAIRS]
        expected = tiny.classifier("roberta").encode(texts)
        assert [e.input_ids for e in bridge.read(tiny.classifier("bert").encode(texts))] == [
            e.input_ids for e in expected
        ]
