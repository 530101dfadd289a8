"""What passes the parts of each architecture is what the model gives, and follows the formulas of a block."""

import pytest
import tiny
import torch

from explearn.core.errors import UnsupportedError
from explearn.lens.anatomy import TracedPass, dissect, merge_heads

KINDS = (*tiny.ARCHITECTURES, "deberta-v2", "mpnet")


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_computed_again_has_the_model_s_attention_and_states(kind):
    of = tiny.classifier(kind, 3)
    batch = tiny.batch(of, [*tiny.TEXTS, tiny.PAIRS[0]])
    mask = batch.attention_mask.bool()
    hooks = tiny.hooks(of.model)
    with torch.inference_mode():
        run = TracedPass.run(of.model, batch)
        assert tiny.hooks(of.model) == hooks
        with tiny.eager(of.model):
            expected = of.model(**batch.model_inputs(), output_attentions=True, output_hidden_states=True)
        close(run.logits, expected.logits)
        assert len(run.calls) == len(run.anatomy.blocks) == len(expected.attentions)
        for layer, block in enumerate(run.anatomy.blocks):
            kept = run.block(layer)
            real = mask[:, None, :, None].expand_as(kept.attention)
            close(kept.attention[real], expected.attentions[layer][real])
            close(kept.input[mask], expected.hidden_states[layer][mask])
            close(kept.context[mask], merge_heads(kept.attention @ kept.value)[mask])
            close(kept.attention_sum, kept.input + block.output(kept.context))
            close(kept.middle, block.attention_norm(kept.attention_sum))
            close(kept.activated, block.activation(kept.expanded))
            close(kept.sum, kept.middle + kept.contracted)
            close(kept.result, block.norm(kept.sum))
        close(run.output[mask], expected.hidden_states[-1][mask])
        head = run.anatomy.head
        close(run.activated, head.activation(head.dense(run.output[:, 0])))
        close(run.logits, head.classifier(run.activated))


def test_a_head_of_another_kind_is_refused():
    model = tiny.make_classifier("bert").model
    model.classifier = torch.nn.Sequential(torch.nn.Linear(tiny.HIDDEN, 2))
    with pytest.raises(UnsupportedError, match="built in an unusual way"):
        dissect(model)


def test_a_convolution_between_the_blocks_is_refused():
    of = tiny.make_classifier("deberta-v2")
    of.model.base_model.encoder.conv = torch.nn.Identity()
    with pytest.raises(UnsupportedError, match="a convolution follows its first layer"):
        dissect(of.model)
