"""Attention methods: the original code's scores, formulas by hand, and networkx for the flow."""

import golden
import networkx
import numpy as np
import pytest
import tiny

import explearn
from explearn import UnsupportedError
from explearn.methods.attention.explainers import flows

TOLERANCES = {"float64": 1e-9, "float32": 1e-5}
"""Of the reference's scores, as its notes suggest."""


@pytest.mark.parametrize("together", [False, True], ids=["alone", "in_a_padded_batch"])
@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize(("name", "there"), [("raw_attention", "attention_last_layer"), ("rollout", "rollout")])
def test_scores_equal_the_original_code_s(name, there, precision, together):
    golden.assert_reproduces(explearn.get_explainer(name), there, TOLERANCES[precision], precision, together=together)


def test_attributions_carry_the_reference_s_scores():
    """The way from text to words keeps the scores: here every word of the text is one sub-token."""
    expected = golden.expected("rollout")[0]
    attribution = explearn.explain(golden.classifier("float32"), golden.inputs()[0]["text"], "rollout")
    assert attribution.words == ("great", "little", "movie")
    assert attribution.tokens == tuple(expected["tokens"][1:-1])
    np.testing.assert_allclose(attribution.scores, expected["scores"][1:-1], rtol=1e-5)
    np.testing.assert_array_equal(attribution.scores, attribution.token_scores)


def random_attention(layers, tokens):
    logits = 2 * np.random.default_rng(0).normal(size=(layers, tokens, tokens))
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def networkx_flows(attention, sinks):
    graph = networkx.DiGraph()
    for layer, matrix in enumerate((attention + np.eye(attention.shape[1])) / 2):
        for (i, j), capacity in np.ndenumerate(matrix):
            graph.add_edge((layer + 1, i), (layer, j), capacity=capacity)
    return [networkx.maximum_flow_value(graph, (len(attention), 0), (0, sink)) for sink in sinks]


class TestAttentionFlow:
    @pytest.mark.parametrize(("layers", "tokens"), [(3, 6), (12, 5)])
    def test_equals_networkx(self, layers, tokens):
        attention = random_attention(layers, tokens)
        sinks = list(range(tokens))
        # Capacities are rounded to 2^-30, so a cut of all edges of a layer is off by tokens^2 2^-31 at most.
        expected = networkx_flows(attention, sinks)
        np.testing.assert_allclose(flows(attention, sinks), expected, atol=tokens**2 / 2**31)

    def test_long_texts_are_refused(self):
        of = tiny.classifier()
        method = explearn.get_explainer("attention_flow", max_tokens_per_text=12)
        with pytest.raises(UnsupportedError, match=r"a text has \d+ sub-tokens, more than max_tokens_per_text = 12; "):
            method.explain(of, ["lazy dog", "lazy dog " * 8])
