"""Interactions: pairs of words that count more, or less, together than alone."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from explearn.core.arguments import inputs_left_as_they_came
from explearn.core.arrays import Array
from explearn.core.attribution import MOST_INTERACTING, Attribution, Interaction
from explearn.core.errors import DataError, ParamsError, UnsupportedError, shown
from explearn.methods.perturbation.method import AskedText, PerturbedText, check_mask_token, stand_in
from explearn.predictors.answers import Answers
from explearn.predictors.labelled import check_use
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import as_predictor
from explearn.text.encoding import Removal, Text
from explearn.text.units import in_units


def interactions(
    classifier: Predictor, text: Text, attribution: Attribution, top: int = 6, removal: Removal | None = None
) -> list[Interaction]:
    """Return the Shapley interaction index of each pair of a text's `top` words, the largest absolute value first.

    Let N be the k words with the largest absolute scores (all other words are kept), and f(S) the probability of the
    class (for a regression its value) if only S is kept of N:

        I(i, j) = sum over S in N without i, j of (f(S + i + j) - f(S + i) - f(S + j) + f(S)) / ((k - 1) C(k - 2, |S|))

    Grabisch and Roubens (1999), definition 3. It is exact and takes 2^k forward passes.

    Args:
        classifier: the classifier that is explained.
        text: the text.
        attribution: the text's attribution, by words or other units, which then replace words.
        top: k, 2 to MOST_INTERACTING; all words if there are fewer.
        removal: `mask`: words are masked; `delete`: they are deleted. None: deleted for the similarity of two texts,
            which masks in both would raise, else masked.

    Returns:
        One interaction for each pair; `dataclasses.replace(attribution, interactions=tuple(pairs))` displays them.

    Raises:
        ParamsError: another `top`.
        DataError: the attribution is of another text, or of fewer than two words.
        UnsupportedError: the text is read window by window, is a pair scored by units, a question, or a token to
            classify; or the classifier has no mask token and words are not deleted.

    Example:
        >>> import explearn
        >>> from explearn.testing import make_classifier
        >>> classifier = make_classifier()
        >>> attribution = explearn.explain(classifier, "a warm sequel", "occlusion")
        >>> pairs = explearn.interactions(classifier, "a warm sequel", attribution)
        >>> sorted(pair.positions for pair in pairs)
        [(0, 1), (0, 2), (1, 2)]
    """
    if top not in range(2, MOST_INTERACTING + 1):
        raise ParamsError(f"top: got {shown(top)}; expected a whole number from 2 to {MOST_INTERACTING}")
    (encoding,) = classifier.read([text])
    if attribution.windows > 1:
        raise UnsupportedError("interactions: the text was read window by window; expected one that is read at once")
    by_units = attribution.unit != "word"
    check_use(classifier, "interactions")
    if removal is None:
        removal = "delete" if classifier.compares_texts else "mask"
    if by_units and encoding.pair_start is not None:
        raise UnsupportedError("interactions: need single texts, where words are not the units; got a pair")
    if by_units:
        encoding = in_units(encoding, lambda _: attribution.spans, "interactions")
    if encoding.words != attribution.words:
        raise DataError("interactions: the attribution is of another text; expected one of the text given")
    check_mask_token(classifier, removal)
    perturbed = PerturbedText(encoding, stand_in(classifier))
    strength = np.abs(attribution.filled(0.0))[perturbed.words]
    players = np.sort(np.argsort(-strength, kind="stable")[:top])
    count = len(players)
    if count < 2:
        raise DataError("interactions: got a text with fewer than two words that are read; expected two or more")
    # Bit n of a row's number: whether player n is kept.
    sets = np.arange(2**count)[:, None] >> np.arange(count) & 1
    kept = np.ones((len(sets), len(perturbed)), dtype=bool)
    kept[:, players] = sets == 1
    target = classifier.label_index(attribution.target)
    values = AskedText(perturbed, Answers(classifier), target, removal).values(kept)
    pairs = []
    for i, j in combinations(range(count), 2):
        without = np.flatnonzero((sets[:, i] == 0) & (sets[:, j] == 0))
        with_i = without | 1 << i
        with_j = without | 1 << j
        together = values[with_i | with_j] - values[with_i] - values[with_j] + values[without]
        weights = [1 / ((count - 1) * comb(count - 2, size)) for size in sets[without].sum(axis=1).tolist()]
        first = int(perturbed.words[players[i]])
        second = int(perturbed.words[players[j]])
        pairs.append(
            Interaction(
                words=(encoding.words[first], encoding.words[second]),
                positions=(first, second),
                value=float(together @ weights),
            )
        )
    return sorted(pairs, key=lambda pair: -abs(pair.value))


@inputs_left_as_they_came
def interaction_matrix(
    classifier: Any, pair: Text, target: int | str | None = None, removal: Removal = "delete"
) -> Array:
    """Return how much more two words count together than alone, one from each of two texts.

    Let f(S) be the probability of the class (for a regression, such as a similarity, its value) without the words S:

        M(i, j) = f({}) - f({i}) - f({j}) + f({i, j})

    It takes (n + 1) (m + 1) forward passes. Masks in both texts would make them alike, so words are deleted.
    `interactions` averages such differences over sets of the other words.

    Args:
        classifier: a classifier of pairs, or a SentenceTransformer, as `explain` takes it.
        pair: the two texts.
        target: the class. None: the predicted one.
        removal: `delete`: words are deleted; `mask`: they are masked.

    Returns:
        M, (n, m), a row for each word of the first text and a column for each of the second; NaN for words that are
        not read.

    Raises:
        DataError: a single text.
        UnsupportedError: a question, a token to classify, or no mask token where words are masked.

    Example:
        >>> import explearn
        >>> from explearn.testing import make_classifier
        >>> explearn.interaction_matrix(make_classifier(), ("a warm sequel", "lazy dog")).shape
        (3, 2)
    """
    classifier = as_predictor(classifier)
    check_use(classifier, "interactions")
    (encoding,) = classifier.read([pair])
    start = encoding.pair_start
    if start is None:
        raise DataError("interaction_matrix: got a single text; expected a pair")
    check_mask_token(classifier, removal)
    perturbed = PerturbedText(encoding, stand_in(classifier))
    first = np.flatnonzero(perturbed.words < start)
    second = np.flatnonzero(perturbed.words >= start)
    # Row i, column j: without word i of the first text and word j of the second; the last ones leave none out.
    kept = np.ones((len(first) + 1, len(second) + 1, len(perturbed)), dtype=bool)
    kept[np.arange(len(first)), :, first] = False
    kept[:, np.arange(len(second)), second] = False
    if target is None:
        target = int(classifier.predict_logits([encoding])[0].argmax())
    label = classifier.label_index(target)
    asked = AskedText(perturbed, Answers(classifier), label, removal)
    values = asked.values(kept.reshape(-1, len(perturbed))).reshape(kept.shape[:2])
    together = values[-1, -1] - values[:-1, -1:] - values[-1:, :-1] + values[:-1, :-1]
    matrix = np.full((start, len(encoding.words) - start), np.nan)
    matrix[np.ix_(perturbed.words[first], perturbed.words[second] - start)] = together
    return matrix
