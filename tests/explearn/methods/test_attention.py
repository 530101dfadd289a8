from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import networkx
import numpy as np
import pytest
import tiny
import torch

import explearn
from explearn.core.errors import ParamsError, UnsupportedError
from explearn.methods.attention.attention_flow import flows


class TestRawAttention:
    @pytest.mark.parametrize("layer", [-1, 0, 1, -3])
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_is_the_mean_over_heads_of_the_first_row(self, kind: str, layer: int) -> None:
        of = tiny.classifier(kind)
        for found in explearn.get_explainer("raw_attention", layer=layer).explain(of, tiny.TEXTS):
            (encoding,) = of.encode([" ".join(found.words)])
            attention = tiny.eager_attentions(of, of.batch([encoding]))[layer][0]
            np.testing.assert_allclose(found.token_scores, attention.mean(0)[0][encoding.positions], atol=1e-5)

    def test_a_layer_that_does_not_exist(self) -> None:
        with pytest.raises(ParamsError, match="layer 3 does not exist"):
            list(explearn.get_explainer("raw_attention", layer=3).explain(tiny.classifier("bert"), tiny.TEXTS))


class TestRollout:
    def test_two_layers_by_hand(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Three tokens, one head. With A1 and A2 below, B = (A + I) / 2 and row 0 of B2 B1:

        B2[0] = (1/2 (1/2 + 1), 1/4, 0) = (3/4, 1/4, 0)
        B1 = ((1/2, 1/2, 0), (0, 1, 0), (1/4, 1/4, 1/2))
        (3/4) (1/2, 1/2, 0) + (1/4) (0, 1, 0) = (3/8, 5/8, 0)
        """
        first = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]])
        second = torch.tensor([[[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
        found = self.rollout(monkeypatch, [first, second])
        assert found.tolist() == [[0.375, 0.625, 0.0]]

    def test_later_layers_come_last(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Token 0 reads token 1 in the second layer, which has read token 2 in the first: the other order gives 0."""
        reads_2 = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]])
        reads_1 = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]])
        assert self.rollout(monkeypatch, [reads_2, reads_1]).tolist() == [[0.5, 0.25, 0.25]]
        assert self.rollout(monkeypatch, [reads_1, reads_2]).tolist() == [[0.5, 0.5, 0.0]]

    @staticmethod
    def rollout(monkeypatch: pytest.MonkeyPatch, layers: list[torch.Tensor]) -> torch.Tensor:
        import contextlib
        import importlib

        method = explearn.get_explainer("rollout")
        module: Any = importlib.import_module(type(method).__module__)

        @contextlib.contextmanager
        def captured(*_args: object) -> Any:
            yield SimpleNamespace(of=lambda layer: layers[layer])

        monkeypatch.setattr(module, "capture_attention", captured)
        monkeypatch.setattr(module, "layer_count", lambda _model: len(layers))
        monkeypatch.setattr(module, "read_weights", lambda _config, _batch: torch.eye(1, layers[0].shape[-1]))

        def model(**_: object) -> Any:
            return SimpleNamespace(logits=torch.zeros(1, 2))

        model.config = None  # type: ignore[attr-defined]
        of: Any = SimpleNamespace(model=model, autocast=contextlib.nullcontext)
        batch: Any = SimpleNamespace(model_inputs=dict)
        return method.score_batch(of, batch, None).scores

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_is_the_product_of_the_layers_matrices(self, kind: str) -> None:
        of = tiny.classifier(kind)
        for found in explearn.get_explainer("rollout").explain(of, tiny.TEXTS):
            (encoding,) = of.encode([" ".join(found.words)])
            product = torch.eye(len(encoding))
            for attention in tiny.eager_attentions(of, of.batch([encoding])):
                augmented = attention[0].mean(0) + torch.eye(len(encoding))
                product = augmented / augmented.sum(-1, keepdim=True) @ product
            np.testing.assert_allclose(found.token_scores, product[0][encoding.positions], atol=1e-5)


class TestAttentionMean:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_is_the_mean_over_layers_and_heads_of_the_first_row(self, kind: str) -> None:
        of = tiny.classifier(kind)
        for found in explearn.get_explainer("attention_mean").explain(of, tiny.TEXTS):
            (encoding,) = of.encode([" ".join(found.words)])
            layers = torch.cat(tiny.eager_attentions(of, of.batch([encoding])))
            np.testing.assert_allclose(found.token_scores, layers[:, :, 0].mean((0, 1))[encoding.positions], atol=1e-5)

    def test_its_layers_are_those_of_raw_attention(self) -> None:
        of = tiny.classifier("albert")
        (found,) = explearn.get_explainer("attention_mean").explain(of, tiny.TEXTS[:1])
        layers = [
            next(explearn.get_explainer("raw_attention", layer=layer).explain(of, tiny.TEXTS[:1])).token_scores
            for layer in range(tiny.LAYERS)
        ]
        np.testing.assert_allclose(found.token_scores, np.mean(layers, axis=0), rtol=1e-5)


