"""Attention methods: the original code's scores, formulas by hand, and networkx for the flow."""

import golden
import networkx
import numpy as np
import pytest
import tiny
import torch

import explearn
from explearn import UnsupportedError
from explearn.methods.attention.explainers import flows, rollout_row

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


def test_rollout_of_two_layers_by_hand():
    """Three tokens. With A1 and A2 below, B = (A + I) / 2 and row 0 of B2 B1:

    B2[0] = (1/2 (1/2 + 1), 1/4, 0) = (3/4, 1/4, 0)
    B1 = ((1/2, 1/2, 0), (0, 1, 0), (1/4, 1/4, 1/2))
    (3/4) (1/2, 1/2, 0) + (1/4) (0, 1, 0) = (3/8, 5/8, 0)
    """
    first = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]])
    second = torch.tensor([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
    assert rollout_row([first, second], torch.eye(3)[:1]).tolist() == [[0.375, 0.625, 0.0]]


def random_attention(layers, tokens, seed=0):
    logits = 2 * np.random.default_rng(seed).normal(size=(layers, tokens, tokens))
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def networkx_flows(attention, sinks):
    graph = networkx.DiGraph()
    for layer, matrix in enumerate((attention + np.eye(attention.shape[1])) / 2):
        for (i, j), capacity in np.ndenumerate(matrix):
            graph.add_edge((layer + 1, i), (layer, j), capacity=capacity)
    return [networkx.maximum_flow_value(graph, (len(attention), 0), (0, sink)) for sink in sinks]


class TestAttentionFlow:
    def test_three_layers_by_hand(self):
        """Two tokens, rows CLS and x. B3 = (3/4 1/4; 0 1), B2 = (1/2 1/2; 0 1), B1 = (1/2 1/2; 1/4 3/4).

        CLS at the top sends 3/4 to CLS and 1/4 to x; of the 3/4, 1/2 and 1/4 go on to CLS and x, or 1/4 and 1/2. To
        reach input x: 1/2 through CLS's last pipe, 3/4 through x's; x can be given 1/2 + 1/4 = 3/4, CLS then 1/4: 1.
        To reach input CLS: at most 1/2 from CLS and 1/4 from x, and both arrive: 3/4.
        """
        layers = [[[0, 1], [0.5, 0.5]], [[0, 1], [0, 1]], [[0.5, 0.5], [0, 1]]]
        assert flows(np.array(layers), [0, 1]).tolist() == [0.75, 1.0]

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
