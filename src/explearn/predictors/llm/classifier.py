"""A prompt to a language model behind an OpenAI-compatible server, as a predictor."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from scipy.stats import binomtest

from explearn.core.arrays import Array
from explearn.core.documents import read_yaml, text_digest
from explearn.core.errors import DataError, ModelError, ParamsError, UnansweredError, listed, shown
from explearn.core.validation import Fraction, PositiveInt, check
from explearn.predictors.encoding import Encoding, Text
from explearn.predictors.function import FunctionEncoding, FunctionPredictor
from explearn.predictors.llm.asking import ask_all, run, unanswered
from explearn.predictors.llm.budget import PRICES, Meter, parse_prices
from explearn.predictors.llm.endpoint import MODEL, Endpoint, RefusedError
from explearn.predictors.llm.labels import (
    REASONING_ENDS,
    LabelReading,
    answer_start,
    find_label,
    normalised_word,
    read_labels,
)
from explearn.predictors.llm.store import AnswerStore, open_store
from explearn.predictors.params import PAIR_SLOT, CompletionParams, Words
from explearn.show.blocks import several
from explearn.text.encoding import PlainText, name_of

if TYPE_CHECKING:
    # They need an extra.
    from explearn.predictors.llm.server.client import ChatAnswer, ChatClient, RequestFormat

logger = logging.getLogger(__name__)

TEXTS_A_CALL = 64
"""Most texts that are asked about before any answer is used."""

MOST_REFUSED = 10
"""Most texts that a server may refuse, or leave without an answer, before others are asked together."""

CONFIDENCE = 0.95
"""Level of the intervals of probabilities from samples."""


class LLMParams(CompletionParams):
    """A prompt to a language model, and what may be spent on it; `mask` is a word."""

    model: str = ""
    """The model's name on the server; empty: EXPLEARN_LLM_MODEL."""
    version: str = ""
    """Anything; another one makes another classifier, for a server that changes the model behind its name."""
    top_logprobs: Annotated[int, Field(ge=1, le=100)] = 20
    """Number of likeliest tokens to ask for; hosted servers give at most 20."""
    samples: Annotated[int, Field(ge=1, le=10_000)] = 20
    """Answers a text, each a request, if the server gives no log-probabilities."""
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 8
    """Longest answer, reasoning included."""
    reasoning_ends: tuple[Words, ...] = REASONING_ENDS
    """Marks behind which the answer stands, if the server does not take the reasoning out of it."""
    least_share: Fraction = 0.5
    """Least probability that the labels must have in all (of samples: the share that names one); below it a text has no
    answer."""
    max_requests: PositiveInt = 1000
    """Most requests, retries included, of all runs with the same file of answers."""
    max_money: Annotated[float, Field(ge=0)] | None = None
    """Most money of all runs with the same file of answers, in the currency of EXPLEARN_LLM_PRICES."""
    paraphrases: Annotated[tuple[str, ...], Field(min_length=1)] = (
        "On which words of the text did you base this answer?",
        "Which words of the text would have to be missing for you to answer otherwise?",
    )
    """Other ways to ask for the words that decided, by which the stability of the model's own reasons is measured."""
    simulator: str = ""
    """Name of the model that predicts answers with and without the model's own reasons; empty: `model`."""

    @model_validator(mode="after")
    def _fits_a_server(self) -> Self:
        if self.chat is not None:
            raise ValueError("chat: got one; expected none, since servers put messages into the model's own template")
        words = [normalised_word(word) for word in self.label_words.values()]
        for first, second in combinations(words, 2):
            if first.startswith(second) or second.startswith(first):
                raise ValueError(f"label_words: got {first!r} and {second!r}; expected none that begins another")
        return self


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a language model.

    Attributes:
        messages: the conversation, each message with its `role` and `content`.
        read: returns what to keep of an answer, a JSON value; the answer itself is not kept.
        max_tokens: longest answer.
        model: name of the model. Empty: the classifier's.
        temperature: temperature of sampling.
        top_logprobs: number of likeliest tokens to ask for.
        key: place in the file of answers.
    """

    messages: Sequence[Mapping[str, str]]
    read: Callable[[ChatAnswer], Any]
    max_tokens: int
    model: str = ""
    temperature: float = 0.0
    top_logprobs: int = 0
    key: str = ""


class LLMClassifier(FunctionPredictor):
    """A language model that classifies by a prompt, behind an OpenAI-compatible server.

    The server's address and key are in the environment: EXPLEARN_LLM_BASE_URL, EXPLEARN_LLM_API_KEY. Probabilities
    are those of the label words, where the server gives log-probabilities (`explearn.predictors.llm.labels`).
    Otherwise each text is asked `samples` times at temperature 1: with n answers that name a label, c of them this
    one, its probability is (c + 1/C) / (n + 1), and `intervals` says how far to trust that. A text that the server
    refuses, or whose answer gives the labels less than `least_share` in all (`shares`), has no probabilities.

    Every answer is kept in a file, without texts. A run that was killed goes on from there. The budget covers all runs
    with the same file, and no request is sent that could exceed it.

    Args:
        prompt: a YAML file, or its values (`LLMParams`): `model`, `template` with `{text}`, `label_words`, ...
        answers: file of answers. None: the prompt's file with `.answers` after its name.

    Raises:
        MissingExtraError: in a prediction, `explearn[annotate]`, with the client, is not installed.
        ParamsError: the prompt cannot be used, or no model or no file of answers is named.
        DataError: the prompt's file cannot be read; later, a pair for a template without one or the other way round,
            or answers that cannot be kept.
        EndpointError: in a prediction, the server cannot be used.
        BudgetError: in a prediction, the budget does not cover the next request.
        RefusedError: in a prediction, the server refuses everything.
        NoAnswerError: in a prediction, the server does not answer after all retries.
        UnansweredError: in a prediction, a text has no answer that names a label; all others were asked, too.
        ModelError: in a prediction, the first texts have none at all.

    Example:
        >>> from explearn import LLMClassifier
        >>> prompt = {
        ...     "model": "llama3.2",
        ...     "template": "Review: {text}\\nGood or bad? One word:",
        ...     "label_words": {"negative": "bad", "positive": "good"},
        ... }
        >>> LLMClassifier(prompt, "reviews.answers").labels
        ['negative', 'positive']
    """

    costs_money = True
    fingerprint_kind = "SHA-256 of the model's name and the prompt"

    def __init__(
        self,
        prompt: LLMParams | Mapping[str, Any] | str | os.PathLike[str],
        answers: str | os.PathLike[str] | None = None,
    ) -> None:
        where = ""
        values: Any = prompt
        if isinstance(prompt, str | os.PathLike):
            where = f"{os.fspath(prompt)}, "
            values = read_yaml(prompt)
            answers = answers or f"{os.fspath(prompt)}.answers"
        self.params: LLMParams = check(LLMParams, values, ParamsError, where)
        if answers is None:
            raise ParamsError("answers: got none; expected a file to keep the model's answers in")
        self.answers = Path(answers)
        self.model = self.params.model or os.environ.get(MODEL, "").strip()
        if not self.model:
            raise ParamsError(f"{where}model: got none; expected the model's name there or in {MODEL}")
        super().__init__(
            self._predict, list(self.params.label_words), mask=self.params.mask or "", batch_size=TEXTS_A_CALL
        )
        self.name = self.model
        self._words = list(self.params.label_words.values())
        self._accepted: dict[str, RequestFormat] = {}
        self._announced = False
        self._names_labels = False

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the model's name, the prompt, the version and the least share."""
        return self._key("classifier", self.params.least_share)

    def _key(self, *parts: object) -> str:
        """Return SHA-256 over all settings that an answer depends on, and more."""
        others = {"max_requests", "max_money", "paraphrases", "simulator", "least_share"}
        settings = self.params.model_dump(exclude=others) | {"model": self.model}
        return text_digest(json.dumps([settings, *parts]))

    def encode(self, texts: Sequence[PlainText]) -> list[Encoding]:
        for number, text in enumerate(texts, start=1):
            if isinstance(text, tuple) != self.params.takes_pairs:
                raise DataError(
                    f"text {number}: does not fit the template of {self.name}; expected a pair of texts where it has "
                    f"{PAIR_SLOT}, else a single one"
                )
        return super().encode(texts)

    def intervals(self, texts: Iterable[Text]) -> NDArray[np.float64]:
        """Return intervals of the classes' probabilities, (n, C, 2), at a level of .95; NaN without an answer.

        Of samples, they are Wilson's, for each class by itself. Where the server gives log-probabilities, both ends
        are the probability.

        Args:
            texts: the texts.
        """
        sampled, _, values = self._read_answers(texts)
        rows = []
        for row in values:
            if sampled and not np.isnan(row).any():
                found = [binomtest(int(count), int(row.sum())).proportion_ci(CONFIDENCE, "wilson") for count in row]
                rows.append([(ends.low, ends.high) for ends in found])
            else:
                rows.append([(p, p) for p in row])
        return np.array(rows).reshape(-1, len(self.labels), 2)

    def shares(self, texts: Iterable[Text]) -> NDArray[np.float64]:
        """Return how much of the probability of each text's answer the labels have in all, (n,).

        Of samples, it is the share that names a label. NaN: the server refused the text, or its answer cannot be read.

        Args:
            texts: the texts.
        """
        return self._read_answers(texts)[1]

    def _read_answers(self, texts: Iterable[Text]) -> tuple[bool, NDArray[np.float64], NDArray[np.float64]]:
        return self._answered([cast(FunctionEncoding, encoding).input for encoding in self.read(texts)])

    def answered(self, texts: Iterable[Encoding] | Iterable[Text]) -> NDArray[np.bool_]:
        """Return for each text whether its answer is kept already, so that it costs nothing, (n,).

        Args:
            texts: the texts, or encodings of them.

        Raises:
            DataError: a text or the file of answers cannot be used.
        """
        encodings: Any = self.read(texts)
        inputs = [encoding.input for encoding in encodings]
        with open_store(self.answers) as store:
            sampled = self._is_sampled(store)
            kept = []
            for text in inputs:
                questions = self._questions(self.prompt(text), sampled)
                kept.append(all(question.key in store for question in questions))
        return np.array(kept, dtype=bool)

    def predict_logits(self, encodings: Sequence[Encoding], description: str | None = None) -> Array:
        logits = super().predict_logits(encodings, description)
        missing = np.flatnonzero(np.isnan(logits).any(axis=1)).tolist()
        if missing:
            names = [name_of(encodings[number].example_id, number + 1) for number in missing]
            count = f"{len(missing)} of {several(len(encodings), 'text')}"
            raise UnansweredError(self._without_label(f"{count} ({listed(names)})"))
        return logits

    def _answers(self, texts: list[str | tuple[str, str]]) -> Array:
        answers = self._predict(texts)
        self._names_labels = self._names_labels or not np.isnan(answers).all()
        if len(texts) == self.batch_size and not self._names_labels:
            # Others would cost money in vain.
            raise ModelError(self._without_label(f"the first {several(len(texts), 'text')}"))
        return answers

    def _without_label(self, texts: str) -> str:
        return (
            f"{self.name}: no answer to {texts} names a label with a share of {self.params.least_share:g} or more; "
            f"expected a template that asks for one of {', '.join(self._words)}, a larger max_tokens (reasoning "
            "counts), or a smaller least_share"
        )

    def _predict(self, texts: Sequence[str | tuple[str, str]]) -> Array:
        """Return the probabilities of n texts, (n, C); NaN for a text without an answer."""
        sampled, _, values = self._answered(texts)
        totals = values.sum(1, keepdims=True)
        if sampled:
            return np.asarray((values + 1 / len(self.labels)) / (totals + 1))
        return np.asarray(values / totals)

    def _answered(
        self, texts: Sequence[str | tuple[str, str]]
    ) -> tuple[bool, NDArray[np.float64], NDArray[np.float64]]:
        """Return whether the model was asked for samples, and of each text the share, (n,), and the labels, (n, C).

        The latter are their counts in the samples, or else their probabilities; NaN for a text without an answer.
        """
        prompts = [self.prompt(text) for text in texts]
        return run(lambda stopped: self._gather(prompts, stopped))

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """Return what is kept of the answers to questions; raises as a prediction does.

        They count in the budget, and none is asked twice.

        Args:
            questions: the questions.
        """
        keyed = []
        for question in questions:
            model = question.model or self.model
            key = self._key("free", model, *question.messages, question.max_tokens)
            keyed.append(replace(question, model=model, key=key))

        async def gather(stopped: Event) -> list[Any]:
            with open_store(self.answers) as store:
                await self._ask_unknown(store, keyed, stopped)
                return [store[question.key] for question in keyed]

        return run(gather)

    async def _gather(
        self, prompts: Sequence[str], stopped: Event
    ) -> tuple[bool, NDArray[np.float64], NDArray[np.float64]]:
        with open_store(self.answers) as store:
            await self._find_mode(store, prompts, stopped)
            sampled = self._is_sampled(store)
            questions = [self._questions(prompt, sampled) for prompt in prompts]
            await self._ask_unknown(store, chain.from_iterable(questions), stopped)
            shares = np.full(len(prompts), np.nan)
            values = np.full((len(prompts), len(self.labels)), np.nan)
            for number, asked in enumerate(questions):
                kept = [answer for question in asked if (answer := self._kept(store, question)) is not None]
                if sampled:
                    shares[number] = len(kept) / len(asked)
                elif kept:
                    shares[number] = kept[0][0]
                if not kept or shares[number] < self.params.least_share:
                    continue
                values[number] = np.bincount(kept, minlength=len(self.labels)) if sampled else kept[0][1]
            return sampled, shares, values

    async def _find_mode(self, store: AnswerStore, prompts: Sequence[str], stopped: Event) -> None:
        """Ask one text at a time until an answer says whether the server gives log-probabilities."""
        refused = 0
        for prompt in prompts[:MOST_REFUSED]:
            if self._mode in store:
                return
            try:
                await self._ask_unknown(store, self._questions(prompt, False), stopped)
            except RefusedError:
                refused += 1
                if refused == min(len(prompts), MOST_REFUSED):
                    raise

    def _kept(self, store: AnswerStore, question: Question) -> Any:
        """Return a kept answer: a label's number for a sample, else a `LabelReading`; None if there is none.

        Raises:
            DataError: it is something else.
        """
        answer = store[question.key]
        if answer is None or (not question.top_logprobs and answer in range(len(self.labels))):
            return answer
        try:
            share, probabilities = answer
            numbers = np.array([share, *probabilities], dtype=np.float64)
        except (TypeError, ValueError):
            numbers = np.zeros(0)
        right = question.top_logprobs and len(numbers) == 1 + len(self.labels)
        if not right or not ((numbers >= 0) & (numbers <= 1)).all():
            raise DataError(
                f"{self.answers}: got {shown(answer)} for a text; expected an answer about {len(self.labels)} labels, "
                "so name another file of answers"
            )
        return LabelReading(share, probabilities)

    def prompt(self, text: str | tuple[str, str]) -> str:
        """Return the prompt around a text; the blank before it goes where all its words are left out.

        Args:
            text: a text; a pair where the template has a place for it.
        """
        before, between, behind = self.params.around()
        if isinstance(text, str):
            text = (text, "")
        if not text[0]:
            before = before.rstrip(" ")
        return before + text[0] + between + text[1] + behind

    @property
    def _mode(self) -> str:
        """Key in the store for whether samples are asked for, because the server gives no log-probabilities."""
        return self._key("sampled")

    def _is_sampled(self, store: AnswerStore) -> bool:
        return self._mode in store and store[self._mode]

    def _questions(self, prompt: str, sampled: bool) -> list[Question]:
        """Return what is asked about a prompt: for log-probabilities once, else for each sample."""
        messages = [{"role": "user", "content": prompt}]
        asked = Question(messages, self._read, self.params.max_tokens, self.model)
        if not sampled:
            return [replace(asked, top_logprobs=self.params.top_logprobs, key=self._key(prompt, None))]
        asked = replace(asked, read=self.read_label, temperature=1.0)
        return [replace(asked, key=self._key(prompt, number)) for number in range(self.params.samples)]

    def _read(self, answer: ChatAnswer) -> LabelReading | None:
        """Return what an answer says of the labels; None if it says nothing."""
        ends = self.params.reasoning_ends
        return read_labels(answer.content, answer.positions or (), self._words, ends, answer.finish == "length")

    def read_label(self, answer: ChatAnswer) -> int | None:
        """Return the number of the label that a sample names; None if it names none.

        Args:
            answer: the answer of the server.
        """
        start = answer_start(answer.content, self.params.reasoning_ends)
        if start is None:
            return None
        found = find_label(answer.content[start:], self._words, answer.finish == "length")
        return found and found[0]

    async def _ask_unknown(self, store: AnswerStore, questions: Iterable[Question], stopped: Event) -> None:
        """Ask what the store has no answer to, until `stopped`; answers on their way are kept where one fails."""
        questions = list(questions)
        # A text that is refused before the server has answered another is asked about once more.
        for _ in range(2):
            unknown = unanswered(questions, store)
            if not unknown or stopped.is_set():
                return
            endpoint = Endpoint.from_environment()
            prices = parse_prices(os.environ.get(PRICES, "").split())
            meter = Meter(self.params.max_requests, self.params.max_money, prices)
            meter.keep(store)
            self._announce(endpoint, meter)
            refusals: list[RefusedError] = []
            answer = partial(self._answer, store, refusals)
            await ask_all(unknown, answer, endpoint, meter, stopped, accepted=self._accepted)
            if not refusals:
                return
            if not self._accepted:
                raise refusals[0]
            count = len(refusals), len(unknown)
            logger.warning("%s: %s of %s requests were refused, the last: %s", self.name, *count, refusals[-1])

    async def _answer(
        self, store: AnswerStore, refusals: list[RefusedError], question: Question, client: ChatClient
    ) -> None:
        try:
            answer = await client.complete(
                question.model,
                question.messages,
                {},
                max_tokens=question.max_tokens,
                temperature=question.temperature,
                top_logprobs=question.top_logprobs,
            )
        except RefusedError as error:
            refusals.append(error)
            if question.model in client.accepted:
                # The server answers others, so that this is about the text.
                store[question.key] = None
            elif len(refusals) == MOST_REFUSED:
                raise
            return
        positions = answer.positions
        if question.top_logprobs and self._mode not in store and answer.content.strip() and positions != ():
            store[self._mode] = sampled = positions is None
            if sampled:
                logger.warning(
                    "%s: the server gives no log-probabilities; %s answers a text are asked for",
                    self.name,
                    self.params.samples,
                )
        store[question.key] = question.read(answer)

    def _announce(self, endpoint: Endpoint, meter: Meter) -> None:
        """Log the budget, before the first request of this classifier."""
        if self._announced:
            return
        self._announced = True
        money = ""
        if self.params.max_money is not None:
            money = f" and {self.params.max_money:g} in money"
        logger.warning(
            "%s at %s: at most %s requests%s in all; spent so far: %s requests, %.4g in money; answers are kept in %s",
            self.name,
            endpoint.redact(endpoint.base_url),
            f"{self.params.max_requests:,}",
            money,
            f"{meter.spent.requests:,}",
            meter.spent.money,
            self.answers,
        )
