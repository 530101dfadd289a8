"""Parts of AML: loss and masking, the metric of interest, another tokenizer's sub-tokens, maps made from a map."""

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import tiny
import torch

from explearn import About
from explearn.methods.aml.attribution_model import ModelInput
from explearn.methods.aml.loss import Weights, embedded_logits, loss_terms, weighted
from explearn.methods.aml.params import Metric
from explearn.methods.aml.target_metric import MapEvaluator
from explearn.methods.base.explainer import Explainer, TextScores
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams

ALL = Weights(1, 1, 1)
PROTOCOLS = ("default", "aml")


class TestLoss:
    def test_terms_by_hand(self):
        """Every a is 1/2: both masked texts are the same half-masked one, and -log(1 - a) is log 2."""
        classifier = tiny.classifier("bert", 3)
        batch = tiny.batch(classifier)
        y = classifier.logits(batch).softmax(-1)
        prediction, size, inverse = terms = loss_terms(classifier, batch, torch.zeros(batch.input_ids.shape), y, ALL)
        words = classifier.model.get_input_embeddings()(batch.input_ids)
        mask = classifier.model.get_input_embeddings().weight[4]
        special = torch.tensor([[*e.special, *[True] * (batch.input_ids.shape[1] - len(e))] for e in batch.encodings])
        p = embedded_logits(classifier, batch, torch.where(special[..., None], words, (words + mask) / 2)).softmax(-1)
        assert size.tolist() == pytest.approx([math.log(2)] * len(batch))
        torch.testing.assert_close(prediction, -(y * p.log()).sum(-1))
        torch.testing.assert_close(inverse, -(1 - p.gather(1, y.argmax(-1, keepdim=True))).log()[:, 0])
        torch.testing.assert_close(weighted(terms, Weights(0.5, 0.25, 1)), prediction / 2 + size / 4 + inverse)

    @pytest.mark.parametrize("kind", ["bert", "albert"])
    def test_gradients_reach_every_sub_token_and_no_special_one(self, kind):
        classifier = tiny.make_classifier(kind)
        batch = tiny.batch(classifier, [*tiny.PAIRS])
        scores = torch.zeros(batch.input_ids.shape, requires_grad=True)
        weighted(loss_terms(classifier, batch, scores, classifier.logits(batch).softmax(-1), ALL), ALL).sum().backward()
        for row, encoding in enumerate(batch.encodings):
            assert scores.grad[row].nonzero().flatten().tolist() == encoding.positions
        assert all(p.grad is None and not p.requires_grad for p in classifier.model.parameters())
        assert tiny.hooks(classifier.model) == 0

    def test_the_inverse_term_is_finite_where_the_classifier_is_sure(self):
        classifier = tiny.make_classifier()
        with torch.no_grad():
            classifier.model.classifier.weight.mul_(1e3)
        batch = tiny.batch(classifier)
        scores = torch.zeros(batch.input_ids.shape, requires_grad=True)
        weighted(loss_terms(classifier, batch, scores, classifier.logits(batch).softmax(-1), ALL), ALL).sum().backward()
        assert scores.grad is not None and torch.isfinite(scores.grad).all()


class ScoresAsTheyAre(Explainer):
    about = About(name="as_they_are", family="chance", cost="one forward pass")

    def __init__(self, scores):
        self.scores = scores

    def score_texts(self, classifier, encodings, targets):
        p = classifier.predict_proba(encodings)
        return [TextScores(s, np.log(row), t, 0.0) for s, row, t in zip(self.scores, p, targets, strict=True)]


class TestMapEvaluator:
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_its_values_are_those_of_the_evaluation(self, protocol):
        classifier = tiny.classifier("bert", 3)
        texts = [*tiny.TEXTS, *tiny.PAIRS]
        encodings = [replace(e, example_id=str(i)) for i, e in enumerate(classifier.encode(texts))]
        rng = np.random.default_rng(0)
        scores = [rng.random(len(e)).astype(np.float32) for e in encodings]
        targets = [i % 3 for i in range(len(texts))]
        params = EvaluateParams(protocol=protocol, percents=[5, 20, 50], headline_percent=30)
        attributions = ScoresAsTheyAre(scores).explain(classifier, texts, targets)
        named = [replace(a, example_id=str(i)) for i, a in enumerate(attributions)]
        expected = faithfulness(classifier, {e.example_id: e for e in encodings}, {"": named}, params)[""].values
        wanted = {
            "difference": expected["comprehensiveness"] - expected["sufficiency"],
            "aopc_difference": expected["aopc_comprehensiveness"] - expected["aopc_sufficiency"],
        }
        names = get_args(Metric)
        for group in [names, *((name,) for name in names)]:
            evaluator = MapEvaluator(classifier, group, params)
            maps = [(evaluator.text(e, t), s) for e, t, s in zip(encodings, targets, scores, strict=True)]
            for name, column in zip(group, evaluator.measure(maps).T, strict=True):
                value = wanted[name] if name in wanted else expected[name]
                np.testing.assert_allclose(column, value, atol=1e-6, err_msg=name)


class TestAnotherTokenizer:
    @pytest.mark.parametrize(
        ("scores", "links", "expected"),
        [
            ([3.0, 1.0, 2.0], [[1, 0, 0], [0, 1, 1]], [3.0, 2.0]),
            ([3.0, 1.0], [[1, 0], [0, 0], [0, 1]], [3.0, 1.0, 1.0]),
            ([3.0], [[0]], [0.0]),
        ],
    )
    def test_a_piece_gets_the_largest_of_its_sources_or_the_lowest_of_its_text(self, scores, links, expected):
        batch = tiny.batch(tiny.classifier())
        inputs = ModelInput(batch, torch.zeros(len(batch), 2), batch, links=torch.tensor([links]).bool())
        assert inputs.to_target(torch.tensor([scores])).tolist() == [expected]
