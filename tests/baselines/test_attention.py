from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import explearn
import tiny
from explearn.errors import ParamsError


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
        of: Any = SimpleNamespace(
            model=lambda **_: SimpleNamespace(logits=torch.zeros(1, 2)), autocast=contextlib.nullcontext
        )
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
