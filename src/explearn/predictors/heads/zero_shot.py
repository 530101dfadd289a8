"""Zero-shot classification: a model of natural-language inference and labels given at call time (Yin et al. 2019).

A text is the premise, and each label gives a hypothesis, such as "This example is politics.". The logit of a label is
that of entailment for the pair (text, hypothesis); if several labels may apply, minus that of contradiction. A text is
encoded alone; the hypothesis replaces the special tokens at its end, so it is in every shortened text and has no score.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from explearn.core.errors import DataError, ModelError
from explearn.core.writing import atomic_folder, write_json
from explearn.predictors.encoding import Batch, Encoding, encode_texts
from explearn.predictors.heads.completion import COMPLETION_FILE
from explearn.predictors.labelled import Problem, Use
from explearn.predictors.params import CandidateLabels
from explearn.predictors.predictor import HeldPredictor, Inside, Predictor
from explearn.predictors.transformer import SAVED_CLASSIFIER, TransformerPredictor
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import PlainText, Text, read_texts

if TYPE_CHECKING:
    import transformers


ENTAILMENT = ("entail",)
"""Beginnings of the name of the class for entailment."""
CONTRADICTION = ("contra", "not", "non")
"""Beginnings of the name of the class for contradiction."""


def index_of(classes: Sequence[str], starts: tuple[str, ...], name: str) -> int:
    """Return the index of the class whose name begins with one of `starts`.

    Args:
        classes: the model's classes.
        starts: beginnings, in lower case.
        name: the model's name, for messages.

    Raises:
        ModelError: there is no such class, or more than one.
    """
    indices = [index for index, label in enumerate(classes) if label.lower().startswith(starts)]
    if len(indices) != 1:
        raise ModelError(
            f"{name}: its classes are {', '.join(classes)}; candidate labels go with a generative model, or with one "
            f"of natural-language inference, one of whose classes begins with {' or '.join(starts)}"
        )
    return indices[0]


class ZeroShotPredictor(HeldPredictor):
    """A model of natural-language inference as a classifier for labels given at call time.

    Texts are not pairs. A text is cut for the longest hypothesis, so that every label is judged by the same words;
    transformers' pipeline cuts it for each hypothesis by itself, and may give other answers to texts beyond the limit.
    Perturbation methods and metrics use the probabilities of the labels. Methods that look inside
    the model explain the entailment output for the pair of the text and the hypothesis of the target label.

    Args:
        nli: the classifier of pairs.
        params: labels and hypothesis.

    Raises:
        ModelError: no class of `nli` stands for entailment or, for `multi_label`, for contradiction; the tokenizer
            splits a text differently if a second one follows; or a hypothesis leaves no room for a text.
    """

    refuses: Mapping[Use, str] = {
        "training": "has candidate labels; expected the model without them, for pairs of a text and a hypothesis: what "
        "it trains explains its zero-shot answers, too",
        "onnx": "has candidate labels; expected a sequence classifier",
    }
    held: TransformerPredictor

    def __init__(self, nli: TransformerPredictor, params: CandidateLabels) -> None:
        refuses = self.refuses
        super().__init__(nli)
        self.refuses = refuses
        self.params = params
        self.labels = list(params.labels)
        self.problem = Problem.SINGLE_LABEL
        self.entailment = index_of(nli.labels, ENTAILMENT, nli.name)
        self.contradiction: int | None = None
        if params.multi_label:
            self.problem = Problem.MULTI_LABEL
            self.contradiction = index_of(nli.labels, CONTRADICTION, nli.name)
        samples: list[PlainText] = ["a"]
        for label in params.labels:
            samples.append(("a", params.hypothesis.replace("{}", label)))
        alone, *pairs = encode_texts(nli.tokenizer, samples, None)
        body = alone.positions[-1] + 1
        if any(pair.input_ids[:body] != alone.input_ids[:body] for pair in pairs):
            raise ModelError(f"{nli.name}: its tokenizer reads a text in another way where a hypothesis follows")
        # Special tokens at the end of a single text, which the hypotheses replace.
        self._replaced = len(alone) - body
        self._hypotheses = [(pair.input_ids[body:], pair.token_type_ids[body:]) for pair in pairs]
        longest = max(len(ids) for ids, _ in self._hypotheses)
        if body + longest > nli.max_length:
            raise ModelError(
                f"{nli.name}: a hypothesis takes {longest} of its {nli.max_length} sub-tokens; expected a shorter one"
            )
        self._max_length = nli.max_length - longest + self._replaced

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the classifier of pairs, the labels and the hypothesis."""
        return hashlib.sha256((self.held.fingerprint + self.params.model_dump_json()).encode()).hexdigest()

    @property
    def transformer(self) -> TransformerPredictor:
        return self.held

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Save model, tokenizer and candidate labels, for `explearn.load_classifier`."""
        with atomic_folder(folder, SAVED_CLASSIFIER) as partial:
            self.held.write_files(partial)
            write_json(partial / COMPLETION_FILE, self.params.model_dump(mode="json"))

    def with_model(self, model: transformers.PreTrainedModel) -> ZeroShotPredictor:
        """Return a copy with another model of the same architecture."""
        return ZeroShotPredictor(self.held.with_model(model), self.params)

    def inside(self, encodings: Sequence[Encoding], targets: Sequence[int] | None = None) -> Inside:
        """Return each text with the hypothesis of the label to explain, for the classifier of pairs."""
        logits = self.predict_logits(encodings)
        labels = targets
        if labels is None:
            labels = logits.argmax(-1).tolist()
        pairs = self.pairs(encodings, labels)
        return Inside(pairs, [self.entailment] * len(pairs), (logits, labels))

    def pairs(self, encodings: Sequence[Encoding], labels: Sequence[int]) -> list[Encoding]:
        """Return each text followed by the hypothesis of a label, whose sub-tokens count as special."""
        pairs = []
        for encoding, label in zip(encodings, labels, strict=True):
            ids, types = self._hypotheses[label]
            text = encoding.select(list(range(len(encoding) - self._replaced)))
            pair = replace(
                text,
                input_ids=text.input_ids + ids,
                token_type_ids=text.token_type_ids + types,
                special=text.special + (True,) * len(ids),
                word_ids=text.word_ids + (NO_WORD,) * len(ids),
                characters=text.characters + ((0, 0),) * len(ids),
            )
            pairs.append(pair)
        return pairs

    @property
    def max_length(self) -> int:
        """Most sub-tokens per text, which leave room for the longest hypothesis."""
        return self._max_length

    def encode(self, texts: Sequence[PlainText]) -> list[Encoding]:
        return self._encode(self.max_length, texts)

    def _encode(self, limit: int | None, texts: Sequence[PlainText]) -> list[Encoding]:
        for number, text in enumerate(texts, start=1):
            if not isinstance(text, str):
                raise DataError(
                    f"text {number}: is a pair; expected one text, which is paired with each label's hypothesis"
                )
        return self.held.encode_within(limit, texts)

    def read(
        self, texts: Iterable[Text] | Iterable[Encoding], first: int = 1, whole: bool = False, labelled: bool = False
    ) -> list[Encoding]:
        if not whole:
            return Predictor.read(self, texts, first)
        return read_texts(partial(self._encode, None), list(texts), first, self.name)  # type: ignore[arg-type]

    def logits(self, batch: Batch) -> torch.Tensor:
        by_label = []
        for label in range(len(self.labels)):
            pairs = self.pairs(batch.encodings, [label] * len(batch))
            by_label.append(self.held.logits(self.held.batch(pairs)))
        logits = torch.stack(by_label, 1)
        entailed = logits[..., self.entailment]
        if self.contradiction is None:
            return entailed
        return entailed - logits[..., self.contradiction]
