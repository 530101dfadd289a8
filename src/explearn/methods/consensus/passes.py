"""One forward pass, taken apart, with two backward passes over it: the plain gradient, and AttnLRP's changed one.

Both go back through what the forward pass kept (`block_passes`). Where the classifier reads the first token alone, so
does the last block: no other row of it has a gradient. The rest of that block, which some methods read, goes no
further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn

from explearn.lens.anatomy import Anatomy, dissect, merge_heads
from explearn.lens.gradients import full_precision
from explearn.lens.replace import replaced_output
from explearn.methods.base.explainer import resolve_targets
from explearn.methods.consensus.block_passes import (
    CHANGED,
    PLAIN,
    Kept,
    Rules,
    activate,
    attend,
    back,
    back_first,
    forward,
    forward_first,
    queries,
)
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be computed besides the attention.

    attention_gradients: at the attention probabilities. state_gradients: at the inputs of the blocks. word_gradients:
    at the word embeddings. relevance: AttnLRP's pass. last_attention: all rows of the last layer's attention.
    activated: what the head makes of every token's last state.
    """

    attention_gradients: bool = False
    state_gradients: bool = False
    word_gradients: bool = False
    relevance: bool = False
    last_attention: bool = False
    activated: bool = False

    @property
    def plain(self) -> bool:
        """Whether a plain backward pass is needed."""
        return self.attention_gradients or self.state_gradients or self.word_gradients


@dataclass
class SharedPass:
    """What the passes gave; without graph, in float32 (float64 of a float64 model). What was not asked for is empty.

    b = batch, h = heads, n = tokens, d = width; f: logit of the target.

    Attributes:
        logits: (b, C). targets: int64, (b,), the classes explained.
        attentions: of each layer, (b, h, n, n), row = query; of the last layer the row of [CLS] alone, (b, h, 1, n).
        last_attention: of the last layer, all rows.
        attention_gradients: df / dA, of the shapes of `attentions`.
        states: input x of each block, (b, n, d). state_gradients: df / dx.
        words: word embeddings, (b, n, e). word_gradients: df / d words.
        relevance: AttnLRP's score of each token, (b, n).
        activated: head.activation(head.dense(h_j)) of each token's last state, (b, n, k).
    """

    logits: torch.Tensor
    targets: torch.Tensor
    attentions: tuple[torch.Tensor, ...]
    last_attention: torch.Tensor | None = None
    attention_gradients: tuple[torch.Tensor, ...] = ()
    states: tuple[torch.Tensor, ...] = ()
    state_gradients: tuple[torch.Tensor, ...] = ()
    words: torch.Tensor | None = None
    word_gradients: torch.Tensor | None = None
    relevance: torch.Tensor | None = None
    activated: torch.Tensor | None = None

    @cached_property
    def head_means(self) -> tuple[torch.Tensor, ...]:
        """Mean of each of `attentions` over its heads, (b, n, n), of the last layer (b, 1, n).

        Several signals read it, and taking it goes over every attention matrix.
        """
        return tuple(attention.mean(1) for attention in self.attentions)


