"""Options of fine-tuning and of classification by completion, with types, units and ranges."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, JsonValue, model_validator

from explearn.core.errors import ParamsError
from explearn.core.examples import label_problem
from explearn.core.validation import (
    MOST_ROUNDS,
    MOST_UNITS,
    Fraction,
    NonNegativeFloat,
    PositiveFloat,
    Rounds,
    Section,
    Units,
    check_section,
)
from explearn.text.encoding import Removal


class LoraParams(Section):
    """Fine-tuning by low-rank adapters (LoRA); needs the extra `lora`."""

    rank: Units = 8
    """Rank r of each adapter."""
    alpha: Annotated[int, Field(gt=0, le=10_000)] = 16
    """Adapters are scaled by alpha / r."""
    targets: list[str] = Field(default_factory=list)
    """Last part of the names of the linear layers to adapt, such as `query` or `q_proj`; empty: all in the encoder."""


class ScratchParams(Section):
    """The decoder that `encoder: scratch` makes: GPT-2's architecture, random weights, a tokenizer of the texts."""

    layers: Units = 4
    heads: Units = 4
    width: Units = 128
    """Width of the states; a multiple of `heads`."""
    vocabulary: Annotated[int, Field(ge=300, le=MOST_UNITS)] = 4000
    """Most sub-tokens, learned from the training texts, including all 256 bytes."""
    dropout: Fraction = 0.1

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width: got {self.width}, for {self.heads} heads; expected a multiple of their number")
        return self


class TrainingParams(Section):
    epochs: Rounds = 6
    learning_rate: PositiveFloat = 5e-5
    weight_decay: NonNegativeFloat = 0.01
    warmup: Fraction = 0.1
    """Share of steps in which the learning rate rises."""
    batch_size: Units = 32
    """Examples per step."""
    class_weights: Literal["balanced", "none"] = "balanced"
    """balanced: each class weighs n / (C n_c) in the loss."""
    patience: Rounds = 2
    """Epochs without a better validation metric before training stops."""
    lora: LoraParams | None = None
    """Train only adapters and the head; adapters are merged when the classifier is saved."""


class FinetuneParams(TrainingParams):
    max_length: Annotated[int, Field(ge=8, le=MOST_ROUNDS)] = 256
    """Most sub-tokens per text, special tokens included; longer texts are cut."""
    selection: Literal["macro_f1", "accuracy", "mcc"] = "macro_f1"
    """Validation metric that picks the checkpoint."""
    random_removal: Removal | None = None
    """Delete or mask random words in about half of the training texts, a share of them drawn uniformly from 0 to 1, and
    in a copy of each validation text (Madsen et al. 2024, "Faithfulness Measurable Masked Language Models"); null: in
    none. Choose the way of `evaluate.removal`, so that faithfulness removes words as training did."""
    scratch: ScratchParams = ScratchParams()
    """Sizes of the decoder that `encoder: scratch` makes."""


TEXT_SLOT = "{text}"
"""Placeholder in the template for the text."""
PAIR_SLOT = "{pair}"
"""Placeholder in the template for the second segment of a pair."""

Words = Annotated[str, Field(pattern=r"\S")]


class Shot(Section):
    """An example with its answer, shown before the text."""

    text: Words
    pair: str | None = None
    """The second segment, if the template has a slot for it."""
    label: str


class ChatParams(Section):
    """The model's own chat template around a prompt.

    The instruction is the system's message, or begins the user's first one if the template has no system role. Each
    shot is a message with its answer, and the text is the last message.
    """

    reply: str = ""
    """Contains `{pair}` if the second segment replies to the text: the assistant's message after it."""
    answer: str = ""
    """What the model writes before the label word, such as two line ends (Llama Guard 3)."""
    variables: dict[str, JsonValue] = Field(default_factory=dict)
    """What the template takes beside messages, such as `guideline` (ShieldGemma)."""


def around_slots(template: str) -> tuple[str, str, str]:
    """Return the parts of a template before the text, between it and its pair, and after both."""
    before, _, rest = template.partition(TEXT_SLOT)
    between, _, behind = rest.partition(PAIR_SLOT)
    return before, between, behind


