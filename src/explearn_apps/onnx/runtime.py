"""Reading an ONNX file of `explearn export --onnx`: texts in, attributions out, by onnxruntime alone."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.documents import kind_of
from explearn.core.errors import DataError, ModelError, ParamsError, UnknownNameError, first_line
from explearn.core.extras import need
from explearn.core.finite import check_logits
from explearn.core.records import Attribution, Example, check_words
from explearn.text.alignment import NO_WORD, aggregate, align, word_spans
from explearn_apps.onnx.facts import OUTPUTS, TOKENIZER, facts_from

Text = str | tuple[str, str] | Example

CHUNK_TEXTS = 512
"""Texts held at a time."""

PREDICTED = -1
"""Target of a text whose most probable class is to be explained."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A text as the graph reads it: ids, segments, and the word of each position, special tokens included."""

    ids: Sequence[int]
    types: Sequence[int]
    special: Sequence[bool]
    word_ids: Sequence[int]
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    pair_start: int | None
    example_id: str


@dataclass(frozen=True, slots=True)
class _Scored:
    """What the graph gave for one text and target. token_scores: (tokens,). logits: float64, (C,)."""

    token_scores: NDArray[np.float32]
    logits: NDArray[np.float64]
    seconds: float


class OnnxExplainer:
    """A classifier and a trained explainer, run by onnxruntime.

    Attributes:
        path: of the file. facts: what it says of itself (`explearn_apps.onnx.facts.Facts`).
        max_tokens: most padded sub-tokens in a batch.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        providers: Sequence[str] = ("CPUExecutionProvider",),
        threads: int = 0,
        max_tokens: int = 4096,
    ) -> None:
        """Load a file.

        Args:
            path: what `explearn export --onnx` wrote.
            providers: of onnxruntime, the preferred one first.
            threads: of one computation; 0: as many as onnxruntime finds cores.
            max_tokens: most padded sub-tokens in a batch.

        Raises ModelError for a file that is no such graph, ParamsError for a bad number, MissingExtraError where
        onnxruntime is not installed.
        """
        for name, value, least in (("threads", threads, 0), ("max_tokens", max_tokens, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ParamsError(f"{name}: got {value!r}; expected a whole number from {least}")
        self.path = Path(path)
        self.max_tokens = max_tokens
        self._session = _open(self.path, providers, threads)
        metadata: Mapping[str, str] = self._session.get_modelmeta().custom_metadata_map
        self.facts = facts_from(metadata, str(self.path))
        names = tuple(one.name for one in self._session.get_inputs())
        if set(names) != set(self.facts.inputs) or [one.name for one in self._session.get_outputs()] != list(OUTPUTS):
            raise ModelError(f"{self.path}: its graph's inputs and outputs are not those that its facts name")
        self._tokenizer = self._tokenizer_of(metadata.get(TOKENIZER, ""))

    def _tokenizer_of(self, text: str) -> Any:
        from tokenizers import Tokenizer

        try:
            made = Tokenizer.from_str(text)
        except Exception as error:  # the library raises nothing narrower
            raise ModelError(f"{self.path}: holds a tokenizer that cannot be read ({first_line(error)})") from error
        made.no_padding()
        made.enable_truncation(self.facts.max_length, strategy="longest_first", direction=self.facts.truncation_side)
        made.encode_special_tokens = self.facts.split_special_tokens
        return made

    # ---- explaining ----------------------------------------------------------------------------------------------

    def explain(self, texts: Iterable[Text], targets: Iterable[Any] | None = None) -> Iterator[Attribution]:
        """Yield one attribution for each text and class asked for, in order: those of `Explainer.explain`.

        Args:
            texts: strings, pairs of strings, or examples.
            targets: class to explain for each text, by name or index, or a list of several (default: the predicted
                class; of a multi-label classifier each label that holds, at least the most probable one; of a
                regression each value).

        Raises DataError for a text without usable words, naming its number; ParamsError for targets that are not one
        a text; UnknownNameError for a target that is no class; ModelError where the graph fails or gives no finite
        numbers.
        """
        if isinstance(texts, str):
            raise ParamsError("texts: got one string; expected a list of texts")
        remaining, first = iter(texts), 1
        wanted = None if targets is None else iter(targets)
        while chunk := list(islice(remaining, CHUNK_TEXTS)):
            asked = None
            if wanted is not None:
                asked = [self._indices(target) for target in islice(wanted, len(chunk))]
                if len(asked) != len(chunk):
                    raise ParamsError("targets: fewer than texts; expected one for each text")
            read = [self._read(text, number) for number, text in enumerate(chunk, start=first)]
            yield from self._explained(read, asked)
            first += len(chunk)
        if wanted is not None and next(wanted, None) is not None:
            raise ParamsError("targets: more than texts; expected one for each text")

    def _explained(self, read: Sequence[_Read], asked: list[tuple[int, ...]] | None) -> Iterator[Attribution]:
        rows = self._run(read, [PREDICTED] * len(read)) if asked is None or not self._by_target else None
        if asked is None:
            assert rows is not None
            asked = [self._default_targets(row.logits) for row in rows]
        pairs = [(number, target) for number, targets in enumerate(asked) for target in targets]
        if rows is not None and (not self._by_target or all(t == rows[n].logits.argmax() for n, t in pairs)):
            scored = [rows[number] for number, _ in pairs]
        else:
            scored = self._run([read[number] for number, _ in pairs], [target for _, target in pairs])
        for (number, target), row in zip(pairs, scored, strict=True):
            yield self._attribution(read[number], target, row)

    @property
    def _by_target(self) -> bool:
        """Whether scores depend on the class explained."""
        return "target" in self.facts.inputs

    def _run(self, read: Sequence[_Read], targets: Sequence[int]) -> list[_Scored]:
        """Scores of each text, for the class beside it."""
        found: dict[int, _Scored] = {}
        order = sorted(range(len(read)), key=lambda i: -len(read[i].ids))
        start = 0
        while start < len(order):
            # The longest come first, so that the first of a batch says how many fit into it.
            chosen = order[start : start + max(1, self.max_tokens // max(1, len(read[order[start]].ids)))]
            start += len(chosen)
            began = time.perf_counter()
            inputs = self._inputs([read[i] for i in chosen], [targets[i] for i in chosen])
            try:
                logits, scores = self._session.run(list(OUTPUTS), inputs)
            except Exception as error:  # onnxruntime's errors have no common base
                raise ModelError(f"{self.path}: its graph failed ({first_line(error)[:200]})") from error
            seconds = (time.perf_counter() - began) / len(chosen)
            check_logits(logits, str(self.path))
            for row, index in enumerate(chosen):
                found[index] = _Scored(scores[row], logits[row].astype(np.float64), seconds)
        return [found[i] for i in range(len(read))]

    def _inputs(self, read: Sequence[_Read], targets: Sequence[int]) -> dict[str, NDArray[np.int64]]:
        longest = max(len(text.ids) for text in read)
        columns: dict[str, tuple[Sequence[Sequence[int]], int]] = {
            "input_ids": ([text.ids for text in read], self.facts.pad_token_id),
            "attention_mask": ([[1] * len(text.ids) for text in read], 0),
            "token_type_ids": ([text.types for text in read], 0),
            "word_ids": ([text.word_ids for text in read], NO_WORD),
            "special_tokens_mask": ([text.special for text in read], 1),
        }
        found: dict[str, NDArray[np.int64]] = {}
        for name in self.facts.inputs:
            if name == "target":
                found[name] = np.asarray(targets, dtype=np.int64)
                continue
            rows, fill = columns[name]
            padded = np.full((len(read), longest), fill, dtype=np.int64)
            for place, row in enumerate(rows):
                padded[place, : len(row)] = row
            found[name] = padded
        return found

    def _attribution(self, read: _Read, target: int, scored: _Scored) -> Attribution:
        facts = self.facts
        scores = scored.token_scores[: len(read.ids)]
        word_scores, unaligned = aggregate(scores, read.word_ids, len(read.words), facts.aggregation)
        positions = [place for place, special in enumerate(read.special) if not special]
        return Attribution(
            words=read.words,
            scores=word_scores,
            tokens=tuple(self._tokenizer.id_to_token(read.ids[place]) for place in positions),
            token_scores=scores[positions],
            target=facts.labels[target],
            method=facts.method,
            aggregation=facts.aggregation,
            signed=facts.signed,
            unaligned=unaligned,
            seconds=scored.seconds,
            example_id=read.example_id,
            **self._answer(scored.logits, target),
            spans=read.spans,
            pair_start=read.pair_start,
        )

    # ---- texts and classes ---------------------------------------------------------------------------------------

    def _read(self, text: Text, number: int) -> _Read:
        first, second, example_id = _segments(text, number)
        encoded = self._tokenizer.encode(first, second)
        spans = word_spans(first)
        pair_spans = word_spans(second) if second is not None else []
        sequence = encoded.sequence_ids
        word_ids = [NO_WORD] * len(sequence)
        for segment, of_segment, shift in ((0, spans, 0), (1, pair_spans, len(spans))):
            positions = [place for place, found in enumerate(sequence) if found == segment]
            owners = align([encoded.offsets[place] for place in positions], of_segment)
            for place, owner in zip(positions, owners, strict=True):
                word_ids[place] = owner if owner == NO_WORD else owner + shift
        return _Read(
            ids=encoded.ids,
            types=encoded.type_ids,
            special=[found is None for found in sequence],
            word_ids=word_ids,
            words=tuple(first[a:b] for a, b in spans) + tuple((second or "")[a:b] for a, b in pair_spans),
            spans=(*spans, *pair_spans),
            pair_start=None if second is None else len(spans),
            example_id=example_id,
        )

    def _indices(self, target: Any) -> tuple[int, ...]:
        several = [target] if isinstance(target, str) or not isinstance(target, Sequence) else target
        if not several:
            raise ParamsError("targets: got an empty list for a text; expected at least one class")
        return tuple(self._index(one) for one in several)

    def _index(self, target: Any) -> int:
        labels = self.facts.labels
        if isinstance(target, str):
            if target not in labels:
                raise UnknownNameError("label", target, labels)
            return labels.index(target)
        if isinstance(target, bool) or not isinstance(target, int | np.integer):
            raise ParamsError(f"target: got {target!r}; expected the name of a class or its number")
        if not 0 <= target < len(labels):
            raise UnknownNameError("label index", str(target), map(str, range(len(labels))))
        return int(target)

    def _default_targets(self, logits: NDArray[np.float64]) -> tuple[int, ...]:
        if self.facts.problem == "regression":
            return tuple(range(len(self.facts.labels)))
        held = np.flatnonzero(self._probabilities(logits) >= 0.5) if self.facts.problem == "multi_label" else ()
        return tuple(int(label) for label in held) or (int(logits.argmax()),)

    def _probabilities(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.facts.problem == "multi_label":
            return 1 / (1 + np.exp(-np.clip(logits, -700, 700)))
        # Of one output z the logits are -z and z, and its sigmoid is the softmax of their halves.
        scaled = logits / 2 if self.facts.problem == "binary" else logits
        powers = np.exp(scaled - scaled.max())
        return np.asarray(powers / powers.sum())

    def _answer(self, logits: NDArray[np.float64], target: int) -> dict[str, Any]:
        labels = self.facts.labels
        if self.facts.problem == "regression":
            return {"probability": math.nan, "predicted": labels[target], "value": float(logits[target])}
        probabilities = self._probabilities(logits)
        asked = self._default_targets(logits)
        return {
            "probability": float(probabilities[target]),
            "predicted": labels[target if target in asked else int(probabilities.argmax())],
        }


def _open(path: Path, providers: Sequence[str], threads: int) -> Any:
    ort: Any = need("onnxruntime", extra="onnx", what="an explanation by ONNX")
    if not path.is_file():
        raise ModelError(f"{path}: no such file; expected one that explearn export --onnx wrote")
    if unknown := sorted(set(providers) - set(ort.get_available_providers())):
        raise ParamsError(
            f"providers: this onnxruntime has no {unknown[0]}; expected some of "
            f"{', '.join(ort.get_available_providers())}"
        )
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    try:
        return ort.InferenceSession(str(path), options, providers=list(providers))
    except Exception as error:  # onnxruntime's errors have no common base
        raise ModelError(f"{path}: is no ONNX graph that can be run ({first_line(error)[:200]})") from error


def _segments(text: Text, number: int) -> tuple[str, str | None, str]:
    """A text, its second segment and its id; raises DataError, naming `number`, for a word that cannot be used."""
    if isinstance(text, Example):
        return text.text, text.pair_text, text.id
    segments: Sequence[Any] = text if isinstance(text, tuple) else (text, None)
    expected = "expected a text, a pair of texts or an Example"
    if len(segments) != 2:
        raise DataError(f"text {number}: got a tuple of {len(segments)}; {expected}")
    first, second = segments
    for segment in (first,) if second is None else (first, second):
        if not isinstance(segment, str):
            raise DataError(f"text {number}: got {kind_of(segment)}; {expected}")
        try:
            check_words(tuple(segment.split()), "text")
        except DataError as error:
            raise DataError(f"text {number}: {error}") from error
    return first, second, ""
