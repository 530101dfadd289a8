"""A classifier of which nothing is known but its answers: a function from texts to probabilities."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from tqdm.auto import tqdm

from explearn.core.arguments import check_listed
from explearn.core.errors import DataError, ModelError, ParamsError, UnsupportedError, first_line, kind_of, shown
from explearn.core.examples import label_problem
from explearn.core.validation import PositiveInt, Section, check_section
from explearn.core.words import Segment, Span, joined_words
from explearn.predictors.encoding import Batch, Encoding, Text
from explearn.predictors.problems import Problem
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import align_words, as_segments, name_of

PredictProba = Callable[[list[Any]], ArrayLike]
"""Probabilities, (n, C), of n texts; of n pairs of strings where the texts explained are pairs."""

PAD, START, BETWEEN, MASK, FIRST_WORD = range(5)
"""Ids in encodings: padding, the start of a text, the place between two segments, a masked word, the first of words."""

SUM_TOLERANCE = 0.01
"""How far the probabilities of a text may be from adding up to 1: services round them. They are then scaled to 1."""

KindOfAnswer = Literal["single_label", "multi_label", "regression"]

_SMALLEST = float(np.finfo(np.float64).tiny)
_BELOW_ONE = 1 - float(np.finfo(np.float64).eps)


class _Options(Section):
    mask: str
    kind: KindOfAnswer
    batch_size: PositiveInt
    max_words: PositiveInt
    name: str


class FunctionPredictor(TransformerPredictor):
    """A function from texts to probabilities in the place of a classifier: a scikit-learn pipeline, a service, ...

        FunctionPredictor(pipeline.predict_proba, pipeline.classes_)

    Methods of perturbation explain it, and an `l2e` that was trained for it; the metrics of faithfulness judge the
    explanations. What looks inside a model refuses. The function gets the words of a text, with single blanks in the
    place of white space. A word that is left out is gone, or has the mask word in its place. Its "logits" are log p, or
    log p / (1 - p) by label.

    The function gets each distinct text of a request once, `batch_size` texts a call.

    Args:
        predict_proba: takes a list of n strings, or of n pairs of strings, and gives an array (n, C).
        labels: names of the C classes, in the order of its columns.
        mask: word that stands for a masked one; empty: masked words are left out.
        kind: `single_label` (probabilities of a text add up to 1), `multi_label` (each label holds or not), or
            `regression` (values).
        batch_size: most texts a call.
        max_words: most words that a text may have; longer ones are refused.
        name: for messages; trained explainers know the function by its name and labels, so that another version needs
            another name.

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
        values = {"mask": mask, "kind": kind, "batch_size": batch_size, "max_words": max_words, "name": name}
        options = check_section(_Options, values)
        if mask != "".join(mask.split()):
            raise ParamsError(f"mask: got {shown(mask)}; expected one word, or an empty string")
        check_listed("labels", labels, "names")
        self.labels = [str(label) for label in labels]
        if problem := label_problem(self.labels):
            raise ParamsError(f"labels: {problem}")
        if len(self.labels) < (least := 2 if kind == "single_label" else 1):
            raise ParamsError(f"labels: got {self.labels}; expected {least} or more names")
        self.name, self.mask = options.name, options.mask
        self.batch_size, self.max_words = options.batch_size, options.max_words
        self.problem = Problem(kind)
        self.device, self.dtype = torch.device("cpu"), torch.float64
        self.max_tokens = 2**16
        self._function = predict_proba
        self._words = [(self.mask if token_id == MASK else "", True, True) for token_id in range(FIRST_WORD)]
        self._ids: dict[tuple[str, bool, bool], int] = {}
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("model", "tokenizer"):
            raise UnsupportedError(f"{self.name}: is a function of texts and has no {name}")
        raise AttributeError(name)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the name, the labels, and the kind of answers."""
        labels = [self.file_labels.get(label, label) for label in self.labels]
        return hashlib.sha256(repr((self.name, labels, self.problem.value)).encode()).hexdigest()

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

    def encode(self, texts: Sequence[Text], first: int = 1, whole: bool = False) -> list[Encoding]:
        """Encode one token a word, behind one for the start.

        Raises DataError for a text without words, with an unusable one, or of more than `max_words`.
        """
        if whole:
            raise UnsupportedError(f"{self.name}: is a function of texts, which gets them whole; leave out the windows")
        return [self._encode(*as_segments(text, number), number) for number, text in enumerate(texts, start=first)]

    def _encode(self, segments: Sequence[Segment], example_id: str, number: int) -> Encoding:
        between = len(segments[0].spans) + 1
        pair_start = None if len(segments) == 1 else between - 1
        parts = [(n * (len(segments[0].text) + 1), segment) for n, segment in enumerate(segments)]
        offsets: list[Span | None] = []
        for start, segment in parts:
            offsets += [None, *((start + a, start + b) for a, b in segment.spans)]
        fields = align_words(offsets, parts)
        words, owners = fields["words"], fields["word_ids"]
        if len(words) > self.max_words:
            where = name_of(example_id, number)
            raise DataError(f"{where} has {len(words):,} words; expected at most {self.max_words:,} (max_words)")
        # A word, and whether it stands directly behind the one before and before the one behind.
        joined = set(joined_words(fields["spans"], pair_start))
        placed = [(word, i in joined, i + 1 in joined) for i, word in enumerate(words)]
        with self._lock:
            for word in placed:
                if word not in self._ids:
                    self._ids[word] = len(self._words)
                    self._words.append(word)
        return Encoding(
            input_ids=(START, *(BETWEEN if owner == NO_WORD else self._ids[placed[owner]] for owner in owners[1:])),
            token_type_ids=() if pair_start is None else tuple(int(i >= between) for i in range(len(owners))),
            special=tuple(owner == NO_WORD for owner in owners),
            example_id=example_id,
            pair_start=pair_start,
            **fields,
        )

    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        return tuple(encoding.words[encoding.word_ids[i]] for i in encoding.positions)

    def _text_of(self, ids: list[int]) -> str | tuple[str, str]:
        """Return the text that ids, without padding, stand for."""
        place = ids.index(BETWEEN) if BETWEEN in ids else len(ids)
        first, second = self._string(ids[:place]), self._string(ids[place:])
        return (first, second) if BETWEEN in ids else first

    def _string(self, ids: list[int]) -> str:
        text, last = "", START
        for token_id in ids:
            word, behind, _ = self._words[token_id]
            if not word:
                continue
            # A blank stays where either of two words has one on this side; between two masks that is unknown.
            if text and (last == token_id == MASK or not (behind and self._words[last][2])):
                text += " "
            text, last = text + word, token_id
        return text

    # ---- answers -------------------------------------------------------------------------------------------------

    def logits(self, batch: Batch) -> torch.Tensor:
        """float64, (batch, C): log p; log p / (1 - p) by label; the value of a regression."""
        lengths = batch.attention_mask.sum(1).tolist()
        rows = [row[:length] for row, length in zip(batch.input_ids.tolist(), lengths, strict=True)]
        p = self._ask([self._text_of(row) for row in rows], None)
        if self.problem is Problem.MULTI_LABEL:
            p = np.clip(p, _SMALLEST, _BELOW_ONE)
            return torch.from_numpy(np.log(p) - np.log1p(-p))
        return torch.from_numpy(p if self.problem is Problem.REGRESSION else np.log(np.maximum(p, _SMALLEST)))

    def predict_proba(
        self, texts: Iterable[Encoding] | Iterable[Text], description: str | None = None
    ) -> NDArray[np.float64]:
        if self.problem is Problem.REGRESSION:
            self.probabilities(torch.zeros(1))  # says that there are none
        return self._ask([self._text_of([*encoding.input_ids]) for encoding in self._encoded(texts)], description)

    def _ask(self, texts: Sequence[str | tuple[str, str]], description: str | None) -> NDArray[np.float64]:
        """Return the function's answers on texts, (n, C); it gets each distinct one once."""
        different = list(dict.fromkeys(texts))
        answers: dict[str | tuple[str, str], NDArray[np.float64]] = {}
        with tqdm(total=len(different), desc=description, unit="text", disable=None if description else True) as bar:
            for start in range(0, len(different), self.batch_size):
                part = different[start : start + self.batch_size]
                answers.update(zip(part, self._answers(part), strict=True))
                bar.update(len(part))
        return np.array([answers[text] for text in texts]).reshape(len(texts), len(self.labels))

    def _answers(self, texts: list[str | tuple[str, str]]) -> NDArray[np.float64]:
        count, shape = len(texts), (len(texts), len(self.labels))
        try:
            answer = self._function(list(texts))
        except Exception as error:  # a function of somebody else may raise anything
            raise ModelError(f"{self.name}: failed on {count} texts ({first_line(error)})") from error
        try:
            rows = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError, ArithmeticError):
            rows = None
        if rows is None or rows.shape != shape:
            gave = kind_of(answer) if rows is None else f"an array of shape {rows.shape}"
            raise ModelError(
                f"{self.name}: gave {gave} for {count} texts; expected an array of numbers of shape {shape}, a row a "
                "text and a column a label"
            )
        wrong, expected = ~np.isfinite(rows), "finite numbers"
        if not wrong.any() and self.problem is not Problem.REGRESSION:
            wrong, expected = (rows < -SUM_TOLERANCE) | (rows > 1 + SUM_TOLERANCE), "probabilities"
            if self.problem is Problem.SINGLE_LABEL:
                wrong |= np.abs(rows.sum(1, keepdims=True) - 1) > SUM_TOLERANCE
                expected = "probabilities, which add up to 1"
        if wrong.any():
            row = int(wrong.any(1).argmax())
            raise ModelError(f"{self.name}: gave {rows[row].tolist()} for {texts[row]!r:.60}; expected {expected}")
        if self.problem is Problem.REGRESSION:
            return rows
        rows = rows.clip(0, 1)
        return rows / rows.sum(1, keepdims=True) if self.problem is Problem.SINGLE_LABEL else rows
