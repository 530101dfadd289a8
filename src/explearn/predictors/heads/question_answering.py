"""Extractive question answering as a decision between two classes: this span of the passage, or another.

A question and a passage are a pair of segments. The model scores every span of words of the passage (Rajpurkar et al.
2016; Devlin et al. 2019, 4.2): p(span) = p_start(first word) p_end(last word). One span, the answer, is marked in the
text. The two classes are that span and the best of all others, so every method and metric for classifiers applies.

The words of the answer stay in every shortened text and get no score: without them the model could not give the answer,
and the question is which *other* words lead to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from explearn.core.compute import at_least_float32
from explearn.core.errors import DataError, UnsupportedError
from explearn.core.examples import ANSWER_LABELS, ANSWER_WORDS, Example
from explearn.core.words import lay_out
from explearn.predictors.batching import run_batches
from explearn.predictors.encoding import Encoding, Text
from explearn.predictors.problems import label_maps
from explearn.predictors.transformer import TransformerPredictor, WrappedModel
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import name_of

if TYPE_CHECKING:
    import transformers
    from transformers.modeling_outputs import SequenceClassifierOutput

FLOOR = -30.0
"""Log-probability of spans that cannot be answers, in place of minus infinity: gates and logits stay finite."""


class SpanScorer(WrappedModel):
    """A question-answering model that gives two logits: log p of the marked span, and of the best other span.

    No span starts or ends at a piece whose gate is closed (see `objectives.gated_inputs`). Without a marked span, its
    logit is FLOOR. The labels in the model's configuration become ANSWER_LABELS.
    """

    loader = "AutoModelForQuestionAnswering"

    def __init__(
        self, config: transformers.PreTrainedConfig, model: transformers.PreTrainedModel | None = None
    ) -> None:
        super().__init__(config, model)
        self.model.config.update(label_maps(ANSWER_LABELS))

    def bounds(
        self, input_ids: Tensor, attention_mask: Tensor, word_starts: Tensor, word_ends: Tensor, **options: Any
    ) -> tuple[Tensor, Tensor, Any]:
        """Return log p of a span's start and of its end at each token, (b, n) each, and the model's output."""
        output = self.model(input_ids=input_ids, attention_mask=attention_mask, **options)
        bias = torch.zeros((), device=attention_mask.device)
        if attention_mask.dim() == 4:
            bias = attention_mask[:, 0, 0]

        def log_p(logits: Tensor, allowed: Tensor) -> Tensor:
            scores = at_least_float32(logits) + bias
            return scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).log_softmax(-1)

        return log_p(output.start_logits, word_starts), log_p(output.end_logits, word_ends), output

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        word_starts: Tensor,
        word_ends: Tensor,
        fixed: Tensor | None = None,
        **options: Any,
    ) -> SequenceClassifierOutput:
        from transformers.modeling_outputs import SequenceClassifierOutput

        start, end, output = self.bounds(input_ids, attention_mask, word_starts, word_ends, **options)
        spans = span_scores(start, end, word_starts, word_ends)
        marked = fixed
        if marked is None:
            marked = torch.zeros_like(word_starts)
        rows = torch.arange(len(marked), device=marked.device)
        first = (marked & word_starts).long().argmax(1)
        last = marked.shape[1] - 1 - (marked & word_ends).flip(1).long().argmax(1)
        has_answer = marked.any(1)
        answer = torch.where(has_answer, start[rows, first] + end[rows, last], FLOOR)
        is_answer = torch.zeros_like(spans, dtype=torch.bool)
        is_answer[rows, first, last] = has_answer
        best = spans.masked_fill(is_answer, FLOOR).flatten(1).amax(1)
        logits = torch.stack([answer, best], dim=1).clamp_min(FLOOR)
        return SequenceClassifierOutput(logits=logits, hidden_states=output.hidden_states)


def span_scores(start: Tensor, end: Tensor, word_starts: Tensor, word_ends: Tensor) -> Tensor:
    """Return log p of the span from token i to token j, (b, n, n).

    It is FLOOR if j comes before i, or the span has more than ANSWER_WORDS words.

    Args:
        start: log p of a span's start at each token, (b, n).
        end: log p of its end, (b, n).
        word_starts: the first token of each word of the passage, bool, (b, n).
        word_ends: the last one.
    """
    # Number of the passage's word that a token belongs to, from 1.
    number = word_starts.long().cumsum(1)
    behind = number[:, None, :] - number[:, :, None]
    allowed = word_starts[:, :, None] & word_ends[:, None, :] & (behind >= 0) & (behind < ANSWER_WORDS)
    return (start[:, :, None] + end[:, None, :]).masked_fill(~allowed, FLOOR)


def mark_answer(encoding: Encoding, answer: tuple[int, int]) -> Encoding:
    """Mark the words [first, end) as the answer.

    Their sub-tokens are fixed and become special: they stay in every text and get no score.
    """
    marked = [False] * len(encoding)
    special = list(encoding.special)
    word_ids = list(encoding.word_ids)
    for position, word in enumerate(encoding.word_ids):
        if word in range(*answer):
            marked[position] = True
            special[position] = True
            word_ids[position] = NO_WORD
    return replace(encoding, fixed=tuple(marked), special=tuple(special), word_ids=tuple(word_ids), answer=answer)


def mark_passage(encoding: Encoding) -> Encoding:
    """Mark the first and the last sub-token of each word of the passage, the second segment."""
    start = cast(int, encoding.pair_start)
    owners = encoding.word_ids
    before = (NO_WORD, *owners[:-1])
    behind = (*owners[1:], NO_WORD)
    return replace(
        encoding,
        word_starts=tuple(start <= word != other for word, other in zip(owners, before, strict=True)),
        word_ends=tuple(start <= word != other for word, other in zip(owners, behind, strict=True)),
    )


def reached(encodings: Sequence[Encoding], limit: int) -> list[int]:
    """Return the indices of the training texts that were not cut before their answer; all for texts without answers.

    Args:
        encodings: the training texts.
        limit: most sub-tokens of a text, for the message.

    Raises:
        DataError: there is none.
    """
    usable = [i for i, encoding in enumerate(encodings) if encoding.answer is None or any(encoding.fixed)]
    if not usable:
        raise DataError(f"split 'train': no answer is within {limit} sub-tokens; raise finetune.max_length")
    return usable


class QuestionPredictor(TransformerPredictor):
    """A model for extractive question answering as a classifier.

    Texts are pairs of a question and a passage. `encode` marks the model's own answer, so the class explained by
    default is "answer". `encode_labelled` marks the true answer; the model is right if its answer has the same words
    (exact match).
    """

    does = "answers questions"
    wrapper = SpanScorer
    same_length = False
    """Padding is not tried: the questions of a batch may have different lengths."""

    def encode(self, texts: Sequence[Text], first: int = 1, whole: bool = False) -> list[Encoding]:
        if whole:
            raise UnsupportedError(f"{self.name}: questions are not read window by window; cut the passages instead")
        plain = self._plain(texts, first)
        return [mark_answer(e, span) for e, span in zip(plain, self.best_spans(plain), strict=True)]

    def encode_samples(self, *texts: str) -> list[Encoding]:
        return self.encode([(text, text) for text in texts])

    def encode_labelled(self, examples: Sequence[Example]) -> tuple[list[Encoding], list[int]]:
        encodings = []
        for example, encoding in zip(examples, self._plain(examples, 1), strict=True):
            if example.answer is None:
                raise DataError(f"example {example.id!r} has no answer; expected an answer span inside the passage")
            encodings.append(mark_answer(encoding, example.answer))
        return encodings, [0] * len(encodings)

    def loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return -log p of the answer's start and end, the mean over the texts (Devlin et al. 2019)."""
        return -logits[:, 0].mean()

    def answer(self, text: Text) -> str:
        """Return the words of the passage that the model gives as its answer."""
        (encoding,) = self.encode([text])
        first, end = encoding.answer or (0, 0)
        return lay_out(encoding.words[first:end], encoding.joined, first).text

    @torch.inference_mode()
    def best_spans(self, encodings: Sequence[Encoding]) -> list[tuple[int, int]]:
        """Return the [first, end) words of the model's answer to each question, whose answer is not marked yet."""

        def answers(indices: list[int]) -> Iterator[tuple[int, int]]:
            inputs: dict[str, Any] = self.batch([encodings[i] for i in indices]).model_inputs()
            with self.autocast():
                start, end, _ = self.model.bounds(**inputs)
            best = span_scores(start, end, inputs["word_starts"], inputs["word_ends"]).flatten(1).argmax(1).tolist()
            for index, place in zip(indices, best, strict=True):
                first, last = divmod(place, start.shape[1])
                words = encodings[index].word_ids
                yield words[first], words[last] + 1

        return run_batches([len(e) for e in encodings], self, answers)

    def _plain(self, texts: Sequence[Text], first: int) -> list[Encoding]:
        """Encode questions, with the words of the passage marked."""
        encodings = []
        for number, encoding in enumerate(super().encode(texts, first), start=first):
            where = name_of(encoding.example_id, number)
            if encoding.pair_start is None:
                raise DataError(f"{where} has one segment; expected a question and a passage")
            if max(encoding.word_ids) < encoding.pair_start:
                raise DataError(f"{where}: nothing of its passage is within {self.max_length} sub-tokens")
            encodings.append(mark_passage(encoding))
        return encodings
