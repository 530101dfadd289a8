"""Questions to language models, the rationales in their answers, and the reasons for dropping others (ExpNet, appendix
A.1, stage 3).

Questions are sent concurrently and each at most once: answers are kept in a file.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from tqdm import tqdm

from explearn.core.documents import text_digest
from explearn.core.errors import ParamsError, UnknownNameError
from explearn.core.examples import Example, Rationale
from explearn.predictors.llm.asking import ask_all, run, unanswered
from explearn.predictors.llm.budget import Meter
from explearn.predictors.llm.endpoint import MODEL, Endpoint, NoAnswerError, RefusedError
from explearn.predictors.llm.server.client import ChatClient
from explearn.predictors.llm.store import AnswerStore, Spent, open_store
from explearn.text.quotes import ROUNDS, Alignment, align_quotes
from explearn_study.annotate.llm.answers import InvalidAnswerError, ParsedAnswer, parse_answer
from explearn_study.annotate.llm.prompts import BoundPrompt, MarkedExample, bind_prompt
from explearn_study.annotate.task import TaskMarks, spread_over_labels
from explearn_study.sections import LLMAnnotatorParams
from explearn_study.sources.splits import subsample

ASKS = 2
"""Most times a question is asked: an unreadable answer is asked for once more, and the second answer is kept."""

MOST_FAILURES = 10
"""Consecutive texts without an answer after which a run stops, assuming that the server is down."""


@dataclass(frozen=True, slots=True)
class AnnotationQuestion:
    """One text, one prompt, one model."""

    model: str
    prompt: BoundPrompt
    example: Example

    @property
    def key(self) -> str:
        """SHA-256 over model, prompt version and the words of both segments, as hexadecimal digits."""
        parts = [self.model, self.prompt.version, list(self.example.words), list(self.example.pair)]
        return text_digest(json.dumps(parts))


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer as received.

    Attributes:
        content: the model's output, with the server's key redacted.
        finish: why it stopped: `stop`, `length`, ..., or `refused` if the server would not answer for this text.
        requests: requests it took, including retries.
        input_tokens: tokens read for answered requests, as counted by the server.
        output_tokens: tokens written in answered requests.
    """

    content: str
    finish: str
    requests: int
    input_tokens: int
    output_tokens: int


def kept_answers(questions: Sequence[AnnotationQuestion], marks: TaskMarks) -> list[KeptAnswer | None]:
    """Return the answers that the task's file has to questions, None where there is none.

    Raises:
        DataError: the file cannot be used.
    """
    with open_store(marks.store.answers) as store:
        answers = []
        for question in questions:
            answer = None
            if question.key in store:
                answer = KeptAnswer(**store[question.key])
            answers.append(answer)
        return answers


def ask(questions: Sequence[AnnotationQuestion], marks: TaskMarks, meter: Meter) -> None:
    """Ask the questions that the task's file has no answer to; if there are none, no server is needed.

    Every answer is kept before it is used.

    Args:
        questions: the questions; texts with the same words are one question.
        marks: the task, with its file of answers.
        meter: the budget of all runs with this file.

    Raises:
        DataError: the file cannot be used.
        ParamsError: the server's address, or a price that the budget needs, is missing.
        EndpointError: the server cannot be used.
        BudgetError: the budget is spent; running requests have been answered and kept.
        NoAnswerError: a text has no answer at the end, or many in a row have none.
    """
    with open_store(marks.store.answers) as store:
        meter.keep(store)
        unknown = unanswered(questions, store)
        if not unknown:
            return
        endpoint = Endpoint.from_environment()
        answer = partial(_answer, store)
        with tqdm(total=len(unknown), desc="ask", unit="text", disable=None, file=sys.stderr) as bar:
            failures = run(
                lambda stopped: ask_all(
                    unknown, answer, endpoint, meter, stopped, most_failures=MOST_FAILURES, progress=bar.update
                )
            )
    if failures:
        raise NoAnswerError(
            f"{len(failures):,} of {len(unknown):,} texts have no answer; the last error was: {failures[-1]}; run "
            "again for them: answers so far are kept"
        )


