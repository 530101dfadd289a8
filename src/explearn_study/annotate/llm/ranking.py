"""A language model ranks a text's words for the class that a classifier gave (Barkan et al. 2024, section 4, LLM)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explearn.core.attribution import Attribution
from explearn_study.annotate.budget import Meter
from explearn_study.annotate.llm.prompts import FOLDER, bind_prompt
from explearn_study.annotate.llm.questions import Question, ask
from explearn_study.annotate.llm.rationales import collect, require_model
from explearn_study.annotate.task import TaskMarks

METHOD = "llm_ranking"
PROMPT = FOLDER / "ranking" / "ranking-1.yaml"


@dataclass(frozen=True, slots=True)
class Rankings:
    """
    Attributes:
        rows: a record a text, as `explearn compare --scores` reads them, with the text itself.
        unread: texts whose answer cannot be read; their scores are all 0.
        named, invented: quotes of all answers; those of them that are not in the text, or more often than it has them.
    """

    rows: list[dict[str, object]]
    unread: int
    named: int
    invented: int


def ranking_questions(marks: TaskMarks, explained: Mapping[str, Attribution]) -> list[Question]:
    """Return a question for each explained text, about its predicted class; raises as `bind_prompt` does."""
    model = require_model(marks.llm)
    prompts = {
        label: bind_prompt(str(PROMPT), marks.name, marks.labels, (), marks.llm, predicted=label)
        for label in marks.labels
    }
    return [
        Question(model, prompts[explained[example.id].predicted], example)
        for example in marks.examples
        if example.id in explained
    ]


def rank(questions: Sequence[Question], marks: TaskMarks, meter: Meter) -> Rankings:
    """Ask, and turn ranks into scores: of n quotes in the text the first gives its words 1, the last 1/n, all others 0.

    Raises as `ask` does.
    """
    ask(questions, marks, meter)
    rows: list[dict[str, object]] = []
    unread = named = invented = 0
    for question, item in zip(questions, collect(questions, marks), strict=True):
        example, aligned = item.example, item.alignment
        scores = [0.0] * len(example.all_words)
        places = aligned.places if aligned else ()
        for above, (start, end) in enumerate(places):
            scores[start:end] = [1 - above / len(places)] * (end - start)
        unread += aligned is None
        if aligned is not None:
            invented += (missing := aligned.repeated + len(aligned.hallucinated))
            named += len(places) + missing
        (target,) = question.prompt.labels
        pair = {} if example.pair_text is None else {"pair": example.pair_text}
        row = {"id": example.id, "text": example.text, **pair, "words": list(example.all_words), "scores": scores}
        rows.append({**row, "method": METHOD, "target": target, "signed": False})
    return Rankings(rows, unread, named, invented)
