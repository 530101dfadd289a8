"""Extractive question answering as a decision between two classes: this span of the passage, or another.

A question and a passage are a pair of segments. The model scores every span of words of the passage (Rajpurkar et al.
2016; Devlin et al. 2019, 4.2): p(span) = p_start(first word) p_end(last word). One span, the answer, is marked in the
text. The two classes are that span and the best of all others, so every method and metric for classifiers applies.

The words of the answer stay in every shortened text and get no score: without them the model could not give the answer,
and the question is which *other* words lead to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from explearn.core.compute import at_least_float32
from explearn.core.errors import DataError
from explearn.core.examples import ANSWER_LABELS, ANSWER_WORDS
from explearn.predictors.encoding import Encoding
from explearn.predictors.problems import label_maps
from explearn.predictors.wrapped import WrappedModel
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import IN_QUESTION as ANSWER

if TYPE_CHECKING:
    import transformers
    from transformers.modeling_outputs import SequenceClassifierOutput

FLOOR = -30.0
"""Log-probability of spans that cannot be answers, in place of minus infinity: gates and logits stay finite."""

STARTS, ENDS = 2, 4
"""Bits of `token_type_ids` in encodings of questions: the first and the last piece of a word of the passage. ANSWER is
that of the answer's words."""


class SpanScorer(WrappedModel):
    """A question-answering model that gives two logits: log p of the marked span, and of the best other span.

    No span starts or ends at a piece whose gate is closed (see `objectives.gated_inputs`). In a text without a marked
    span its logit is FLOOR. The labels in the model's configuration become ANSWER_LABELS.
    """

    loader = "AutoModelForQuestionAnswering"

    def __init__(
        self, config: transformers.PreTrainedConfig, model: transformers.PreTrainedModel | None = None
    ) -> None:
        super().__init__(config, model)
        self.model.config.update(label_maps(ANSWER_LABELS))

    def bounds(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """Return log p of a span's start and of its end at each token, (b, n) each, and the model's output."""
        output = self.outputs(input_ids, attention_mask, token_type_ids, **options)
        bias = attention_mask[:, 0, 0] if attention_mask.dim() == 4 else 0.0

        def log_p(logits: torch.Tensor, bit: int) -> torch.Tensor:
            scores = at_least_float32(logits) + bias
            return scores.masked_fill(token_type_ids & bit == 0, torch.finfo(scores.dtype).min).log_softmax(-1)

        return log_p(output.start_logits, STARTS), log_p(output.end_logits, ENDS), output

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor, **options: Any
    ) -> SequenceClassifierOutput:
        from transformers.modeling_outputs import SequenceClassifierOutput

        start, end, output = self.bounds(input_ids, attention_mask, token_type_ids, **options)
        spans = span_scores(start, end, token_type_ids)
        marked = token_type_ids & ANSWER > 0
        rows = torch.arange(len(marked), device=marked.device)
        first = (marked & (token_type_ids & STARTS > 0)).long().argmax(1)
        last = marked.shape[1] - 1 - (marked & (token_type_ids & ENDS > 0)).flip(1).long().argmax(1)
        has_answer = marked.any(1)
        answer = torch.where(has_answer, start[rows, first] + end[rows, last], FLOOR)
        is_answer = torch.zeros_like(spans, dtype=torch.bool)
        is_answer[rows, first, last] = has_answer
        best = spans.masked_fill(is_answer, FLOOR).flatten(1).amax(1)
        logits = torch.stack([answer, best], dim=1).clamp_min(FLOOR)
        return SequenceClassifierOutput(logits=logits, hidden_states=output.hidden_states)


def span_scores(start: torch.Tensor, end: torch.Tensor, token_type_ids: torch.Tensor) -> torch.Tensor:
    """Return log p of the span from token i to token j, (b, n, n).

    It is FLOOR where j comes before i and where the span has more than ANSWER_WORDS words.
    """
    starts, ends = token_type_ids & STARTS > 0, token_type_ids & ENDS > 0
    # Number of the passage's word that a token belongs to, from 1.
    number = starts.long().cumsum(1)
    behind = number[:, None, :] - number[:, :, None]
    allowed = starts[:, :, None] & ends[:, None, :] & (behind >= 0) & (behind < ANSWER_WORDS)
    return (start[:, :, None] + end[:, None, :]).masked_fill(~allowed, FLOOR)


def mark_answer(encoding: Encoding, answer: tuple[int, int]) -> Encoding:
    """Mark the words [first, end) as the answer.

    Their pieces get the bit ANSWER and become special tokens: they stay in every text and get no score.
    """
    marked = [word in range(*answer) for word in encoding.word_ids]
    return replace(
        encoding,
        token_type_ids=tuple(t | ANSWER * m for t, m in zip(encoding.token_type_ids, marked, strict=True)),
        special=tuple(s or m for s, m in zip(encoding.special, marked, strict=True)),
        word_ids=tuple(NO_WORD if m else w for w, m in zip(encoding.word_ids, marked, strict=True)),
        answer=answer,
    )


def reached(encodings: Sequence[Encoding], limit: int) -> list[int]:
    """Return indices of the training texts to learn from: those that were not cut before their answer.

    Texts of classifiers, which have no answer, all stay. Raises DataError, naming `limit`, where no text stays.
    """
    kept = [i for i, e in enumerate(encodings) if e.answer is None or any(bits & ANSWER for bits in e.token_type_ids)]
    if not kept:
        raise DataError(f"split 'train': no answer is within {limit} sub-tokens; raise finetune.max_length")
    return kept
