"""Copies of training texts without their evidence, with a label of their own (L2E, section 5).

A classifier that learns to predict `neutral` if the marked words are masked has to rely on those words. Human
rationales then show what the classifier really uses.
"""

from __future__ import annotations

from dataclasses import replace

from explearn.core.errors import ParamsError
from explearn.text.rationales import merge_annotators
from explearn_study.sources import SourceDataset

NEUTRAL = "neutral"
SUFFIX = "-neutral"
"""Suffix of a copy's id, after the id of its example."""


def add_neutral(data: SourceDataset, mask: str) -> SourceDataset:
    """Add a copy, with its evidence masked, of each training and validation text that has a rationale.

    A word is masked if at least half of the text's annotators mark it. Test texts get no copies, and copies have no
    rationales.

    Args:
        data: the task's data from its source.
        mask: replacement for a marked word: the classifier's mask token, as its tokenizer writes it.

    Raises:
        ParamsError: no training text has a rationale, or the task already has the label NEUTRAL.
    """
    if NEUTRAL in data.labels:
        raise ParamsError(f"neutral: the task has a label {NEUTRAL!r} of its own; expected one without")
    gold = merge_annotators(data.rationales)
    copies = []
    for example in data.examples:
        marks = gold.get(example.id, ())
        if example.split == "test" or not any(marks):
            continue
        words = list(example.all_words)
        for position, marked in enumerate(marks):
            if marked:
                words[position] = mask
        size = len(example.words)
        copies.append(
            replace(
                example,
                id=example.id + SUFFIX,
                words=tuple(words[:size]),
                pair=tuple(words[size:]),
                label=NEUTRAL,
            )
        )
    if not any(copy.split == "train" for copy in copies):
        raise ParamsError("neutral: the source brings no rationale for a training text; expected some to mask")
    return replace(data, examples=[*data.examples, *copies], labels=[*data.labels, NEUTRAL])
