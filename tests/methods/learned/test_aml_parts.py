"""AML's loss, masks, metric of interest and the way between two tokenizers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from aml_cases import CPU

import tiny
from explearn.core.errors import ModelError, UnsupportedError
from explearn.core.sections import EvaluateParams
from explearn.data.alignment import aggregate
from explearn.methods.aml.candidates import _draw, arranged, exchanged
from explearn.methods.aml.loss import Weights, embedded_logits, loss_terms
from explearn.methods.aml.masks import HardMasking, LearnedMasking, Masking, PredictedMasking, gates, make_masking
from explearn.methods.aml.target_metric import MapJudge, Metric, MetricOptions, TriedMaps
from explearn.methods.aml.tokenizer_bridge import Bridge, link, link_batch
from explearn.methods.base.explainer import Explainer, TextScores
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.protocols import as_sub_tokens
from explearn.models.classifier import Classifier
from explearn.models.encoding import Batch, Encoding

ALL = Weights(1, 1, 1)


def batch_of(of: Classifier, texts: Any = tiny.TEXTS) -> Batch:
    return of.batch(of.encode(texts))


class TestLoss:
    def test_terms_by_hand(self) -> None:
        """Every a is 1/2: both masked texts are the same half-masked one, and -log(1 - a) is log 2."""
        of = tiny.classifier("bert", 3)
        batch = batch_of(of)
        y = of.logits(batch).softmax(-1)
        terms = loss_terms(of, batch, torch.zeros(batch.input_ids.shape), y, Masking(), ALL)
        words, mask = of.model.get_input_embeddings()(batch.input_ids), of.model.get_input_embeddings().weight[4]
        special = torch.tensor([[*e.special, *[True] * (batch.input_ids.shape[1] - len(e))] for e in batch.encodings])
        half = torch.where(special[..., None], words, (words + mask) / 2)
        p = embedded_logits(of, batch, half).softmax(-1)
        target = y.argmax(-1, keepdim=True)
        assert terms.size.tolist() == pytest.approx([math.log(2)] * len(batch))
        torch.testing.assert_close(terms.prediction, -(y * p.log()).sum(-1))
        torch.testing.assert_close(terms.inverse, -(1 - p.gather(1, target)).log()[:, 0])
        torch.testing.assert_close(
            terms.total(Weights(0.5, 0.25, 1)), terms.prediction / 2 + terms.size / 4 + terms.inverse
        )

    def test_whole_and_empty_masks(self) -> None:
        """a = 1 keeps the text, so L_p is the prediction's entropy; a = 0 for the inverse keeps it, too."""
        of = tiny.classifier("bert")
        batch = batch_of(of)
        y = of.logits(batch).softmax(-1)
        kept = loss_terms(of, batch, torch.full(batch.input_ids.shape, 40.0), y, Masking(), ALL)
        gone = loss_terms(of, batch, torch.full(batch.input_ids.shape, -40.0), y, Masking(), ALL)
        torch.testing.assert_close(kept.prediction, -(y * y.log()).sum(-1), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(gone.inverse, -(1 - y.max(-1).values).log(), atol=1e-5, rtol=1e-4)
        assert kept.size.tolist() == pytest.approx([40.0] * len(batch))
        assert gone.size.max() < 1e-6

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_gradients_reach_every_sub_token_and_no_special_one(self, kind: str) -> None:
        of = tiny.make_classifier(kind)
        batch = batch_of(of, [*tiny.PAIRS])
        scores = torch.zeros(batch.input_ids.shape, requires_grad=True)
        y = of.logits(batch).softmax(-1)
        loss_terms(of, batch, scores, y, Masking(), ALL).total(ALL).sum().backward()
        assert scores.grad is not None
        for row, encoding in enumerate(batch.encodings):
            reached = scores.grad[row].nonzero().flatten().tolist()
            assert reached == encoding.positions
        assert all(p.grad is None and not p.requires_grad for p in of.model.parameters())
        assert tiny.hooks(of.model) == 0

    def test_a_term_of_weight_zero_costs_no_pass(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of = tiny.make_classifier("bert")
        batch = batch_of(of)
        y = of.logits(batch).softmax(-1)
        rows: list[int] = []
        of.model.register_forward_pre_hook(
            lambda _m, _a, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
        )
        for weights in (ALL, Weights(1, 1, 0), Weights(0, 1, 1), Weights(0, 1, 0)):
            terms = loss_terms(of, batch, torch.zeros(batch.input_ids.shape), y, Masking(), weights)
            assert bool(terms.inverse.any()) is bool(weights.inverse)
            assert bool(terms.prediction.any()) is bool(weights.prediction)
        assert rows == [10, 5, 5]

    def test_the_inverse_term_is_finite_where_the_classifier_is_sure(self) -> None:
        of = tiny.make_classifier("bert")
        with torch.no_grad():
            of.model.classifier.weight.mul_(1e3)
        batch = batch_of(of)
        scores = torch.zeros(batch.input_ids.shape, requires_grad=True)
        y = of.logits(batch).softmax(-1)
        loss_terms(of, batch, scores, y, Masking(), ALL).total(ALL).sum().backward()
        assert scores.grad is not None and torch.isfinite(scores.grad).all()


class TestMasking:
    def test_a_hard_mask_is_0_or_1_with_the_soft_mask_s_gradient(self) -> None:
        a = torch.tensor([0.2, 0.5, 0.7], requires_grad=True)
        gate = HardMasking().gate(a)
        gate.sum().backward()
        assert gate.tolist() == [0, 0, 1]
        assert a.grad is not None and a.grad.tolist() == [1, 1, 1]

    def test_special_tokens_and_padding_are_never_masked(self) -> None:
        of = tiny.classifier("roberta")
        batch = batch_of(of, ["lazy", "the quick brown fox"])
        kept = gates(batch, torch.zeros(batch.input_ids.shape))
        for row, encoding in enumerate(batch.encodings):
            assert [i for i, gate in enumerate(kept[row].tolist()) if gate == 0] == encoding.positions

    def test_random_stand_ins_depend_on_text_and_draw_alone(self) -> None:
        of = tiny.classifier("bert")
        random = make_masking("random", None)
        alone = random.stand_in(of, batch_of(of, [tiny.TEXTS[0]]), draw=1)[0]
        among = random.stand_in(of, batch_of(of), draw=1)[0, : len(alone)]
        assert torch.equal(alone, among)
        assert not torch.equal(alone, random.stand_in(of, batch_of(of, [tiny.TEXTS[0]]), draw=2)[0])

    def test_a_learned_stand_in_starts_as_the_mask_token(self) -> None:
        of = tiny.classifier("bert")
        learned = LearnedMasking()
        found = learned.begin(of)
        assert found.requires_grad
        assert torch.equal(found, of.model.get_input_embeddings().weight[of.mask_token_id])

    def test_predicted_stand_ins_are_likely_and_other_than_the_text(self, tmp_path: Any) -> None:
        import transformers

        of = tiny.classifier("bert")
        settings = tiny.model("bert").config
        with torch.random.fork_rng():
            torch.manual_seed(3)
            language = transformers.BertForMaskedLM(settings).eval()
        language.save_pretrained(tmp_path)
        of.tokenizer.save_pretrained(tmp_path)
        batch = batch_of(of, [tiny.TEXTS[0]])
        (encoding,) = batch.encodings
        found = PredictedMasking(str(tmp_path)).stand_in(of, batch, 0)[0]
        position = encoding.positions[1]
        ids = batch.input_ids.clone()
        ids[0, position] = of.mask_token_id
        with torch.no_grad():
            logits = language(input_ids=ids, attention_mask=batch.attention_mask).logits[0, position]
        logits[[*of.tokenizer.all_special_ids, encoding.input_ids[position]]] = -torch.inf
        assert torch.equal(found[position], of.model.get_input_embeddings().weight[logits.argmax()])

    def test_the_language_model_is_that_of_the_revision_given(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import transformers

        asked: list[str] = []

        def from_pretrained(name: str, revision: str, **_: Any) -> Any:
            asked.append(revision)
            raise OSError("there is no network")

        monkeypatch.setattr(transformers.AutoModelForMaskedLM, "from_pretrained", from_pretrained)
        of = tiny.classifier("bert")
        for revision in ("abc123", None):
            with pytest.raises(ModelError, match="there is no network"):
                PredictedMasking("someone/model", revision).stand_in(of, batch_of(of), 0)
        assert asked == ["abc123", "main"]

    def test_an_encoder_without_a_language_model_s_head_is_refused(self, tmp_path: Any) -> None:
        of = tiny.classifier("bert")
        tiny.model("bert").bert.save_pretrained(tmp_path)
        of.tokenizer.save_pretrained(tmp_path)
        with pytest.raises(ModelError, match="expected a trained masked language model"):
            PredictedMasking(str(tmp_path)).stand_in(of, batch_of(of), 0)

    def test_a_language_model_of_another_vocabulary_is_refused(self, tmp_path: Any) -> None:
        import transformers

        transformers.AlbertForMaskedLM(tiny.model("albert").config).save_pretrained(tmp_path)
        tiny.tokenizer("albert").save_pretrained(tmp_path)
        of = tiny.classifier("bert")
        with pytest.raises(UnsupportedError, match="another vocabulary than the classifier"):
            PredictedMasking(str(tmp_path)).stand_in(of, batch_of(of), 0)


class Given(Explainer):
    """Scores as they are given."""

    def __init__(self, scores: list[np.ndarray]) -> None:
        self.scores = scores
        self.name = "random"

    def score_texts(self, classifier: Any, encodings: Any, targets: Any) -> list[TextScores]:
        p = classifier.predict_proba(encodings)
        return [TextScores(s, np.log(row), t, 0.0) for s, row, t in zip(self.scores, p, targets, strict=True)]


class TestMapJudge:
    @pytest.mark.parametrize("protocol", ["default", "aml"])
    @pytest.mark.parametrize("removal", ["delete", "mask"])
    @pytest.mark.parametrize("one_by_one", [False, True])
    def test_its_values_are_those_of_the_evaluation(self, protocol: Any, removal: Any, one_by_one: bool) -> None:
        of = tiny.classifier("bert", 3)
        texts = [*tiny.TEXTS, *tiny.PAIRS]
        encodings = [replace(e, example_id=str(i)) for i, e in enumerate(of.encode(texts))]
        rng = np.random.default_rng(0)
        scores = [rng.random(len(e)).astype(np.float32) for e in encodings]
        targets = [i % 3 for i in range(len(texts))]
        percents = [5, 20, 50]
        params = EvaluateParams(protocol=protocol, removal=removal, percents=percents, headline_percent=30)
        attributions = list(Given(scores).explain(of, texts, targets))
        named = [replace(a, example_id=str(i)) for i, a in enumerate(attributions)]
        expected = faithfulness(of, {e.example_id: e for e in encodings}, {"given": named}, params)["given"]
        wanted = {
            "difference": expected.comprehensiveness - expected.sufficiency,
            "aopc_difference": expected.aopc_comprehensiveness - expected.aopc_sufficiency,
        }
        options = MetricOptions(protocol, removal, tuple(percents), 30)
        names = get_args(Metric)
        groups = [(name,) for name in names] if one_by_one else [names]
        for group in groups:
            found = MapJudge(of, group, options).values(encodings, scores, targets)
            for column, name in enumerate(group):
                value = wanted[name] if name in wanted else getattr(expected, name)
                np.testing.assert_allclose(found[:, column], value, atol=1e-6, err_msg=name)

    def test_better_turns_the_sign_where_smaller_is_better(self) -> None:
        of = tiny.classifier("bert")
        options = MetricOptions("default", "delete", (20,), 20)
        judge = MapJudge(of, ["log_odds", "comprehensiveness", "aopc_sufficiency"], options)
        assert judge.better(np.array([[1.0, 2.0, 3.0]])).tolist() == [[-1, 2, -3]]
        assert not judge.larger_is_better

    def test_what_was_asked_once_is_not_asked_again(self) -> None:
        of = tiny.classifier("bert")
        judge = MapJudge(of, ["comprehensiveness"], MetricOptions("default", "delete", (20,), 20))
        encodings = of.encode(tiny.TEXTS)
        scores = [np.arange(len(e), dtype=np.float32) for e in encodings]
        first = judge.values(encodings, scores, [0] * 5)
        # The text itself and the text without its best words.
        assert judge.passes == 2 * 5
        assert np.array_equal(judge.values(encodings, [2 * s for s in scores], [0] * 5), first)
        assert judge.passes == 2 * 5


class TestBridge:
    def test_a_split_token_copies_and_merged_ones_give_their_largest(self) -> None:
        """BERT's "unbeliev" "##ably" against ALBERT's own pieces of the word, by the characters that both cover."""
        bert, albert = (tiny.classifier(kind).encode(["unbelievably lazy"])[0] for kind in ("bert", "albert"))
        for target, source in ((bert, albert), (albert, bert)):
            for position, links in enumerate(link(target, source)):
                start, end = target.characters[position]
                expected = [
                    j
                    for j in range(len(source))
                    if not source.special[j]
                    and source.word_ids[j] == target.word_ids[position]
                    and source.characters[j][0] < end
                    and start < source.characters[j][1]
                ]
                if target.word_ids[position] < 0:
                    expected = []
                assert links == expected
        scores = torch.arange(len(albert), dtype=torch.float32)[None]
        links = link_batch([bert], [albert], CPU.resolve_device())
        bridge = Bridge(tiny.tokenizer("albert"), tiny.model("albert").config, "max")
        carried = bridge.carry(scores, links)[0]
        for position in bert.positions:
            assert carried[position] == max(link(bert, albert)[position])

    def test_the_mean_is_taken_over_attributions_not_logits(self) -> None:
        bridge = Bridge(tiny.tokenizer("albert"), tiny.model("albert").config, "mean")
        scores = torch.logit(torch.tensor([[0.2, 0.8, 0.6]]))
        found = bridge.carry(scores, torch.tensor([[[0, 1], [2, -1]]])).sigmoid()
        assert found[0].tolist() == pytest.approx([0.5, 0.6], abs=1e-5)

    def test_a_piece_without_a_source_gets_the_lowest_of_its_text(self) -> None:
        bridge = Bridge(tiny.tokenizer("albert"), tiny.model("albert").config, "max")
        found = bridge.carry(torch.tensor([[3.0, 1.0]]), torch.tensor([[[0], [-1], [1]]]))
        assert found.tolist() == [[3.0, 1.0, 1.0]]
        assert bridge.carry(torch.tensor([[3.0]]), torch.tensor([[[-1]]])).tolist() == [[0.0]]

    def test_pairs_are_read_as_pairs(self) -> None:
        of = tiny.classifier("bert")
        bridge = Bridge(tiny.tokenizer("roberta"), tiny.model("roberta").config, "max")
        encodings = of.encode([tiny.TEXTS[0], *tiny.PAIRS])
        expected = tiny.classifier("roberta").encode([tiny.TEXTS[0], *tiny.PAIRS])
        assert [e.input_ids for e in bridge.read(encodings)] == [e.input_ids for e in expected]


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
