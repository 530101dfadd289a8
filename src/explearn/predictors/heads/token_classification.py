"""Token classification (named entities, parts of speech) as the classification of one word of the text.

The class of a word is that of one of its sub-tokens, as is usual (Devlin et al. 2019, 5.3): the first with a letter or
digit, so that of "(Paris" it is not the bracket's. The logits at that sub-token are those of a classifier, so every
method and metric that takes no head apart applies.

The word is never deleted, since without it nothing is classified. It can be masked like any other word: its position
stays, and it gets a score of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from explearn.core.arguments import each_text
from explearn.core.arrays import Array
from explearn.core.errors import DataError, UnsupportedError
from explearn.core.examples import Example
from explearn.core.words import Span, word_number
from explearn.predictors.encoding import Encoding
from explearn.predictors.labelled import FOR_TEXTS, Problem, Use, check_logits, check_use
from explearn.predictors.predictor import Predictor
from explearn.predictors.transformer import TransformerPredictor, WrappedModel
from explearn.text.encoding import Text, name_of

if TYPE_CHECKING:
    from transformers.modeling_outputs import SequenceClassifierOutput


@dataclass(frozen=True)
class TokenEncoding(Encoding):
    """A text of which one word is classified.

    Attributes:
        fixed: True at the sub-tokens of the classified word, which stay in every shortened text, length n.
        classified: True at the sub-token whose logits are read, length n.
    """

    fixed: tuple[bool, ...] = ()
    classified: tuple[bool, ...] = ()

    MARKS: ClassVar[tuple[str, ...]] = ("fixed", "classified")
    BY_POSITION: ClassVar[tuple[str, ...]] = (*Encoding.BY_POSITION, *MARKS)

    @property
    def fixed_words(self) -> Collection[int]:
        return {word for word, fixed in zip(self.word_ids, self.fixed, strict=True) if fixed}

    @property
    def focus(self) -> Span | None:
        word = next(iter(self.fixed_words))
        return word, word + 1


class WordReader(WrappedModel):
    """A token-classification model that gives the logits of one sub-token, (b, C): the classified one."""

    loader = "AutoModelForTokenClassification"
    marks = TokenEncoding.MARKS
    own_head = (
        "this method takes the head apart, and knows only that of a classifier of texts; attn_lrp, gae, attcat and "
        "the methods that look at attention, gradients or perturbed texts explain one that classifies tokens"
    )
    reads = "marked"

    def forward(
        self, classified: torch.Tensor, fixed: torch.Tensor | None = None, **inputs: Any
    ) -> SequenceClassifierOutput:
        from transformers.modeling_outputs import SequenceClassifierOutput

        output = self.model(**inputs)
        rows = torch.arange(len(classified), device=output.logits.device)
        logits = output.logits[rows, classified.long().argmax(1).to(rows.device)]
        return SequenceClassifierOutput(logits=logits, hidden_states=output.hidden_states, attentions=output.attentions)


def read_positions(encoding: Encoding) -> dict[int, int]:
    """Return the position whose logits are read for each word with a sub-token, by word."""
    positions: dict[int, list[int]] = {}
    for position in encoding.positions:
        positions.setdefault(encoding.word_ids[position], []).append(position)
    for word, other in encoding.shared:
        if other in positions:
            positions[word] = positions[other]
    return {word: _first_with_letters(encoding, positions[word]) for word in sorted(positions) if word >= 0}


def _first_with_letters(encoding: Encoding, positions: list[int]) -> int:
    """Return the first of some positions that covers a letter or digit; the first if none does."""
    for position in positions:
        start, end = encoding.characters[position]
        characters = encoding.words[encoding.word_ids[position]][start:end]
        if any(character.isalnum() for character in characters):
            return position
    return positions[0]


def mark_word(encoding: Encoding, position: int) -> TokenEncoding:
    """Mark a position as the classified one, and all sub-tokens of its word as fixed."""
    owner = encoding.word_ids[position]
    return encoding.into(
        TokenEncoding,
        fixed=tuple(word == owner for word in encoding.word_ids),
        classified=tuple(other == position for other in range(len(encoding))),
    )


LISTED_WORDS = 60
"""Most words of a text listed in the error if none was chosen for classification."""


def at(classifier: Predictor, token: int | str) -> Predictor:
    """Return a view of a model that classifies tokens which classifies one word of each text.

    Args:
        classifier: the model.
        token: as for `TokenPredictor.at`.

    Raises:
        UnsupportedError: it does not classify tokens.
    """
    if isinstance(classifier, TokenPredictor):
        return classifier.at(token)
    raise UnsupportedError(
        f"{classifier.name or 'the classifier'}: classifies no tokens; a token is for models that classify tokens"
    )


class TokenPredictor(TransformerPredictor):
    """A model for token classification (named entities, parts of speech) as a classifier of one word.

    `at` chooses the word of a text that is classified; `predict_words` classifies all. Without a word, `read` raises
    DataError, with a list of the text's words and their classes.

    Attributes:
        token: the word that is classified in every text, or its number from 0; None: no word. An example's `focus`
            takes precedence.
    """

    wrapper = WordReader
    token: int | str | None = None
    refuses: Mapping[Use, str] = {
        **dict.fromkeys(FOR_TEXTS, "classifies tokens; expected a classifier of texts"),
        "jobs": "classifies tokens; expected a classifier of texts",
        "windows": "words are not classified window by window; cut the texts instead",
    }

    def at(self, token: int | str) -> TokenPredictor:
        """Return a view that classifies one word of each text.

        Args:
            token: the word's number from 0, or the word, which must occur once in the text; punctuation around it may
                be left out. Texts without that word raise DataError when they are read.
        """
        view = copy.copy(self)
        view.token = token
        return view

    def read(
        self, texts: Iterable[Text] | Iterable[Encoding], first: int = 1, whole: bool = False, labelled: bool = False
    ) -> list[Encoding]:
        if whole:
            check_use(self, "windows")
        listed: Any = list(each_text(texts))
        plain = super().read(listed, first)
        if all(isinstance(encoding, TokenEncoding) for encoding in plain):
            return plain
        encodings: list[Encoding] = []
        for text, number, encoding in zip(listed, count(first), plain, strict=False):
            where = name_of(encoding.example_id, number)
            token = self.token
            if isinstance(text, Example) and text.focus:
                token = text.focus[0]
            if token is None:
                raise DataError(
                    f"{where}: token: got none; expected the word to classify, itself or its number: "
                    f"{self._listed(encoding)}"
                )
            word = word_number(encoding.words, token, where)
            positions = read_positions(encoding)
            if word not in positions:
                raise DataError(
                    f"{where}: token: got {token!r}, which the model does not read: it is not within "
                    f"{self.max_length} sub-tokens, or has no known characters"
                )
            encodings.append(mark_word(encoding, positions[word]))
        return encodings

    def read_samples(self, *texts: str) -> list[Encoding]:
        return self.at(0).read(list(texts))

    def predict_words(self, text: Text) -> Array:
        """Return the class probabilities of each word of a text, (words, C), in one pass.

        Words that are not read have NaN.

        Raises:
            UnsupportedError: this is a view whose values are not those of classes.
        """
        (encoding,) = super().read([text])
        return self._word_probabilities(encoding)

    @torch.inference_mode()
    def _word_probabilities(self, encoding: Encoding) -> Array:
        positions = read_positions(encoding)
        inputs = self.batch([encoding]).model_inputs()
        with self.autocast():
            logits = self.model.model(**inputs).logits[0, [*positions.values()]]
        rows = self.problem.probabilities(logits.double()).cpu().numpy()
        check_logits(rows, self.name)
        probabilities = np.full((len(encoding.words), len(self.labels)), np.nan)
        probabilities[[*positions]] = rows
        return probabilities

    def _listed(self, encoding: Encoding) -> str:
        """List the first words of a text with their numbers, and their classes if there are any."""
        listed = [f"{number} {word}" for number, word in enumerate(encoding.words[:LISTED_WORDS])]
        if self.problem is not Problem.REGRESSION:
            rows = self._word_probabilities(encoding)
            for number, row in enumerate(rows[:LISTED_WORDS]):
                label = "not read"
                if not np.isnan(row).any():
                    label = self.labels[int(row.argmax())]
                listed[number] += f" {label}"
        text = ", ".join(listed)
        more = len(encoding.words) - len(listed)
        if more:
            text += f" and {more:,} more"
        return text
