"""A language model ranks a text's words for the class that a classifier gave (Barkan et al. 2024, section 4, LLM)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explearn.core.attribution import Attribution
from explearn.core.words import Span
from explearn.predictors.llm.budget import Meter
from explearn.text.quotes import rank_scores
from explearn_study.annotate.llm.prompts import FOLDER, bind_prompt
from explearn_study.annotate.llm.rationales import AnnotationQuestion, ask, collect, require_model
from explearn_study.annotate.task import TaskMarks

METHOD = "llm_ranking"
PROMPT = FOLDER / "ranking" / "ranking-1.yaml"


@dataclass(slots=True)
class Rankings:
    """Word scores from a model's rankings.

    Attributes:
        rows: a row for each text, as `explearn compare --scores` reads them, with the text itself.
        unread: number of texts whose answer cannot be read; their scores are all 0.
        named: number of quotes in all answers.
        invented: number of quotes that are not in the text, or more often than the text has them.
    """

    rows: list[dict[str, object]]
    unread: int = 0
    named: int = 0
    invented: int = 0


def ranking_questions(marks: TaskMarks, explained: Mapping[str, Attribution]) -> list[AnnotationQuestion]:
    """Return a question for each explained text, about its predicted class; raises as `bind_prompt` does."""
    model = require_model(marks.llm)
    prompts = {}
    for label in marks.labels:
        prompts[label] = bind_prompt(str(PROMPT), marks.name, marks.labels, (), marks.llm, predicted=label)
    questions = []
    for example in marks.examples:
        if example.id in explained:
            questions.append(AnnotationQuestion(model, prompts[explained[example.id].predicted], example))
    return questions


def rank(questions: Sequence[AnnotationQuestion], marks: TaskMarks, meter: Meter) -> Rankings:
    """Ask, and turn ranks into scores (`explearn.text.quotes.rank_scores`); raises as `ask` does."""
    ask(questions, marks, meter)
    rankings = Rankings([])
    for question, item in zip(questions, collect(questions, marks), strict=True):
        example = item.example
        places: tuple[Span, ...] = ()
        if item.alignment is None:
            rankings.unread += 1
        else:
            places = item.alignment.places
            missing = item.alignment.repeated + len(item.alignment.hallucinated)
            rankings.invented += missing
            rankings.named += len(places) + missing
        row: dict[str, object] = {"id": example.id, "text": example.text}
        if example.pair_text is not None:
            row["pair"] = example.pair_text
        row |= {
            "words": list(example.all_words),
            "scores": rank_scores(places, len(example.all_words)).tolist(),
            "method": METHOD,
            "target": question.prompt.labels[0],
            "signed": False,
        }
        rankings.rows.append(row)
    return rankings
