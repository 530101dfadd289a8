"""Learned methods on decoders and on encoders that are not built as BERT is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from explearn.lens.attention import Attention, capture_attention
from explearn.methods.aml.faml import FAML
from explearn.methods.aml.paml import PAML
from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.ivra.attention import HeadAttention, InterpretableAttention, explain_batch, size_of
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.l2e.explainer import L2E
from explearn.methods.listed_task import ListedTask

KINDS = ("deberta-v2", "mpnet", "modernbert", *tiny.DECODERS)
FEW = ("deberta-v2", "modernbert", "gpt2", "gemma")
"""One of each kind of attention; the others differ in nothing that training sees."""
SOME = [*tiny.TEXTS, *tiny.CORPUS[:5]]


def task_of(kind: str) -> ListedTask:
    of = tiny.make_classifier(kind)
    data: Any = list(zip(SOME, of.predict(SOME), strict=True))
    gold = {f"train-{i}": [j % 2 == 0 for j in range(len(t.split()))] for i, t in enumerate(SOME, start=1)}
    return ListedTask(of, data, data[:6], gold=gold, teachers={"occlusion": {}})


def explained(method: Any, of: Any) -> list[Any]:
    attributions = list(method.explain(of, tiny.TEXTS))
    assert all(np.isfinite(a.scores).all() for a in attributions)
    assert [len(a.scores) for a in attributions] == [len(text.split()) for text in tiny.TEXTS]
    return attributions


@pytest.mark.parametrize("kind", FEW)
class TestTraining:
    def test_expnet(self, kind: str, tmp_path: Path) -> None:
        task = task_of(kind)
        method = ExpNet(protocol="in_domain", epochs=2).learn(task)
        attributions = explained(method, task.classifier)
        method.save_pretrained(tmp_path / "e")
        again = explained(ExpNet.from_pretrained(tmp_path / "e"), task.classifier)
        np.testing.assert_array_equal(again[1].scores, attributions[1].scores)

    def test_l2e(self, kind: str) -> None:
        task = task_of(kind)
        method = L2E(epochs=1, samples=4, width=16).learn(task)
        explained(method, task.classifier)

    @pytest.mark.parametrize("method", [IvRA, SMaT])
    def test_ivra_and_smat(self, kind: str, method: Any) -> None:
        task = task_of(kind)
        trained = method(criteria=["cons"], schedule={"epochs": 1, "learning_rate": 1e-4}).learn(task)
        for actual in explained(trained, trained.classifier):
            assert actual.token_scores.sum() == pytest.approx(1, abs=1e-4)

    def test_paml_and_faml_with_an_encoder_of_another_tokenizer(self, kind: str, tmp_path: Path) -> None:
        tiny.model("bert").base_model.save_pretrained(tmp_path / "encoder")
        tiny.tokenizer("bert").save_pretrained(tmp_path / "encoder")
        task = task_of(kind)
        paml = PAML(backbone=str(tmp_path / "encoder"), epochs=1, batch_size=4).learn(task)
        explained(paml, task.classifier)
        paml.save_pretrained(tmp_path / "paml")
        explained(FAML.from_pretrained(tmp_path / "paml", steps=1, samples=2), task.classifier)


@pytest.mark.parametrize("kind", KINDS)
class TestModules:
    """IvRA's equations and Attention-SMaT's in loops, from what the model itself computes."""

    def test_head_attention_is_the_mean_logit_of_the_queries_that_see_a_token(self, kind: str) -> None:
        of = tiny.make_classifier(kind)
        module = HeadAttention(*size_of(of.model), norm="softmax")
        torch.nn.init.normal_(module.head_weights, generator=torch.Generator().manual_seed(0))
        texts = [tiny.TEXTS[1], tiny.TEXTS[0]]
        with torch.inference_mode():
            both = explain_batch(of, module, of.batch(of.encode(texts))).r
        for row, text in enumerate(texts):
            (encoding,) = of.encode([text])
            with torch.inference_mode():
                r = explain_batch(of, module, of.batch([encoding])).r[0]
            torch.testing.assert_close(both[row, : len(encoding)], r, atol=1e-5, rtol=1e-4)
            assert r.sum() == pytest.approx(1, abs=1e-5)
            assert all(r[i] == 0 for i, special in enumerate(encoding.special) if special)

    def test_pooled_products_by_loops(self, kind: str) -> None:
        of = tiny.make_classifier(kind)
        (encoding,) = of.encode([tiny.TEXTS[0]])
        batch = of.batch([encoding])
        seen = [a[0, 0] > 0 for a in tiny.eager_attentions(of, batch)]
        for made in (HeadAttention(*size_of(of.model), norm="softmax"), InterpretableAttention(*size_of(of.model))):
            content = torch.tensor([[not special for special in encoding.special]])
            layers: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

            def record(attention: Attention, made: Any = made, layers: Any = layers, content: Any = content) -> None:
                query, key = made.queries_and_keys(attention)
                part = made.layer(len(layers), attention, content)
                layers.append((query[0].transpose(0, 1), key[0].transpose(0, 1), part))

            with torch.inference_mode(), capture_attention(of.model, record):
                of.model(**batch.model_inputs())
            for layer, (q, k, part) in enumerate(layers):
                size = q.shape[-1]
                if isinstance(made, InterpretableAttention):
                    q, k = q.softmax(-1), k.softmax(-1)
                values = []
                for j in range(q.shape[1]):
                    by_head = [
                        torch.stack([q[h, i] @ k[h, j] for i in range(q.shape[1]) if seen[layer][i, j]]).mean()
                        for h in range(len(q))
                    ]
                    values.append(torch.stack(by_head))
                pooled = torch.stack(values)  # (tokens, heads)
                if isinstance(made, InterpretableAttention):
                    logits = size * pooled.sum(1)
                    logits = logits.masked_fill(~content[0], float("-inf")).softmax(-1)
                else:
                    logits = pooled.sum(1) * size**-0.5 / (tiny.LAYERS * tiny.HEADS)
                torch.testing.assert_close(part[0][content[0]], logits[content[0]], atol=1e-5, rtol=1e-4)