def shared_pass(classifier: Classifier, batch: Batch, targets: torch.Tensor | None, asked: Asked) -> SharedPass:
    """Run a classifier once, and back from the targets' logits (None: the predicted classes') as often as needed.

    Raises UnsupportedError for a classifier that cannot be taken apart (see `anatomy.dissect`).
    """
    anatomy = dissect(classifier.model)
    head = anatomy.head
    mask = batch.attention_mask.bool()
    # Most batches of equal length have no padding, and masking goes over every attention matrix.
    padding = None if bool(mask.all()) else ~mask[:, None, None]
    # inference_mode(False) lets a small graph be built inside inference_mode, too.
    with torch.inference_mode(False), torch.no_grad(), classifier.autocast():
        words, embedded = _embed(classifier, anatomy, batch)
        hidden = embedded.detach() if anatomy.projection is None else anatomy.projection(embedded.detach())
        blocks: list[Kept] = []
        for block in anatomy.blocks[:-1]:
            hidden, kept = forward(block, hidden, padding)
            blocks.append(kept)
        first, kept = forward_first(anatomy.blocks[-1], hidden, padding)
        blocks.append(kept)
        activated = activate(head.activation, head.dense(first[:, 0]))
        # A graph of this map alone: whoever counts passes sees each one back begin at the logits.
        read = activated.value.detach().requires_grad_()
        with torch.set_grad_enabled(asked.plain or asked.relevance):
            logits = head.classifier(read)
        chosen = resolve_targets(logits.detach(), targets)
        found = SharedPass(full_precision(logits), chosen, tuple(full_precision(kept.attention) for kept in blocks))
        _rest_of_last(found, asked, anatomy, blocks[-1], padding)
        one_hot = nn.functional.one_hot(chosen, logits.shape[-1]).to(logits.dtype)
        for rules in (*((PLAIN,) if asked.plain else ()), *((CHANGED,) if asked.relevance else ())):
            (gradient,) = torch.autograd.grad(logits, read, one_hot, retain_graph=True)
            gradient = rules.activation(activated, gradient) @ head.dense.weight
            gradients, attentions = _back(anatomy, blocks, gradient[:, None], rules)
            lowest = gradients[0] if anatomy.projection is None else gradients[0] @ anatomy.projection.weight
            if rules.changed:
                found.relevance = (full_precision(lowest) * full_precision(embedded)).sum(-1)
                continue
            if asked.attention_gradients:
                found.attention_gradients = tuple(map(full_precision, attentions))
            if asked.state_gradients:
                found.states = tuple(full_precision(kept.hidden) for kept in blocks)
                found.state_gradients = tuple(map(full_precision, gradients))
            if asked.word_gradients:
                (below,) = torch.autograd.grad(embedded, words, lowest.to(embedded.dtype))
                found.words, found.word_gradients = full_precision(words), full_precision(below)
    return found


def _embed(classifier: Classifier, anatomy: Anatomy, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """The word embeddings and, with a graph between the two, the output of the embeddings, before a projection."""
    embedding: Any = classifier.model.get_input_embeddings()
    types = {}
    if batch.token_type_ids is not None and anatomy.segments:
        types["token_type_ids"] = batch.token_type_ids
    words = embedding(batch.input_ids).detach().requires_grad_()
    with torch.enable_grad(), replaced_output(embedding, words):
        embedded: torch.Tensor = anatomy.embeddings(input_ids=batch.input_ids, **types)
    return words, embedded


def _back(
    anatomy: Anatomy, blocks: Sequence[Kept], gradient: torch.Tensor, rules: Rules
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Gradients at the blocks' inputs, (b, n, d), and, of the plain way, at their attention, first block first.

    Args:
        gradient: at the first token's last state, (b, 1, d).
    """
    states, attentions = [], []
    way = back_first
    for block, kept in zip(reversed(anatomy.blocks), reversed(blocks), strict=True):
        gradient, attention = way(block, kept, gradient, rules)
        states.append(gradient)
        if not rules.changed:
            attentions.append(attention)
        way = back
    return states[::-1], attentions[::-1]


def _rest_of_last(found: SharedPass, asked: Asked, anatomy: Anatomy, kept: Kept, padding: torch.Tensor | None) -> None:
    """What is asked of the last block's other rows, which no gradient passes."""
    if not asked.last_attention and not asked.activated:
        return
    block, head, hidden = anatomy.blocks[-1], anatomy.head, kept.hidden
    attention = attend(queries(block, hidden), kept.key, padding)
    found.last_attention = full_precision(attention)
    if asked.activated:
        context = merge_heads(attention @ kept.value)
        middle = block.attention_norm(block.output(context) + hidden)
        last = block.norm(block.contract(block.activation(block.expand(middle))) + middle)
        found.activated = full_precision(head.activation(head.dense(last)))
