from dataclasses import replace

import pytest

from explearn import Example, ParamsError, Rationale
from explearn_study.sources import SourceDataset
from explearn_study.sources.planted import add_neutral

EXAMPLES = [
    Example("a", ("a", "dull", "film"), "negative", "train", "films", ("so", "dull")),
    Example("b", ("a", "warm", "film"), "positive", "validation", "films"),
    Example("c", ("a", "warm", "film"), "positive", "test", "films"),
    Example("d", ("a", "film"), "positive", "train", "films"),
]
RATIONALES = [
    Rationale("a", "ana", "human", (False, True, False, False, True)),
    Rationale("a", "ben", "human", (False, True, True, False, False)),
    Rationale("a", "cid", "human", (False, False, False, False, True)),
    Rationale("b", "ana", "human", (False, True, False)),
    Rationale("c", "ana", "human", (False, True, False)),
    Rationale("d", "ana", "human", (False, False)),
]
DATA = SourceDataset(EXAMPLES, RATIONALES, ["negative", "positive"], {}, frozenset("abcd"))


def test_marked_words_are_masked_in_copies_of_training_and_validation_texts():
    actual = add_neutral(DATA, "[MASK]")
    assert actual.examples[:4] == EXAMPLES
    assert actual.examples[4:] == [
        Example("a-neutral", ("a", "[MASK]", "film"), "neutral", "train", "films", ("so", "[MASK]")),
        Example("b-neutral", ("a", "[MASK]", "film"), "neutral", "validation", "films"),
    ]
    assert actual.labels == ["negative", "positive", "neutral"]
    assert actual.rationales == RATIONALES


def test_a_source_without_rationales_or_with_a_neutral_label_is_refused():
    with pytest.raises(ParamsError, match="brings no rationale for a training text"):
        add_neutral(replace(DATA, rationales=RATIONALES[3:]), "[MASK]")
    with pytest.raises(ParamsError, match="has a label 'neutral' of its own"):
        add_neutral(replace(DATA, labels=["entailment", "neutral"]), "[MASK]")
