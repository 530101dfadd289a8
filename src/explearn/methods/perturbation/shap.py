"""SHAP over the tokens of a text, by the library shap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from explearn.core.arrays import Array, Mask
from explearn.core.validation import MOST_ROUNDS, Seeded
from explearn.core.words import lay_out
from explearn.methods.info import About
from explearn.methods.perturbation.method import AskedText, PerturbationExplainer, PerturbedText, Scored
from explearn.predictors.encoding import Encoding
from explearn.predictors.labelled import Output
from explearn.predictors.predictor import Predictor, transformer_of

Level = Literal["auto", "word"]


class Shap(PerturbationExplainer):
    """Shapley values over a hierarchy of the text's tokens, by the library shap.

    SHAP with the library's text masker (Lundberg and Lee, 2017; shap.Explainer with shap.maskers.Text).

    Owen values: Shapley values within a hierarchy of neighbouring tokens, whose groups stay together, by the library's
    partition algorithm, which opens the hierarchy as far as `max_evals` allows, groups of large values first. The base
    is f of the text with all tokens masked. Signed, and additive over pieces: values of tokens, special ones included,
    add up to f(text) - base, and `completeness_error` is the difference that remains.

    The algorithm decides what is evaluated from the outputs of all classes together, and breaks ties by draws from
    numpy's global generator, which starts at the seed for each text.

    Two levels:

    * tokens: the library's masker with the classifier's own tokenizer. It writes masked copies of the text as strings,
      which are tokenised anew: pieces after a masked one may be split differently than in the text. If a text is longer
      than the classifier reads, only the part that it reads is masked.
    * words: words of the text, of both segments for a pair, are masked piece by piece where they stand; a word's value
      is shared equally by its pieces. The hierarchy is the library's for the words of a segment; the segments are
      joined last.

    `auto` uses tokens if the text has one segment and the masker's copy with nothing masked is tokenised as the
    classifier reads the text. Otherwise it uses words: for pairs, which the masker does not know; where byte-level
    pieces share a character (each of them repeats it); where white space other than single blanks changes the pieces;
    and for sentences and spans, which are left out whole.
    """

    about = About(
        name="shap",
        family="perturbation",
        cost="up to 500 forward passes, duplicates once",
        costly=True,
    )
    aggregation = "sum"
    signed = True
    package = "shap"
    additive = True

    class Options(Seeded):
        max_evals: Annotated[int, Field(ge=4, le=MOST_ROUNDS)] = 500
        """Forward passes for a text at most (equal inputs are evaluated once)."""
        output: Output = "probability"
        """The explained output f: the target's `probability`, `log_probability` or `logit`."""
        level: Level = "auto"
        """`auto`, or `word`: by words also where tokens are sound."""

    def score_text(self, asked: AskedText) -> Scored:
        import shap

        options = self.options
        text = asked.text
        classifier = asked.answers.predictor
        masker: Any = None
        data: Any = None
        # The library has no hierarchy of a single token; it is a word, and goes as one.
        by_token = options.level == "auto" and classifier.transformer is not None and not text.encoding.in_units
        if by_token and len(text.encoding) > 1:
            masker, data = token_masker(classifier, text.encoding)
        by_words = masker is None
        if by_words:
            masker = WordMasker(segments(text))
            data = np.ones((1, len(text)))

        def function(copies: NDArray[Any]) -> Array:
            encodings = text.perturbed(copies, "mask") if by_words else read_strings(classifier, copies.tolist())
            return asked.by_class(encodings)

        explainer = shap.Explainer(function, masker, algorithm="partition", seed=options.seed)
        explanation = explainer(data, max_evals=options.max_evals, silent=True)
        scores = explanation.values[0][:, asked.target]
        if by_words:
            scores = text.on_pieces(scores / text.pieces())
        base = explanation.base_values[0][asked.target]
        return Scored(scores, abs(float(scores.sum() + base - asked.whole())))


