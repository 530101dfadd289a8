"""Classification by completion as parameters: what stands around a text, and which words are the classes."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from explearn.core.settings import Section

TEXT_SLOT, PAIR_SLOT = "{text}", "{pair}"
"""Where the template takes the text, and of a pair the second segment."""


class Shot(Section):
    """An example with its answer, shown before the text."""

    text: str
    pair: str | None = None
    """The second segment, where the template has a slot for one."""
    label: str


class CompletionParams(Section):
    """A prompt that a generative model completes with the name of a class (AML, section 3).

    The prompt is the instruction, each shot (the template with its text, then its class's word) and the template with
    the text, with `separator` between them. The class's logit is that of its word's first token as the next one.
    """

    template: str
    """Has `{text}` once, and for pairs `{pair}` once behind it."""
    label_words: Annotated[dict[str, str], Field(min_length=2)]
    """Class -> the word that stands for it, as it goes on behind the template: mostly with a blank before it."""
    instruction: str = ""
    """What the task is; empty: nothing is said."""
    shots: list[Shot] = Field(default_factory=list)
    separator: str = "\n\n"
    mask: str | None = None
    """A piece of text of one token that stands for a masked one (default: the tokenizer's mask or unknown token)."""
    score_shots: bool = False
    """Mask and score the words of the shots' texts, too; they come before those of the text."""

    @property
    def takes_pairs(self) -> bool:
        return PAIR_SLOT in self.template

    @model_validator(mode="after")
    def _has_slots(self) -> Self:
        if self.template.count(TEXT_SLOT) != 1 or self.template.count(PAIR_SLOT) > 1:
            raise ValueError(
                f"template: got {self.template!r}; expected {TEXT_SLOT} once, and {PAIR_SLOT} at most once"
            )
        if self.takes_pairs and self.template.index(PAIR_SLOT) < self.template.index(TEXT_SLOT):
            raise ValueError(f"template: got {self.template!r}; expected {PAIR_SLOT} behind {TEXT_SLOT}")
        return self

    @model_validator(mode="after")
    def _words_are_words(self) -> Self:
        for label, word in self.label_words.items():
            if not word.strip():
                raise ValueError(f"label_words.{label}: got {word!r}; expected a word")
        return self

    @model_validator(mode="after")
    def _shots_fit(self) -> Self:
        for number, shot in enumerate(self.shots, start=1):
            if shot.label not in self.label_words:
                raise ValueError(
                    f"shots, number {number}: label {shot.label!r} has no word; expected one of "
                    f"{', '.join(self.label_words)}"
                )
            if not shot.text.strip():
                raise ValueError(f"shots, number {number}: its text has no words")
            if (shot.pair is not None) != self.takes_pairs:
                raise ValueError(
                    f"shots, number {number}: expected {'a pair, as' if self.takes_pairs else 'no pair, for'} the "
                    f"template has {'one' if self.takes_pairs else 'no slot for one'}"
                )
        if self.score_shots and self.takes_pairs:
            raise ValueError("score_shots: goes with single texts, and the template takes pairs")
        return self

    def before(self) -> str:
        """The prompt up to the text."""
        return "".join(piece for piece, _ in self.pieces())

    def pieces(self) -> list[tuple[str, bool]]:
        """The prompt up to the text in pieces, and of each whether it is the text of a shot."""
        found = [(self.instruction + self.separator, False)] if self.instruction else []
        start, rest = self.template.split(TEXT_SLOT)
        for shot in self.shots:
            filled = rest.replace(PAIR_SLOT, shot.pair or "")
            found += [(start, False), (shot.text, True)]
            found += [(filled + self.label_words[shot.label] + self.separator, False)]
        return [*found, (start, False)]

    def behind(self) -> tuple[str, str]:
        """The prompt between a text and its second segment, and behind both; of single texts the first is empty."""
        rest = self.template.split(TEXT_SLOT)[1]
        between, slot, after = rest.partition(PAIR_SLOT)
        return (between, after) if slot else ("", rest)
