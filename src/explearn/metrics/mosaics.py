"""Mosaics: texts of two classes joined, of which a class's explanation should stay within that class's own texts.

After Arias-Duart, Parés, Garcia-Gasulla and Giménez-Ábalos (2022), "Focus! Rating XAI Methods and Finding Biases", who
put four images in a grid. The truth is known without marked words, and nothing leaves the distribution but the length.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.arrays import Array, Mask
from explearn.core.errors import UnansweredError, UnsupportedError
from explearn.core.examples import Example
from explearn.metrics.base import Measurement, Metric

if TYPE_CHECKING:
    # explearn.predictors imports torch, which takes seconds; reading results does not need it.
    from explearn.predictors.predictor import Predictor

logger = logging.getLogger(__name__)

TEXTS_OF_A_CLASS = 2
"""Texts of each of the two classes in a mosaic, as the paper has two images of the class among four."""


class Mosaics(NamedTuple):
    """Some mosaics.

    Attributes:
        examples: the mosaics; a label is the class to explain.
        own: for each mosaic the words of the texts of that class, bool (words,).
    """

    examples: list[Example]
    own: list[Mask]

    @property
    def chance(self) -> float | None:
        """The mean share of own words, which equal scores of all words would have; None without any mosaic."""
        if not self.own:
            return None
        return float(np.mean([mask.mean() for mask in self.own]))


def make_mosaics(classifier: Predictor, examples: Sequence[Example], count: int = 30, seed: int = 13) -> Mosaics:
    """Join two texts of one class and two of another in random order.

    Only texts of one segment that the classifier gets right are joined (of a text without a label every answer is), and
    only those of which four are short enough for the classifier. Classes are explained in turn; texts are used again
    once all of their class have been.

    Args:
        classifier: the classifier.
        examples: the texts.
        count: number of mosaics.
        seed: seed of the draw.

    Returns:
        `count` mosaics; none if fewer than two classes have two such texts.

    Example:
        >>> import explearn
        >>> from explearn.core.examples import Example
        >>> from explearn.metrics.mosaics import make_mosaics, mosaic_shares
        >>> from explearn.testing import make_classifier
        >>> words = ("fox", "quick", "lazy", "dog", "a", "refund", "guide", "sequel")
        >>> texts = [Example(word, (word,), "", "test", "words") for word in words]
        >>> mosaics = make_mosaics(make_classifier(), texts, count=3)
        >>> len(mosaics.examples[0].words), mosaics.chance
        (4, 0.5)
        >>> mosaic_shares(explearn.get_explainer("occlusion"), make_classifier(), mosaics).shape
        (3,)
    """
    by_class: dict[str, list[Example]] = defaultdict(list)
    single = [example for example in examples if not example.pair and not example.focus]
    texts = zip(single, classifier.read(single), classifier.predict(single), strict=True)
    for example, encoding, predicted in texts:
        special = sum(encoding.special)
        tokens = 2 * TEXTS_OF_A_CLASS * (len(encoding) - special) + special
        if example.label in ("", predicted) and tokens <= classifier.max_length:
            by_class[predicted].append(example)
    classes = sorted(label for label, of_class in by_class.items() if len(of_class) >= TEXTS_OF_A_CLASS)
    mosaics = Mosaics([], [])
    if len(classes) < 2:
        return mosaics
    rng = np.random.default_rng(seed)
    used: Counter[str] = Counter()
    for number in range(count):
        label = classes[number % len(classes)]
        other = rng.choice([name for name in classes if name != label])
        parts = []
        for name in (label, other):
            least_used = sorted(by_class[name], key=lambda text: (used[text.id], rng.random()))
            parts += least_used[:TEXTS_OF_A_CLASS]
        used.update(part.id for part in parts)
        order = rng.permutation(len(parts))
        words: list[str] = []
        gaps = [""]
        own: list[bool] = []
        for index in order:
            part = parts[index]
            own_gaps = part.gaps or ("", *[" "] * (len(part.words) - 1), "")
            gaps[-1] += f"{' ' if words else ''}{own_gaps[0]}"
            gaps += own_gaps[1:]
            words += part.words
            own += [bool(index < TEXTS_OF_A_CLASS)] * len(part.words)
        example = Example(f"mosaic-{number}", tuple(words), label, "test", "mosaics", gaps=tuple(gaps))
        mosaics.examples.append(example)
        mosaics.own.append(np.array(own))
    return mosaics


def own_share(scores: ArrayLike, own: Mask) -> float:
    """Return the share of a text's positive score on its own words: sum of max(s, 0) there / sum of max(s, 0).

    Of unsigned methods all score is positive. Without any positive score it is the share of own words.
    """
    positive = np.maximum(np.asarray(scores, dtype=np.float64), 0)
    total = positive.sum()
    if total == 0:
        return float(own.mean())
    return float(positive[own].sum() / total)


def mosaic_shares(explainer: Any, classifier: Predictor, mosaics: Mosaics) -> Array:
    """Explain mosaics, and return `own_share` of each, (mosaics,); `mosaics.chance` is what to compare its mean with.

    Args:
        explainer: a method (`explearn.Explainer`) that is ready to explain.
        classifier: the explained classifier.
        mosaics: as `make_mosaics` makes them.

    Raises:
        UnsupportedError: the method cannot explain the classifier, or so long a text.
    """
    targets = [example.label for example in mosaics.examples]
    attributions = explainer.explain(classifier, mosaics.examples, targets, description=f"mosaics: {explainer.name}")
    own = {example.id: words for example, words in zip(mosaics.examples, mosaics.own, strict=True)}
    return np.array([own_share(text.filled(0.0), own[text.example_id]) for text in attributions])


def shares_of_methods(
    explainers: Mapping[str, Any], classifier: Predictor, mosaics: Mosaics, own: Mapping[str, Predictor] | None = None
) -> dict[str, Array]:
    """Return method -> `mosaic_shares`, without methods that cannot explain so long a text; they are logged.

    Args:
        explainers: method -> a method that is ready to explain.
        classifier: the explained classifier.
        mosaics: the mosaics; without any, no method has shares.
        own: method -> the classifier that it trained, and explains instead.
    """
    shares: dict[str, Array] = {}
    if not mosaics.examples:
        return shares
    for name, explainer in explainers.items():
        try:
            shares[name] = mosaic_shares(explainer, (own or {}).get(name, classifier), mosaics)
        except (UnansweredError, UnsupportedError) as error:
            logger.warning("mosaics: %s: %s", name, error)
    return shares


def mosaic_figures(shares: Array, mosaics: Mosaics, confidence: float = 0.95) -> dict[str, float | None]:
    """Return the mean share, the bounds of its interval (None for few mosaics), and what equal scores would have.

    Args:
        shares: as `mosaic_shares` returns them.
        mosaics: the mosaics.
        confidence: level of the interval.
    """
    low, high = Measurement.of_mean(shares).interval(confidence, MOSAICS.lowest, MOSAICS.highest)
    figures = {"mosaics": float(shares.mean()), "mosaics_low": low, "mosaics_high": high}
    return {**figures, "mosaics_chance": mosaics.chance}


MOSAICS = Metric(
    "mosaics",
    "Mosaics",
    "share of the positive score on the explained class's own words, in two of its texts joined with two of another "
    "class; a method that ignores the class has about half",
    "higher",
    group="known",
    reference='Arias-Duart et al. 2022, "Focus! Rating XAI Methods and Finding Biases"',
    lowest=0.0,
    highest=1.0,
    by_text="mosaics",
    of_model=True,
)
"""Whether explanations are about the class that they explain. It takes the method itself, to explain new texts."""
