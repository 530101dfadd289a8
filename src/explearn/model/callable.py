"""A classifier of which nothing is known but its answers: a function from texts to probabilities."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from tqdm.auto import tqdm

from explearn.core.arguments import FLAG, SEVERAL, TEXT, WHOLE, arguments, check_argument, shown
from explearn.core.documents import kind_of
from explearn.core.errors import DataError, ModelError, ParamsError, UnsupportedError, first_line
from explearn.core.records import is_unicode, label_problem
from explearn.model.classifier import Classifier
from explearn.model.encoding import Batch, Encoding
from explearn.model.problems import Problem
from explearn.model.reading import Text, as_segments

PredictProba = Callable[[list[Any]], ArrayLike]
"""Probabilities, (n, C), of n texts; of n pairs of strings where the texts explained are pairs."""

PAD, START, BETWEEN, MASK, FIRST_WORD = range(5)
"""Ids in encodings: padding, the start of a text, the place between two segments, a masked word, the first of words."""

SUM_TOLERANCE = 0.01
"""How far the probabilities of a text may be from adding up to 1: services round them. They are then scaled to 1."""

KindOfAnswer = Literal["single_label", "multi_label", "regression"]

_SMALLEST = float(np.finfo(np.float64).tiny)
_BELOW_ONE = 1 - float(np.finfo(np.float64).eps)


def _names(labels: object) -> list[str]:
    """Names of classes; numbers, as scikit-learn's `classes_` may hold, become texts."""
    if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
        raise ParamsError(f"labels: got {kind_of(labels)}; expected a list of names")
    listed = list(labels)
    for label in listed:
        if not isinstance(label, str | int | float | np.integer | np.bool_) or label != label:
            raise ParamsError(f"labels: got {kind_of(label)}; expected names")
    return [str(label) for label in listed]


