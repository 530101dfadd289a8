"""Texts and the classes to explain, as passed to a method: read whole or window by window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.arguments import check_listed, each_text
from explearn.core.errors import ParamsError, UnsupportedError, kind_of
from explearn.core.examples import Example
from explearn.predictors.labelled import Problem
from explearn.predictors.windows import Windowed, check_stride, cut
from explearn.text.encoding import Encoding, as_segments, name_of
from explearn.text.units import Unit, check_unit, in_units

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every stage needs it.
    from explearn.predictors.encoding import Text
    from explearn.predictors.predictor import Predictor

Target = int | str | Sequence[int | str]
"""A class, by name or index, or several of them."""


@dataclass(frozen=True, slots=True)
class TargetedText:
    """A text, by words and by scored units, and the classes to explain; None for the predicted class, which every
    method finds itself."""

    text: Windowed
    targets: tuple[int | None, ...]
    units: Windowed


def targeted_texts(
    classifier: Predictor,
    texts: Iterable[Text],
    targets: Iterable[Target] | None,
    windows: int | None,
    chunk_texts: int,
    unit: Unit = "word",
) -> Iterator[list[TargetedText]]:
    """Read texts, `chunk_texts` at a time; within a chunk either all texts' targets are known, or none.

    Args:
        classifier: the predictor that is explained.
        texts: strings, pairs of strings, or examples.
        targets: each text's targets. None: `default_targets`.
        windows: stride, in sub-tokens, of the windows through which longer texts are read. None: they are cut.
        chunk_texts: texts read at a time.
        unit: what is scored.

    Raises:
        DataError: a text has no usable words, or none of the units (`in_units`).
        ParamsError: there is not one target for each text, or a function of units does not return spans.
        UnknownNameError: a target is not a class.
        UnsupportedError: a question is to be explained by other units than words.
    """
    if targets is not None:
        check_listed("targets", targets)
    check_request(classifier, (), windows)
    check_unit(unit)
    remaining, wanted = iter(each_text(texts)), None if targets is None else iter(targets)
    first = 1
    while chunk := list(islice(remaining, chunk_texts)):
        chosen = None if wanted is None else [_indices(classifier, one) for one in islice(wanted, len(chunk))]
        if chosen is not None and len(chosen) != len(chunk):
            raise ParamsError("targets: fewer than texts; expected one for each text")
        read = read_texts(classifier, chunk, first, windows)
        units = read
        if unit != "word":
            units = [_in_units(*one, unit) for one in zip(read, chunk, range(first, first + len(chunk)), strict=True)]
        of_texts = zip(read, chosen or default_targets(classifier, read), units, strict=True)
        yield [TargetedText(*one) for one in of_texts]
        first += len(chunk)
    if wanted is not None and next(wanted, None) is not None:
        raise ParamsError("targets: more than texts; expected one for each text")


def _in_units(read: Windowed, text: Text, number: int, unit: Unit) -> Windowed:
    segments, example_id = as_segments(text, number)
    whole = in_units(read.whole, segments, unit, name_of(example_id, number))
    return replace(read, whole=whole, windows=tuple(whole.select(places.tolist()) for places in read.places))


def check_request(classifier: Predictor, targets: Iterable[Target], windows: int | None) -> None:
    """Raise what `targeted_texts` raises for targets and windows, before reading texts."""
    if windows is not None:
        check_stride(windows)
    for target in targets:
        _indices(classifier, target)


def _indices(classifier: Predictor, target: Target) -> tuple[int, ...]:
    several = [target] if isinstance(target, str) or not isinstance(target, Sequence) else target
    if not several:
        raise ParamsError("targets: got an empty list for a text; expected at least one class")
    return tuple(classifier.label_index(one) for one in several)


def check_classifier(classifier: Any, reader: str = "") -> None:
    """Check that an argument is a predictor.

    Args:
        classifier: the argument to check.
        reader: name of a method that reads weights directly, which offloaded weights do not allow.

    Raises:
        ParamsError: it is not a predictor.
        UnsupportedError: its weights are offloaded, and `reader` needs them.
    """
    # Checked by an attribute, because importing the class takes seconds.
    if not hasattr(classifier, "problem"):
        raise ParamsError(
            f"classifier: got {kind_of(classifier)}; expected an explearn predictor (explearn.load_classifier)"
        )
    if reader and classifier.spread is not None and classifier.spread.offloaded:
        from explearn.predictors.spread import OFFLOADED

        raise UnsupportedError(f"{reader}: {OFFLOADED}")


def read_texts(classifier: Predictor, texts: Sequence[Text], first: int, windows: int | None) -> list[Windowed]:
    """Read texts as the classifier does; see `targeted_texts`. `first`: number of the first one, for errors."""
    if windows is None:
        return [Windowed.at_once(encoding) for encoding in classifier.encode(texts, first)]
    return [
        cut(encoding, classifier.max_length, windows, name_of(encoding.example_id, number))
        for number, encoding in enumerate(classifier.encode(texts, first, whole=True), start=first)
    ]


def default_targets(classifier: Predictor, texts: Sequence[Windowed]) -> list[tuple[int | None, ...]]:
    """Choose the classes to explain if the caller names none.

    For a regression each value; for a multi-label classifier each label that applies; else the predicted class, which
    is (None,) unless a text is read through windows, whose outputs are then averaged.
    """
    if classifier.problem is Problem.REGRESSION and not classifier.of_classes:
        return [tuple(range(len(classifier.labels)))] * len(texts)
    if classifier.problem is not Problem.MULTI_LABEL and all(len(text.windows) == 1 for text in texts):
        return [(None,)] * len(texts)
    rows = iter(classifier.predict_proba([window for text in texts for window in text.windows]))
    means = (joint_probabilities(np.array(list(islice(rows, len(text.windows))))) for text in texts)
    return [tuple(classifier.default_targets(mean)) for mean in means]


def judged_targets(classifier: Predictor, texts: Sequence[Example]) -> list[str] | None:
    """Return the class of each text on which methods are evaluated and trained; None for the predicted class.

    For a multi-label classifier it is the most probable label.
    """
    if classifier.problem is not Problem.MULTI_LABEL:
        return None
    best = classifier.predict_proba(classifier.encode(texts)).argmax(axis=1)
    return [classifier.labels[label] for label in best]


def joint_probabilities(of_windows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average the outputs for a text's windows, (windows, C) -> (C,); a single one is returned unchanged."""
    return of_windows[0] if len(of_windows) == 1 else np.asarray(of_windows.mean(axis=0))


def windows_of(texts: Sequence[TargetedText], by_units: bool = False) -> tuple[list[Encoding], list[int] | None]:
    """List the encodings to score, by texts, then targets, then windows, and the class of each.

    With `by_units`, the words of the encodings are the texts' units. The classes are None if every text's target is the
    predicted class.
    """
    read = [(one.units if by_units else one.text, one.targets) for one in texts]
    rows = [(window, target) for text, targets in read for target in targets for window in text.windows]
    targets = [target for _, target in rows if target is not None]
    return [window for window, _ in rows], targets or None
