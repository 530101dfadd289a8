"""The padding of classifiers whose head reads the last token that is none."""

import copy
import logging

import pytest
import tiny
import tokenizers
import torch
import transformers
from rounding import assert_close

import explearn
from explearn import ComputeOptions, ModelError, TransformerPredictor


def classifier_of(kind, config_pad, **tokens):
    """A decoder whose configuration names `config_pad` as padding; `tokens` change its tokenizer's special ones."""
    model = tiny.model(kind)
    model.config.pad_token_id = config_pad
    words = copy.deepcopy(tiny.tokenizer(kind))
    for name, token in tokens.items():
        setattr(words, name, token)
    return TransformerPredictor(model, words, ComputeOptions(device="cpu"), "mine")


def alone(of, text):
    """Probabilities as the model itself gives them to one text without padding."""
    (encoding,) = of.encode([text])
    with torch.inference_mode():
        return of.model(input_ids=torch.tensor([encoding.input_ids])).logits.double().softmax(-1)[0].numpy()


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
    assert_close(of.predict_proba(tiny.TEXTS), [alone(of, text) for text in tiny.TEXTS])


def test_a_padding_token_that_there_is_not():
    with pytest.raises(ModelError, match="mine: its tokenizer has neither a padding nor an end-of-text token"):
        classifier_of("gpt2", None, pad_token=None, eos_token=None)
    with pytest.raises(ModelError, match="mine: its head takes token 9999 for padding, which its tokenizer does not"):
        classifier_of("gpt2", 9999)


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
    with torch.inference_mode():
        expected = of.model(input_ids=torch.tensor([masked.input_ids])).logits.double().softmax(-1).numpy()
    assert_close(of.predict_proba([masked, *of.encode(tiny.TEXTS)])[:1], expected)


def big_bird():
    words = tiny.tokenizer("bert")
    config = transformers.BigBirdConfig(
        vocab_size=len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=64, block_size=2, num_random_blocks=1, pad_token_id=words.pad_token_id,
        initializer_range=0.25,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.BigBirdForSequenceClassification(config).eval()


def test_a_model_of_sparse_attention_reads_long_texts_with_it_and_short_ones_without():
    long = " ".join(["lazy dog and fox"] * 5)
    words = tiny.tokenizer("bert")
    expected = []
    for text in (long, "lazy dog", long):
        model = big_bird()  # transformers switches a model at its first short text
        with torch.inference_mode():
            expected.append(model(**words(text, return_tensors="pt")).logits.softmax(-1)[0].double().numpy())
    of = TransformerPredictor(big_bird(), words, ComputeOptions(device="cpu"), "bird")
    assert_close(of.predict_proba(["lazy dog"]), expected[1:2])
    assert_close(of.predict_proba([long, "lazy dog", long]), expected)


@pytest.mark.parametrize("blocks", (1, 2, 3))
def test_a_funnel_reads_texts_that_are_shorter_than_it_can(blocks):
    words = tiny.tokenizer("bert")
    config = transformers.FunnelConfig(
        vocab_size=len(words), block_sizes=[1] * blocks, d_model=32, n_head=4, d_head=8, d_inner=48,
        pad_token_id=words.pad_token_id, initializer_range=0.5,
    )  # fmt: skip
    torch.manual_seed(0)
    of = TransformerPredictor(transformers.FunnelForSequenceClassification(config), words, ComputeOptions(device="cpu"))
    longer = "the quick brown fox jumps over"
    assert_close(of.predict_proba([longer]), [alone(of, longer)])
    together = of.predict_proba(["lazy", longer, "the lazy dog"])
    assert_close(together, [of.predict_proba([text])[0] for text in ("lazy", longer, "the lazy dog")])
    for name in ("lime", "solvex", "input_x_gradient"):
        assert all(map(len, (a.scores for a in explearn.get_explainer(name).explain(of, ["lazy"]))))
