"""The adapter for extractive question answering: a question, a passage, and the answer's words in it (SQuAD)."""

from __future__ import annotations

from explearn.core.examples import ANSWER_LABELS, ANSWER_WORDS
from explearn.core.validation import Count, Shape
from explearn.core.words import locate
from explearn.text.mapping import MappedRow
from explearn.text.rows import RawRow
from explearn_study.sources.mapping import ID_COLUMNS, Adapter, Dropped, HubDefault, row_id
from explearn_study.sources.params import SourceParams


class _Answers(Shape):
    text: list[str]
    answer_start: list[Count]


class SquadAdapter(Adapter):
    """An adapter for the columns `question`, `context` and `answers`, {"text": [...], "answer_start": [...]}.

    The answer is the words that the first answer touches. Rows without an answer, or with one longer than ANSWER_WORDS,
    are dropped and counted.
    """

    labels = ANSWER_LABELS
    # The test part of SQuAD is not published.
    hub = HubDefault("rajpurkar/squad", {"train": "train", "test": "validation"})
    columns = ("question", "context", "answers", *ID_COLUMNS)

    def __init__(self, task: str, source: SourceParams) -> None:
        self.task = task

    def map_row(self, row: RawRow) -> MappedRow | Dropped:
        question = row.words("question")
        column, passage = row.value("context")
        words = row.words(column)
        answers: _Answers = row.read(_Answers, '{"text": [TEXT, ...], "answer_start": [NUMBER from 0, ...]}', "answers")
        if not answers.text or not answers.answer_start:
            return Dropped("no answer")
        text = answers.text[0]
        start = answers.answer_start[0]
        if passage[start : start + len(text)] != text:
            raise row.error("answers", text, f"the text of the passage from character {start} on")
        end = start + len(text)
        spans = locate(words, passage)
        touched = [number for number, (first, last) in enumerate(spans) if first < end and start < last]
        if not touched:
            raise row.error("answers", text, "an answer of at least one word")
        if len(touched) > ANSWER_WORDS:
            return Dropped(f"answer longer than {ANSWER_WORDS} words")
        shift = len(question)
        return MappedRow(
            words=question,
            pair=words,
            label=ANSWER_LABELS[0],
            id=row_id(row, self.task),
            answer=(touched[0] + shift, touched[-1] + 1 + shift),
        )
