"""Merging the marks of several annotators."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from explearn.core.errors import DataError
from explearn.core.examples import Rationale


def merge_annotators(rationales: Iterable[Rationale], agreement: float = 0.5) -> dict[str, tuple[bool, ...]]:
    """One mask an example: a word is evidence when at least the share `agreement` of its annotators mark it.

    The share is taken as the decimal number written (0.1 is one tenth) and compared without rounding; a word that
    nobody marks is no evidence, also at 0. The annotators of an example are those who gave a rationale for it.

    Returns example id -> mask, in the order of first appearance.
    Raises DataError when masks of an example differ in length or an annotator has two for it.
    """
    share = Fraction(str(agreement))
    masks: dict[str, dict[str, tuple[bool, ...]]] = {}
    for rationale in rationales:
        of_example = masks.setdefault(rationale.example_id, {})
        if rationale.annotator in of_example:
            raise DataError(
                f"example {rationale.example_id!r}: got two rationales of annotator {rationale.annotator!r}; "
                "expected one"
            )
        of_example[rationale.annotator] = rationale.mask
    merged: dict[str, tuple[bool, ...]] = {}
    for identifier, of_example in masks.items():
        lengths = {len(mask) for mask in of_example.values()}
        if len(lengths) > 1:
            raise DataError(f"example {identifier!r}: got masks of {sorted(lengths)} entries; expected the same length")
        needed = max(share * len(of_example), Fraction(1))
        merged[identifier] = tuple(sum(marks) >= needed for marks in zip(*of_example.values(), strict=True))
    return merged
