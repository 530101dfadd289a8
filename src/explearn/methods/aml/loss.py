"""AML's loss (section 3.1, eq. 4 to 7): the predictions of a frozen classifier on masked texts.

There are two ways to mask, both with gradients back to the mask:

soft     each token is mixed with a stand-in, x'_i = m_i x_i + (1 - m_i) s (eq. 3); s is the embedding of the mask
         token, or of the unknown token if there is no mask token.
removed  gates on attention leave tokens out, in classifiers that read the last token and have no mask token. The paper
         does not train this way, but its metrics delete words.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from explearn.core.compute import at_least_float32
from explearn.core.errors import ModelError
from explearn.lens.watch import content_mask
from explearn.lens.words import replaced_words
from explearn.predictors.architectures import architecture, reads_last
from explearn.predictors.encoding import Batch
from explearn.predictors.transformer import TransformerPredictor

LEAST = 1e-12
"""Weight of a key whose gate is 0: negligible next to other tokens, and its logarithm has a gradient."""


class DivergedError(ModelError):
    """The network G no longer returns finite numbers."""


class Weights(NamedTuple):
    """The weights lambda_p, lambda_a, lambda_inv of eq. 4, each in [0, 1].

    A term of weight 0 is left out, together with its passes.
    """

    prediction: float
    size: float
    inverse: float


def loss_terms(
    classifier: TransformerPredictor, batch: Batch, scores: Tensor, predictions: Tensor, weights: Weights
) -> Tensor:
    """Return the terms of each text's loss, (3, b), 0 for a term left out, with a graph back to the attributions.

    prediction  L_p, cross-entropy between y and the prediction on the masked text (eq. 5)
    size        L_a, mean over the text's sub-tokens of -log(1 - a) (eq. 7)
    inverse     L_inv, -log(1 - p), p the target's probability on the inversely masked text (eq. 6)

    Both masked texts pass the classifier in one batch. The loss is the sum weighted by `weights` (eq. 4).

    Args:
        classifier: the frozen classifier.
        batch: b texts of n sub-tokens.
        scores: logits of the attributions, (b, n); a = sigmoid(scores).
        predictions: y, (b, C), rows on the simplex. The largest entry of a row is the target.
        weights: of the terms.
    """
    attributions = scores.sigmoid()
    masks = []
    if weights.prediction:
        masks.append(attributions)
    if weights.inverse:
        masks.append(1 - attributions)
    prediction = size = inverse = scores.new_zeros(len(scores))
    if masks:
        logits = classifier.problem.softmax_logits(masked_logits(classifier, batch, torch.cat(masks)))
    if weights.prediction:
        prediction = -(predictions * logits[: len(batch)].log_softmax(-1)).sum(-1)
    if weights.inverse:
        # log(1 - p) without rounding where p is almost 1.
        target = nn.functional.one_hot(predictions.argmax(-1), logits.shape[-1]).bool()
        inverted = logits[-len(batch) :]
        inverse = inverted.logsumexp(-1) - inverted.masked_fill(target, float("-inf")).logsumexp(-1)
    if weights.size:
        # -log(1 - sigmoid(s)) = softplus(s)
        content = content_mask(batch)
        size = torch.where(content, nn.functional.softplus(scores), 0.0).sum(1) / content.sum(1).clamp(min=1)
    return torch.stack([prediction, size, inverse])


def weighted(terms: Tensor, weights: Weights) -> Tensor:
    """Return each text's loss, (b,), from its terms, (3, b): eq. 4."""
    return weights.prediction * terms[0] + weights.size * terms[1] + weights.inverse * terms[2]


def masked_logits(classifier: TransformerPredictor, batch: Batch, masks: Tensor) -> Tensor:
    """Return logits, (rows, C), at least float32, of masked texts.

    Where tokens are removed, one is kept if its share is above 1/2 and left out otherwise; gradients pass as if the
    mask were soft.

    Args:
        classifier: the frozen classifier.
        batch: b texts of n sub-tokens.
        masks: share of each token that is kept, (rows, n), in [0, 1]; row r is of text r modulo b. Special tokens are
            always kept.

    Raises:
        ModelError: the classifier has neither a mask token nor an unknown token, and tokens cannot be removed.
    """
    copies = len(masks) // len(batch)
    content = content_mask(batch).repeat(copies, 1)
    if removes_tokens(classifier):
        hard = (masks > 0.5).to(masks.dtype) + masks - masks.detach()
        return removed_logits(classifier, batch, torch.where(content, hard, 1.0))
    shares = torch.where(content, masks, 1.0)[..., None]
    table: Any = classifier.model.get_input_embeddings()
    with torch.no_grad():
        words = table(batch.input_ids).repeat(copies, 1, 1)
        stand_in = table(torch.tensor(classifier.mask_token_id, device=classifier.device))
    return embedded_logits(classifier, batch, shares * words + (1 - shares) * stand_in)


