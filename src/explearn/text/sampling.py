"""The sample of a task's texts that is explained."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from explearn.core.examples import Example
from explearn.core.seeds import hash_order


def texts_to_explain(
    examples: Iterable[Example], marked: Collection[str], most: int | None, seed: int
) -> list[Example]:
    """Choose the examples that are explained; the draw depends only on ids and seed.

    Args:
        examples: the candidates.
        marked: ids of the examples with a rationale, which come first.
        most: most examples to choose. None: all.
        seed: seed of the draw.

    Returns:
        The chosen examples, in the order given.
    """
    rows = list(examples)
    if most is None:
        return rows
    drawn = hash_order((example.id for example in rows), seed)
    drawn.sort(key=lambda example_id: example_id not in marked)  # stable: otherwise in the order of the draw
    chosen = set(drawn[:most])
    return [example for example in rows if example.id in chosen]
