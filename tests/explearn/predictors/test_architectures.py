"""Every entry of the table of encoders, against the model as transformers runs it."""

import pytest
import torch
import transformers
from rounding import assert_close

from explearn import UnsupportedError
from explearn.lens.anatomy import dissect
from explearn.lens.words import table_weight
from explearn.predictors.architectures import ARCHITECTURES, position_offset, word_table
from explearn.predictors.encoding import Batch

LAYERS = 3
HEADS = 4
WIDTH = 32
TOKENS = 7
PAD = 1


def tiny_config(model_type, **options):
    """Three layers, four heads; DistilBERT has names of its own for all of it."""
    sizes = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": WIDTH, "intermediate_size": 48}
    if model_type == "distilbert":
        sizes = {"n_layers": LAYERS, "n_heads": HEADS, "dim": WIDTH, "hidden_dim": 48}
    if model_type in ("albert", "electra"):
        sizes["embedding_size"] = 24
    return transformers.AutoConfig.for_model(
        model_type, vocab_size=60, pad_token_id=PAD, initializer_range=0.25, **{**sizes, **options}
    )


def tiny_model(model_type, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        loader = transformers.AutoModelForSequenceClassification
        return loader.from_config(tiny_config(model_type, **options), attn_implementation="eager").eval()


def batch():
    """Three texts, the last two with padding."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(2, 60, (3, TOKENS), generator=generator)
    mask = torch.arange(TOKENS) < torch.tensor([[TOKENS], [5], [2]])
    return Batch((), ids.masked_fill(~mask, PAD), mask.long(), None)


TAKEN_APART = sorted(name for name, entry in ARCHITECTURES.items() if entry.parts is not None)


@pytest.mark.parametrize("model_type", TAKEN_APART)
class TestParts:
    def test_positions_counted_from_the_offset_are_the_model_s_own(self, model_type):
        model = tiny_model(model_type)
        texts = batch()
        positions = torch.arange(TOKENS).expand(3, -1) + position_offset(model.config)
        with torch.inference_mode():
            own = model(**texts.model_inputs()).logits
            actual = model(**texts.model_inputs(), position_ids=positions).logits
        assert_close(actual, own)


@pytest.mark.parametrize(
    ("model_type", "options"),
    [("xlm-roberta-xl", {}), ("roberta-prelayernorm", {}), ("mobilebert", {"intra_bottleneck_size": WIDTH})],
)
def test_what_is_built_in_another_way_is_not_taken_apart(model_type, options):
    model = tiny_model(model_type, **options)
    with pytest.raises(UnsupportedError, match=rf"'{model_type}' model cannot be captured; supported: albert"):
        dissect(model)
    assert position_offset(model.config) == (0 if model_type == "mobilebert" else PAD + 1)


class TestWordTable:
    def test_a_model_without_one(self):
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
        model = transformers.CanineForSequenceClassification(transformers.CanineConfig(**sizes, num_hash_buckets=8))
        assert word_table(model) is None
        with pytest.raises(UnsupportedError, match="a 'canine' model has no table of word embeddings"):
            table_weight(model)
