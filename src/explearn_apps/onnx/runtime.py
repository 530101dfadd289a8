"""Explanations from an ONNX file of `explearn export-onnx`, by onnxruntime.

Texts are read, classes chosen and attributions made by the library (`methods.base.targets`,
`methods.base.attributions`); the graph replaces classifier and method.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explearn.core.attribution import Attribution
from explearn.core.documents import checked_path
from explearn.core.errors import MethodError, ModelError, ParamsError, blaming, first_line
from explearn.core.extras import need
from explearn.core.validation import Count, Fraction, PositiveInt, check
from explearn.methods.base.attributions import TextScores, attribution_of, check_scores
from explearn.methods.base.targets import Target, targeted_texts, windows_of
from explearn.predictors.batching import budget_batches
from explearn.predictors.labelled import Labelled, Problem, check_logits
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import Encoding, PlainText, Text, read_texts, segments_in
from explearn.text.units import Unit, unit_name
from explearn_apps.onnx.metadata import MOST_NODES, TOKENIZER, count_nodes, parse_metadata

CHUNK_TEXTS = 512
"""Texts held at a time."""

PREDICTED = -1
"""Target of a text whose most probable class is to be explained."""


class OnnxExplainer(Labelled):
    """A classifier and a trained explainer in one graph.

    Attributes:
        path: the file.
        metadata: what the file says about its explainer (`explearn_apps.onnx.metadata.Metadata`).
        max_tokens: most padded sub-tokens in a batch.
        aim: which of Reader's two questions the scores answer.

    Example:
        >>> from explearn_apps.onnx import OnnxExplainer
        >>> explainer = OnnxExplainer("marker.onnx")  # as `export_onnx` writes it
        >>> [attribution] = explainer.explain("a lazy fox")
        >>> attribution.words
        ('a', 'lazy', 'fox')
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        providers: Sequence[str] = ("CPUExecutionProvider",),
        threads: int = 0,
        max_tokens: int = 4096,
        aim: float | None = None,
    ) -> None:
        """Load a file.

        Args:
            path: file written by `explearn export-onnx`.
            providers: onnxruntime's providers, the preferred one first.
            threads: threads per computation. 0: as many as onnxruntime finds cores.
            max_tokens: most padded sub-tokens in a batch.
            aim: which of Reader's two questions to answer, if it was trained with `marked`. None: as exported.

        Raises:
            ModelError: the file is not such a graph.
            ParamsError: the graph does not take an `aim`, or a number is out of range.
            MissingExtraError: onnxruntime is not installed.
        """
        ort: Any = need("onnxruntime", extra="onnx", what="an explanation by ONNX")
        self.path = Path(checked_path(path, "path"))
        self.max_tokens = check(PositiveInt, max_tokens, ParamsError, "max_tokens: ")
        if not os.path.isfile(path):  # noqa: PTH113 (Path.is_file raises for names that no file can have)
            raise ModelError(f"{self.path}: no such file; expected one that explearn export-onnx wrote")
        nodes = count_nodes(self.path)
        if nodes > MOST_NODES:
            raise ModelError(f"{self.path}: has a graph of {nodes:,} nodes; expected at most {MOST_NODES:,}")
        options = ort.SessionOptions()
        options.intra_op_num_threads = check(Count, threads, ParamsError, "threads: ")
        options.log_severity_level = 4  # otherwise it also prints errors, with unescaped names from the file
        try:
            self._session = ort.InferenceSession(str(self.path), options, providers=list(providers))
        except Exception as error:  # onnxruntime's errors have no common base
            raise ModelError(
                f"{self.path}: is not an ONNX graph that can be run ({first_line(error)[:200]})"
            ) from error
        stored = self._session.get_modelmeta().custom_metadata_map
        self.metadata = parse_metadata(stored, str(self.path))
        self.aim = self.metadata.aim
        if aim is not None:
            self.aim = check(Fraction, aim, ParamsError, "aim: ")
        if self.aim != self.metadata.aim and "aim" not in self.metadata.inputs:
            raise ParamsError(f"{self.path}: its explainer has not learned which words are marked; expected no `aim`")
        self.name = str(path)
        self.labels = self.metadata.labels
        self.problem = Problem(self.metadata.problem)
        from tokenizers import Tokenizer

        with self._tokenizing():
            self._tokenizer = Tokenizer.from_str(stored[TOKENIZER])
            self._tokenizer.enable_truncation(
                self.metadata.max_length, strategy="longest_first", direction=self.metadata.truncation_side
            )
        self._tokenizer.encode_special_tokens = self.metadata.split_special_tokens

    def _tokenizing(self) -> AbstractContextManager[None]:
        """Return a context in which whatever the tokenizer raises, which may be a panic, is a ModelError."""
        return blaming(None, f"{self.path}: its tokenizer is damaged", ModelError, "; export it again")

    def explain(
        self, texts: Text | Iterable[Text], targets: Target | Iterable[Target] | None = None, unit: Unit = "word"
    ) -> list[Attribution]:
        """Return one attribution for each text and class to explain, in order, as `Explainer.explain` does.

        Args:
            texts: as for `Explainer.explain`.
            targets: as for `Explainer.explain`.
            unit: what is scored; see `Explainer.explain`.

        Raises:
            ModelError: the graph fails. Other errors are those of `Explainer.explain`.
        """
        return list(self.iter_explain(texts, targets, unit))

    def iter_explain(
        self, texts: Text | Iterable[Text], targets: Target | Iterable[Target] | None = None, unit: Unit = "word"
    ) -> Iterator[Attribution]:
        """Do as `explain` for a stream of any length: yield attribution after attribution."""
        # Passed as a classifier to functions that use only what is below and in `Labelled`.
        source: Any = self
        method = self.metadata.method, self.metadata.aggregation, self.metadata.signed
        for chunk in targeted_texts(source, texts, targets, None, CHUNK_TEXTS, unit):
            encodings, classes = windows_of(chunk)
            scores = iter(self._run(encodings, classes or [PREDICTED] * len(encodings)))
            for text in chunk:
                for _ in text.targets:
                    yield attribution_of(
                        source, text.units, [next(scores)], *method, unit_name(unit), self.metadata.output
                    )

    # ---- as a classifier -----------------------------------------------------------------------------------------

    def encode(self, texts: Sequence[PlainText]) -> list[Encoding]:
        """Tokenise texts as the classifier's tokenizer does."""
        encodings = []
        for text in texts:
            segments = segments_in(text)
            parts: list[Any] = [segment.text for segment in segments]
            with self._tokenizing():
                row = self._tokenizer.encode(*parts)
            encodings.append(Encoding.of(segments, row.ids, row.offsets, row.sequence_ids, row.type_ids))
        return encodings

    def read(self, texts: Sequence[Text], first: int = 1) -> list[Encoding]:
        """Encode texts of any kind, with the errors of `Predictor.read`."""
        return read_texts(self.encode, texts, first, self.name)

    def tokens(self, encoding: Encoding) -> tuple[str, ...]:
        """Return the sub-tokens as text, without special tokens."""
        return tuple(str(self._tokenizer.id_to_token(encoding.input_ids[i])) for i in encoding.positions)

    def predict_proba(self, encodings: Sequence[Encoding]) -> NDArray[np.float64]:
        """Return class probabilities, shape (n, C)."""
        scores = self._run(encodings, [PREDICTED] * len(encodings))
        return self.problem.probabilities_of(np.array([text.logits for text in scores], dtype=np.float64))

    # ---- the graph -----------------------------------------------------------------------------------------------

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        """Return the graph's outputs, the logits, (batch, C), first.

        Args:
            inputs: all of `explearn_apps.onnx.metadata.Input`, by name.

        Raises:
            ModelError: the graph fails, or its logits are not finite, or not one for each label.
        """
        try:
            outputs: list[NDArray[Any]] = self._session.run(None, {name: inputs[name] for name in self.metadata.inputs})
        except Exception as error:  # onnxruntime's errors have no common base
            raise ModelError(f"{self.path}: its graph failed ({first_line(error)[:200]})") from error
        logits = outputs[0]
        if logits.shape != (len(inputs["input_ids"]), len(self.labels)):
            raise ModelError(
                f"{self.path}: its graph gives {logits.shape[-1]} logits; expected one for each of its "
                f"{len(self.labels)} labels; export it again"
            )
        check_logits(logits, str(self.path))
        try:
            check_scores("scores", outputs[1], inputs["input_ids"].shape)
        except MethodError as error:
            raise ModelError(f"{self.path}: its graph {error}; export it again") from error
        return outputs

    def _run(self, encodings: Sequence[Encoding], targets: Sequence[int]) -> list[TextScores]:
        """Run the graph on each text with its target, in batches of similar length."""
        scores: dict[int, TextScores] = {}
        for batch in budget_batches([len(encoding) for encoding in encodings], self.max_tokens):
            start = time.perf_counter()
            inputs = self._inputs([encodings[i] for i in batch], [targets[i] for i in batch])
            logits, token_scores, *rest = self.run(inputs)
            seconds = (time.perf_counter() - start) / len(batch)
            certified: list[Sequence[float] | None] = [None] * len(batch)
            if rest and self.aim == 1:
                certified = rest[0].tolist()
            for row, i in enumerate(batch):
                target = targets[i]
                if target == PREDICTED:
                    target = int(logits[row].argmax())
                of_text = token_scores[row, : len(encodings[i])]
                scores[i] = TextScores(of_text, logits[row], target, seconds, certificate=certified[row])
        return [scores[i] for i in range(len(encodings))]

    def _inputs(self, encodings: Sequence[Encoding], targets: Sequence[int]) -> dict[str, NDArray[Any]]:
        shape = len(encodings), max(map(len, encodings))
        inputs: dict[str, NDArray[Any]] = {
            "input_ids": np.full(shape, self.metadata.pad_token_id),
            "attention_mask": np.zeros(shape, np.int64),
            "token_type_ids": np.zeros(shape, np.int64),
            "word_ids": np.full(shape, NO_WORD),
            "target": np.array(targets),
            "aim": np.full(len(encodings), self.aim, np.float32),
        }
        for row, encoding in enumerate(encodings):
            length = len(encoding)
            inputs["input_ids"][row, :length] = encoding.input_ids
            inputs["attention_mask"][row, :length] = 1
            inputs["token_type_ids"][row, : len(encoding.token_type_ids)] = encoding.token_type_ids
            inputs["word_ids"][row, :length] = encoding.word_ids
        return inputs
