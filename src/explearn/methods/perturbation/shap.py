"""SHAP over the tokens of a text, by the library shap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from explearn.core.validation import MOST_ROUNDS, Seeded
from explearn.core.words import lay_out
from explearn.methods.base.outputs import Output
from explearn.methods.info import About
from explearn.methods.perturbation.inputs import PerturbedText
from explearn.methods.perturbation.method import PerturbationExplainer, Scored, outputs
from explearn.methods.perturbation.predictor import Ask
from explearn.predictors.encoding import Encoding
from explearn.predictors.transformer import TransformerPredictor

Level = Literal["auto", "word"]

Function = Callable[[NDArray[Any]], NDArray[np.float64]]
"""The explained numbers of n masked copies, strings (n,) or masks (n, w): (n, C)."""


class Shap(PerturbationExplainer):
    """Shapley values over a hierarchy of the text's tokens, by the library shap.

    SHAP with the library's text masker (Lundberg and Lee, 2017; shap.Explainer with shap.maskers.Text).

    Owen values: Shapley values within a hierarchy of neighbouring tokens, whose groups stay together, by the library's
    partition algorithm, which opens the hierarchy as far as `max_evals` allows, groups of large values first. The base
    is f of the text with all tokens masked. Signed, and additive over pieces: values of tokens, special ones included,
    add up to f(text) - base, and `completeness_error` is by how much they miss it.

    The algorithm decides what is evaluated from the outputs of all classes together, and breaks ties by draws from
    numpy's global generator, which starts at the seed for each text.

    Two levels:

    * tokens: the library's masker with the classifier's own tokenizer. It writes masked copies of the text as strings,
      which are tokenised anew: pieces after a masked one may be split differently than in the text. Of a text longer
      than the classifier reads, the part that it reads is masked.
    * words: words of the text, of both segments for a pair, are masked piece by piece where they stand; a word's value
      is shared equally by its pieces. The hierarchy is the library's for the words of a segment; the segments are
      joined last.

    `auto` goes by tokens where that is sound: one segment, and the masker's copy with nothing masked is tokenised as
    the classifier reads the text. It is not for pairs, which the masker does not know; where byte-level pieces share
    a character (each of them repeats it); and where white space in the text other than single blanks left its mark on
    the pieces. Such texts go by words.
    """

    about = About(
        name="shap",
        family="perturbation",
        cost="up to 500 forward passes, duplicates once",
        costly=True,
    )
    aggregation = "sum"
    signed = True
    additive = True

    class Options(Seeded):
        max_evals: Annotated[int, Field(ge=4, le=MOST_ROUNDS)] = 500
        """Forward passes for a text at most (equal inputs are evaluated once)."""
        output: Output = "probability"
        """The explained output f: the target's `probability`, `log_probability` or `logit`."""
        level: Level = "auto"
        """`auto`, or `word`: by words also where tokens are sound."""

    def score_text(self, classifier: TransformerPredictor, text: PerturbedText, target: int, ask: Ask) -> Scored:
        # The library has no hierarchy of a single token; it is a word, and goes as one.
        by_words = self.options.level == "word" or not classifier.has_model or len(text.encoding) == 1
        text_masker = None if by_words else token_masker(classifier, text.encoding)
        if text_masker is not None:
            masker, string = text_masker
            read = partial(read_strings, classifier)
            values, bases = self._values(classifier, lambda copies: read(copies.tolist()), masker, [string], ask)
            scores = values[:, target]
        else:
            masker = WordMasker(segments(text))
            masked = partial(text.perturbed, removal="mask")
            values, bases = self._values(classifier, masked, masker, np.ones((1, len(text))), ask)
            scores = text.on_pieces(values[:, target] / text.pieces())
        whole = outputs(classifier, ask([text.encoding]), self.options.output)[0, target]
        return Scored(scores, abs(float(scores.sum() + bases[target] - whole)))

    def _values(
        self,
        classifier: TransformerPredictor,
        read: Callable[[NDArray[Any]], list[Encoding]],
        masker: Any,
        data: Any,
        ask: Ask,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values of the masker's positions, (positions, C), and bases, (C,); `read` takes copies from the masker."""

        def function(copies: NDArray[Any]) -> NDArray[np.float64]:
            return outputs(classifier, ask(read(copies)), self.options.output)

        values = run_library(function, masker, data, self.options.max_evals, self.options.seed)
        return np.asarray(values.values[0]), np.asarray(values.base_values[0])


def run_library(function: Function, masker: Any, data: Any, max_evals: int, seed: int) -> Any:
    """Return shap's explanation of one row of data."""
    import shap

    explainer = shap.Explainer(function, masker, algorithm="partition", seed=seed)
    return explainer(data, max_evals=max_evals, silent=True)


class WordMasker:
    """A masker, as shap calls it, of the words of some segments: the function gets masks of the words that are left.

    Attributes:
        clustering: hierarchy of the words as scipy writes linkages, (w - 1, 4).
    """

    immutable_outputs = True

    def __init__(self, words: Sequence[Sequence[str]]) -> None:
        self.clustering = segment_trees(words)

    def __call__(self, mask: NDArray[np.bool_], _words: object) -> tuple[NDArray[np.bool_]]:
        return (mask[None].copy(),)


def read_strings(classifier: TransformerPredictor, strings: Sequence[str]) -> list[Encoding]:
    """Read strings, of one segment each, as the classifier does."""
    encoded = classifier.tokenizer(
        list(strings), truncation=True, max_length=classifier.max_length, return_attention_mask=False
    )
    use_types = "token_type_ids" in classifier.tokenizer.model_input_names
    types = encoded["token_type_ids"] if use_types else [()] * len(strings)
    pairs = zip(encoded["input_ids"], types, strict=True)
    return [Encoding(tuple(ids), tuple(of_text), special=(), word_ids=(), words=()) for ids, of_text in pairs]


def token_masker(classifier: TransformerPredictor, encoding: Encoding) -> tuple[Any, str] | None:
    """shap's text masker and the string it is to mask, or None where its tokens would not be those of `encoding`."""
    import shap

    tokenizer = classifier.tokenizer
    seen = max(encoding.word_ids) + 1
    string = lay_out(encoding.words[:seen], encoding.joined).text
    offsets = tokenizer(string, truncation=True, max_length=classifier.max_length, return_offsets_mapping=True)[
        "offset_mapping"
    ]
    # What lies behind the last piece that the classifier reads is not there for the masker either.
    string = string[: max(end for _, end in offsets)]
    masker = shap.maskers.Text(tokenizer)
    tokens = masker.shape(string)[1]
    (written,) = masker(np.ones(tokens, dtype=bool), string)
    (again,) = read_strings(classifier, written.tolist())
    return (masker, string) if tokens == len(encoding) and again.key == encoding.key else None


def segments(text: PerturbedText) -> list[list[str]]:
    """Words with sub-tokens, by segment: special tokens stand between the sub-tokens of two segments."""
    by_segment: list[dict[int, str]] = []
    after_special = True
    for special, place in zip(text.encoding.special, text.owners.tolist(), strict=True):
        if special:
            after_special = True
        elif place < len(text):
            if after_special:
                by_segment.append({})
            after_special = False
            by_segment[-1][place] = text.encoding.words[text.words[place]]
    return [list(words.values()) for words in by_segment]


def segment_trees(words: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """The library's hierarchy for the words of each segment, and the segments joined one after the other.

    Returns a linkage, (w - 1, 4): both children (words first, then rows in order), height, number of words.
    """
    total = sum(map(len, words))
    rows: list[list[float]] = []
    first_word, root = 0, -1
    for segment in words:
        count, first_row = len(segment), len(rows)

        def number(child: float, count: int = count, word: int = first_word, row: int = first_row) -> float:
            return child + word if child < count else child - count + total + row

        for left, right, _, size in word_tree(segment):
            rows.append([number(left), number(right), size / total, size])
        top = total + len(rows) - 1 if count > 1 else first_word
        first_word += count
        if root >= 0:
            rows.append([root, top, first_word / total, first_word])
            top = total + len(rows) - 1
        root = top
    return np.array(rows, dtype=np.float64).reshape(total - 1, 4)


def word_tree(words: Sequence[str]) -> NDArray[np.float64]:
    """The library's hierarchy of neighbouring words, a linkage of (w - 1, 4)."""
    import shap

    if len(words) == 1:
        return np.empty((0, 4))
    ends = np.cumsum([len(word) + 1 for word in words])
    spans = [(int(end) - len(word) - 1, int(end) - 1) for word, end in zip(words, ends, strict=True)]

    def split(string: str, return_offsets_mapping: bool = False) -> dict[str, list[Any]]:
        return {"input_ids": list(range(1, len(spans) + 1)), "offset_mapping": spans} if string else {"input_ids": []}

    # Any number serves as the mask's id: nothing is masked here.
    return np.asarray(shap.maskers.Text(split, mask_token=0).clustering(" ".join(words)))
