"""Merging the marks of several annotators."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from explearn.core.errors import DataError
from explearn.core.examples import Rationale


def merge_annotators(rationales: Iterable[Rationale], agreement: float = 0.5) -> dict[str, tuple[bool, ...]]:
    """Merge the masks of each example's annotators: a word is evidence if a large enough share of them marks it.

    Args:
        rationales: masks of one or more annotators per example.
        agreement: smallest share of an example's annotators, taken as the decimal number written (0.1 is one tenth)
            and compared without rounding. A word that nobody marks is no evidence, also at 0.

    Returns:
        Example id -> mask, in the order of first appearance.

    Raises:
        DataError: masks of an example differ in length, or an annotator has two for it.

    Example:
        >>> from explearn.core.examples import Rationale
        >>> a = Rationale("1", "a", "human", (True, True))
        >>> b = Rationale("1", "b", "human", (True, False))
        >>> merge_annotators([a, b], agreement=0.6)
        {'1': (True, False)}
    """
    masks_by_example: dict[str, dict[str, tuple[bool, ...]]] = {}
    for rationale in rationales:
        masks = masks_by_example.setdefault(rationale.example_id, {})
        if rationale.annotator in masks:
            raise DataError(
                f"example {rationale.example_id!r}: got two rationales of annotator {rationale.annotator!r}; "
                "expected one"
            )
        masks[rationale.annotator] = rationale.mask
    share = Fraction(str(agreement))
    merged: dict[str, tuple[bool, ...]] = {}
    for example_id, masks in masks_by_example.items():
        lengths = {len(mask) for mask in masks.values()}
        if len(lengths) > 1:
            raise DataError(f"example {example_id!r}: got masks of {sorted(lengths)} entries; expected the same length")
        needed = max(share * len(masks), 1)
        merged[example_id] = tuple(sum(marks) >= needed for marks in zip(*masks.values(), strict=True))
    return merged