class WordMasker:
    """A masker, as shap calls it, of the words of some segments: the function gets masks of the words that are left.

    Attributes:
        clustering: hierarchy of the words as scipy writes linkages, (w - 1, 4).
    """

    immutable_outputs = True

    def __init__(self, words: Sequence[Sequence[str]]) -> None:
        self.clustering = segment_trees(words)

    def __call__(self, mask: Mask, _words: object) -> tuple[Mask]:
        return (mask[None].copy(),)


def read_strings(classifier: Predictor, strings: Sequence[str]) -> list[Encoding]:
    """Read strings, of one segment each, as the classifier does."""
    encoded = transformer_of(classifier).tokenizer(
        list(strings), truncation=True, max_length=classifier.max_length, return_attention_mask=False
    )
    types = [()] * len(strings)
    if "token_type_ids" in transformer_of(classifier).tokenizer.model_input_names:
        types = encoded["token_type_ids"]
    encodings = []
    for input_ids, type_ids in zip(encoded["input_ids"], types, strict=True):
        encodings.append(Encoding(tuple(input_ids), tuple(type_ids)))
    return encodings


def token_masker(classifier: Predictor, encoding: Encoding) -> tuple[Any, list[str]]:
    """Return shap's text masker, None where its tokens would not be those of `encoding`, and the string to mask."""
    import shap

    tokenizer = transformer_of(classifier).tokenizer
    string = encoding.segments[0].text
    pieces = tokenizer(string, truncation=True, max_length=classifier.max_length, return_offsets_mapping=True)
    # What lies behind the last piece that the classifier reads is not there for the masker either.
    string = string[: max(end for _, end in pieces["offset_mapping"])]
    masker = shap.maskers.Text(tokenizer)
    tokens = masker.shape(string)[1]
    (unmasked,) = masker(np.ones(tokens, dtype=bool), string)
    (again,) = read_strings(classifier, unmasked.tolist())
    if tokens != len(encoding) or again.key != encoding.key:
        masker = None
    return masker, [string]


def segments(text: PerturbedText) -> list[list[str]]:
    """Return the words with sub-tokens, by segment."""
    words = [text.encoding.words[index] for index in text.words]
    parts = [words]
    if text.encoding.pair_start is not None:
        first = int(np.searchsorted(text.words, text.encoding.pair_start))
        parts = [words[:first], words[first:]]
    return [part for part in parts if part]


def segment_trees(words: Sequence[Sequence[str]]) -> Array:
    """Return the library's hierarchy for the words of each segment, the segments joined one after the other.

    Returns:
        A linkage, (w - 1, 4): both children (words first, then rows in order), height, number of words.
    """
    total = sum(map(len, words))
    rows: list[list[float]] = []
    root: int | None = None
    first = 0  # first word of the segment
    for segment in words:
        count = len(segment)
        shift = total + len(rows) - count  # from a row of the segment's own linkage, numbered from `count`, to ours
        for left, right, _, size in word_tree(segment):
            children = [child + (first if child < count else shift) for child in (left, right)]
            rows.append([*children, size / total, size])
        top = total + len(rows) - 1 if count > 1 else first
        first += count
        if root is not None:
            rows.append([root, top, first / total, first])
            top = total + len(rows) - 1
        root = top
    return np.array(rows, dtype=np.float64).reshape(total - 1, 4)


def word_tree(words: Sequence[str]) -> Array:
    """Return the library's hierarchy of neighbouring words, a linkage of (w - 1, 4)."""
    import shap

    if len(words) == 1:
        return np.empty((0, 4))
    text, spans = lay_out(words)

    def split(string: str, return_offsets_mapping: bool = False) -> dict[str, list[Any]]:
        if not string:
            return {"input_ids": []}
        return {"input_ids": list(range(1, len(spans) + 1)), "offset_mapping": list(spans)}

    # Any number serves as the mask's id: nothing is masked here.
    return np.asarray(shap.maskers.Text(split, mask_token=0).clustering(text))