async def _answer(store: AnswerStore, question: AnnotationQuestion, client: ChatClient) -> None:
    prompt = question.prompt
    spent = Spent()
    content = ""
    finish = "refused"
    for _ in range(ASKS):
        try:
            answer = await client.complete(
                question.model,
                prompt.messages(question.example),
                prompt.schema,
                max_tokens=prompt.max_tokens,
                temperature=prompt.temperature,
            )
        except RefusedError:
            # If the server answers other requests, a refusal is about the text, and final.
            if question.model not in client.accepted:
                raise
            spent += Spent(1)
            break
        content = answer.content
        finish = answer.finish
        spent += answer.spent
        try:
            parse_answer(content, finish, prompt.labels)
        except InvalidAnswerError:
            continue
        break
    kept = KeptAnswer(content, finish, spent.requests, spent.input_tokens, spent.output_tokens)
    store[question.key] = asdict(kept)


Mask = tuple[bool, ...]

FATES = {
    "kept": "kept",
    "unanswered": "not answered yet",
    "invalid": "answer cannot be read",
    "other_label": "label differs from gold",
    "hallucinated": "too many words that are not in the text",
    "empty": "no words marked",
    "all_words": "all words marked",
    "diffuse": "too many words marked",
    "rejected": "rejected by a person",
}
"""Fates of a text -> how they are printed."""


@dataclass(frozen=True, slots=True)
class Annotated:
    """A text with a model's answer.

    Attributes:
        example: the text.
        fate: one of FATES, whose reasons are tried in that order.
        model: name of the model.
        kept: the answer as received; None without one.
        answer: the answer as parsed; None if it cannot be read.
        alignment: the words of the text that it means.
    """

    example: Example
    model: str
    fate: str
    kept: KeptAnswer | None = None
    answer: ParsedAnswer | None = None
    alignment: Alignment | None = None

    @property
    def mask(self) -> tuple[bool, ...]:
        """The marked words, whatever the fate; none if the answer cannot be read."""
        if self.alignment is None:
            return (False,) * len(self.example.all_words)
        return self.alignment.mask


def read_shots(marks: TaskMarks) -> list[MarkedExample]:
    """Return the seed set: marked examples in the order of their file."""
    by_id = {example.id: example for example in marks.examples}
    seeds = marks.store.read(marks.store.seeds)
    return [MarkedExample(by_id[seed.example_id], seed.mask) for seed in seeds]


def questions_for(marks: TaskMarks, seed: int) -> list[AnnotationQuestion]:
    """Return the questions that annotate a task: the texts that nobody has marked, as the parameters say.

    Raises:
        ParamsError: the parameters do not fit the task.
        UnknownNameError: a name in the parameters is unknown.
    """
    settings = marks.llm
    model = require_model(settings)
    shots = spread_over_labels(read_shots(marks), marks.labels, settings.shots)
    prompt = bind_prompt(settings.prompt, marks.name, marks.labels, shots, settings)
    for label in settings.labels or ():
        if label not in marks.labels:
            raise UnknownNameError("label under llm.labels", label, marks.labels)
    chosen: set[str] = set()
    for split in settings.splits:
        unmarked = {
            example.id: example.label
            for example in marks.examples
            if example.split == split
            and example.id not in marks.marked
            and (settings.labels is None or example.label in settings.labels)
        }
        chosen |= subsample(unmarked, settings.max_texts, seed)
    return [AnnotationQuestion(model, prompt, example) for example in marks.examples if example.id in chosen]


def annotate(marks: TaskMarks, seed: int, meter: Meter) -> tuple[list[Annotated], dict[str, Any] | None]:
    """Ask about a task's unmarked texts and sort the answers.

    Returns:
        What became of each text, and a summary; None without a text to ask about.

    Raises as `questions_for` and `ask` do.
    """
    questions = questions_for(marks, seed)
    if not questions:
        return [], None
    ask(questions, marks, meter)
    annotated = collect(questions, marks)
    return annotated, summarise(annotated, questions[0].model, questions[0].prompt)


