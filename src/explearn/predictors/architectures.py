"""The differences between encoders, as a table with one entry for each model type of transformers.

Methods that use the parts, attention or positions of a classifier read this table; no other code checks the model type.
To add an encoder, add its entry; tests then compare its parts with the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from explearn.core.errors import UnsupportedError

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class BlockParts:
    """Dotted paths from a block to its parts; see `anatomy.EncoderBlock` for what they are."""

    query: str
    key: str
    value: str
    output: str
    heads: str
    attention_norm: str
    expand: str
    activation: str
    contract: str
    norm: str


class HeadParts(NamedTuple):
    """Dotted paths from a classifier to the parts of its head; see `anatomy.ClassificationHead` for what they are.

    transformers calls the encoder `base_model`.

    Attributes:
        dense: the first linear map; None: there is none.
        activation: the path of a module, the name of a function (`relu`, `tanh`), or the path of such a name in the
            configuration; None: there is none.
        classifier: the last linear map.
        norm: the layer norm after the activation; None: there is none.
    """

    dense: str | None
    activation: str | None
    classifier: str
    norm: str | None = None


BERT_BLOCK = BlockParts(
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    output="attention.output.dense",
    heads="attention.self.num_attention_heads",
    attention_norm="attention.output.LayerNorm",
    expand="intermediate.dense",
    activation="intermediate.intermediate_act_fn",
    contract="output.dense",
    norm="output.LayerNorm",
)

DISTILBERT_BLOCK = BlockParts(
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    output="attention.out_lin",
    heads="attention.n_heads",
    attention_norm="sa_layer_norm",
    expand="ffn.lin1",
    activation="ffn.activation",
    contract="ffn.lin2",
    norm="output_layer_norm",
)

ALBERT_BLOCK = BlockParts(
    query="attention.query",
    key="attention.key",
    value="attention.value",
    output="attention.dense",
    heads="attention.num_attention_heads",
    attention_norm="attention.LayerNorm",
    expand="ffn",
    activation="activation",
    contract="ffn_output",
    norm="full_layer_layer_norm",
)

DEBERTA_BLOCK = replace(
    BERT_BLOCK,
    query="attention.self.query_proj",
    key="attention.self.key_proj",
    value="attention.self.value_proj",
)

MPNET_BLOCK = replace(
    BERT_BLOCK,
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    output="attention.attn.o",
    heads="attention.attn.num_attention_heads",
    attention_norm="attention.LayerNorm",
)

BERT_HEAD = HeadParts("base_model.pooler.dense", "base_model.pooler.activation", "classifier")
ROBERTA_HEAD = HeadParts("classifier.dense", "tanh", "classifier.out_proj")
ELECTRA_HEAD = HeadParts("classifier.dense", "classifier.activation", "classifier.out_proj")
DISTILBERT_HEAD = HeadParts("pre_classifier", "relu", "classifier")
ALBERT_HEAD = HeadParts("base_model.pooler", "base_model.pooler_activation", "classifier")
DEBERTA_HEAD = HeadParts("pooler.dense", "config.pooler_hidden_act", "classifier")
MODERNBERT_HEAD = HeadParts("head.dense", "head.act", "classifier", norm="head.norm")
EUROBERT_HEAD = HeadParts("dense", "activation", "classifier")
DECODER_HEAD = HeadParts(None, None, "score")


@dataclass(frozen=True, slots=True)
class Architecture:
    """The facts of a model type.

    Attributes:
        parts: paths to a block's parts; None if blocks are not built as `anatomy.EncoderBlock` says, with layer norms
            after the residual sums and attention to all tokens.
        head: paths to the parts of the classification head; None: unknown.
        attention: how attention is found. `projections`: it is softmax(QK^T / sqrt(d)) of two projections with nothing
            added but the padding mask. `calls`: it is captured where the model calls torch's attention or softmax
            (`lens.attention`), whatever is rotated, grouped, masked or added before. None: it cannot be captured.
        causal: whether a token sees only those before it.
        bias: what is added to attention logits: `relative`, a number for each distance and head (MPNet), or
            `disentangled`, products of content and distances (DeBERTa); None: nothing.
        blocks: path from the encoder to its list of blocks.
        shared: path from an entry of that list to its blocks, if an entry is a group of blocks whose weights several
            layers share (ALBERT).
        projection: path from the encoder to the linear map from embeddings to the width of the blocks, for types that
            may have one.
        counts_from_padding: whether the first token's position is the padding index + 1, as in RoBERTa, and not 0.
        segments: whether the embeddings take segment ids.
        reads: the token whose vector the classification head reads, the last being the last that is no padding; or the
            name of the configuration's field, which is `cls` or `bos` for the first token, `mean` or `late` for all
            (ModernBERT, EuroBERT).
    """

    parts: BlockParts | None = None
    head: HeadParts | None = None
    blocks: str = "encoder.layer"
    shared: str | None = None
    projection: str | None = None
    counts_from_padding: bool = False
    segments: bool = True
    reads: Literal["first", "last", "classifier_pooling"] = "first"
    attention: Literal["projections", "calls"] | None = "projections"
    causal: bool = False
    bias: Literal["relative", "disentangled"] | None = None


ROBERTA = Architecture(BERT_BLOCK, ROBERTA_HEAD, counts_from_padding=True)
UNSEEN_ROBERTA = Architecture(counts_from_padding=True, attention=None)
DECODER = Architecture(
    head=DECODER_HEAD,
    blocks="layers",
    segments=False,
    reads="last",
    attention="calls",
    causal=True,
)

_DECODERS = (
    *("gemma", "gemma2", "gemma3_text", "glm", "glm4", "llama", "arcee", "exaone4", "seed_oss", "smollm3"),
    *("mistral", "ministral", "ministral3", "mixtral", "olmo2", "olmo3", "phi", "phi3", "phimoe"),
    *("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gpt_neox", "stablelm", "starcoder2"),
)
"""Types built like Llama, as far as methods are concerned; Phi 4 is a `phi3`."""

_UNSEEN_ROBERTAS = (
    *("data2vec-text", "esm", "ibert", "lilt", "luke", "markuplm", "roberta-prelayernorm", "xlm-roberta-xl", "xmod"),
    "longformer",  # Its attention is banded, and never a matrix.
)

ARCHITECTURES: dict[str, Architecture] = {
    "albert": Architecture(
        ALBERT_BLOCK,
        ALBERT_HEAD,
        blocks="encoder.albert_layer_groups",
        shared="albert_layers",
        projection="encoder.embedding_hidden_mapping_in",
    ),
    "bert": Architecture(BERT_BLOCK, BERT_HEAD),
    "camembert": ROBERTA,
    "deberta-v2": Architecture(DEBERTA_BLOCK, DEBERTA_HEAD, attention="calls", bias="disentangled"),
    "distilbert": Architecture(DISTILBERT_BLOCK, DISTILBERT_HEAD, blocks="transformer.layer", segments=False),
    "electra": Architecture(BERT_BLOCK, ELECTRA_HEAD, projection="embeddings_project"),
    "eurobert": Architecture(
        head=EUROBERT_HEAD,
        blocks="layers",
        segments=False,
        reads="classifier_pooling",
        attention="calls",
    ),
    "gpt2": replace(DECODER, blocks="h"),
    "modernbert": Architecture(
        head=MODERNBERT_HEAD,
        blocks="layers",
        segments=False,
        reads="classifier_pooling",
        attention="calls",
    ),
    "modernbert-decoder": replace(DECODER, head=MODERNBERT_HEAD),
    "mpnet": Architecture(
        MPNET_BLOCK, ROBERTA_HEAD, counts_from_padding=True, segments=False, attention="calls", bias="relative"
    ),
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    **dict.fromkeys(_DECODERS, DECODER),
    **dict.fromkeys(_UNSEEN_ROBERTAS, UNSEEN_ROBERTA),
}
"""Model type, as config.json names it -> entry."""

UNKNOWN = Architecture(attention=None)
"""For types without an entry, explained only by methods that use just inputs and outputs."""

UNBOUNDED = 100_000
"""Above this a limit counts as none: transformers sets model_max_length to 1e30 for tokenizers without one."""


def architecture(config: Any) -> Architecture:
    """Return the entry for a model's configuration, UNKNOWN for a type without one."""
    return ARCHITECTURES.get(config.model_type, UNKNOWN)


