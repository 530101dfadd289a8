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
from explearn.model.classifier import Classifier

ARCHITECTURES = ("bert", "distilbert", "roberta", "albert", "electra")
MORE_ENCODERS = ("xlm-roberta", "deberta-v2", "mpnet", "modernbert", "eurobert")
DECODERS = ("gpt2", "llama", "mistral", "qwen2", "gemma")
MORE_DECODERS = (
    *("gemma2", "gemma3_text", "glm", "glm4", "arcee", "exaone4", "seed_oss", "smollm3", "ministral", "ministral3"),
    *("mixtral", "modernbert-decoder", "olmo2", "olmo3", "phi", "phi3", "phimoe", "qwen2_moe", "qwen3", "qwen3_moe"),
    *("gpt_neox", "stablelm", "starcoder2"),
)
LABELS = {1: ("rude",), 2: ("no", "yes"), 3: ("bad", "fair", "good")}
LAYERS, HEADS, HIDDEN, POSITIONS = 3, 4, 32, 48

CORPUS = (
    "the quick brown fox jumps over the lazy dog and then sleeps all afternoon",
    "a warm funny and wholly unnecessary sequel that nobody asked for",
    "unbelievably slow delivery a broken box and no refund whatsoever",
    "she sells sea shells by the sea shore while the tide is turning",
    "our guide was friendly and the castle looked beautiful in the morning light",
    "caf\u00e9 na\u00efve stra\u00dfe 1234567890 !?.,;:'()",
)
TEXTS = (
    "the quick brown fox",
    "unbelievably slow delivery and no refund , whatsoever",
    "lazy",
    "she sells beautiful shells while our friendly guide sleeps in the castle all afternoon",
    "a warm funny sequel",
)
PAIRS = (
    ("the fox sleeps", "a dog sleeps all afternoon"),
    ("our guide was friendly and the castle beautiful", "nobody"),
    ("slow", "no refund"),
)