class CompletionParams(Section):
    """A prompt that a generative model completes with the name of a class (AML, section 3).

    The prompt is the instruction, each shot (the template with its text, then its class's word) and the template with
    the text, joined by `separator` or put into the model's chat template. A class's logit is the next-token logit of
    its word's first token.
    """

    template: str
    """Contains `{text}` once, and for pairs `{pair}` once after it."""
    label_words: Annotated[dict[str, Words], Field(min_length=2)]
    """Class -> the word that stands for it, as it continues the template: usually with a leading blank."""
    instruction: str = ""
    """A sentence about the task, if any."""
    shots: list[Shot] = Field(default_factory=list)
    separator: str = "\n\n"
    mask: str | None = None
    """A one-token text that replaces a masked token (default: the tokenizer's mask or unknown token)."""
    chat: ChatParams | None = None
    """Put the prompt into the model's own chat template."""

    @property
    def takes_pairs(self) -> bool:
        return PAIR_SLOT in self._last_turns

    @property
    def _last_turns(self) -> str:
        """The template, and what replies to it."""
        if self.chat is None:
            return self.template
        return self.template + self.chat.reply

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        before, _, behind = self._last_turns.partition(TEXT_SLOT)
        if self.template.count(TEXT_SLOT) != 1 or behind.count(PAIR_SLOT) > 1 or PAIR_SLOT in before:
            raise ValueError(
                f"template: got {self.template!r}; expected {TEXT_SLOT} once, and {PAIR_SLOT} at most once behind it"
            )
        for number, shot in enumerate(self.shots, start=1):
            if shot.label not in self.label_words:
                labels = ", ".join(self.label_words)
                raise ValueError(f"shots, number {number}: label {shot.label!r} has no word; expected one of {labels}")
            if (shot.pair is not None) != self.takes_pairs:
                raise ValueError(
                    f"shots, number {number}: expected a pair where the template has {PAIR_SLOT}, else none"
                )
        if self.chat is not None and self.chat.reply and (self.shots or PAIR_SLOT not in self.chat.reply):
            raise ValueError(f"chat, reply: got {self.chat.reply!r}; expected {PAIR_SLOT} in it, and no shots")
        return self

    def filled(self, shot: Shot) -> str:
        """Return the template with the text of a shot."""
        before, between, behind = around_slots(self.template)
        return before + shot.text + between + (shot.pair or "") + behind

    def around(self) -> tuple[str, str, str]:
        """Return the parts of the prompt before a text, between it and its pair, and after both, without a chat."""
        start = ""
        if self.instruction:
            start = self.instruction + self.separator
        for shot in self.shots:
            start += self.filled(shot) + self.label_words[shot.label] + self.separator
        before, between, behind = around_slots(self.template)
        return start + before, between, behind


class CandidateLabels(Section):
    """Labels chosen when a model is loaded, and the hypothesis that a text has one of them (Yin et al. 2019)."""

    labels: Annotated[list[Words], Field(min_length=2)]
    hypothesis: str = "This example is {}."
    """Contains `{}` once, for the label."""
    multi_label: bool = False
    """Each label applies or not, by entailment against contradiction; otherwise exactly one label applies."""

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        if problem := label_problem(self.labels):
            raise ValueError(f"labels: {problem}")
        if "{}" not in self.hypothesis or set("{}") & set(self.hypothesis.replace("{}", "", 1)):
            raise ValueError(f"hypothesis: got {self.hypothesis!r}; expected a sentence that has {{}} once")
        return self

    def completion(self) -> CompletionParams:
        """Return the prompt for a generative model: the text, and the hypothesis up to the label."""
        start = "{text}\n" + self.hypothesis.partition("{}")[0]
        template = start.rstrip(" ")
        return CompletionParams(
            template=template, label_words={label: start[len(template) :] + label for label in self.labels}
        )


Prompt = CompletionParams | CandidateLabels | Mapping[str, Any] | str | os.PathLike[str]
"""A prompt, or candidate labels: a section, its values, or a file (JSON or YAML)."""


def prompt_of(
    completion: Prompt | None,
    labels: Sequence[str] | None = None,
    hypothesis: str | None = None,
    multi_label: bool = False,
) -> Prompt | None:
    """Return the prompt or the candidate labels that were passed to `load_classifier`.

    Args:
        completion: prompt of a generative model.
        labels: candidate labels.
        hypothesis: hypothesis for the candidate labels.
        multi_label: whether each label applies or not.

    Raises:
        ParamsError: both were passed, or one is invalid.
    """
    if labels is None:
        if hypothesis is not None or multi_label:
            raise ParamsError("hypothesis, multi_label: got one, but no candidate labels; expected them, too")
        return completion
    if completion is not None:
        raise ParamsError("got both a completion and candidate labels; expected one of them")
    values = {"labels": labels, "multi_label": multi_label}
    if hypothesis is not None:
        values["hypothesis"] = hypothesis
    return check_section(CandidateLabels, values)
