"""The sample of a task's texts that is explained."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from explearn.core.examples import Example
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
