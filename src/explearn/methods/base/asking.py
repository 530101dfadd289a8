"""What is asked of a method: which classes of which texts, read at once or window by window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.documents import kind_of
from explearn.core.errors import ParamsError, UnsupportedError
from explearn.core.records import Example
from explearn.model.batching import budget_slices
from explearn.model.encoding import Encoding
from explearn.model.problems import ONE_CLASS, Problem
from explearn.model.spread import OFFLOADED
from explearn.model.windows import Windowed, check_stride, cut

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every stage needs it.
    from explearn.core.records import Example
    from explearn.model.classifier import Classifier
    from explearn.model.reading import Text

PART_WINDOWS = 32
"""Windows that a method which is not costly scores at a time, at least."""

CHUNK_CHARACTERS = 1_000_000
"""Where texts are read through windows, no more are held at a time than those with which there are so many characters:
all their windows are held, too."""

Target = int | str | Sequence[int | str]
"""A class, by name or index, or several of them."""


@dataclass(frozen=True, slots=True)
class Question:
    """One text and the classes to explain; None: the predicted one, which the method finds out."""

    text: Windowed
    targets: tuple[int, ...] | None

    def __len__(self) -> int:
        """How many times the method scores a text for it."""
        return len(self.text.windows) * (1 if self.targets is None else len(self.targets))


def questions(
    classifier: Classifier,
    texts: Iterable[Text],
    targets: Iterable[Target] | None,
    chunk_texts: int,
    windows: int | None,
    were_read: Callable[[list[Windowed]], object] = lambda _: None,
) -> Iterator[list[Question]]:
    """What is asked, `chunk_texts` texts at a time; within a chunk either all targets are given or none.

    Args:
        windows: stride, in sub-tokens, of the windows through which longer texts are read, of CHUNK_CHARACTERS a time;
            None: they are cut.
        were_read: is given the texts of a chunk, before the classifier is asked about them.

    Raises DataError for a text without usable words, ParamsError where there is not one target a text,
    UnknownNameError for a target that is no class.
    """
    check_listed("texts", texts)
    if targets is not None:
        check_listed("targets", targets)
    if windows is not None:
        check_stride(windows)
    first = 1
    wanted = None if targets is None else iter(targets)
    for chunk in _chunks(texts, chunk_texts, None if windows is None else CHUNK_CHARACTERS):
        asked: list[tuple[int, ...]] | None = None
        if wanted is not None:
            asked = [_indices(classifier, target) for target in islice(wanted, len(chunk))]
            if len(asked) != len(chunk):
                raise ParamsError("targets: fewer than texts; expected one for each text")
        read = read_texts(classifier, chunk, first, windows)
        were_read(read)
        if asked is None:
            asked = default_targets(classifier, read)
        yield [Question(text, None if asked is None else asked[row]) for row, text in enumerate(read)]
        first += len(chunk)
    if wanted is not None and next(wanted, None) is not None:
        raise ParamsError("targets: more than texts; expected one for each text")


def _chunks(texts: Iterable[Text], most: int, characters: int | None) -> Iterator[list[Text]]:
    """Texts in lists of `most`; each ends early at the text with which it has so many characters, if there is a limit.

    The first of each `most` texts always begins one: what is in a list depends on no text before that.
    """
    remaining = iter(texts)
    while block := list(islice(remaining, most)):
        start = held = 0
        for place, text in enumerate(block):
            held += 0 if characters is None else _characters(text)
            if characters is not None and held >= characters:
                yield block[start : place + 1]
                start, held = place + 1, 0
        if start < len(block):
            yield block[start:]


def _characters(text: object) -> int:
    """About how many characters a text has; what is none has 0, and is refused where it is read."""
    parts = text.all_words if isinstance(text, Example) else text if isinstance(text, tuple) else (text,)
    return sum(len(part) + 1 for part in parts if isinstance(part, str))


def check_classifier(classifier: Any, reader: str = "") -> None:
    """Raise ParamsError for what is no classifier.

    Args:
        reader: name of a method that reads weights by themselves; UnsupportedError for one whose weights are offloaded.
    """
    # By what it has, for importing the class takes seconds.
    if not hasattr(classifier, "problem"):
        raise ParamsError(
            f"classifier: got {kind_of(classifier)}; expected an explearn.Classifier, or CallableClassifier"
        )
    if reader and classifier.spread is not None and classifier.spread.offloaded:
        raise UnsupportedError(f"{reader}: {OFFLOADED}")


def check_listed(what: str, values: object, of: str = "") -> None:
    """Raise ParamsError for a single string, for what holds names (a dictionary) and for what holds nothing."""
    if isinstance(values, str):
        raise ParamsError(f"{what}: got one string; expected a list of {of or what}")
    if isinstance(values, bytes | Mapping) or not isinstance(values, Iterable):
        raise ParamsError(f"{what}: got {kind_of(values)}; expected a list of {of or what}")


def check_request(classifier: Classifier, targets: Sequence[Target], windows: int | None) -> None:
    """Raise what `questions` raises for targets and windows that go with every text, before there is one."""
    if windows is not None:
        check_stride(windows)
    for target in targets:
        _indices(classifier, target)


def read_texts(classifier: Classifier, texts: Sequence[Text], first: int, windows: int | None) -> list[Windowed]:
    """Texts as the classifier reads them; see `questions`."""
    if windows is None:
        return [Windowed.at_once(encoding) for encoding in classifier.encode(texts, first)]
    limit = classifier.max_length
    return [
        cut(encoding, limit, windows, f"example {encoding.example_id!r}" if encoding.example_id else f"text {number}")
        for number, encoding in enumerate(classifier.encode(texts, first, whole=True), start=first)
    ]


def default_targets(classifier: Classifier, texts: Sequence[Windowed]) -> list[tuple[int, ...]] | None:
    """The classes to explain where none are asked for.

    None: of each text the predicted one, which every method finds out by itself. Of a multi-label classifier each label
    that holds, of a regression each value. Where a text is read through windows, its answer is that of all of them
    (`joint_probabilities`).
    """
    if classifier.problem is Problem.REGRESSION:
        return [tuple(range(len(classifier.labels)))] * len(texts)
    if classifier.problem is not Problem.MULTI_LABEL and all(len(text.windows) == 1 for text in texts):
        return None
    windows = [window for text in texts for window in text.windows]
    rows = iter(classifier.predict_proba(windows))
    return [
        tuple(classifier.asked(joint_probabilities(np.array(list(islice(rows, len(text.windows))))))) for text in texts
    ]


def judged_targets(classifier: Classifier, texts: Sequence[Example]) -> list[str] | None:
    """The one class of each text that methods are judged and trained by; None: the predicted one.

    Of a multi-label classifier it is the most probable label, whatever others hold.
    """
    if classifier.problem is not Problem.MULTI_LABEL:
        return None
    found = classifier.predict_proba(classifier.encode(texts)).argmax(axis=1)
    return [classifier.labels[label] for label in found]


def joint_probabilities(of_windows: NDArray[np.float64]) -> NDArray[np.float64]:
    """A text's answer, (C,), from those of its windows, (windows, C): their mean."""
    return of_windows[0] if len(of_windows) == 1 else np.asarray(of_windows.mean(axis=0))