def removes_tokens(classifier: TransformerPredictor) -> bool:
    """Return whether masked tokens are removed from texts: by decoders without a mask token."""
    completion = classifier.completion
    if classifier.tokenizer.mask_token_id is not None:
        return False
    if completion is not None and completion.mask_token_id is not None:
        return False
    return architecture(classifier.model.config).causal and reads_last(classifier.model)


def embedded_logits(classifier: TransformerPredictor, batch: Batch, embeddings: Tensor) -> Tensor:
    """Return logits, (rows, C), at least float32, of texts with other word embeddings.

    Positions, segments and padding are those of the batch. Its ids are passed as well: RoBERTa counts positions by
    them.

    Args:
        classifier: the frozen classifier.
        batch: b texts of n sub-tokens.
        embeddings: (rows, n, e); row r is a variant of text r modulo b.
    """
    copies = len(embeddings) // len(batch)
    inputs = {name: value.repeat(copies, 1) for name, value in batch.model_inputs().items()}
    table: Any = classifier.model.get_input_embeddings()
    # A model stored in half precision accepts only half precision.
    embeddings = embeddings.to(table.weight.dtype)
    with replaced_words(classifier.model, inputs["input_ids"], embeddings), classifier.autocast():
        return at_least_float32(classifier.model(**inputs).logits)


def removed_logits(classifier: TransformerPredictor, batch: Batch, gates: Tensor) -> Tensor:
    """Return logits, (rows, C), at least float32, of texts from which gates remove tokens.

    With a gate m_j for each token, query i weighs an earlier key j by m_j exp(l_ij) and itself by exp(l_ii). The result
    is the mean of the logits at each token, weighted by m_j prod_(k>j) (1 - m_k): with gates of 0 and 1, the logits at
    the last token kept. The remaining weight, prod_k (1 - m_k), goes to the logits of an empty text. With gates of 0
    and 1 the result is that of the text without the removed words.

    Args:
        classifier: a decoder that reads the last token.
        batch: b texts of n sub-tokens.
        gates: m, (rows, n), in [0, 1]; row r is of text r modulo b. Positions count the tokens above 1/2.
    """
    model: Any = classifier.model
    copies = len(gates) // len(batch)
    gates = torch.where(batch.attention_mask.repeat(copies, 1).bool(), gates, 0.0)
    whole = (gates > 0.5).long()
    positions = whole.cumsum(1) - whole
    with classifier.autocast():
        states = model.base_model(
            input_ids=batch.input_ids.repeat(copies, 1),
            attention_mask=attention_masks(model, gates, positions),
            position_ids=positions,
        ).last_hidden_state
        by_token = at_least_float32(model.score(states))
    with torch.no_grad():
        empty = classifier.logits(classifier.batch([batch.encodings[0].select([])]))
    # removed[:, j]: prod_(k>=j) (1 - m_k), whether all tokens from j on are removed.
    removed = (1 - gates).flip(1).cumprod(1).flip(1).to(by_token)
    last = gates.to(by_token) * nn.functional.pad(removed[:, 1:], (0, 1), value=1.0)
    return (last[..., None] * by_token).sum(1) + removed[:, :1] * empty.to(by_token)


def attention_masks(model: Any, gates: Tensor, positions: Tensor) -> Tensor | dict[str, Tensor]:
    """Return what is added to attention's logits, (rows, 1, n, n): log m_j, practically -inf for keys a query hides.

    If the model has several types of layers, there is one mask for each type. A window counts the tokens that stay.

    Args:
        model: a decoder.
        gates: m, (rows, n).
        positions: position of each token among those that stay, (rows, n).
    """
    lowest = torch.finfo(model.dtype).min
    earlier = torch.ones(gates.shape[1], gates.shape[1], dtype=torch.bool, device=gates.device).tril(-1)
    itself = torch.eye(gates.shape[1], dtype=torch.bool, device=gates.device)
    weights = (gates + LEAST).log()[:, None]
    mask = torch.where(earlier, weights, lowest).masked_fill(itself, 0.0)
    masks = {"full_attention": mask.to(model.dtype)[:, None]}
    window = getattr(model.config, "sliding_window", None)
    if window is not None:
        beyond = positions[:, :, None] - positions[:, None] >= window
        mask = mask.masked_fill(beyond & ~itself, lowest)
        masks["sliding_attention"] = mask.to(model.dtype)[:, None]
    types = set(getattr(model.config, "layer_types", None) or ())
    if len(types) > 1:
        return {kind: masks.get(kind, masks["full_attention"]) for kind in types}
    if window is None or types == {"full_attention"}:
        return masks["full_attention"]
    return masks["sliding_attention"]
