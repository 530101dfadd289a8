"""Whether what an earlier stage computed of texts is of the texts as they are now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from explearn.core.errors import DataError
from explearn.core.records import Example
from explearn.lens.features import ExampleFeatures
from explearn.lens.word_signals import WordSignals
from explearn.methods.base.task import Lessons


class _Fitting:
    """The texts of a task, by id, each to be met once."""

    def __init__(self, examples: Sequence[Example], where: Path | str) -> None:
        self.examples: Mapping[str, Example] = {example.id: example for example in examples}
        self.where, self.seen = where, set[str]()

    def words_of(self, example_id: str) -> tuple[str, ...]:
        """Words of both segments. Raises DataError for an id that is unknown, or comes twice."""
        if example_id not in self.examples:
            raise DataError(
                f"{self.where}: example {example_id!r} is none of the task's; expected the texts of data/examples; "
                "run the stage that wrote it again"
            )
        if example_id in self.seen:
            raise DataError(f"{self.where}: example {example_id!r} comes twice; expected each once")
        self.seen.add(example_id)
        return self.examples[example_id].all_words


def fitting_signals(texts: Iterable[WordSignals], examples: Sequence[Example], path: Path) -> Iterator[WordSignals]:
    """The texts as they come. Raises DataError for one that is not of the examples, word for word."""
    known = _Fitting(examples, path)
    for text in texts:
        if text.words != known.words_of(text.example_id):
            raise DataError(
                f"{path}: example {text.example_id!r} has other words than in data/examples; run the stage signals "
                "again, expected the same"
            )
        yield text


def fitting_features(
    texts: Iterable[ExampleFeatures], examples: Sequence[Example], path: Path
) -> Iterator[ExampleFeatures]:
    """The texts as they come. Raises DataError for one that is not of the examples, or has more words than it."""
    known = _Fitting(examples, path)
    for text in texts:
        words = len(known.words_of(text.example_id))
        if len(text.word_ids) and text.word_ids.max() >= words:
            raise DataError(
                f"{path}: example {text.example_id!r} has features of word {text.word_ids.max() + 1}; expected at most "
                f"{words}; run the stage attend again"
            )
        yield text


def check_lessons(lessons: Lessons, examples: Sequence[Example], where: str) -> None:
    """Raise DataError for a lesson of another text, a second one of a text, or one of another number of words."""
    known = _Fitting(examples, where)
    for lesson in (lesson for split in lessons.by_split.values() for lesson in split):
        words = len(known.words_of(lesson.example_id))
        if len(lesson.weights) != words:
            raise DataError(
                f"{where}: example {lesson.example_id!r} has {len(lesson.weights)} weights; expected {words}, one per "
                "word; run the stage teach again"
            )
