"""Extractive question answering as a decision between two classes: this span of the passage, or another.

A question and a passage are a pair of segments. The model scores every span of words of the passage (Rajpurkar et al.
2016; Devlin et al. 2019, 4.2): p(span) = p_start(first word) p_end(last word). One span, the answer, is marked in the
text. The two classes are that span and the best of all others, so every method and metric for classifiers applies.

The words of the answer stay in every shortened text and get no score: without them the model could not give the answer,
and the question is which *other* words lead to it. `classifier.QuestionAnswerer` puts such a model in the place of a
classifier.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from explearn.core.errors import DataError
from explearn.core.records import ANSWER_LABELS, ANSWER_WORDS
from explearn.model.architectures import tells_segments_apart
from explearn.model.encoding import Batch, Encoding
from explearn.text.alignment import NO_WORD

if TYPE_CHECKING:
    import transformers
    from transformers.modeling_outputs import SequenceClassifierOutput

FLOOR = -30.0
"""Log-probability of spans that cannot be answers, in place of minus infinity: gates and logits stay finite."""

SEGMENT, STARTS, ENDS, ANSWER = 1, 2, 4, 8
"""Bits of `token_type_ids` in encodings of questions: the model's own segment, the first and the last piece of a word
of the passage, and a piece of the answer's words."""


class SpanScorer(nn.Module):
    """A question-answering model that gives two logits: log p of the marked span, and of the best other span.

    It takes the model's own inputs, by keyword, with the bits above in `token_type_ids`. No span starts or ends at a
    piece whose gate is closed (see `objectives.gated_inputs`). In a text without a marked span its logit is FLOOR.

    Args:
        config: the model's configuration; its labels become ANSWER_LABELS.
        model: the model (default: a new one with random weights).
    """

    def __init__(
        self, config: transformers.PreTrainedConfig, model: transformers.PreTrainedModel | None = None
    ) -> None:
        import transformers

        super().__init__()
        loader: Any = transformers.AutoModelForQuestionAnswering
        made: Any = loader.from_config(config) if model is None else model
        self.model = made
        self.config: Any = made.config
        self.config.id2label = dict(enumerate(ANSWER_LABELS))
        self.config.label2id = {label: index for index, label in enumerate(ANSWER_LABELS)}
        self.base_model_prefix = f"model.{made.base_model_prefix}"

    @property
    def base_model(self) -> nn.Module:
        """The encoder without its head."""
        found: nn.Module = self.model.base_model
        return found

    @property
    def dtype(self) -> torch.dtype:
        found: torch.dtype = self.model.dtype
        return found

    @property
    def device(self) -> torch.device:
        found: torch.device = self.model.device
        return found

    def get_input_embeddings(self) -> nn.Module:
        found: nn.Module = self.model.get_input_embeddings()
        return found

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        self.model.save_pretrained(folder)

    def bounds(self, token_type_ids: torch.Tensor, **inputs: Any) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """log p of a span's start and of its end at each token, (b, n) each, and the model's output."""
        given = {name: value for name, value in inputs.items() if value is not None}
        if tells_segments_apart(self.config):
            given["token_type_ids"] = token_type_ids & SEGMENT
        output = self.model(**given)
        mask = inputs["attention_mask"]
        bias = mask[:, 0, 0] if mask.dim() == 4 else 0.0
        found = []
        for logits, bit in ((output.start_logits, STARTS), (output.end_logits, ENDS)):
            scores = (logits if logits.dtype == torch.float64 else logits.float()) + bias
            found.append(scores.masked_fill(token_type_ids & bit == 0, torch.finfo(scores.dtype).min).log_softmax(-1))
        return found[0], found[1], output

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor,
        position_ids: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
    ) -> SequenceClassifierOutput:
        from transformers.modeling_outputs import SequenceClassifierOutput

        start, end, output = self.bounds(
            token_type_ids,
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            output_hidden_states=output_hidden_states,
        )
        spans = span_scores(start, end, token_type_ids)
        marked = token_type_ids & ANSWER > 0
        rows = torch.arange(len(marked), device=marked.device)
        first = (marked & (token_type_ids & STARTS > 0)).long().argmax(1)
        last = marked.shape[1] - 1 - (marked & (token_type_ids & ENDS > 0)).flip(1).long().argmax(1)
        there = marked.any(1)
        answer = torch.where(there, start[rows, first] + end[rows, last], FLOOR)
        own = torch.zeros_like(spans, dtype=torch.bool)
        own[rows, first, last] = there
        best = spans.masked_fill(own, FLOOR).flatten(1).amax(1)
        logits = torch.stack([answer, best], dim=1).clamp_min(FLOOR)
        return SequenceClassifierOutput(logits=logits, hidden_states=output.hidden_states)


