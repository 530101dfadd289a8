"""The agreement of annotators, and the length of their rationales."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations

import numpy as np

from explearn.core.examples import SPLITS, Example, Rationale, Split
from explearn.core.extras import need
from explearn.text.rationales import merge_annotators

MAX_PAIRS = 10
"""Most pairs of annotators listed separately; among hundreds of annotators, a pair shares too few texts."""

Mask = tuple[bool, ...]


def krippendorff_alpha(masks_by_text: Iterable[Sequence[Mask]]) -> float | None:
    """Return Krippendorff's nominal alpha over words pooled from all texts (Krippendorff 2011; library `krippendorff`).

    Each word is a unit that each of the text's annotators rates as marked or not; texts with fewer than two annotators
    are left out. 1 is full agreement, 0 is agreement by chance. None if there are no units, or all ratings are equal.

    Args:
        masks_by_text: the masks of each text's annotators.
    """
    counts: list[tuple[int, int]] = []
    for masks in masks_by_text:
        if len(masks) >= 2:
            counts.extend((len(masks) - sum(marks), sum(marks)) for marks in zip(*masks, strict=True))
    table = np.array(counts, dtype=np.int64).reshape(-1, 2)  # (words, [not marked, marked])
    if not (table.sum(axis=0) > 0).all():
        return None
    krippendorff = need("krippendorff", extra="annotate", what="Krippendorff's alpha")
    value = float(krippendorff.alpha(value_counts=table, level_of_measurement="nominal"))
    return value if math.isfinite(value) else None


def mean_pairwise_f1(masks_by_text: Iterable[Sequence[Mask]]) -> float | None:
    """Return the mean over texts and pairs of annotators of 2 |A and B| / (|A| + |B|), A and B the words they mark.

    Pairs that mark nothing have no F1 and are left out; None if no pair is left.

    Example:
        >>> mean_pairwise_f1([[(True, True, False), (True, False, False)]])
        0.6666666666666666
    """
    values = []
    for masks in masks_by_text:
        for a, b in combinations(masks, 2):
            marked = sum(a) + sum(b)
            if marked:
                both = sum(map(min, a, b))
                values.append(2 * both / marked)
    return _mean(values)


def agreement_metrics(
    rationales: Iterable[Rationale],
    examples: Iterable[Example],
    train_split: Split,
    agreement: float = 0.5,
) -> dict[str, object]:
    """Return figures on a task's rationales, for DVC's metrics: plain values, None if undefined.

    Length and rate are taken over the texts with at least one marked word after merging, on which explainers are
    trained and evaluated; a text whose annotators found no evidence, or disagree, would make K smaller.

    Args:
        rationales: the task's rationales.
        examples: their texts, at least; each mask has an entry for each word.
        train_split: split of `mean_length` and `positive_rate`.
        agreement: share of a text's annotators that makes a word evidence (see `merge_annotators`).

    Returns:
        Name -> figure:

        * mean_length: K, mean number of marked words per text in `train_split`;
        * positive_rate: share of the words that are marked in `train_split`;
        * mean_length_by_split, positive_rate_by_split: split -> the same;
        * texts: split -> number of texts with a rationale, including those without a marked word;
        * alpha, pairwise_f1: agreement over the texts with two or more annotators, and `alpha_texts`, their number;
        * alpha_by_pair: "A and B" -> alpha, pairwise_f1, texts; empty with more than MAX_PAIRS pairs;
        * rationales, annotators: their numbers; kinds: kind -> number of rationales; marked_by: kind -> annotators.
    """
    rationales = list(rationales)
    splits = {example.id: example.split for example in examples}
    masks_by_text: dict[str, dict[str, Mask]] = defaultdict(dict)
    for rationale in rationales:
        masks_by_text[rationale.example_id][rationale.annotator] = rationale.mask
    shared = [list(masks.values()) for masks in masks_by_text.values() if len(masks) >= 2]

    merged: dict[Split, list[Mask]] = {split: [] for split in SPLITS}
    for example_id, mask in merge_annotators(rationales, agreement).items():
        merged[splits[example_id]].append(mask)
    marked = {split: list(filter(any, masks)) for split, masks in merged.items()}
    mean_lengths = {split: _mean(list(map(sum, masks))) for split, masks in marked.items()}
    positive_rates = {split: _mean(list(chain(*masks))) for split, masks in marked.items()}
    marked_by: dict[str, set[str]] = defaultdict(set)
    for rationale in rationales:
        marked_by[rationale.kind].add(rationale.annotator)
    return {
        "mean_length": mean_lengths[train_split],
        "mean_length_by_split": mean_lengths,
        "positive_rate": positive_rates[train_split],
        "positive_rate_by_split": positive_rates,
        "texts": {split: len(masks) for split, masks in merged.items()},
        "alpha": krippendorff_alpha(shared),
        "alpha_texts": len(shared),
        "pairwise_f1": mean_pairwise_f1(shared),
        "alpha_by_pair": _agreement_by_pair(masks_by_text.values()),
        "rationales": len(rationales),
        "annotators": len({rationale.annotator for rationale in rationales}),
        "kinds": dict(sorted(Counter(rationale.kind for rationale in rationales).items())),
        "marked_by": {kind: sorted(names) for kind, names in sorted(marked_by.items())},
    }


def _agreement_by_pair(masks_by_text: Iterable[Mapping[str, Mask]]) -> dict[str, dict[str, object]]:
    """Return the agreement of each pair of annotators; empty with more than MAX_PAIRS pairs."""
    pairs: dict[tuple[str, str], list[tuple[Mask, Mask]]] = defaultdict(list)
    for masks in masks_by_text:
        for a, b in combinations(sorted(masks), 2):
            pairs[a, b].append((masks[a], masks[b]))
    if len(pairs) > MAX_PAIRS:
        return {}
    figures: dict[str, dict[str, object]] = {}
    for (a, b), texts in sorted(pairs.items()):
        figures[f"{a} and {b}"] = {
            "alpha": krippendorff_alpha(texts),
            "pairwise_f1": mean_pairwise_f1(texts),
            "texts": len(texts),
        }
    return figures


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
