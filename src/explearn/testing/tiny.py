"""Tiny classifiers with random weights, one for each supported architecture, each with its own kind of fast tokenizer.

BERT, DistilBERT and ELECTRA read WordPiece, RoBERTa byte-level BPE with leading spaces, ALBERT a SentencePiece-like
Unigram vocabulary with a space marker.
"""

from __future__ import annotations

import functools
import json
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from explearn.core.compute import ComputeOptions
from explearn.predictors.transformer import TransformerPredictor

LABELS = {1: ("rude",), 2: ("no", "yes"), 3: ("bad", "fair", "good")}
LAYERS = 3
HEADS = 4
HIDDEN = 32
POSITIONS = 48

CORPUS = (
    "the quick brown fox jumps over the lazy dog and then sleeps all afternoon",
    "a warm funny and wholly unnecessary sequel that nobody asked for",
    "unbelievably slow delivery a broken box and no refund whatsoever",
    "she sells sea shells by the sea shore while the tide is turning",
    "our guide was friendly and the castle looked beautiful in the morning light",
    "caf\u00e9 na\u00efve stra\u00dfe 1234567890 !?.,;:'()",
)
TEXTS = [
    "the quick brown fox",
    "unbelievably slow delivery and no refund , whatsoever",
    "lazy",
    "she sells beautiful shells while our friendly guide sleeps in the castle all afternoon",
    "a warm funny sequel",
]
PAIRS = (
    ("the fox sleeps", "a dog sleeps all afternoon"),
    ("our guide was friendly and the castle beautiful", "nobody"),
    ("slow", "no refund"),
)


def _word_pieces() -> dict[str, Any]:
    """Return the words of CORPUS, long ones in two pieces; not trained, since training breaks ties at random.

    Every printable ASCII character is a piece, at the start of a word and inside, so that no ASCII word is unknown.
    """
    text = normalizers.BertNormalizer().normalize_str(" ".join(CORPUS))
    halves = []
    for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text):
        if len(word) <= 8:
            halves.append(word)
        else:
            middle = len(word) // 2
            halves.extend([word[:middle], f"##{word[middle:]}"])
    letters = [chr(code) for code in range(33, 127)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = dict.fromkeys([*special, *halves, *letters, *(f"##{letter}" for letter in letters)])
    return {"vocab": {piece: index for index, piece in enumerate(pieces)}}


def _byte_level() -> dict[str, Any]:
    bpe = tokenizers.ByteLevelBPETokenizer()
    bpe.train_from_iterator(
        CORPUS,
        vocab_size=400,
        min_frequency=1,
        show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    )
    return {
        "vocab": bpe.get_vocab(),
        "merges": [tuple(pair) for pair in json.loads(bpe.to_str())["model"]["merges"]],
    }


def _unigram() -> dict[str, Any]:
    unigram = tokenizers.Tokenizer(models.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.UnigramTrainer(
        vocab_size=200,
        special_tokens=special,
        unk_token="<unk>",
        show_progress=False,
        initial_alphabet=[chr(code) for code in range(33, 127)],
    )
    unigram.train_from_iterator(CORPUS, trainer)
    pieces = {piece for piece, _ in json.loads(unigram.to_str())["model"]["vocab"]} - set(special)
    # Training finds the same pieces every time, but not their scores to the last digit.
    scored = [(piece, 0.1 * len(piece) - 3) for piece in sorted(pieces)]
    return {"vocab": [*((name, 0.0) for name in special), *scored]}


# By Any: transformers makes these names as they are asked for.
_LIBRARY: Any = transformers
TOKENIZERS: dict[str, tuple[Any, Any]] = {
    "bert": (_LIBRARY.BertTokenizerFast, _word_pieces),
    "distilbert": (_LIBRARY.DistilBertTokenizerFast, _word_pieces),
    "roberta": (_LIBRARY.RobertaTokenizerFast, _byte_level),
    "albert": (_LIBRARY.AlbertTokenizerFast, _unigram),
    "electra": (_LIBRARY.ElectraTokenizerFast, _word_pieces),
}
"""Architecture -> class of its tokenizer, and a function that gives what it is made from."""

ARCHITECTURES = tuple(TOKENIZERS)

SIZES: dict[str, dict[str, Any]] = {
    "distilbert": {"hidden_dim": 48},
    "albert": {"embedding_size": 24},
    "electra": {"embedding_size": 24},
}
"""Architecture -> fields of its configuration that others do not have."""


@functools.cache
def tokenizer(kind: str, limit: int = POSITIONS - 2) -> transformers.PreTrainedTokenizerFast:
    """Return the fast tokenizer of an architecture, trained on CORPUS, for at most `limit` sub-tokens a text."""
    make, files = TOKENIZERS[kind]
    made: transformers.PreTrainedTokenizerFast = make(**files(), model_max_length=limit)
    return made


def model(
    kind: str,
    classes: int = 2,
    seed: int = 0,
    **config: Any,
) -> transformers.PreTrainedModel:
    """Return a model with weights large enough for attention to be far from uniform.

    Args:
        kind: architecture.
        classes: number of outputs, 1 to 3.
        seed: seed of the random weights.
        config: fields of its configuration.
    """
    words = tokenizer(kind)
    names = LABELS[classes]
    sizes: dict[str, Any] = {
        "model_type": kind,
        "vocab_size": len(words),
        "max_position_embeddings": POSITIONS,
        "intermediate_size": 48,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "hidden_size": HIDDEN,
    }
    settings = transformers.AutoConfig.for_model(
        pad_token_id=words.pad_token_id,
        initializer_range=0.25,
        id2label=dict(enumerate(names)),
        label2id={name: index for index, name in enumerate(names)},
        **{**sizes, **SIZES.get(kind, {}), **config},
    )
    # Shared models may be made first by a test in inference mode, and no gradient passes weights made there.
    with torch.inference_mode(False), torch.random.fork_rng():
        torch.manual_seed(seed)
        made: transformers.PreTrainedModel = transformers.AutoModelForSequenceClassification.from_config(
            settings
        ).eval()
    return made


def make_classifier(kind: str = "bert", classes: int = 2, seed: int = 0, **options: Any) -> TransformerPredictor:
    """Return a new classifier with random weights, which a test may change.

    Args:
        kind: architecture, one of ARCHITECTURES.
        classes: number of classes, 1 to 3.
        seed: seed of the random weights.
        options: fields of ComputeOptions; by default it runs on the CPU.

    Example:
        >>> from explearn.testing import make_classifier
        >>> make_classifier("roberta", classes=3).labels
        ['bad', 'fair', 'good']
    """
    return TransformerPredictor(
        model(kind, classes, seed), tokenizer(kind), ComputeOptions(**{"device": "cpu", **options}), kind
    )


@functools.cache
def classifier(kind: str = "bert", classes: int = 2) -> TransformerPredictor:
    """Return a classifier that tests share and must not change."""
    return make_classifier(kind, classes)