def random_attention(layers: int, tokens: int, seed: int = 0) -> Any:
    logits = 2 * np.random.default_rng(seed).normal(size=(layers, tokens, tokens))
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def networkx_flows(attention: Any, sinks: list[int]) -> list[float]:
    graph = networkx.DiGraph()
    for layer, matrix in enumerate((attention + np.eye(attention.shape[1])) / 2):
        for (i, j), capacity in np.ndenumerate(matrix):
            graph.add_edge((layer + 1, i), (layer, j), capacity=capacity)
    return [networkx.maximum_flow_value(graph, (len(attention), 0), (0, sink)) for sink in sinks]


class TestAttentionFlow:
    def test_one_layer_lets_through_its_first_row(self) -> None:
        attention = random_attention(1, 5)
        expected = (attention[0, 0] + [1, 0, 0, 0, 0]) / 2
        np.testing.assert_allclose(flows(attention, [0, 1, 2, 3, 4]), expected, atol=1e-9)

    @pytest.mark.parametrize("seed", range(3))
    def test_on_two_layers_each_way_is_as_wide_as_its_narrower_pipe(self, seed: int) -> None:
        attention = random_attention(2, 6, seed)
        lower, upper = (attention + np.eye(6)) / 2
        expected = np.minimum(upper[0][:, None], lower).sum(0)
        np.testing.assert_allclose(flows(attention, list(range(6))), expected, atol=1e-8)

    def test_three_layers_by_hand(self) -> None:
        """Two tokens, rows CLS and x. B3 = (3/4 1/4; 0 1), B2 = (1/2 1/2; 0 1), B1 = (1/2 1/2; 1/4 3/4).

        CLS at the top sends 3/4 to CLS and 1/4 to x; of the 3/4, 1/2 and 1/4 go on to CLS and x, or 1/4 and 1/2. To
        reach input x: 1/2 through CLS's last pipe, 3/4 through x's; x can be given 1/2 + 1/4 = 3/4, CLS then 1/4: 1.
        To reach input CLS: at most 1/2 from CLS and 1/4 from x, and both arrive: 3/4.
        """
        layers = [[[0, 1], [0.5, 0.5]], [[0, 1], [0, 1]], [[0.5, 0.5], [0, 1]]]
        assert flows(np.array(layers), [0, 1]).tolist() == [0.75, 1.0]

    def test_later_layers_are_nearer_to_the_source(self) -> None:
        reads_2 = [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        reads_1 = [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        from_1_to_2 = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]
        assert flows(np.array([reads_2, reads_1]), [1, 2]).tolist() == [0.5, 0.5]
        assert flows(np.array([from_1_to_2, reads_1]), [1, 2]).tolist() == [0.5, 0.5]
        assert flows(np.array([reads_1, from_1_to_2]), [1, 2]).tolist() == [0.5, 0.0]

    @pytest.mark.parametrize(("layers", "tokens"), [(3, 6), (6, 9), (12, 5)])
    def test_equals_networkx(self, layers: int, tokens: int) -> None:
        attention = random_attention(layers, tokens)
        sinks = list(range(tokens))
        # Capacities are rounded to 2^-30, so a cut of all edges of a layer is off by tokens^2 2^-31 at most.
        expected = networkx_flows(attention, sinks)
        np.testing.assert_allclose(flows(attention, sinks), expected, atol=tokens**2 / 2**31)

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_scores_of_a_classifier_equal_networkx(self, kind: str) -> None:
        of = tiny.classifier(kind)
        for found in explearn.get_explainer("attention_flow").explain(of, tiny.TEXTS[:3]):
            (encoding,) = of.encode([" ".join(found.words)])
            layers = torch.cat(tiny.eager_attentions(of, of.batch([encoding]))).mean(1).double().numpy()
            np.testing.assert_allclose(found.token_scores, networkx_flows(layers, encoding.positions), atol=1e-5)

    def test_long_texts_are_refused(self) -> None:
        of = tiny.classifier("bert")
        method = explearn.get_explainer("attention_flow", max_tokens_per_text=12)
        assert len(list(method.explain(of, ["lazy dog"]))) == 1
        long = "lazy dog " * 8
        (encoding,) = of.encode([long])
        message = f"a text has {len(encoding)} sub-tokens, more than max_tokens_per_text = 12; .* use rollout"
        with pytest.raises(UnsupportedError, match=message):
            list(method.explain(of, ["lazy dog", long]))

    @pytest.mark.parametrize("value", [0, -3, 2.5, "64"])
    def test_a_limit_that_is_none(self, value: Any) -> None:
        with pytest.raises(ParamsError, match=f"max_tokens_per_text: got {value!r}; expected a whole number"):
            explearn.get_explainer("attention_flow", max_tokens_per_text=value)
