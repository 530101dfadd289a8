"""The parts of each architecture, run one by one, give what the model gives."""

from __future__ import annotations

import pytest
import tiny
import torch
from rounding import assert_close

from explearn.core.errors import UnsupportedError
from explearn.lens.anatomy import dissect
from explearn.lens.capture import layer_count


@pytest.mark.parametrize("texts", [tiny.TEXTS, tiny.PAIRS], ids=["single", "pairs"])
@pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
def test_parts_give_the_model_s_logits_attention_and_states(kind: str, texts: tuple[str, ...]) -> None:
    of = tiny.classifier(kind, 3)
    batch = of.batch(of.encode(texts))
    mask = batch.attention_mask.bool()
    with torch.inference_mode(), tiny.eager(of.model):
        expected = of.model(**batch.model_inputs(), output_attentions=True, output_hidden_states=True)
        blocks, logits = tiny.trace(of.model, batch)
    assert_close(logits, expected.logits)
    assert len(blocks) == layer_count(of.model) == len(expected.attentions)
    for block, attention in zip(blocks, expected.attentions, strict=True):
        real = mask[:, None, :, None].expand_as(attention)
        assert_close(block.attention[real], attention[real])
    assert_close(blocks[-1].result[mask], expected.hidden_states[-1][mask])


def test_a_head_of_another_kind_is_refused() -> None:
    model = tiny.make_classifier("bert").model
    model.classifier = torch.nn.Sequential(torch.nn.Linear(tiny.HIDDEN, 2))
    with pytest.raises(UnsupportedError, match="built in an unusual way"):
        dissect(model)
