"""The marks of a text's words, of one annotator or several."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from explearn.core.errors import DataError, shown
from explearn.core.examples import Example, Rationale

logger = logging.getLogger(__name__)


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


def marked_words(rationales: Iterable[Rationale], agreement: float = 0.5) -> dict[str, tuple[bool, ...]]:
    """Do as `merge_annotators`, without texts of which no word is marked."""
    return {i: mask for i, mask in merge_annotators(rationales, agreement).items() if any(mask)}


def marks_by_id(
    rationales: Any, examples: Sequence[Example], known: Collection[str] = ()
) -> dict[str, tuple[bool, ...]]:
    """Return example id -> mask over the words, for the examples that have one.

    Args:
        rationales: example id -> mask; or a list of Rationales, of one or more annotators; or for each example its mask
            or None; or None.
        examples: the examples.
        known: ids of further texts, whose masks are of no use here.

    Raises:
        DataError: a mask does not have 0 or 1 for each word of its text, no mask is of a text, or there is not one
            entry an example.
    """
    if rationales is None:
        return {}
    if not isinstance(rationales, Mapping):
        listed = list(rationales)
        if all(isinstance(rationale, Rationale) for rationale in listed):
            rationales = merge_annotators(listed)
        elif len(listed) == len(examples):
            rationales = {example.id: mask for example, mask in zip(examples, listed, strict=True)}
        else:
            raise DataError(f"rationales: got {len(listed)} for {len(examples)} texts; expected one for each")
    _check_ids(list(rationales), {example.id for example in examples} | set(known))
    masks = {}
    for example in examples:
        mask = rationales.get(example.id)
        if mask is None:
            continue
        masked = np.ma.is_masked(mask)
        mask = np.asarray(mask)
        words = len(example.all_words)
        if mask.shape != (words,):
            raise DataError(f"rationale of example {example.id!r}: {mask.size} entries; expected {words}")
        if masked or not np.isin(mask, (0, 1)).all():
            raise DataError(f"rationale of example {example.id!r}: got {shown(mask.tolist())}; expected 0 or 1 a word")
        masks[example.id] = tuple(mask.astype(bool).tolist())
    return masks


def _check_ids(ids: Sequence[str], known: Collection[str]) -> None:
    """Warn of ids of marks that are of no text. Raises DataError if none of them is."""
    unknown = [i for i in ids if i not in known]
    if not unknown:
        return
    message = f"rationales: {len(unknown)} of {len(ids)} ids name no text ({shown(unknown)})"
    if len(unknown) == len(ids):
        raise DataError(f"{message}; expected ids of the texts, such as {min(known)!r}")
    logger.warning("%s; they are left out", message)