def reads(model: Any) -> Literal["first", "last", "mean", "marked"]:
    """Return which token's vector a classifier's head reads.

    `mean` is the mean of all tokens; `marked` is the token that the input marks.
    """
    own: Literal["first", "last", "mean", "marked", ""] = getattr(model, "reads", "")
    if own:
        return own
    token = architecture(model.config).reads
    if token != "classifier_pooling":
        return token
    if model.config.classifier_pooling in ("mean", "late"):
        return "mean"
    return "first"


def reads_last(model: Any) -> bool:
    """Return whether a classifier's head reads the last token that is not padding.

    For types without an entry, it does if the head is called `score`, as transformers calls that of all decoders.
    """
    entry = architecture(model.config)
    return reads(model) == "last" or (entry is UNKNOWN and getattr(model, "score", None) is not None)


def head_size(config: Any) -> int:
    """Return the width of an attention head's queries and keys; not always the model's width over its heads (Gemma)."""
    for name in ("head_dim", "attention_head_size"):
        if getattr(config, name, None):
            return int(getattr(config, name))
    return int(config.hidden_size) // int(config.num_attention_heads)


def by_torch(config: Any) -> bool:
    """Return whether a model computes its attention with torch's own functions, in which it can be captured."""
    return getattr(config, "_attn_implementation", None) in (None, "eager", "sdpa")


