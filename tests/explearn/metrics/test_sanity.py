"""Sanity checks: captum's figures, scipy's, and methods that do and do not look at the model."""

import numpy as np
import pytest
import tiny
import torch
from captum.metrics import sensitivity_max
from scipy.stats import spearmanr

from explearn import DataError, UnsupportedError
from explearn.methods.attention.explainers import RawAttention
from explearn.methods.chance.random import Random
from explearn.metrics import sanity as s
from explearn.metrics.params import SanityParams

EXAMPLES = [example for example in tiny.examples() if len(example.words) > 2 and not example.pair]


def named(explainer, name):
    explainer.name = name
    return explainer


def test_rank_correlations_are_scipys():
    rng = np.random.default_rng(0)
    first, second = (np.split(rng.integers(0, 4, size=18), [5, 14]) for _ in range(2))
    expected = [spearmanr(a, b).statistic for a, b in zip(first, second, strict=True)]
    assert s.rank_correlations(first, second) == pytest.approx(expected)
    assert np.isnan(s.rank_correlations([[1, 1]], [[1, 2]])).all()


def test_top_words_in_common():
    assert s.top_overlaps([[3, 2, 1, 0], [1, 2]], [[3, 0, 1, 2], [1, 2]], percent=50) == pytest.approx([0.5, 1])


def test_max_sensitivity_is_captums():
    weight = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.3, 0.1], [0.0, 0.0, 1.0]], dtype=torch.float64)
    inputs = torch.tensor([[1.0, 2.0, -1.0]], dtype=torch.float64)
    noise = 0.1 * torch.rand(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def explain(x):
        return (x @ weight) * x

    expected = sensitivity_max(
        lambda x: (explain(x[0]),), inputs, perturb_func=lambda x, radius: (x[0] + noise,), n_perturb_samples=4
    )
    perturbed = [[explain(inputs + draw)[0].numpy()] for draw in noise]
    assert s.max_sensitivity([explain(inputs)[0].numpy()], perturbed) == pytest.approx(float(expected), rel=1e-6)
    # Without a size to compare with, the difference itself counts.
    assert s.max_sensitivity([[0.0, 0.0]], [[[3.0, 4.0]]]) == pytest.approx([5.0])


def test_a_method_that_reads_the_model_notices_and_one_that_does_not_does_not():
    classifier = tiny.classifier()
    methods = [named(Random(seed=1), "random"), named(RawAttention(), "raw_attention")]
    checks = s.check_methods(methods, classifier, EXAMPLES, SanityParams(), seed=3)
    blind, reading = (checks[name].random_model["embeddings"] for name in ("random", "raw_attention"))
    assert (blind.spearman, blind.overlap, checks["random"].max_sensitivity) == (pytest.approx(1), 1, 0)
    assert reading.spearman < 0.9
    assert 0 < checks["raw_attention"].max_sensitivity < 1
    assert checks["random"].random_labels is None and checks["random"].skipped == ""


def test_a_cascade_goes_down_to_the_embeddings_and_labels_are_compared():
    classifier = tiny.classifier()
    params = SanityParams(cascade=True, noise_samples=0)
    checks = s.check_methods(
        [named(RawAttention(), "raw_attention")],
        classifier,
        EXAMPLES,
        params,
        3,
        other_labels=lambda seed: tiny.make_classifier(seed=9),
    )["raw_attention"]
    assert list(checks.random_model) == ["head", "layer 3", "layer 2", "layer 1", "embeddings"]
    # The last layer's attention is settled below its own values and the head.
    assert checks.random_model["head"].spearman == pytest.approx(1)
    assert checks.random_model["layer 3"].spearman < 1
    assert checks.random_labels.spearman < 1 and checks.max_sensitivity is None


def test_a_method_that_fails_on_a_copy_is_noted_and_the_others_go_on():
    class Picky(RawAttention):
        def check(self, classifier):
            if classifier is not tiny.classifier():
                raise UnsupportedError("explains one model only")

    methods = [named(Picky(), "picky"), named(RawAttention(), "raw_attention")]
    checks = s.check_methods(methods, tiny.classifier(), EXAMPLES, SanityParams(noise_samples=1), 3)
    assert checks["picky"] == s.SanityResult(skipped="picky: explains one model only")
    assert checks["raw_attention"].max_sensitivity is not None


def test_bad_input_is_named():
    with pytest.raises(DataError, match="no text to explain"):
        s.check_methods([], tiny.classifier(), [], SanityParams(), 0)
