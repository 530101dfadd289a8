"""A model and its tokenizer fit each other: fast tokenizers, and the padding of heads that read the last token."""

import copy
import logging
from types import SimpleNamespace

import pytest
import tiny
import tokenizers
from rounding import assert_close

from explearn import ComputeOptions, ModelError, TransformerPredictor


def classifier_of(kind, config_pad, **tokens):
    """A decoder whose configuration names `config_pad` as padding; `tokens` change its tokenizer's special ones."""
    model = tiny.model(kind)
    model.config.pad_token_id = config_pad
    words = copy.deepcopy(tiny.tokenizer(kind))
    for name, token in tokens.items():
        setattr(words, name, token)
    return TransformerPredictor(model, words, ComputeOptions(device="cpu"), "mine")


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize(
    ("config_pad", "pad_token", "said"),
    [
        (2, "<pad>", []),
        (None, "<pad>", ["mine: its configuration names no padding token; it is now '<pad>'"]),
        # Llama's first configurations said -1.
        (-1, "<pad>", ["mine: its configuration names no padding token; it is now '<pad>'"]),
        (1, "<pad>", ["mine: texts are padded with '</s>', which its head takes for padding"]),
        (
            None,
            None,
            [
                "mine: texts are padded with '</s>', for it has no padding token",
                "mine: its configuration names no padding token; it is now '</s>'",
            ],
        ),
    ],
)
def test_in_a_batch_the_head_reads_the_token_that_it_reads_alone(kind, config_pad, pad_token, said, caplog):
    with caplog.at_level(logging.WARNING, "explearn"):
        of = classifier_of(kind, config_pad, pad_token=pad_token)
    assert [record.getMessage() for record in caplog.records] == said
    assert tiny.tokenizer(kind).pad_token == "<pad>"
    assert_close(of.predict_proba(tiny.TEXTS), [tiny.alone(of, encoding) for encoding in of.encode(tiny.TEXTS)])


@pytest.mark.parametrize(
    ("kind", "config_pad", "tokens", "said"),
    [
        ("bert", None, {"pad_token": None}, "its tokenizer has no padding token; batches need one"),
        (
            "gpt2",
            None,
            {"pad_token": None, "eos_token": None},
            "its tokenizer has neither a padding nor an end-of",
        ),
        ("gpt2", 9999, {}, "its head takes token 9999 for padding, which its tokenizer does not"),
    ],
)
def test_a_padding_token_that_there_is_not(kind, config_pad, tokens, said):
    with pytest.raises(ModelError, match=f"mine: {said}"):
        classifier_of(kind, config_pad, **tokens)


def test_a_tokenizer_that_is_not_fast():
    with pytest.raises(ModelError, match="its tokenizer is not a fast one; word alignment needs one"):
        TransformerPredictor(tiny.model("bert"), SimpleNamespace(is_fast=False))


def test_an_end_of_text_token_that_ends_each_text_cannot_be_padding():
    model = tiny.model("llama")
    model.config.pad_token_id = None
    words = copy.deepcopy(tiny.tokenizer("llama"))
    words.pad_token = None
    words.backend_tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A $B </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    with pytest.raises(ModelError, match="mine: its tokenizer ends each text with '</s>', which its head would take"):
        TransformerPredictor(model, words, ComputeOptions(device="cpu"), "mine")


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_text_masked_at_its_end_with_the_padding_token_is_read_as_the_model_reads_it(kind):
    """GPT-2's unknown token is often its padding: the head then reads the last word that is not masked."""
    of = classifier_of(kind, 2, unk_token="<pad>")
    (encoding,) = of.encode(["slow delivery dog"])
    assert of.mask_token_id == of.tokenizer.pad_token_id
    masked = encoding.mask([2], of.mask_token_id)
    assert_close(of.predict_proba([masked, *of.encode(tiny.TEXTS)])[0], tiny.alone(of, masked))