def collect(questions: Sequence[AnnotationQuestion], marks: TaskMarks) -> list[Annotated]:
    """Read the answers to questions from the task's file and sort them, in the questions' order.

    Raises:
        DataError: the file or the verdicts are damaged.
    """
    verdicts = marks.store.read_verdicts()
    rejected = {(verdict.example_id, verdict.mask) for verdict in verdicts if verdict.verdict == "reject"}
    answers = kept_answers(questions, marks)
    return [_sort(*asked, marks.llm, rejected) for asked in zip(questions, answers, strict=True)]


def _sort(
    question: AnnotationQuestion,
    kept: KeptAnswer | None,
    settings: LLMAnnotatorParams,
    rejected: Collection[tuple[str, Mask]],
) -> Annotated:
    """Return what becomes of a question's text.

    Args:
        question: the question.
        kept: its answer; None if there is none yet.
        settings: what is too much.
        rejected: texts and marks that people have rejected.
    """
    example = question.example
    if kept is None:
        return Annotated(example, question.model, "unanswered")
    try:
        answer = parse_answer(kept.content, kept.finish, question.prompt.labels)
    except InvalidAnswerError:
        return Annotated(example, question.model, "invalid", kept)
    in_order = "ranking" not in question.prompt.order
    alignment = align_quotes(answer.quotes, example.all_words, settings.fuzzy_threshold, in_order)
    mask = alignment.mask
    reasons = {
        "other_label": answer.label != example.label,
        "hallucinated": alignment.hallucinated_words > settings.max_hallucinated * answer.words,
        "empty": not any(mask),
        "all_words": all(mask),
        "diffuse": sum(mask) > settings.max_share * len(mask),
        "rejected": (example.id, mask) in rejected,
    }
    fate = next((reason for reason, holds in reasons.items() if holds), "kept")
    return Annotated(example, question.model, fate, kept, answer, alignment)


def to_rationales(annotated: Iterable[Annotated]) -> list[Rationale]:
    """Return the rationales that are kept, by the annotator `llm:MODEL`."""
    rationales = []
    for item in annotated:
        if item.fate == "kept":
            rationales.append(Rationale(item.example.id, f"llm:{item.model}", "llm", item.mask))
    return rationales


def summarise(annotated: Sequence[Annotated], model: str, prompt: BoundPrompt) -> dict[str, Any]:
    """Return figures on one model's answers with one prompt.

    They are the texts by fate, the quotes by how they were matched, and the mean number of words that a kept rationale
    marks.
    """
    fates = Counter(item.fate for item in annotated)
    aligned = [item.alignment for item in annotated if item.alignment]
    lengths = [sum(item.mask) for item in annotated if item.fate == "kept"]
    quotes = {}
    for name in (*ROUNDS, "repeated"):
        quotes[name] = sum(getattr(alignment, name) for alignment in aligned)
    quotes["hallucinated"] = sum(len(alignment.hallucinated) for alignment in aligned)
    return {
        "model": model,
        "prompt": prompt.name,
        "version": prompt.version,
        "shots": len(prompt.shots),
        "texts": len(annotated),
        "fates": {fate: fates[fate] for fate in FATES},
        "quotes": quotes,
        "hallucinated_words": sum(alignment.hallucinated_words for alignment in aligned),
        "mean_length": sum(lengths) / len(lengths) if lengths else None,
    }


def require_model(settings: LLMAnnotatorParams) -> str:
    """Return the model's name, from the parameters or else the environment.

    Raises:
        ParamsError: no model is named.
    """
    model = settings.model or os.environ.get(MODEL, "").strip()
    if not model:
        raise ParamsError("no model named; expected llm.model in the parameters, or EXPLEARN_LLM_MODEL")
    return model
