"""From one tokenizer's sub-tokens to another's, through words and the characters of a word.

A source token that is split copies its score to all its parts; source tokens that are merged give the target token
their maximum (or mean): AML, section 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
import transformers

from explearn.model.encoding import Batch, Encoding, Text, collate, encode_texts, max_length
from explearn.text.alignment import NO_WORD

Merge = Literal["max", "mean"]


class Bridge:
    """Reads a classifier's texts with another tokenizer and carries that one's scores back.

    Args:
        tokenizer: the fast tokenizer of G's backbone.
        config: the backbone's configuration.
        merge: what a target token gets of several source tokens.
    """

    def __init__(
        self, tokenizer: transformers.PreTrainedTokenizerBase, config: transformers.PreTrainedConfig, merge: Merge
    ) -> None:
        self.tokenizer = tokenizer
        self.limit = max_length(config, tokenizer)
        self.merge: Merge = merge

    def read(self, encodings: Sequence[Encoding]) -> list[Encoding]:
        """The words of some texts in the sub-tokens of this tokenizer, cut at its own limit."""
        return encode_texts(self.tokenizer, [_text(encoding) for encoding in encodings], self.limit)

    def batch(self, sources: Sequence[Encoding], device: torch.device) -> Batch:
        return collate(sources, int(self.tokenizer.pad_token_id), device)

    def carry(self, scores: torch.Tensor, links: torch.Tensor) -> torch.Tensor:
        """Scores of the targets, (b, targets), from those of the sources, (b, sources).

        Args:
            scores: logits of attributions; a target without a source gets the lowest of its text.
            links: see `link`.
        """
        known = links >= 0
        rows = torch.arange(len(scores), device=scores.device)[:, None, None]
        picked = scores[rows, links.clamp(min=0)]
        if self.merge == "max":
            merged = picked.masked_fill(~known, float("-inf")).amax(-1)
        else:
            counts = known.sum(-1).clamp(min=1)
            merged = torch.where(known, picked.sigmoid(), 0.0).sum(-1) / counts
            merged = torch.logit(merged, eps=1e-6)
        found = known.any(-1)
        lowest = torch.where(found, merged, float("inf")).amin(-1, keepdim=True)
        lowest = torch.where(lowest.isfinite(), lowest, 0.0)
        return torch.where(found, merged, lowest)


def link(target: Encoding, source: Encoding) -> list[list[int]]:
    """For each position of the target the positions of the source that it shares characters of a word with.

    A target piece that shares none, though its word has source tokens (two normalisers may drop different characters),
    is linked to all of its word's. Special tokens, and words that the source does not hold, have no links.
    """
    of_word: dict[int, list[int]] = {}
    for position, word in enumerate(source.word_ids):
        if word != NO_WORD:
            of_word.setdefault(word, []).append(position)
    links: list[list[int]] = []
    for word, (start, end) in zip(target.word_ids, target.characters, strict=True):
        whole = of_word.get(word, []) if word != NO_WORD else []
        shared = [j for j in whole if source.characters[j][0] < end and start < source.characters[j][1]]
        links.append(shared or whole)
    return links


def link_batch(targets: Sequence[Encoding], sources: Sequence[Encoding], device: torch.device) -> torch.Tensor:
    """`link` of several texts, int64, (b, longest target, most links), -1 where there is none."""
    found = [link(target, source) for target, source in zip(targets, sources, strict=True)]
    longest = max(len(target) for target in targets)
    most = max((len(links) for text in found for links in text), default=1) or 1
    table = torch.full((len(found), longest, most), -1, dtype=torch.int64)
    for row, text in enumerate(found):
        for position, links in enumerate(text):
            table[row, position, : len(links)] = torch.tensor(links, dtype=torch.int64)
    return table.to(device)


def _text(encoding: Encoding) -> Text:
    if encoding.pair_start is None:
        return " ".join(encoding.words)
    return " ".join(encoding.words[: encoding.pair_start]), " ".join(encoding.words[encoding.pair_start :])