def _indices(classifier: Classifier, target: Target) -> tuple[int, ...]:
    several = [target] if isinstance(target, str) or not isinstance(target, Sequence) else target
    if not several:
        raise ParamsError("targets: got an empty list for a text; expected at least one class")
    return tuple(classifier.label_index(one) for one in several)


def encodings_of(asked: Sequence[Question]) -> list[Encoding]:
    """What a method is to score, in the order of texts, then of targets, then of windows."""
    return [w for q in asked for _ in (q.targets or (None,)) for w in q.text.windows]


def parts_of(
    classifier: Classifier, encodings: Sequence[Encoding], most: int, windowed: bool, costly: bool
) -> list[slice]:
    """What a method scores at a time of what it is asked: `most` texts, and of windows fewer, so that progress shows.

    A costly method makes tens of passes or more over a window, which fill its batches.
    """
    lengths, window = [len(encoding) for encoding in encodings], classifier.max_length
    if not windowed:
        return budget_slices(lengths, most)
    return budget_slices(lengths, most, window if costly else max(PART_WINDOWS * window, classifier.max_tokens))


def targets_of(asked: Sequence[Question]) -> list[int] | None:
    """The class of each of `encodings_of`; None where they are the predicted ones."""
    found = []
    for question in asked:
        if question.targets is None:
            return None
        found += [target for target in question.targets for _ in question.text.windows]
    return found


def answers(classifier: Classifier, logits: NDArray[np.float64], targets: Sequence[str]) -> list[dict[str, Any]]:
    """`answer_fields` of texts that are read at once, one logits row each, (texts, C), to the last bit."""
    if classifier.problem not in ONE_CLASS:
        # torch's sigmoid of many numbers may differ from that of a few in the last bit; its softmax goes row by row.
        return [answer_fields(classifier, row[None], target) for row, target in zip(logits, targets, strict=True)]
    labels = classifier.labels
    probabilities = classifier.probabilities(torch.from_numpy(logits)).numpy()
    places = [labels.index(target) for target in targets]
    return [
        {"probability": probability, "predicted": labels[best]}
        for probability, best in zip(
            probabilities[np.arange(len(places)), places].tolist(), probabilities.argmax(-1).tolist(), strict=True
        )
    ]


def answer_fields(classifier: Classifier, logits: NDArray[np.float64], target: str) -> dict[str, Any]:
    """What an attribution says of the classifier's answer, from the logits of the text's windows, (windows, C)."""
    index = classifier.labels.index(target)
    if classifier.problem is Problem.REGRESSION:
        return {"probability": math.nan, "predicted": target, "value": float(logits[:, index].mean())}
    probabilities = joint_probabilities(classifier.probabilities(torch.as_tensor(logits)).numpy())
    asked = classifier.asked(probabilities)
    return {
        "probability": float(probabilities[index]),
        "predicted": target if index in asked else classifier.labels[int(probabilities.argmax())],
    }
