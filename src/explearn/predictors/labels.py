"""A check that the labels of texts are classes of a classifier."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from textwrap import shorten

from explearn.core.errors import ModelError

SHOWN_CHARS = 200
"""Characters of a list of labels that an error shows."""


def check_labels(name: str, known: Sequence[str], wanted: Collection[str], remedy: str) -> None:
    """Raise ModelError, with both lists, unless every label of the texts is a class of the classifier.

    Args:
        name: name of the classifier.
        known: its classes.
        wanted: the texts' labels.
        remedy: how to map labels to classes, for the message.
    """
    if not set(wanted) <= set(known):
        classes, labels = (shorten(", ".join(names), SHOWN_CHARS, placeholder=" ...") for names in (known, wanted))
        raise ModelError(
            f"{name}: its classes are {classes}, the texts' labels are {labels}; expected every label among the "
            f"classes; {remedy}"
        )
