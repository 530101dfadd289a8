"""Choosing which of a task's texts are explained."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from explearn.core.records import Example
from explearn.core.seeds import hash_order


def texts_to_explain(
    examples: Iterable[Example], marked: Collection[str], most: int | None, seed: int
) -> list[Example]:
    """Choose at most `most` examples, those with a rationale (ids in `marked`) first, otherwise by seed.

    Returned in the order given. The draw depends only on ids and seed.
    """
    rows = list(examples)
    if most is None or len(rows) <= most:
        return rows

    # sorted is stable: within the marked and the others, the order stays that of the draw.
    order = sorted(hash_order((example.id for example in rows), seed), key=lambda example_id: example_id not in marked)
    chosen = set(order[:most])
    return [example for example in rows if example.id in chosen]


def texts_to_learn_from(
    examples: Iterable[Example], marked: Collection[str], most: int | None, unmarked: int, seed: int
) -> list[Example]:
    """Choose the texts that several methods explain for learned explainers.

    These are the texts of `texts_to_explain`, whose marks are learned from, and at most `unmarked` further ones without
    a rationale, which a trained consensus can mark. The number of these does not affect the marked ones.

    Returned in the order given. The draw depends only on ids and seed.
    """
    rows = list(examples)
    chosen = {example.id for example in texts_to_explain(rows, marked, most, seed)}
    rest = [example for example in rows if example.id not in chosen and example.id not in marked]
    chosen |= {example.id for example in texts_to_explain(rest, (), unmarked, seed)}
    return [example for example in rows if example.id in chosen]
