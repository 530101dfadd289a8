"""The smallest change that turns an answer: found where there is one, and never one that does not turn it."""

from itertools import combinations

import numpy as np
import pytest
import tiny

import explearn
from explearn.core.words import Segment
from explearn.decision.change import BUDGET, smallest_change
from explearn.decision.decision import Decision
from explearn.decision.replacements import from_list
from explearn.text.rewriting import rewrite


def decision(rude, text):
    """A text for a classifier that is told which texts are rude."""

    def probabilities(texts):
        return [[0.2, 0.8] if rude(text) else [0.7, 0.3] for text in texts]

    classifier = explearn.FunctionPredictor(probabilities, ["polite", "rude"], name="rules")
    return Decision(classifier, [Segment.of(text)])


def found(of, **given):
    words = len(of.segments[0].spans)
    return smallest_change(of, np.arange(words, 0, -1.0), **given)


@pytest.mark.parametrize(
    ("rude", "edits"),
    [
        (lambda text: "moron" in text, {1: None}),
        (lambda text: "moron" in text or "fool" in text, {1: None, 3: None}),
        (lambda text: any(word in text for word in ("moron", "fool", "clod")), {1: None, 3: None, 5: None}),
        (lambda text: True, None),
    ],
)
def test_single_words_then_pairs_then_larger_sets(rude, edits):
    assert found(decision(rude, "you moron and fool and clod")) == edits


def test_the_words_with_the_highest_scores_are_tried_together():
    """No change is found that is larger than leaving out the words that the record names."""
    text = " ".join(f"w{number}" for number in range(20))

    def probabilities(texts):
        """The three decide together; alone each does less than any of the others."""
        rows = []
        for words in map(str.split, texts):
            decides = {"w0", "w1", "w2"}.isdisjoint(words)
            rude = (0.2 if decides else 0.7) + 0.005 * len(set(words) - {"w0", "w1", "w2"})
            rows.append([1 - rude, rude])
        return rows

    classifier = explearn.FunctionPredictor(probabilities, ["polite", "rude"], name="rules")
    assert found(Decision(classifier, [Segment.of(text)])) == {0: None, 1: None, 2: None}


def test_what_is_found_turns_the_answer_and_is_as_small_as_can_be():
    classifier = tiny.classifier("bert", 3)
    texts = [*tiny.TEXTS, "the lazy dog sleeps while she sells a broken box"]
    for text, attribution in zip(texts, explearn.explain(classifier, texts, "occlusion"), strict=True):
        of = Decision(classifier, [Segment.of(text)])
        changed = smallest_change(of, attribution.scores.astype(np.float64))
        assert of.passes <= BUDGET
        smallest = None
        for size in (2, 1):
            for positions in combinations(range(len(attribution.words)), size):
                edits = dict.fromkeys(positions)
                if of.possible(edits) and of.turned(of.ask([edits]))[0]:
                    smallest = size
        if smallest is not None:
            assert changed is not None and len(changed) == smallest
        if changed is not None:
            assert classifier.predict([rewrite(of.segments, changed)]) != classifier.predict([text])


def test_a_long_text_stays_within_the_budget():
    of = decision(lambda text: text.count("w") > 150, " ".join(["w"] * 400))
    assert found(of) is None and of.passes <= BUDGET


def test_words_are_exchanged_with_their_punctuation():
    of = decision(lambda text: "nice," not in text, "Rude, dull words")
    assert found(of, replacements=from_list(of.segments[0].words, {"rude": ["nice"]})) == {0: "nice,"}


@pytest.mark.parametrize(
    ("edits", "text"),
    [
        ({0: None}, "b  c | d"),
        ({2: None, 1: "B"}, "a B | d"),
        ({3: "D"}, "a b  c | D"),
        ({3: None}, None),
    ],
)
def test_changed_texts_of_a_pair(edits, text):
    changed = rewrite([Segment.of("a b  c"), Segment.of("d")], edits)
    assert changed == (None if text is None else tuple(text.split(" | ")))


def test_a_label_of_several_turns_by_itself():
    def probabilities(texts):
        return [[0.9, 0.8 if "moron" in text else 0.1] for text in texts]

    classifier = explearn.FunctionPredictor(probabilities, ["spam", "rude"], kind="multi_label", name="labels")
    of = Decision(classifier, [Segment.of("you moron")])
    assert of.target == 0 and found(of) is None
