"""AML's loss, masks, metric of interest and the way between two tokenizers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import tiny
import torch
from aml_cases import CPU

from explearn.core.errors import ModelError, UnsupportedError
from explearn.judge.faithfulness import faithfulness
from explearn.judge.params import EvaluateParams
from explearn.methods.aml.loss import Weights, embedded_logits, loss_terms
from explearn.methods.aml.masks import HardMasking, LearnedMasking, Masking, PredictedMasking, gates, make_masking
from explearn.methods.aml.target_metric import MapJudge, Metric, MetricOptions
from explearn.methods.aml.tokenizer_bridge import Bridge, link, link_batch
from explearn.methods.base.explainer import Explainer, TextScores
from explearn.methods.info import About
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch

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

    about = About(name="given", family="chance", cost="one forward pass")

    def __init__(self, scores: list[np.ndarray]) -> None:
        self.scores = scores

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
        expected = faithfulness(of, {e.example_id: e for e in encodings}, {"given": named}, params)["given"].values
        wanted = {
            "difference": expected["comprehensiveness"] - expected["sufficiency"],
            "aopc_difference": expected["aopc_comprehensiveness"] - expected["aopc_sufficiency"],
        }
        options = MetricOptions(protocol, removal, tuple(percents), 30)
        names = get_args(Metric)
        groups = [(name,) for name in names] if one_by_one else [names]
        for group in groups:
            found = MapJudge(of, group, options).values(encodings, scores, targets)
            for column, name in enumerate(group):
                value = wanted[name] if name in wanted else expected[name]
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
