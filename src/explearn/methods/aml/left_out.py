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
from explearn.models.architectures import architecture
from explearn.models.classifier import Classifier
from explearn.models.encoding import Batch
from explearn.models.padding import reads_last

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

    Raises UnsupportedError for texts that are longer than the window of the model's attention.
    """
    model: Any = classifier.model
    window = getattr(model.config, "sliding_window", None)
    tokens = kept.shape[1]
    if window is not None and tokens > window:
        raise UnsupportedError(
            f"masking 'removed': a text has {tokens} sub-tokens and the model's attention sees {window} at a time; "
            "expected shorter texts, or masking 'soft'"
        )
    copies = len(kept) // len(batch)
    kept = torch.where(batch.attention_mask.repeat(copies, 1).bool(), kept, 0.0)
    whole = (kept > 0.5).long()
    own = torch.eye(tokens, dtype=torch.bool, device=kept.device)
    before = torch.ones_like(own).tril() & ~own
    lowest = torch.finfo(model.dtype).min
    added = torch.where(before, (kept + LEAST).log()[:, None], torch.where(own, 0.0, lowest))
    with classifier.autocast():
        states = model.base_model(
            input_ids=batch.input_ids.repeat(copies, 1),
            attention_mask=added.to(model.dtype)[:, None],
            position_ids=(whole.cumsum(1) - whole),
        ).last_hidden_state
        read: torch.Tensor = model.score(states)
    read = read if read.dtype == torch.float64 else read.float()
    # gone[:, j]: whether all from j on are left out.
    gone = (1 - kept).flip(1).cumprod(1).flip(1).to(read)
    last = kept.to(read) * torch.cat([gone[:, 1:], torch.ones_like(gone[:, :1])], dim=1)
    return (last[..., None] * read).sum(1) + gone[:, :1] * _of_nothing(classifier, batch).to(read)


@torch.no_grad()
def _of_nothing(classifier: Classifier, batch: Batch) -> torch.Tensor:
    """Logits of a text without tokens, (1, C)."""
    return classifier.logits(classifier.batch([batch.encodings[0].select([])]))