_GROUPED = {"num_key_value_heads": HEADS // 2}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}
_SPECIAL_SIZES: dict[str, dict[str, Any]] = {
    # As in DeBERTa v3: distances in buckets of growing size, shared projections, no positions in the embeddings.
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 6,
        "pos_att_type": ["c2p", "p2c"],
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
        "pooler_hidden_size": HIDDEN,
    },
    # The first layer sees all tokens, the others two to either side.
    "modernbert": {"global_attn_every_n_layers": 3, "local_attention": 4},
    "longformer": {"attention_window": [8] * LAYERS},
    "gpt2": {"n_layer": LAYERS, "n_head": HEADS, "n_embd": HIDDEN, "n_inner": 48, "bos_token_id": 0, "eos_token_id": 1},
    "llama": _GROUPED,
    "mistral": {**_GROUPED, "sliding_window": 4},
    "qwen2": {**_GROUPED, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    # Heads wider than the model's width by their number.
    **{kind: {**_GROUPED, "head_dim": 12} for kind in ("gemma", "qwen3")},
    **{kind: {**_GROUPED, "head_dim": 12, "sliding_window": 4} for kind in ("gemma2", "gemma3_text")},
    **{kind: {**_GROUPED, "head_dim": 8} for kind in ("glm", "glm4", "ministral3")},
    "ministral": {**_GROUPED, "head_dim": 8, "sliding_window": 4},
    "exaone4": {**_GROUPED, "sliding_window": 4},
    "modernbert-decoder": {"global_attn_every_n_layers": 3, "local_attention": 4},
    **{kind: {**_GROUPED, "num_local_experts": 4} for kind in ("mixtral", "phimoe")},
    "qwen3_moe": {**_GROUPED, **_EXPERTS, "head_dim": 8},
    "qwen2_moe": {**_GROUPED, **_EXPERTS, "shared_expert_intermediate_size": 16},
    **dict.fromkeys(
        ("arcee", "eurobert", "olmo2", "olmo3", "phi3", "seed_oss", "smollm3", "stablelm", "starcoder2"), _GROUPED
    ),
}

# By Any: transformers makes these names as they are asked for.
_LIBRARY: Any = transformers
_READS_AS = {
    "xlm-roberta": "albert",
    "deberta-v2": "albert",
    "mpnet": "roberta",
    "modernbert": "bert",
    "eurobert": "bert",
    "longformer": "roberta",
    **dict.fromkeys(("gpt2", "qwen2"), "without special tokens"),
    **dict.fromkeys(("llama", "mistral", "gemma", *MORE_DECODERS), "with a first token"),
}
"""Whose tokenizer an architecture has here; it is no part of what is tested."""

_TOKENIZERS: dict[str, Any] = {
    "bert": _LIBRARY.BertTokenizerFast,
    "distilbert": _LIBRARY.DistilBertTokenizerFast,
    "roberta": _LIBRARY.RobertaTokenizerFast,
    "albert": _LIBRARY.AlbertTokenizerFast,
    "electra": _LIBRARY.ElectraTokenizerFast,
}


@functools.cache
def _word_pieces() -> dict[str, int]:
    """Words of CORPUS, long ones in two pieces. Written down, not trained: WordPiece training breaks ties at random.

    Every printable ASCII character is a piece, at the start of a word and inside, so that no ASCII word is unknown.
    """
    normalizer, splitter = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    words = [word for text in CORPUS for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]
    halves = [
        piece
        for word in words
        for piece in ((word,) if len(word) <= 8 else (word[: len(word) // 2], f"##{word[len(word) // 2 :]}"))
    ]
    letters = [chr(code) for code in range(33, 127)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = dict.fromkeys([*special, *halves, *letters, *(f"##{letter}" for letter in letters)])
    return {piece: index for index, piece in enumerate(pieces)}


@functools.cache
def tokenizer(kind: str, limit: int = POSITIONS - 2) -> transformers.PreTrainedTokenizerFast:
    """The fast tokenizer of an architecture, trained on CORPUS; `limit` sub-tokens a text at most."""
    kind = _READS_AS.get(kind, kind)
    if kind not in _TOKENIZERS:
        return _decoder_tokenizer(kind == "with a first token", limit)
    files: dict[str, Any] = {"roberta": _byte_level, "albert": _unigram}.get(
        kind, lambda: {"vocab": dict(_word_pieces())}
    )()
    made: transformers.PreTrainedTokenizerFast = _TOKENIZERS[kind](**files, model_max_length=limit)
    return made


def _decoder_tokenizer(begins: bool, limit: int) -> transformers.PreTrainedTokenizerFast:
    """Byte-level BPE with a padding token of its own, and `<s>` before each text, or nothing; no mask token."""
    bpe = tokenizers.ByteLevelBPETokenizer()
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    bpe.train_from_iterator(
        CORPUS, vocab_size=400, min_frequency=1, show_progress=False, special_tokens=list(special.values())
    )
    made = tokenizers.Tokenizer.from_str(bpe.to_str())
    if begins:
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", bpe.token_to_id("<s>"))]
        )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=limit, **special)  # type: ignore[no-untyped-call]


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


def model(kind: str, classes: int = 2, seed: int = 0, **config: Any) -> transformers.PreTrainedModel:
    """A classifier with weights large enough for attention to be far from uniform."""
    words = tokenizer(kind)
    names = LABELS[classes]
    sizes = {"intermediate_size": 48, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "hidden_size": HIDDEN}
    if kind == "distilbert":
        sizes = {"hidden_dim": 48, "n_layers": LAYERS, "n_heads": HEADS, "dim": HIDDEN}
    if kind in ("albert", "electra"):
        sizes["embedding_size"] = 24
    sizes = {**({} if kind == "gpt2" else sizes), **_SPECIAL_SIZES.get(kind, {})}
    settings = transformers.AutoConfig.for_model(
        kind,
        pad_token_id=words.pad_token_id,
        initializer_range=0.25,
        id2label=dict(enumerate(names)),
        label2id={name: index for index, name in enumerate(names)},
        **{"vocab_size": len(words), "max_position_embeddings": POSITIONS, **sizes, **config},
    )
    # Shared models may be made first by a test in inference mode, and no gradient passes weights made there.
    with torch.inference_mode(False), torch.random.fork_rng():
        torch.manual_seed(seed)
        made: transformers.PreTrainedModel = transformers.AutoModelForSequenceClassification.from_config(  # type: ignore[no-untyped-call]
            settings
        ).eval()
    return made


def make_classifier(kind: str = "bert", classes: int = 2, seed: int = 0, **options: Any) -> Classifier:
    """A classifier of its own, which a test may change.

    Args:
        kind: architecture, one of ARCHITECTURES.
        classes: 1 to 3.
        seed: of the random weights.
        options: fields of ComputeOptions; by default it runs on the CPU.
    """
    return Classifier(model(kind, classes, seed), tokenizer(kind), ComputeOptions(**{"device": "cpu", **options}), kind)


@functools.cache
def classifier(kind: str = "bert", classes: int = 2) -> Classifier:
    """A classifier that tests share and leave as it is."""
    return make_classifier(kind, classes)
