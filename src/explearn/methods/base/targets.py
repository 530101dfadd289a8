"""Texts and the classes to explain, as passed to a method: read whole or window by window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from explearn.core.arguments import check_listed, each_text, is_pair
from explearn.core.errors import ParamsError, kind_of
from explearn.core.examples import Example
from explearn.predictors.labelled import Problem, check_segments, check_use, explained_by_default
from explearn.predictors.windows import Windowed, check_stride, cut
from explearn.text.encoding import Encoding, name_of
from explearn.text.units import Unit, check_unit, cut_at, in_units

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every stage needs it.
    from explearn.predictors.encoding import Text
    from explearn.predictors.predictor import Predictor

Target = int | str | Sequence[int | str]
"""A class, by name or index, or several of them."""


class TargetedText(NamedTuple):
    """A text and the classes to explain.

    Attributes:
        text: the text by words.
        targets: indices of the classes; None for the predicted class, which every method finds itself.
        units: the text by scored units.
    """

    text: Windowed
    targets: tuple[int | None, ...]
    units: Windowed


def targeted_texts(
    classifier: Predictor,
    texts: Any,
    targets: Any,
    windows: int | None,
    chunk_texts: int,
    unit: Unit = "word",
) -> Iterator[list[TargetedText]]:
    """Read texts, `chunk_texts` at a time; within a chunk, the targets of all texts are classes, or of none.

    Args:
        classifier: the classifier.
        texts: strings, pairs of strings, or examples; or a single one.
        targets: each text's targets, or one class for all; of a single text its targets. None: `default_targets`.
        windows: stride, in sub-tokens, of the windows through which longer texts are read. None: they are cut.
        chunk_texts: most texts at a time.
        unit: what is scored.

    Raises:
        DataError: a text without usable words, or without a unit.
        ParamsError: not one target per text, an invalid stride or unit, or labels where second segments should be.
        UnknownNameError: a target that is not a class.
    """
    if isinstance(texts, str | Example) or is_pair(texts):
        texts = [texts]
        if targets is not None:
            targets = [targets]
    wanted: Iterator[Target] | None = None
    one_target = isinstance(targets, str | int | np.integer)
    if one_target:
        wanted = repeat(targets)
    elif targets is not None:
        check_listed("targets", targets)
        wanted = iter(targets)
    check_request(classifier, (), windows, unit)
    remaining = iter(each_text(texts))
    first = 1
    while chunk := list(islice(remaining, chunk_texts)):
        chosen: list[tuple[int | None, ...]] | None = None
        if wanted is not None:
            chosen = [_indices(classifier, target) for target in islice(wanted, len(chunk))]
            if len(chosen) != len(chunk):
                raise ParamsError("targets: fewer than texts; expected one for each text")
        read = windowed_texts(classifier, chunk, first, windows)
        if chosen is None:
            chosen = default_targets(classifier, read)
        targeted = []
        for number, (windowed, indices) in enumerate(zip(read, chosen, strict=True), start=first):
            units = windowed
            if unit != "word":
                windowed, units = _in_units(windowed, number, unit)
            targeted.append(TargetedText(windowed, indices, units))
        yield targeted
        first += len(chunk)
    if wanted is not None and not one_target and next(wanted, None) is not None:
        raise ParamsError("targets: more than texts; expected one for each text")


def _in_units(read: Windowed, number: int, unit: Unit) -> tuple[Windowed, Windowed]:
    """Return a text with its words cut at the bounds of units where they can be, and the same by units."""
    words = cut_at(read.whole, unit)
    if words is not read.whole:
        read = Windowed.at_once(words)
    whole = in_units(words, unit, name_of(words.example_id, number))
    windows = tuple(whole.select(positions.tolist()) for positions in read.positions)
    return read, replace(read, whole=whole, windows=windows)


def check_request(classifier: Predictor, targets: Iterable[Target], windows: int | None, unit: Unit = "word") -> None:
    """Raise the errors of `targeted_texts` for targets, windows and unit, before texts are read."""
    if windows is not None:
        check_stride(windows)
    check_unit(unit)
    if unit != "word":
        check_use(classifier, "units")
    for target in targets:
        _indices(classifier, target)


def _indices(classifier: Predictor, target: Target) -> tuple[int, ...]:
    if isinstance(target, str) or not isinstance(target, Sequence):
        return (classifier.label_index(target),)
    if not target:
        raise ParamsError("targets: got an empty list for a text; expected at least one class")
    return tuple(classifier.label_index(label) for label in target)


def check_classifier(classifier: Any) -> None:
    """Raise ParamsError unless something is a classifier."""
    # Checked by an attribute, because importing the class takes seconds.
    if not hasattr(classifier, "problem"):
        raise ParamsError(
            f"classifier: got {kind_of(classifier)}; expected a predictor, as explearn.load_classifier(NAME) or "
            "explearn.TransformerPredictor(MODEL, TOKENIZER) gives"
        )


def windowed_texts(classifier: Predictor, texts: Sequence[Text], first: int, windows: int | None) -> list[Windowed]:
    """Read texts as the classifier does; see `targeted_texts`.

    Args:
        classifier: the classifier.
        texts: the texts.
        first: number of the first text, for messages.
        windows: stride of the windows. None: longer texts are cut.
    """
    if first == 1:
        check_segments(classifier.labels, texts)
    if windows is None:
        return [Windowed.at_once(encoding) for encoding in classifier.read(texts, first)]
    read = []
    for number, encoding in enumerate(classifier.read(texts, first, whole=True), start=first):
        read.append(cut(encoding, classifier.max_length, windows, name_of(encoding.example_id, number)))
    return read


def default_targets(classifier: Predictor, texts: Sequence[Windowed]) -> list[tuple[int | None, ...]]:
    """Choose the classes to explain if the caller names none.

    They are each value of a regression, each label that applies of a multi-label classifier, and else the predicted
    class, or the `top` most probable ones. The predicted class is (None,), unless a text is read through windows, whose
    outputs are averaged.
    """
    if classifier.problem is Problem.REGRESSION and not classifier.classes:
        return [tuple(range(len(classifier.labels)))] * len(texts)
    one_class = classifier.problem is not Problem.MULTI_LABEL and classifier.top == 1
    if one_class and all(len(text.windows) == 1 for text in texts):
        return [(None,)] * len(texts)
    windows = list(chain.from_iterable(text.windows for text in texts))
    if classifier.problem is Problem.REGRESSION:
        rows = iter(classifier.predict_logits(windows))
    else:
        rows = iter(classifier.predict_proba(windows))
    targets: list[tuple[int | None, ...]] = []
    for text in texts:
        of_text = np.array(list(islice(rows, len(text.windows))))
        targets.append(tuple(explained_by_default(classifier, of_text.mean(axis=0))))
    return targets


def judged_targets(classifier: Predictor, texts: Sequence[Example]) -> list[str] | None:
    """Return the class of each text on which methods are evaluated and trained; None for the predicted class.

    For a multi-label classifier it is the most probable label.
    """
    if classifier.problem is not Problem.MULTI_LABEL:
        return None
    best = classifier.predict_proba(texts).argmax(axis=1)
    return [classifier.labels[label] for label in best]


def windows_of(texts: Sequence[TargetedText], by_units: bool = False) -> tuple[list[Encoding], list[int] | None]:
    """List the encodings to score, by texts, then targets, then windows.

    Args:
        texts: the texts.
        by_units: whether the words of the encodings are the texts' units.

    Returns:
        The encodings, and the class of each; None if every text's target is the predicted class.
    """
    encodings: list[Encoding] = []
    classes: list[int] = []
    for text in texts:
        windows = text.text.windows
        if by_units:
            windows = text.units.windows
        for target in text.targets:
            encodings.extend(windows)
            if target is not None:
                classes.extend([target] * len(windows))
    return encodings, classes or None
