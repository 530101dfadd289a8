"""Learned methods on decoders and on encoders that are not built as BERT is."""

import numpy as np
import pytest
import tiny
import torch
from learned_cases import all_trained, short_task, trained_for_attention

from explearn.lens.attention import capture_attention
from explearn.methods.ivra.attention import HeadAttention, InterpretableAttention, size_of

KINDS = ("deberta-v2", "mpnet", "modernbert", *tiny.DECODERS)


@pytest.mark.parametrize("kind", ["deberta-v2", "modernbert", "gemma"])
def test_every_method_on_each_kind_of_attention(kind, tmp_path):
    """pAML with an encoder of another tokenizer; the other kinds differ in nothing that training sees."""
    task = short_task(tiny.make_classifier(kind))
    methods = all_trained(task, tmp_path / "paml", backbone=tiny.save_encoder(tmp_path / "encoder"))
    for name, (method, of) in methods.items():
        attributions = method.explain(of, tiny.TEXTS)
        assert [len(a.scores) for a in attributions] == [len(text.split()) for text in tiny.TEXTS], name
        for attribution in attributions:
            assert np.isfinite(attribution.scores).all() and attribution.scores.any(), name
            if name in ("ivra", "smat"):
                assert attribution.token_scores.sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("kind", ("eurobert", *tiny.MORE_DECODERS))
def test_marker_and_the_reader_of_hidden_states(kind):
    task = short_task(tiny.make_classifier(kind))
    for method in trained_for_attention(task):
        for attribution in method.explain(task.classifier, tiny.TEXTS[:2]):
            assert np.isfinite(attribution.scores).all() and attribution.scores.any()


@pytest.mark.parametrize("kind", KINDS)
def test_pooled_products_by_loops(kind):
    """IvRA's equations and Attention-SMaT's in loops, from what the model itself computes."""
    of = tiny.make_classifier(kind)
    (encoding,) = of.encode([tiny.TEXTS[0]])
    batch = of.batch([encoding])
    seen = [a[0, 0] > 0 for a in tiny.eager_attentions(of, batch)]
    for made in (HeadAttention(*size_of(of.model), norm="softmax"), InterpretableAttention(*size_of(of.model))):
        content = torch.tensor([[not special for special in encoding.special]])
        layers = []

        def record(attention, made=made, layers=layers, content=content):
            query, key = made.queries_and_keys(attention)
            part = made.layer(len(layers), attention, content)
            layers.append((query[0].transpose(0, 1), key[0].transpose(0, 1), part))

        with torch.inference_mode(), capture_attention(of.model, record):
            of.model(**batch.model_inputs())
        for layer, (q, k, part) in enumerate(layers):
            size = q.shape[-1]
            if isinstance(made, InterpretableAttention):
                q = q.softmax(-1)
                k = k.softmax(-1)
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
