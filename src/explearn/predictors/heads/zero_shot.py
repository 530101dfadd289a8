"""Zero-shot classification: a model of natural-language inference and labels given at call time (Yin et al. 2019).

A text is the premise, and each label gives a hypothesis, such as "This example is politics.". The logit of a label is
that of entailment for the pair (text, hypothesis); where several labels may hold, less that of contradiction. A text is
encoded by itself; the hypothesis takes the place of the special tokens at its end, so it is in every shortened text and
gets no score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from explearn.core.errors import ModelError
from explearn.predictors.encoding import Encoding, encode_texts
from explearn.predictors.params import CandidateLabels
from explearn.text.alignment import NO_WORD

if TYPE_CHECKING:
    import transformers


ENTAILMENT, CONTRADICTION = ("entail",), ("contra", "not", "non")
"""Beginnings of the names of the class that stands for entailment, and of that against which it stands."""


def index_of(classes: Sequence[str], starts: tuple[str, ...], name: str) -> int:
    """Return the index of the class whose name begins with one of `starts`; raise ModelError where there is not one."""
    indices = [index for index, label in enumerate(classes) if label.lower().startswith(starts)]
    if len(indices) != 1:
        raise ModelError(
            f"{name}: its classes are {', '.join(classes)}; candidate labels go with a generative model, or with one "
            f"of natural-language inference, one of whose classes begins with {' or '.join(starts)}"
        )
    return indices[0]


class Hypotheses:
    """The hypotheses of candidate labels in the sub-tokens of a model.

    Attributes:
        room: by how many sub-tokens a text has to be shorter than the model's input.

    Raises ModelError for a tokenizer that reads a text in another way where a second one follows, and for a hypothesis
    that leaves no room for a text in `limit` sub-tokens.
    """

    def __init__(
        self, params: CandidateLabels, tokenizer: transformers.PreTrainedTokenizerBase, limit: int, name: str
    ) -> None:
        said = [params.hypothesis.replace("{}", label) for label in params.labels]
        alone, *pairs = encode_texts(tokenizer, ["a", *(("a", hypothesis) for hypothesis in said)], None)
        body = alone.positions[-1] + 1
        if any(pair.key[0][:body] != alone.key[0][:body] for pair in pairs):
            raise ModelError(f"{name}: its tokenizer reads a text in another way where a hypothesis follows")
        # Special tokens behind a text by itself, in whose place the ends come.
        self._replaced = len(alone) - body
        self._ends = [(pair.input_ids[body:], pair.token_type_ids[body:]) for pair in pairs]
        longest = max(len(ids) for ids, _ in self._ends)
        self.room = longest - self._replaced
        if body + longest > limit:
            raise ModelError(f"{name}: a hypothesis takes {longest} of its {limit} sub-tokens; expected a shorter one")

    def behind(self, encoding: Encoding, label: int) -> Encoding:
        """Return a text followed by the hypothesis of a label, whose sub-tokens count as special."""
        ids, types = self._ends[label]
        text = encoding.select(list(range(len(encoding) - self._replaced)))
        return replace(
            text,
            input_ids=text.input_ids + ids,
            token_type_ids=text.token_type_ids + types,
            special=text.special + (True,) * len(ids),
            word_ids=text.word_ids + (NO_WORD,) * len(ids),
            characters=text.characters + ((0, 0),) * len(ids),
        )
