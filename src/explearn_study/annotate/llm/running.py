"""Ask about a task's texts: what both the stage rationalise and `explearn annotate` do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from tqdm import tqdm

from explearn_study.annotate.llm.asking import NoAnswerError, Options, Outcome, Question, ask_all
from explearn_study.annotate.llm.budget import Budget, Meter, parse_prices
from explearn_study.annotate.llm.cache import AnswerCache, read_answers
from explearn_study.annotate.llm.collecting import (
    Annotated,
    Summary,
    bound_prompt,
    collect,
    read_shots,
    require_model,
    summarise,
    texts_to_annotate,
)
from explearn_study.annotate.llm.endpoint import Endpoint, environment_model
from explearn_study.annotate.llm.prompts import BoundPrompt
from explearn_study.annotate.task import TaskMarks
from explearn_study.sections import LLMParams


@dataclass(frozen=True, slots=True)
class Bounds:
    """How a run asks, and what it may spend."""

    options: Options
    meter: Meter

    @classmethod
    def of(
        cls,
        concurrency: int,
        timeout: float,
        attempts: int,
        patience: float,
        budget_requests: int | None,
        budget_tokens: int | None,
        budget_money: float | None,
        price: Sequence[str] | None,
    ) -> Bounds:
        """From the options of `explearn_study.annotate.options`; raises ParamsError for a price that cannot be read."""
        budget = Budget(budget_requests, budget_tokens, budget_money)
        return cls(Options(concurrency, timeout, attempts, patience), Meter(budget, parse_prices(price or ())))


def task_prompt(marks: TaskMarks, settings: LLMParams, name: str | None = None) -> BoundPrompt:
    """The prompt of the parameters, or the one named, with the task's seeds."""
    seeds = read_shots(marks.store, marks.examples, marks.unused)
    return bound_prompt(name or settings.prompt, marks.name, marks.labels, seeds, settings)


def questions_for(marks: TaskMarks, settings: LLMParams, seed: int) -> list[Question]:
    """What is to be asked to annotate a task: the texts that nobody has marked, as the parameters say.

    Raises ParamsError or UnknownNameError for parameters that do not fit the task.
    """
    model = require_model(settings, environment_model())
    prompt = task_prompt(marks, settings)
    texts = texts_to_annotate(marks.examples, settings, marks.labels, marks.marked, seed)
    return [Question(model, prompt, example) for example in texts]


def ask(questions: Sequence[Question], marks: TaskMarks, bounds: Bounds) -> Outcome:
    """Ask what the task's cache does not have; without such questions no server is needed.

    Raises ParamsError without a server's address, EndpointError, BudgetError, or NoAnswerError when at last a text is
    without an answer; what was answered is in the cache in any case.
    """
    path = marks.store.answers
    wanted = {question.key for question in questions}
    if wanted <= {answer.key for answer in read_answers(path) if answer.key in wanted}:
        return Outcome(known=len(questions))
    endpoint = Endpoint.from_environment()
    with (
        AnswerCache(path) as cache,
        tqdm(total=len(questions), desc="ask", unit="text", disable=None, file=sys.stderr) as bar,
    ):
        outcome = ask_all(questions, endpoint, cache, bounds.meter, bounds.options, bar.update)
    if outcome.failed:
        raise NoAnswerError(
            f"{outcome.failed:,} of {len(questions):,} texts have no answer; the last failed thus: "
            f"{outcome.last_failure}; run again for them: what was answered is kept"
        )
    return outcome


def annotate(
    marks: TaskMarks, settings: LLMParams, seed: int, bounds: Bounds
) -> tuple[list[Annotated], Summary | None, str]:
    """Ask about a task's unmarked texts and sort the answers.

    Returns what became of each text, a summary (None where there is no text to ask about) and the model's name. Raises
    as `questions_for` and `ask` do.
    """
    questions = questions_for(marks, settings, seed)
    model = require_model(settings, environment_model())
    if not questions:
        return [], None, model
    ask(questions, marks, bounds)
    verdicts = marks.store.read_verdicts(marks.examples, marks.unused)
    annotated = collect(questions, marks.store.answers, settings, verdicts)
    return annotated, summarise(annotated, model, questions[0].prompt), model
