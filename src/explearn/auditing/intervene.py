"""Interventions: elements are taken out of texts and put into others, and what the classifier then answers is tested.

The texts are none of those in which the candidates were found. All claims that were looked at are corrected together
(Benjamini and Hochberg 1995, Controlling the false discovery rate).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from explearn.auditing.elements import AS_IT_IS, Element, Intervention, Vocabulary, lacks, put_in, take_out
from explearn.auditing.texts import AuditText
from explearn.core.arrays import Array
from explearn.metrics.significance import mean_interval, signed_rank_test
from explearn.predictors.predictor import Predictor
from explearn.text.rewriting import Rewritten

MOST_TEXTS = 50
"""Most texts from which an element is taken out, and most into which it is put."""

FEWEST_VALUES = 8
"""Texts below which a claim is not tested."""

LEAST_EFFECT = 0.01
"""Smallest mean change of a probability that counts."""

LEVEL = 0.05
"""Level of the corrected tests."""

CONFIDENCE = 0.95
"""Level of all intervals."""

Trials = list[tuple[int, list[tuple[int, Rewritten]]]]
"""Numbers of texts, each with an intervention on it of which all versions have words."""


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """The effects of an element on the probabilities of the classes, (texts, C): positive if it raises them.

    Attributes:
        out: of the texts from which it was taken out.
        put: of the texts into which it was put.
    """

    out: Array
    put: Array

    def of_class(self, target: int) -> Array:
        """Return the effects on one class, of all texts."""
        return np.concatenate([self.out[:, target], self.put[:, target]])


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """What the interventions say of a claim.

    Attributes:
        changed: number of texts that were changed.
        effect: mean effect on the class; None without any.
        low: lower end of the mean's interval; None for fewer than two.
        high: its upper end.
        taken_out: mean effect of taking the element out; None if no text has it.
        put_in: mean effect of putting it in; None if it was put into no text.
        p_value: of Wilcoxon's signed-rank test.
        corrected: the same, corrected over all claims.
        confirmed: whether the claim stands: `corrected` at most LEVEL, the interval of the mean effect above
            LEAST_EFFECT, and neither way of testing it contradicts. With the mean alone, fewer held on other texts.
    """

    changed: int
    effect: float | None
    low: float | None
    high: float | None
    taken_out: float | None
    put_in: float | None
    p_value: float
    corrected: float
    confirmed: bool


def plan_trials(
    element: Element,
    texts: Sequence[AuditText],
    held_out: Sequence[int],
    having: Collection[int],
    donors: Sequence[int],
    known: Vocabulary,
) -> tuple[Trials, Trials]:
    """Return the interventions that take an element out, and those that put it in.

    Args:
        element: the element.
        texts: all texts.
        held_out: numbers of those that may be changed, in random order.
        having: numbers of the texts that have it.
        donors: numbers of some of them, of which each in turn gives its words.
        known: what is known of all texts.
    """
    out: Trials = []
    put: Trials = []
    having = set(having)
    for number in held_out:
        text = texts[number]
        if min(len(out), len(put)) == MOST_TEXTS:
            break
        if number in having:
            if len(out) < MOST_TEXTS:
                _add(out, number, take_out(element, text, known))
        elif donors and len(put) < MOST_TEXTS and lacks(element, text, known):
            donor = texts[donors[len(put) % len(donors)]]
            _add(put, number, put_in(element, text, known, donor))
    return out, put


def _add(trials: Trials, number: int, intervention: Intervention) -> None:
    possible = [(weight, version) for weight, version in intervention if version is not None]
    if len(possible) == len(intervention):
        trials.append((number, possible))


def measure(trials: Trials, classifier: Predictor, answers: Array) -> Array:
    """Ask the classifier for the versions of the texts, and return the effects, (trials, C).

    Args:
        trials: the interventions.
        classifier: the classifier.
        answers: its probabilities for the texts as they are, (texts, C).
    """
    asked: dict[Rewritten, int] = {}
    for _, intervention in trials:
        for _, version in intervention:
            if version != AS_IT_IS:
                asked.setdefault(version, len(asked))
    probabilities = answers[:0]
    if asked:
        probabilities = classifier.predict_proba(list(asked))
    effects = np.zeros((len(trials), answers.shape[1]))
    for effect, (number, intervention) in zip(effects, trials, strict=True):
        for weight, version in intervention:
            if version == AS_IT_IS:
                effect += weight * answers[number]
            else:
                effect += weight * probabilities[asked[version]]
    return effects


def corrected_tests(values: Sequence[Array]) -> tuple[Array, Array]:
    """Test for each claim whether its effects are centred at 0.

    Args:
        values: effects by text; with fewer than FEWEST_VALUES the p-value is 1.

    Returns:
        p-values, and the same after Benjamini and Hochberg's correction over all claims, (claims,) each.
    """
    from scipy.stats import false_discovery_control

    if not values:
        return np.zeros(0), np.zeros(0)
    matrix = np.full((len(values), max(1, *map(len, values))), np.nan)
    for row, of_claim in zip(matrix, values, strict=True):
        if len(of_claim) >= FEWEST_VALUES:
            row[: len(of_claim)] = of_claim
    p_values = signed_rank_test(matrix)
    return p_values, np.asarray(false_discovery_control(p_values))


def judge(claims: Sequence[tuple[Element, int]], effects: Mapping[Element, Effects]) -> list[Verdict]:
    """Decide which claims stand.

    Args:
        claims: element and index of the class for which it counts.
        effects: of the elements.
    """
    values = [effects[element].of_class(target) for element, target in claims]
    p_values, corrected = corrected_tests(values)
    verdicts = []
    for number, (element, target) in enumerate(claims):
        effect = _mean(values[number])
        taken_out = _mean(effects[element].out[:, target])
        put = _mean(effects[element].put[:, target])
        low, high = mean_interval(values[number], CONFIDENCE, -1, 1)
        large = low is not None and low >= LEAST_EFFECT
        contradicted = any(mean is not None and mean <= -LEAST_EFFECT for mean in (taken_out, put))
        confirmed = bool(corrected[number] <= LEVEL and large and not contradicted)
        verdict = Verdict(
            changed=len(values[number]),
            effect=effect,
            low=low,
            high=high,
            taken_out=taken_out,
            put_in=put,
            p_value=float(p_values[number]),
            corrected=float(corrected[number]),
            confirmed=confirmed,
        )
        verdicts.append(verdict)
    return verdicts


def _mean(values: Array) -> float | None:
    if not len(values):
        return None
    return float(values.mean())
