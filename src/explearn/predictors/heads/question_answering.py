"""Extractive question answering as a decision between two classes: this span of the passage, or another.

A question and a passage are a pair of segments. The model scores every span of words of the passage (Rajpurkar et al.
2016; Devlin et al. 2019, 4.2): p(span) = p_start(first word) p_end(last word). One span, the answer, is marked in the
text. The two classes are that span and the best of all others, so every method and metric for classifiers applies.

The words of the answer stay in every shortened text and get no score: without them the model could not give the answer,
and the question is which *other* words lead to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from torch import Tensor

from explearn.core.arguments import each_text
from explearn.core.compute import at_least_float32
from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.core.words import Span, lay_out
from explearn.predictors.batching import run_batches
from explearn.predictors.encoding import Encoding
from explearn.predictors.heads.answers import ANSWER_LABELS, ANSWER_WORDS
from explearn.predictors.labelled import FOR_TEXTS, Use, check_use
from explearn.predictors.problems import label_maps
from explearn.predictors.transformer import TransformerPredictor, WrappedModel
from explearn.text.alignment import NO_WORD
from explearn.text.encoding import Text, name_of

if TYPE_CHECKING:
    import transformers
    from transformers.modeling_outputs import SequenceClassifierOutput

FLOOR = -30.0
"""Log-probability of spans that cannot be answers, in place of minus infinity: gates and logits stay finite."""


@dataclass(frozen=True)
class QuestionEncoding(Encoding):
    """A question and a passage.

    Attributes:
        answer: [first, end) of `words` that are the answer, whose sub-tokens count as special; None: none is marked.
        fixed: True at the sub-tokens of the answer, which stay in every shortened text, length n.
        word_starts: True at the first sub-token of each word of the passage, length n.
        word_ends: True at the last one, likewise.
    """

    answer: Span | None = None
    fixed: tuple[bool, ...] = ()
    word_starts: tuple[bool, ...] = ()
    word_ends: tuple[bool, ...] = ()

    MARKS: ClassVar[tuple[str, ...]] = ("fixed", "word_starts", "word_ends")
    BY_POSITION: ClassVar[tuple[str, ...]] = (*Encoding.BY_POSITION, *MARKS)

    @property
    def focus(self) -> Span | None:
        return self.answer


class SpanScorer(WrappedModel):
    """A question-answering model that gives two logits: log p of the marked span, and of the best other span.

    No span starts or ends at a piece whose gate is closed (see `objectives.gated_inputs`). Without a marked span, its
    logit is FLOOR. The labels in the model's configuration become ANSWER_LABELS.
    """

    loader = "AutoModelForQuestionAnswering"
    marks = QuestionEncoding.MARKS
    no_head = (
        "a model that answers questions has no classification head, which this method takes apart; attention, "
        "input_x_gradient, integrated_gradients, occlusion, lime and ivra explain it"
    )

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


def mark_answer(encoding: QuestionEncoding, answer: Span) -> QuestionEncoding:
    """Mark the words [first, end) as the answer.

    Their sub-tokens are fixed and become special: they stay in every text and get no score.
    """
    marked = [False] * len(encoding)
    special = list(encoding.special)
    word_ids = list(encoding.word_ids)
    characters = list(encoding.characters)
    for position, word in enumerate(encoding.word_ids):
        if word in range(*answer):
            marked[position] = True
            special[position] = True
            word_ids[position] = NO_WORD
            characters[position] = (0, 0)
    return replace(
        encoding,
        fixed=tuple(marked),
        special=tuple(special),
        word_ids=tuple(word_ids),
        characters=tuple(characters),
        answer=answer,
    )


def mark_passage(encoding: Encoding) -> QuestionEncoding:
    """Mark the first and the last sub-token of each word of the passage, the second segment."""
    start = cast(int, encoding.pair_start)
    owners = encoding.word_ids
    before = (NO_WORD, *owners[:-1])
    behind = (*owners[1:], NO_WORD)
    return encoding.into(
        QuestionEncoding,
        fixed=(False,) * len(encoding),
        word_starts=tuple(start <= word != other for word, other in zip(owners, before, strict=True)),
        word_ends=tuple(start <= word != other for word, other in zip(owners, behind, strict=True)),
    )


class QuestionPredictor(TransformerPredictor):
    """A model for extractive question answering as a classifier.

    Texts are pairs of a question and a passage. `read` marks the model's own answer, so the class explained by default
    is "answer"; of labelled examples it marks the true answer, and the model is right if its answer has the same words
    (exact match).
    """

    wrapper = SpanScorer
    task_labels = ANSWER_LABELS
    only_accuracy = True
    marks_answers = True
    same_length = False
    """Padding is not tried: the questions of a batch may have different lengths."""
    refuses: Mapping[Use, str] = {
        **dict.fromkeys(FOR_TEXTS, "answers questions; expected a classifier of texts"),
        "windows": "questions are not read window by window; cut the passages instead",
        "units": "questions are explained by words; leave out unit",
        "students": "a student predicts classes, but answers to questions are none; expected comp, suff or cons",
        "removal": "a question may lose its answer with words removed at random; leave out random_removal",
    }

    def read(
        self, texts: Iterable[Text] | Iterable[Encoding], first: int = 1, whole: bool = False, labelled: bool = False
    ) -> list[Encoding]:
        if whole:
            check_use(self, "windows")
        listed: Any = list(each_text(texts))
        plain = super().read(listed, first)
        if all(isinstance(encoding, QuestionEncoding) for encoding in plain):
            return plain
        encodings = []
        for number, encoding in enumerate(plain, start=first):
            where = name_of(encoding.example_id, number)
            if encoding.pair_start is None:
                raise DataError(f"{where} has one segment; expected a question and a passage")
            if max(encoding.word_ids) < encoding.pair_start:
                raise DataError(f"{where}: nothing of its passage is within {self.max_length} sub-tokens")
            encodings.append(mark_passage(encoding))
        spans = self._true_spans(listed) if labelled else self.best_spans(encodings)
        return [mark_answer(encoding, span) for encoding, span in zip(encodings, spans, strict=True)]

    def _true_spans(self, examples: Sequence[Example]) -> list[Span]:
        spans = []
        for example in examples:
            if example.focus is None:
                raise DataError(f"example {example.id!r} has no answer; expected an answer span inside the passage")
            spans.append(example.focus)
        return spans

    def read_samples(self, *texts: str) -> list[Encoding]:
        return self.read([(text, text) for text in texts])

    def loss(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """Return -log p of the answer's start and end, the mean over the texts (Devlin et al. 2019)."""
        return -logits[:, 0].mean()

    def trainable(self, encodings: Sequence[Encoding]) -> list[int]:
        """Return the indices of the texts that were not cut before their answer.

        Args:
            encodings: the texts, read with their labels.

        Raises:
            DataError: there is none.
        """
        usable = [i for i, encoding in enumerate(encodings) if any(cast(QuestionEncoding, encoding).fixed)]
        if not usable:
            raise DataError(
                f"split 'train': no answer is within {self.max_length} sub-tokens; raise finetune.max_length"
            )
        return usable

    def answer(self, text: Text) -> str:
        """Return the words of the passage that the model gives as its answer."""
        (encoding,) = self.read([text])
        first, end = encoding.focus or (0, 0)
        return lay_out(encoding.words[first:end], encoding.joined, first).text

    @torch.inference_mode()
    def best_spans(self, encodings: Sequence[Encoding]) -> list[Span]:
        """Return the [first, end) words of the model's answer to each question, whose answer is not marked yet."""

        def answers(indices: list[int]) -> Iterator[Span]:
            inputs: dict[str, Any] = self.batch([encodings[i] for i in indices]).model_inputs()
            with self.autocast():
                start, end, _ = self.model.bounds(**inputs)
            best = span_scores(start, end, inputs["word_starts"], inputs["word_ends"]).flatten(1).argmax(1).tolist()
            for index, place in zip(indices, best, strict=True):
                first, last = divmod(place, start.shape[1])
                words = encodings[index].word_ids
                yield words[first], words[last] + 1

        return run_batches([len(e) for e in encodings], self, answers)