class CallableClassifier(Classifier):
    """A function from texts to probabilities in the place of a classifier: a scikit-learn pipeline, a service, ...

        CallableClassifier(pipeline.predict_proba, pipeline.classes_)

    Methods of perturbation explain it, and the metrics of faithfulness judge the explanations; what looks inside a
    model refuses. Words are separated by white space, and the function gets them joined by single blanks. A word that
    is left out is gone, or has the mask word in its place. Its "logits" are log p, or log p / (1 - p) by label.

    Equal texts of a request are asked about once, `batch_size` texts a call.

    Args:
        predict_proba: takes a list of n strings, or of n pairs of strings, and gives an array (n, C).
        labels: names of the C classes, in the order of its columns.
        mask: word that stands for a masked one; empty: masked words are left out.
        kind: `single_label` (probabilities of a text add up to 1), `multi_label` (each label holds or not), or
            `regression` (values).
        batch_size: most texts a call.
        max_words: most words that a text may have; longer ones are refused.
        name: for messages.

    Raises ParamsError for labels or options that cannot be. Asking it raises ModelError, in one sentence, where the
    function fails, gives another shape, NaN, or rows that are no probabilities.
    """

    has_model = False
    same_length = False

    def __init__(
        self,
        predict_proba: PredictProba,
        labels: Sequence[object],
        *,
        mask: str = "",
        kind: KindOfAnswer = "single_label",
        batch_size: int = 64,
        max_words: int = 2000,
        name: str = "the function",
    ) -> None:
        if not callable(predict_proba):
            raise ParamsError(f"predict_proba: got {shown(predict_proba)}; expected a function of a list of texts")
        check_argument("kind", kind, TEXT)
        check_argument("name", name, TEXT)
        if kind not in get_args(KindOfAnswer):
            raise ParamsError(f"kind: got {kind!r}; expected one of {', '.join(get_args(KindOfAnswer))}")
        self.labels = _names(labels)
        least = 2 if kind == "single_label" else 1
        if len(self.labels) < least or len(set(self.labels)) < len(self.labels):
            raise ParamsError(f"labels: got {self.labels}; expected {least} or more different names")
        if problem := label_problem(self.labels):
            raise ParamsError(f"labels: {problem}")
        if not isinstance(mask, str) or len(mask.split()) > 1 or mask != mask.strip() or not is_unicode(mask):
            raise ParamsError(f"mask: got {shown(mask)}; expected one word, or an empty string")
        for option, value in (("batch_size", batch_size), ("max_words", max_words)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ParamsError(f"{option}: got {shown(value)}; expected a whole number from 1")
        self.name = name
        self.problem = Problem(kind)
        self.device, self.dtype = torch.device("cpu"), torch.float64
        self.max_tokens = 2**16
        self.mask = mask
        self.batch_size = batch_size
        self.max_words = max_words
        self._function = predict_proba
        self._words = [""] * FIRST_WORD
        self._ids: dict[str, int] = {}
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("model", "tokenizer", "fingerprint"):
            raise UnsupportedError(f"{self.name}: is a function of texts and has no {name}")
        raise AttributeError(name)

    # ---- texts ---------------------------------------------------------------------------------------------------

    @property
    def max_length(self) -> int:
        return self.max_words

    @property
    def mask_token_id(self) -> int:
        return MASK

    @property
    def pad_token_id(self) -> int:
        return PAD

    @arguments(texts=SEVERAL, first=WHOLE, whole=FLAG)
    def encode(self, texts: Sequence[Text], first: int = 1, whole: bool = False) -> list[Encoding]:
        """One token a word, behind one for the start.

        Raises DataError for a text without words, with an unusable one, or of more than `max_words`.
        """
        if whole:
            raise UnsupportedError(f"{self.name}: is a function of texts, which gets them whole; leave out the windows")
        return [self._encode(*as_segments(text, number), number) for number, text in enumerate(texts, start=first)]

    def _encode(self, text: str, pair: str | None, example_id: str, number: int) -> Encoding:
        words, second = text.split(), pair.split() if pair is not None else []
        count = len(words) + len(second)
        if count > self.max_words:
            where = f"example {example_id!r}" if example_id else f"text {number}"
            raise DataError(f"{where} has {count:,} words; expected at most {self.max_words:,} (max_words)")
        ids = self._ids_of([*words, *second])
        first = list(range(len(words)))
        types: tuple[int, ...] = ()
        if pair is None:
            owners, found = [-1, *first], [START, *ids]
        else:
            behind = range(len(words), count)
            owners = [-1, *first, -1, *behind]
            found = [START, *ids[: len(words)], BETWEEN, *ids[len(words) :]]
            types = (0,) * (len(words) + 1) + (1,) * (len(second) + 1)
        return Encoding(
            input_ids=tuple(found),
            token_type_ids=types,
            special=tuple(owner < 0 for owner in owners),
            word_ids=tuple(owners),
            words=(*words, *second),
            example_id=example_id,
            characters=tuple((0, len([*words, *second][owner])) if owner >= 0 else (0, 0) for owner in owners),
            pair_start=None if pair is None else len(words),
        )

    def _ids_of(self, words: Sequence[str]) -> list[int]:
        with self._lock:
            for word in words:
                if word not in self._ids:
                    self._ids[word] = len(self._words)
                    self._words.append(word)
            return [self._ids[word] for word in words]

    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        return tuple(encoding.words[encoding.word_ids[i]] for i in encoding.positions)

    def _written(self, ids: Sequence[int]) -> str | tuple[str, str]:
        """The text that ids, without padding, stand for."""
        segments: list[list[str]] = [[]]
        for one in ids:
            if one == BETWEEN:
                segments.append([])
            elif one == MASK:
                segments[-1] += [self.mask] if self.mask else []
            elif one >= FIRST_WORD:
                segments[-1].append(self._words[one])
        first, *rest = (" ".join(words) for words in segments)
        return (first, rest[0]) if rest else first

    # ---- answers -------------------------------------------------------------------------------------------------

    def logits(self, batch: Batch) -> torch.Tensor:
        """float64, (batch, C): log p; log p / (1 - p) by label; the value of a regression."""
        lengths = batch.attention_mask.sum(1).tolist()
        rows = [row[:length] for row, length in zip(batch.input_ids.tolist(), lengths, strict=True)]
        p = self._ask([self._written(row) for row in rows], None)
        if self.problem is Problem.MULTI_LABEL:
            p = np.clip(p, _SMALLEST, _BELOW_ONE)
            return torch.from_numpy(np.log(p) - np.log1p(-p))
        return torch.from_numpy(p if self.problem is Problem.REGRESSION else np.log(np.maximum(p, _SMALLEST)))

    def predict_proba(self, encodings: Sequence[Encoding], description: str | None = None) -> NDArray[np.float64]:
        if self.problem is Problem.REGRESSION:
            self.probabilities(torch.zeros(1))  # says that there are none
        return self._ask([self._written(encoding.input_ids) for encoding in encodings], description)

    def _ask(self, texts: Sequence[str | tuple[str, str]], description: str | None) -> NDArray[np.float64]:
        """What the function says of texts, (n, C), each different one asked about once."""
        rows: dict[str | tuple[str, str], int] = {}
        places = [rows.setdefault(text, len(rows)) for text in texts]
        different = list(rows)
        found = np.empty((len(different), len(self.labels)))
        with tqdm(total=len(different), desc=description, unit="text", disable=None if description else True) as bar:
            for start in range(0, len(different), self.batch_size):
                part = different[start : start + self.batch_size]
                found[start : start + len(part)] = self._checked(part)
                bar.update(len(part))
        return found[places]

    def _checked(self, texts: list[str | tuple[str, str]]) -> NDArray[np.float64]:
        count, expected = len(texts), (len(texts), len(self.labels))
        try:
            answer = self._function(list(texts))
        except Exception as error:  # it is not ours: anything may come out of it
            raise ModelError(
                f"{self.name}: failed on {count} texts ({type(error).__name__}: {first_line(error)})"
            ) from error
        try:
            # Of complex numbers NumPy would drop a part, and of dates make numbers.
            given = np.asarray(answer)
            found = given.astype(np.float64, casting="unsafe" if given.dtype == object else "same_kind")
        except Exception as error:
            raise ModelError(
                f"{self.name}: gave {kind_of(answer)} for {count} texts; expected an array of numbers of shape "
                f"{expected}, a row a text and a column a label"
            ) from error
        if found.shape != expected:
            raise ModelError(
                f"{self.name}: gave an array of shape {found.shape} for {len(texts)} texts; expected {expected}, a row "
                "a text and a column a label"
            )
        if not np.isfinite(found).all():
            row = int((~np.isfinite(found)).any(1).argmax())
            raise ModelError(f"{self.name}: gave {found[row].tolist()} for {texts[row]!r:.60}; expected finite numbers")
        if self.problem is Problem.REGRESSION:
            return found
        sums = found.sum(1)
        wrong = (found < -SUM_TOLERANCE).any(1) | (found > 1 + SUM_TOLERANCE).any(1)
        if self.problem is Problem.SINGLE_LABEL:
            wrong |= np.abs(sums - 1) > SUM_TOLERANCE
        if wrong.any():
            row = int(wrong.argmax())
            raise ModelError(
                f"{self.name}: gave {found[row].tolist()} for {texts[row]!r:.60}; expected probabilities"
                + (", which add up to 1" if self.problem is Problem.SINGLE_LABEL else "")
            )
        found = found.clip(0, 1)
        return found / found.sum(1, keepdims=True) if self.problem is Problem.SINGLE_LABEL else found
