"""Stability: do similar texts get similar explanations? L2E (Situ et al. 2021), section 4.4, equation 1.

Each text is compared with its nearest neighbours among the explained texts, by meaning (cosine of the encoder's
aggregate states) or wording (shared n-grams). An explanation is a set of (word, level), with L2E's levels of scores.
Words are compared without case and surrounding punctuation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.arrays import Array
from explearn.metrics.arrays import levels, ratio
from explearn.metrics.base import Metric, MetricFunction
from explearn.metrics.context import Context, Explanations

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MAX_NGRAM = 4
"""Longest n-gram of lexical similarity (L2E, appendix C)."""

SHARED_UNITS = ("word", "token")
"""Units that different texts have in common."""


@lru_cache(maxsize=100_000)
def normalise(word: str) -> str:
    """Normalise a word: lower case, without surrounding punctuation; a word of only punctuation is kept."""
    lowered = word.casefold()
    inner = lowered.strip("".join(c for c in set(lowered) if not c.isalnum()))
    return inner or lowered


def semantic_similarity(states: ArrayLike) -> Array:
    """Return the cosine similarity of every two texts' states: (n, n) from (n, d)."""
    vectors = np.asarray(states, dtype=np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(norms > 0, norms, 1.0)
    return np.asarray(unit @ unit.T)


def lexical_similarity(texts: Sequence[Sequence[str]]) -> Array:
    """Sum over n = 1..MAX_NGRAM of |A_n and B_n| / |A_n or B_n|, A_n and B_n the n-grams of two texts: (n, n).

    The words are those of `texts`, normalised. Two texts too short for any n-gram of a length add 0 for it.
    """
    words = [list(map(normalise, text)) for text in texts]
    total = np.zeros((len(texts), len(texts)))
    for n in range(1, MAX_NGRAM + 1):
        grams = _incidence([_ngrams(text, n) for text in words])
        both = (grams @ grams.T).toarray()
        sizes = grams.sum(axis=1)
        total += ratio(both, sizes[:, None] + sizes[None, :] - both, undefined=0.0)
    return total


def _ngrams(words: Sequence[str], n: int) -> set[tuple[str, ...]]:
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)}


def nearest(similarity: ArrayLike, neighbours: int) -> NDArray[np.intp]:
    """Return the indices of each text's most similar other texts, ties in order: (n, min(neighbours, n - 1))."""
    matrix = np.array(similarity, dtype=np.float64)
    np.fill_diagonal(matrix, -np.inf)
    return np.argsort(-matrix, axis=1, kind="stable")[:, : max(0, min(neighbours, len(matrix) - 1))]


def stability(
    levels_of_texts: Sequence[ArrayLike],
    texts: Sequence[Sequence[str]],
    neighbours: NDArray[np.intp],
    content_words: bool = False,
) -> Array:
    """Return the mean overlap of each text's explanation with its neighbours', in [0, 1], larger is better; shape (n,).

    The overlap of two texts is intersection over union of their sets of (word, level), neutral words left out (L2E,
    eq. 1). A pair of texts without any such word has none and is left out; NaN for a text with no pair left.

    Args:
        levels_of_texts: for each text its words' levels, (words,); any whole numbers, 0 for words not chosen.
        texts: the words.
        neighbours: (n, k), as `nearest` gives them.
        content_words: leave out English stop words (scikit-learn's list).
    """
    # scikit-learn takes a second to load; importing this module should not.
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    if not neighbours.size:
        return np.full(len(texts), np.nan)
    chosen = []
    for words, of_text in zip(texts, levels_of_texts, strict=True):
        pairs = set()
        for word, level in zip(words, np.asarray(of_text), strict=True):
            normal = normalise(word)
            if level and not (content_words and normal in ENGLISH_STOP_WORDS):
                pairs.add((normal, int(level)))
        chosen.append(pairs)
    present = _incidence(chosen)
    sizes = present.sum(axis=1)
    both = np.take_along_axis((present @ present.T).toarray(), neighbours, axis=1)
    either = sizes[:, None] + sizes[neighbours] - both
    return ratio(ratio(both, either, undefined=0.0).sum(axis=1), (either > 0).sum(axis=1))


def _incidence(sets: Sequence[Collection[Hashable]]) -> csr_array:
    """Return 1 where a set (row) holds an element (column)."""
    # They take a second to load; importing this module should not.
    from scipy.sparse import csr_array
    from sklearn.preprocessing import MultiLabelBinarizer

    return csr_array(MultiLabelBinarizer(sparse_output=True).fit_transform(sets))


def _levels(explanations: Explanations) -> list[NDArray[np.int8]]:
    return [levels(text.filled(0.0), text.signed) for text in explanations.attributions]


def _lexical(context: Context) -> NDArray[np.intp] | None:
    words = [example.all_words for example in context.examples]
    return nearest(lexical_similarity(words), context.params.neighbours)


def _semantic(context: Context) -> NDArray[np.intp] | None:
    if context.states is None:
        return None
    return nearest(semantic_similarity(context.states), context.params.neighbours)


def _among(neighbours: Callable[[Context], NDArray[np.intp] | None], content_words: bool = False) -> MetricFunction:
    """Return the function that computes stability among some neighbours.

    It returns None for sentences and spans, of which different texts hardly ever share one, and for a model without
    hidden states.
    """

    def compute(explanations: Explanations) -> Array | None:
        context = explanations.context
        if any(example.unit not in SHARED_UNITS for example in context.examples):
            return None
        near = context.shared(neighbours)
        if near is None:
            return None
        words = [example.all_words for example in context.examples]
        return stability(explanations.shared(_levels), words, near, content_words)

    return compute


_metric = partial(
    Metric,
    direction="higher",
    group="behaviour",
    reference="L2E (Situ et al. 2021), section 4.4, equation 1",
    lowest=0.0,
    highest=1.0,
    of_model=True,
)

METRICS = (
    _metric(
        "stability_semantic",
        "Stability, meaning",
        "overlap of a text's explanation with those of the {neighbours} explained texts nearest to it in the "
        "classifier's states; it rises with the number of {unit}s that count as evidence",
        function=_among(_semantic),
    ),
    _metric(
        "stability_lexical",
        "Stability, wording",
        "the same for texts nearest by shared {unit}s and n-grams",
        function=_among(_lexical),
    ),
    _metric(
        "stability_semantic_content",
        "Meaning, content words",
        "stability by meaning, without stop words",
        function=_among(_semantic, content_words=True),
    ),
    _metric(
        "stability_lexical_content",
        "Wording, content words",
        "stability by wording, without stop words",
        function=_among(_lexical, content_words=True),
    ),
)
"""Similarity of explanations of similar texts."""
