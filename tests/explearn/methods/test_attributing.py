"""Attributions of many texts, made together, are those of each text by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny

from explearn.core.errors import ExplearnError, ModelError
from explearn.core.records import Aggregation, Attribution
from explearn.methods.base.asking import answer_fields, answers
from explearn.methods.base.attributing import attributions_of
from explearn.methods.base.scores import TextScores
from explearn.model.callable import CallableClassifier
from explearn.model.classifier import Classifier
from explearn.model.encoding import Encoding
from explearn.model.problems import Problem
from explearn.text.alignment import aggregate

TEXTS = ["lazy dog", "a \u200b castle", ("dog", "a lazy castle"), "castle " * 60, "unbelievable"]


def read(padding: int = 3) -> tuple[Classifier, list[Encoding], list[TextScores]]:
    """Texts with scores drawn at random, also for special tokens and padding."""
    of, draw = tiny.classifier("bert", 3), np.random.default_rng(0)
    encodings = of.encode(TEXTS)
    scored = [
        TextScores(
            draw.normal(size=len(encoding) + padding).astype(np.float32),
            draw.normal(size=3) * 9,
            target=row % 3,
            seconds=row,
            completeness_error=row / 8,
            unread=row // 4,
        )
        for row, encoding in enumerate(encodings)
    ]
    return of, encodings, scored


def make(of: Classifier, encodings: list[Encoding], scored: list[TextScores], how: Aggregation) -> list[Attribution]:
    return attributions_of(of, encodings, scored, "occlusion", how, signed=True)


@pytest.mark.parametrize("how", ["max", "sum"])
def test_each_text_is_as_it_would_be_alone(how: Aggregation) -> None:
    of, encodings, scored = read()
    together = make(of, encodings, scored, how)
    alone = [make(of, [e], [s], how)[0] for e, s in zip(encodings, scored, strict=True)]
    assert [repr(found.to_record()) for found in together] == [repr(found.to_record()) for found in alone]


@pytest.mark.parametrize("how", ["max", "sum"])
def test_its_parts_are_those_of_the_text(how: Aggregation) -> None:
    of, encodings, scored = read()
    for found, encoding, one in zip(make(of, encodings, scored, how), encodings, scored, strict=True):
        words, lost = aggregate(one.scores, encoding.word_ids, len(encoding.words), how)
        np.testing.assert_array_equal(found.scores, words)
        assert found.unaligned == lost + one.unread
        np.testing.assert_array_equal(found.token_scores, one.scores[encoding.positions])
        ids = [encoding.input_ids[i] for i in encoding.positions]
        assert list(found.tokens) == of.tokenizer.convert_ids_to_tokens(ids)
        assert found.target == of.labels[one.target]
        assert found.predicted == of.labels[int(one.logits.argmax())]
        weights = np.exp(one.logits - one.logits.max())
        assert found.probability == pytest.approx((weights / weights.sum())[one.target])


def test_what_is_kept_of_one_text_keeps_no_other() -> None:
    for found in make(*read(), "max"):
        assert found.scores.base is None and found.token_scores.base is None


def test_no_text_gives_nothing() -> None:
    assert make(tiny.classifier("bert", 3), [], [], "max") == []


def test_what_is_not_finite_is_refused() -> None:
    of, encodings, scored = read()
    with pytest.raises(ModelError, match="logit that is not finite"):
        make(of, encodings, [*scored[:-1], replace(scored[-1], logits=np.array([0, np.nan, 0]))], "max")
    with pytest.raises(ExplearnError, match="a score is not finite"):
        make(of, encodings, [*scored[:-1], replace(scored[-1], scores=np.full(len(encodings[-1]), np.inf))], "max")


@pytest.mark.parametrize("problem", Problem)
@pytest.mark.parametrize("classes", [2, 3, 8, 33])
def test_answers_are_those_of_each_text_alone_to_the_last_bit(problem: Problem, classes: int) -> None:
    """The parts of a large job are compared byte by byte, and a text may be the first of a chunk or the hundredth."""
    of = CallableClassifier(lambda texts: np.ones((len(texts), classes)), [f"c{i}" for i in range(classes)])
    of.problem = problem
    draw = np.random.default_rng(classes)
    logits = draw.normal(size=(100, classes)) * draw.uniform(0, 20, size=(100, 1))
    targets = [of.labels[index] for index in draw.integers(classes, size=100)]
    expected = [answer_fields(of, row[None], target) for row, target in zip(logits, targets, strict=True)]
    assert list(map(repr, answers(of, logits, targets))) == list(map(repr, expected))