def span_scores(start: torch.Tensor, end: torch.Tensor, token_type_ids: torch.Tensor) -> torch.Tensor:
    """log p of the span from token i to token j, (b, n, n).

    It is FLOOR where j comes before i and where the span has more than ANSWER_WORDS words.
    """
    starts, ends = token_type_ids & STARTS > 0, token_type_ids & ENDS > 0
    # Which word of the passage a token belongs to, from 1.
    number = starts.long().cumsum(1)
    behind = number[:, None, :] - number[:, :, None]
    allowed = starts[:, :, None] & ends[:, None, :] & (behind >= 0) & (behind < ANSWER_WORDS)
    return (start[:, :, None] + end[:, None, :]).masked_fill(~allowed, FLOOR)


def best_places(start: torch.Tensor, end: torch.Tensor, batch: Batch) -> list[tuple[int, int]]:
    """First and last token of each text's best span."""
    assert batch.token_type_ids is not None
    spans = span_scores(start, end, batch.token_type_ids)
    places = spans.flatten(1).argmax(1).tolist()
    return [divmod(place, spans.shape[2]) for place in places]


def mark_words(encoding: Encoding) -> Encoding:
    """The encoding with the bits STARTS and ENDS set at the pieces of the passage's words."""
    assert encoding.pair_start is not None
    types = list(encoding.token_type_ids or [0] * len(encoding))
    firsts: dict[int, int] = {}
    lasts: dict[int, int] = {}
    for place, word in enumerate(encoding.word_ids):
        if word != NO_WORD and word >= encoding.pair_start:
            firsts.setdefault(word, place)
            lasts[word] = place
    for places, bit in ((firsts, STARTS), (lasts, ENDS)):
        for place in places.values():
            types[place] |= bit
    return replace(encoding, token_type_ids=tuple(types))


def mark_answer(encoding: Encoding, answer: tuple[int, int]) -> Encoding:
    """The encoding with the words [first, end) marked as the answer.

    Their pieces get the bit ANSWER and become special tokens: they stay in every text and get no score.
    """
    inside = range(*answer)
    marked = [word in inside for word in encoding.word_ids]
    return replace(
        encoding,
        token_type_ids=tuple(t | ANSWER if m else t for t, m in zip(encoding.token_type_ids, marked, strict=True)),
        special=tuple(s or m for s, m in zip(encoding.special, marked, strict=True)),
        word_ids=tuple(NO_WORD if m else w for w, m in zip(encoding.word_ids, marked, strict=True)),
        answer=answer,
    )


def has_answer(encoding: Encoding) -> bool:
    """Whether any word of the answer is in the encoding; a long passage may be cut before it."""
    return any(bits & ANSWER for bits in encoding.token_type_ids)


def reached(encodings: Sequence[Encoding], limit: int) -> list[int]:
    """Indices of the training texts to learn from: those that were not cut before their answer.

    Texts of classifiers, which have no answer, all stay. Raises DataError, naming `limit`, where no answer is left.
    """
    kept = [i for i, encoding in enumerate(encodings) if encoding.answer is None or has_answer(encoding)]
    if not kept:
        raise DataError(f"split 'train': no answer is within {limit} sub-tokens; raise finetune.max_length")
    return kept