def position_offset(config: Any) -> int:
    """Return the position id of the first token."""
    if architecture(config).counts_from_padding:
        return int(config.pad_token_id) + 1
    return 0


def max_length(config: Any, tokenizer: Any) -> int:
    """Return the most sub-tokens that both the position embeddings and the tokenizer allow; 512 if neither has a limit.

    Args:
        config: the model's configuration.
        tokenizer: its tokenizer.
    """
    limits = []
    limit = tokenizer.model_max_length
    if isinstance(limit, int | float) and 0 < limit < UNBOUNDED:
        limits.append(int(limit))
    try:
        positions = getattr(config, "max_position_embeddings", None)
    except NotImplementedError:  # raised by XLNet, which has no limit
        positions = None
    # Encoders with relative positions have -1: they read texts of any length.
    if positions is not None and positions > 0:
        limits.append(int(positions) - position_offset(config))
    return min(limits, default=512)


def switches_attention(model: nn.Module) -> bool:
    """Return whether a model reads short batches with full attention and long ones with sparse attention (BigBird)."""
    config: Any = model.config
    return getattr(config, "attention_type", None) == "block_sparse"


def keep_attention_type(model: nn.Module) -> None:
    """Let a model choose its attention by the length of each batch.

    transformers switches to full attention at the first short batch, and never back. The model is changed in place.
    """
    for module in model.modules():
        switching: Any = module
        if hasattr(switching, "set_attention_type"):
            switching.register_forward_pre_hook(lambda part, _: part.set_attention_type(part.config.attention_type))
            return


def shortest_input(config: Any) -> int:
    """Return the fewest sub-tokens that a batch may have: a Funnel model halves its length between blocks."""
    blocks = len(getattr(config, "block_sizes", ()))
    return 1 if blocks < 2 else 2 ** (blocks - 1) + 1


def tells_segments_apart(config: Any) -> bool:
    """Return whether segment ids distinguish the two segments of a pair; otherwise only separators do."""
    return architecture(config).segments and getattr(config, "type_vocab_size", 0) > 1


@contextmanager
def unusual_build(config: Any) -> Iterator[None]:
    """Raise UnsupportedError if a part is not where the table says."""
    try:
        yield
    except AttributeError as error:
        raise UnsupportedError(
            f"this {config.model_type!r} classifier is built in an unusual way ({error}); methods that take it apart "
            "do not know it; input_x_gradient and occlusion need no parts"
        ) from error


def word_table(model: Any) -> nn.Module | None:
    """Return a model's word embedding layer; None for a model without one (CANINE hashes characters)."""
    try:
        table: nn.Module | None = model.get_input_embeddings()
    except NotImplementedError:
        # Raised by transformers for a model without one.
        return None
    if hasattr(table, "weight"):
        return table
    return None


def blocks_in_order(encoder: nn.Module) -> list[nn.Module]:
    """Return an encoder's blocks in the order in which they run; a shared block is repeated for each time it runs.

    Raises:
        UnsupportedError: they are not where the table says.
    """
    config: Any = encoder.config
    entry = architecture(config)
    with unusual_build(config):
        listed: Any = attrgetter(entry.blocks)(encoder)
        if entry.shared is None:
            return list(listed)
        layers_per_group = config.num_hidden_layers / config.num_hidden_groups
        blocks: list[nn.Module] = []
        for layer in range(config.num_hidden_layers):
            group = listed[int(layer / layers_per_group)]
            blocks.extend(attrgetter(entry.shared)(group))
        return blocks
