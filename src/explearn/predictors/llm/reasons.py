"""What a language model says about its own answers, and how far a second model can predict them from that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from explearn.core.words import Span
from explearn.predictors.encoding import Encoding
from explearn.predictors.function import FunctionEncoding
from explearn.predictors.llm.classifier import LLMClassifier, Question
from explearn.text.quotes import Quote, align_quotes

if TYPE_CHECKING:
    from explearn.predictors.llm.server.client import ChatAnswer  # needs an extra

RATIONALE = "Which words of the text decided your answer?"
RANKING = (
    "Rank the words of the text by how much they decided your answer, the most decisive first, without those that did "
    "not matter."
)

FORMAT = (
    'Reply with a JSON list of exact quotes from the text, such as ["first quote", "second quote"], and nothing else.'
)

MAX_TOKENS = 400
"""Longest list of quotes."""

ANSWERED = "A text classifier answers with one of: {words}.\n\nText: {text}\nAnswer: {answer}\n"
REASON = "The classifier says that these words decided: {reason}.\n"
CHANGED = (
    "\nThe same text without some of its words: {changed}\n"
    "What does the classifier answer now? Reply with one of {words}, and nothing else."
)
"""The simulator's prompt: ANSWERED, REASON or nothing, CHANGED."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulator knows about a classifier's answer to a changed text.

    Attributes:
        text: the text; both texts of a pair, a line each.
        answer: the classifier's label for it.
        reason: the words that are said to have decided; None if the simulator does not see them.
        changed: the text with some words left out, whose label is to be predicted.
    """

    text: str
    answer: str
    reason: tuple[str, ...] | None
    changed: str


def named_words(
    classifier: LLMClassifier, encodings: Sequence[Encoding], targets: Sequence[int], question: str
) -> list[list[Span] | None]:
    """Ask the model which words of each text decided its answer.

    The question continues the conversation in which the model classified the text. For another target than its answer,
    it is asked as if it had given that.

    Args:
        classifier: the model.
        encodings: the texts.
        targets: index of each text's answer.
        question: the question, without the form of the answer.

    Returns:
        For each text the places of its words that the model quotes, [start, end), in the order of the quotes; none if
        it quotes nothing of the text, or answers in another form. None: the server refuses the question.
    """
    words = list(classifier.params.label_words.values())
    questions = []
    for encoding, target in zip(encodings, targets, strict=True):
        messages = [
            {"role": "user", "content": classifier.prompt(cast(FunctionEncoding, encoding).input)},
            {"role": "assistant", "content": words[target].strip()},
            {"role": "user", "content": f"{question} {FORMAT}"},
        ]
        questions.append(Question(messages, partial(_places, words=encoding.words), MAX_TOKENS))
    by_text: list[list[Span] | None] = []
    for places in classifier.ask(questions):
        by_text.append(places and [(start, end) for start, end in places])
    return by_text


def _places(answer: ChatAnswer, words: Sequence[str]) -> list[Span]:
    """Return the places of the words that a model's answer quotes."""
    quotes = [Quote(quote) for quote in _quotes(answer.content)]
    return list(align_quotes(quotes, words, in_order=False).places)


def _quotes(content: str) -> list[str]:
    """Return the quotes in a model's answer: a JSON list, whatever surrounds it; none of another answer."""
    try:
        values: Any = json.loads(content[content.find("[") : content.rfind("]") + 1])
    except ValueError:
        return []
    if not isinstance(values, list):
        return []
    return [value for value in values if isinstance(value, str)]


def simulate(classifier: LLMClassifier, simulations: Sequence[Simulation]) -> list[str | None]:
    """Let the prompt's `simulator` predict the classifier's labels for changed texts.

    Args:
        classifier: the classifier.
        simulations: what the simulator sees.

    Returns:
        The labels; None where it names none, or the server refuses the question.
    """
    words = list(classifier.params.label_words.values())
    listed = ", ".join(word.strip() for word in words)
    questions = []
    for seen in simulations:
        answer = classifier.params.label_words[seen.answer].strip()
        content = ANSWERED.format(words=listed, text=seen.text, answer=answer)
        if seen.reason is not None:
            content += REASON.format(reason=json.dumps(seen.reason, ensure_ascii=False))
        content += CHANGED.format(changed=seen.changed, words=listed)
        message = {"role": "user", "content": content}
        questions.append(
            Question([message], classifier.read_label, classifier.params.max_tokens, classifier.params.simulator)
        )
    predicted = []
    for number in classifier.ask(questions):
        label = None
        if number is not None:
            label = classifier.labels[number]
        predicted.append(label)
    return predicted
