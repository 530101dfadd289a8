"""Gradient methods against direct calls of captum and torch; DeepLIFT and Deep SHAP have their own file."""

import numpy as np
import pytest
import tiny
import torch
from captum.attr import GradientShap, InputXGradient, IntegratedGradients, Saliency
from gradient_cases import BASELINES, CASES, FEW, TEXTS, close, double_classifier, embedded, empty, explained
from scipy.stats import spearmanr

from explearn.lens.hooks import Hooks
from explearn.predictors.encoding import text_seed


@pytest.mark.parametrize(("kind", "classes", "output"), CASES)
class TestEqualToCaptum:
    """On every architecture, single texts and pairs, in one padded batch here and one by one there."""

    def test_gradient(self, kind, classes, output):
        of = double_classifier(kind, classes)
        for text, actual, target in explained("gradient", of, TEXTS, output=output):
            encoding, embeddings, forward = embedded(of, text, output)
            gradients = Saliency(forward).attribute(embeddings.requires_grad_(), target=target, abs=False)
            close(actual.token_scores, gradients[0].norm(dim=-1)[encoding.positions])

    def test_input_x_gradient(self, kind, classes, output):
        of = double_classifier(kind, classes)
        for text, actual, target in explained("input_x_gradient", of, TEXTS, output=output):
            encoding, embeddings, forward = embedded(of, text, output)
            products = InputXGradient(forward).attribute(embeddings.requires_grad_(), target=target)
            close(actual.token_scores, products.sum(-1)[0][encoding.positions])

    @pytest.mark.parametrize("baseline", BASELINES)
    def test_integrated_gradients(self, kind, classes, output, baseline):
        of = double_classifier(kind, classes)
        options = {"steps": 6, "baseline": baseline, "output": output}
        for text, actual, target in explained("integrated_gradients", of, FEW, **options):
            encoding, embeddings, forward = embedded(of, text, output)
            scores, delta = IntegratedGradients(forward).attribute(
                embeddings,
                empty(of, encoding, embeddings, baseline),
                target=target,
                n_steps=6,
                return_convergence_delta=True,
            )
            close(actual.token_scores, scores.sum(-1)[0][encoding.positions])
            assert actual.completeness_error == pytest.approx(float(delta.abs()), abs=1e-6)

    def test_gradient_shap(self, kind, classes, output):
        of = double_classifier(kind, classes)
        options = {"samples": 4, "baseline": "mask", "seed": 3, "output": output}
        for text, actual, target in explained("gradient_shap", of, FEW, **options):
            encoding, embeddings, forward = embedded(of, text, output)
            with torch.random.fork_rng():
                torch.manual_seed(text_seed(3, encoding))
                np.random.seed(text_seed(3, encoding))
                start = empty(of, encoding, embeddings, "mask")
                scores = GradientShap(forward).attribute(embeddings, start, n_samples=4, target=target)
            close(actual.token_scores, scores.sum(-1)[0][encoding.positions])

    def test_sequential_ig(self, kind, classes, output):
        """By one call a word."""
        of = double_classifier(kind, classes)
        for text, actual, target in explained("sequential_ig", of, FEW, steps=5, output=output):
            encoding, embeddings, forward = embedded(of, text, output)
            expected = torch.zeros(len(encoding)).double()
            misses = []
            for word in range(len(encoding.words)):
                pieces = [position for position, owner in enumerate(encoding.word_ids) if owner == word]
                start = embeddings.clone()
                start[0, pieces] = of.model.get_input_embeddings().weight[of.tokenizer.mask_token_id]
                scores, delta = IntegratedGradients(forward).attribute(
                    embeddings, start, target=target, n_steps=5, return_convergence_delta=True
                )
                expected[pieces] = scores.sum(-1)[0][pieces]
                misses.append(float(delta.abs()))
            close(actual.token_scores, expected[encoding.positions])
            assert actual.completeness_error == pytest.approx(max(misses), abs=1e-6)


@pytest.mark.parametrize("kind", ["deberta-v2", "modernbert"])
class TestBehindANorm:
    """A norm directly behind the word table takes the length of the embeddings away; gradients are taken behind it."""

    def test_input_x_gradient_is_that_of_the_norm_s_output(self, kind):
        of = tiny.double(kind)
        embeddings = of.model.base_model.embeddings
        norm = embeddings.LayerNorm if kind == "deberta-v2" else embeddings.norm
        for text, actual, target in explained("input_x_gradient", of, TEXTS):
            (encoding,) = of.encode([text])
            with Hooks() as hooks:
                run = hooks.record(norm)
                hooks.replace(norm, lambda output: output.requires_grad_())
                of.model(**of.batch([encoding]).model_inputs()).logits[0, target].backward()
            products = (run.output * run.output.grad).sum(-1)[0]
            close(actual.token_scores, products[encoding.positions])
            assert np.abs(actual.token_scores).max() > 0.01

    def test_integrated_gradients_reach_their_limit(self, kind):
        of = tiny.classifier(kind)
        few = explained("integrated_gradients", of, FEW)
        many = explained("integrated_gradients", of, FEW, steps=400)
        for (_, actual, _), (_, limit, _) in zip(few, many, strict=True):
            assert len(actual.tokens) < 3 or spearmanr(actual.token_scores, limit.token_scores).statistic >= 0.99
            assert actual.missed < 0.02
