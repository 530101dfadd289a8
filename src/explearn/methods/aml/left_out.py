"""Words of a text left out by the mask itself, in classifiers that read the last token: `masking: removed`.

In a decoder a word can be taken away without a stand-in. A key that weighs nothing in attention is not there for the
tokens behind it, the positions are counted over the words that are kept, and the head reads the last of these. Where
each gate is 0 or 1 this is exactly what deleting the words gives; in between, a gate weighs the key, so that there is
a gradient. Source: none, the paper's decoders mask with `<unk>`; deleting is how its metrics take words away.
"""

from __future__ import annotations

from typing import Any

import torch

from explearn.core.errors import UnsupportedError
from explearn.model.architectures import architecture
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch
from explearn.model.padding import reads_last

LEAST = 1e-12
"""What a gate of 0 weighs: as good as nothing beside other tokens, and its logarithm has a gradient."""


def check_removable(classifier: Classifier) -> None:
    """Raise UnsupportedError for a model whose words cannot be left out by its mask."""
    config: Any = classifier.model.config
    if not architecture(config).causal or not reads_last(classifier.model):
        raise UnsupportedError(
            f"masking 'removed' leaves words out in decoders such as GPT-2 or Llama, not in a {config.model_type!r} "
            "model; use masking 'soft'"
        )


def left_out_logits(classifier: Classifier, batch: Batch, kept: torch.Tensor) -> torch.Tensor:
    """Logits, (rows, C), at least float32, of texts of which only a part is kept.

    With keep m_j of each token, query i weighs a key j before it by m_j exp(l_ij) and itself by exp(l_ii). The logits
    are the mean of those read at each token, weighed by m_j prod_(k>j) (1 - m_k): of those at the last token kept. What
    is left of the weight, where nothing is kept, goes to the answer to an empty text.

    Args:
        kept: m, (rows, n), gates in [0, 1]; row r is of text r modulo b. Positions count those above 1/2.
    """
    model: Any = classifier.model
    copies = len(kept) // len(batch)
    kept = torch.where(batch.attention_mask.repeat(copies, 1).bool(), kept, 0.0)
    whole = (kept > 0.5).long()
    positions = whole.cumsum(1) - whole
    with classifier.autocast():
        states = model.base_model(
            input_ids=batch.input_ids.repeat(copies, 1),
            attention_mask=_attention_masks(model, kept, positions),
            position_ids=positions,
        ).last_hidden_state
        read: torch.Tensor = model.score(states)
    read = read if read.dtype == torch.float64 else read.float()
    # gone[:, j]: whether all from j on are left out.
    gone = (1 - kept).flip(1).cumprod(1).flip(1).to(read)
    last = kept.to(read) * torch.cat([gone[:, 1:], torch.ones_like(gone[:, :1])], dim=1)
    return (last[..., None] * read).sum(1) + gone[:, :1] * _of_nothing(classifier, batch).to(read)


def _attention_masks(model: Any, kept: torch.Tensor, positions: torch.Tensor) -> torch.Tensor | dict[str, torch.Tensor]:
    """What is added to attention's logits, (rows, 1, n, n): log m_j, and as good as -inf where a query sees no key.

    Of a model whose layers are of several types, one for each type. A window is counted over the words that are kept.
    """
    tokens = kept.shape[1]
    lowest = torch.finfo(model.dtype).min
    own = torch.eye(tokens, dtype=torch.bool, device=kept.device)
    weights = (kept + LEAST).log()[:, None]
    closed = torch.full_like(weights, lowest)

    def added(window: int | None) -> torch.Tensor:
        before = (torch.ones_like(own).tril() & ~own)[None]
        if window is not None:
            before = before & (positions[:, :, None] - positions[:, None] < window)
        found = torch.where(before, weights, closed).masked_fill(own, 0.0)
        return found.to(model.dtype)[:, None]

    config = model.config
    window: int | None = getattr(config, "sliding_window", None)
    types = set(getattr(config, "layer_types", None) or ())
    if len(types) < 2:
        return added(None if types == {"full_attention"} else window)
    return {kind: added(window if kind == "sliding_attention" else None) for kind in types}


@torch.no_grad()
def _of_nothing(classifier: Classifier, batch: Batch) -> torch.Tensor:
    """Logits of a text without tokens, (1, C)."""
    return classifier.logits(classifier.batch([batch.encodings[0].select([])]))
