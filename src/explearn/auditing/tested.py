"""Claims, and what interventions show of them: findings, causes of errors, groups, and examples.

Elements are taken out of texts and put into others, and what the classifier then answers is tested. The texts are none
of those in which the claims were found. All claims that were looked at are corrected together (Benjamini and
Hochberg 1995, Controlling the false discovery rate).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from explearn.auditing.claims import Claim, excess
from explearn.auditing.findings import FEWEST_VALUES, NO_GROUP, ErrorCause, Finding, GroupDifference, GroupFigures
from explearn.auditing.reading import AuditText, accuracy, rates
from explearn.core.arrays import Array
from explearn.metrics.arrays import without_rounding
from explearn.metrics.significance import FEWEST_TEXTS, mean_interval, rank_sum_test, shares_test, signed_rank_test
from explearn.predictors.answers import Answers
from explearn.predictors.batching import progress
from explearn.show.blocks import ExampleText, TextRow
from explearn.subject.subject import Subject
from explearn.text.elements import AS_IT_IS, Element, Intervention
from explearn.text.rewriting import Rewritten
from explearn.text.scored import Vocabulary

MOST_TEXTS = 50
"""Most texts from which an element is taken out, and most into which it is put."""

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
        """Return the effects on one class, of all texts; NaN where the classifier gave no answer."""
        return np.concatenate([self.out[:, target], self.put[:, target]])


def known(values: Array) -> Array:
    """Return the values that are numbers."""
    return values[~np.isnan(values)]


def centred_at_zero(values: Sequence[Array]) -> Array:
    """Test for each claim whether its effects, or differences of them, are centred at 0.

    Args:
        values: effects by text; with fewer than FEWEST_VALUES the p-value is 1.

    Returns:
        p-values, (claims,).
    """
    matrix = np.full((len(values), max(map(len, values), default=0)), np.nan)
    for row, effects in zip(matrix, map(known, values), strict=True):
        if len(effects) >= FEWEST_VALUES:
            row[: len(effects)] = effects
    return signed_rank_test(matrix)


def false_discovery(p_values: ArrayLike) -> Array:
    """Correct p-values after Benjamini and Hochberg over all claims; there may be none."""
    from scipy.stats import false_discovery_control

    values = np.asarray(p_values, dtype=np.float64)
    if not values.size:
        return values
    return np.asarray(false_discovery_control(values))


def judged(effects: Effects, target: int, p_value: float, corrected: float) -> dict[str, Any]:
    """Return what the effects say of the claim that an element counts for a class, as fields of a `Finding`.

    It is confirmed if `corrected` is at most LEVEL, the interval of the mean effect is above LEAST_EFFECT, and neither
    way of testing it contradicts. With the mean alone, fewer held on other texts.

    Args:
        effects: the effects.
        target: index of the class.
        p_value: of Wilcoxon's signed-rank test.
        corrected: the same, corrected over all claims.
    """
    ways = {"effect": effects.of_class(target), "taken_out": effects.out[:, target], "put_in": effects.put[:, target]}
    ways = {name: known(values) for name, values in ways.items()}
    means = {name: float(values.mean()) if len(values) else None for name, values in ways.items()}
    low, high = mean_interval(ways["effect"], CONFIDENCE, -1, 1)
    large = low is not None and low >= LEAST_EFFECT
    contradicted = any(mean is not None and mean <= -LEAST_EFFECT for mean in means.values())
    return {
        **means,
        "low": low,
        "high": high,
        "changed": len(ways["effect"]),
        "p_value": float(p_value),
        "corrected": float(corrected),
        "confirmed": bool(corrected <= LEVEL and large and not contradicted),
    }


CHUNK_ELEMENTS = 10
"""Elements that are tested before their effects are kept."""

MOST_ERRORS = 200
"""Most texts that are looked at for a cause of errors."""

EXPLAINED = 3
"""Findings of a class that are shown in example texts, the strongest."""

EXAMPLES = 2
"""Example texts for each of them."""


class Tested:
    """Claims, and what interventions on the held-out texts do.

    Args:
        subject: the classifier that is asked.
        labels: its classes, in the order of the claims' targets.
        texts: all texts.
        vocabulary: facts about all texts.
        searched: numbers of the texts in which the claims were found.
        held_out: numbers of those that are changed.
        claims: the claims.

    Attributes:
        answers: probabilities of the classes for all texts, (texts, C).
        effects: element -> its effects.
        where: element -> numbers of the texts that have it.
    """

    def __init__(
        self,
        subject: Subject,
        labels: Sequence[str],
        texts: Sequence[AuditText],
        vocabulary: Vocabulary,
        searched: Sequence[int],
        held_out: Sequence[int],
        claims: Sequence[Claim],
    ) -> None:
        self.subject = subject
        self.labels = labels
        self.texts = texts
        self.vocabulary = vocabulary
        self.searched = set(searched)
        self.held_out = held_out
        self.answers = np.array([text.probabilities for text in texts])
        self._asked = Answers(subject.classifier)
        self._order = [subject.classifier.labels.index(label) for label in labels]
        self.claims = claims
        self.elements = sorted({claim.element for claim in claims})
        self.where: dict[Element, list[int]] = {}
        for element in self.elements:
            self.where[element] = [number for number, text in enumerate(texts) if element.find(text, vocabulary)]
        self.effects: dict[Element, Effects] = {}

    def run(self, show_progress: bool) -> list[Finding]:
        """Measure the effects of all elements, and return what they say of each claim."""
        name = f"{self.subject.classifier.fingerprint[:12]}-effects"
        with progress("change texts" if show_progress else None, len(self.elements)) as bar:
            for start in range(0, len(self.elements), CHUNK_ELEMENTS):
                chunk = self.elements[start : start + CHUNK_ELEMENTS]
                source = self.subject.origin.request, list(map(str, chunk)), self.held_out, self.labels
                rows = self.subject.work.part(f"{name}-{start}", source, partial(self._rows, chunk))
                for element, (out, put) in zip(chunk, rows, strict=True):
                    self.effects[element] = Effects(self._array(out), self._array(put))
                bar.update(len(chunk))
        p_values = centred_at_zero([self.effects[element].of_class(target) for element, target, _ in self.claims])
        tests = zip(self.claims, p_values, false_discovery(p_values), strict=True)
        return [self._finding(*tested) for tested in tests]

    def _rows(self, elements: Sequence[Element]) -> list[list[Any]]:
        """Return the effects of taking out and of putting in for each element, as lists."""
        planned: list[Trials] = []
        for element in elements:
            having = self.where[element]
            donors = [i for i in having if i in self.searched] or having
            planned += self._trials(element, self.held_out, donors)
        effects = []
        for values in self._ask(planned):
            rows = values.astype(object)
            rows[np.isnan(values)] = None  # for JSON
            effects.append(rows.tolist())
        return [effects[i : i + 2] for i in range(0, len(effects), 2)]

    def _trials(self, element: Element, held_out: Sequence[int], donors: Sequence[int]) -> tuple[Trials, Trials]:
        """Return the interventions that take an element out, and those that put it in.

        Args:
            element: the element.
            held_out: numbers of the texts that may be changed, in random order.
            donors: numbers of texts that have it, of which each in turn gives its words.
        """
        out: Trials = []
        put: Trials = []
        having = set(self.where[element])
        for number in held_out:
            text = self.texts[number]
            if min(len(out), len(put)) == MOST_TEXTS:
                break
            if number in having:
                if len(out) < MOST_TEXTS:
                    _add(out, number, element.take_out(text, self.vocabulary))
            elif donors and len(put) < MOST_TEXTS and element.lacks(text, self.vocabulary):
                donor = self.texts[donors[len(put) % len(donors)]]
                _add(put, number, element.put_in(text, donor, self.vocabulary))
        return out, put

    def _ask(self, planned: Sequence[Trials]) -> list[Array]:
        """Return the effects of several lists of trials, (trials, C), for which the classifier is asked once.

        They are NaN where it gives no answer.
        """
        trials = list(chain.from_iterable(planned))
        versions: list[Rewritten] = []
        for _, intervention in trials:
            versions += [version for _, version in intervention if version != AS_IT_IS]
        probabilities = iter(self._asked.ask(versions, gaps=True)[:, self._order])
        effects = np.zeros((len(trials), self.answers.shape[1]))
        for effect, (number, intervention) in zip(effects, trials, strict=True):
            for weight, version in intervention:
                if version == AS_IT_IS:
                    effect += weight * self.answers[number]
                else:
                    effect += weight * next(probabilities)
        return np.split(effects, np.cumsum(list(map(len, planned)))[:-1])

    def _array(self, rows: Sequence[Sequence[float]]) -> Array:
        return np.array(rows, dtype=np.float64).reshape(-1, self.answers.shape[1])

    def _finding(self, claim: Claim, p_value: float, corrected: float) -> Finding:
        element, target, sources = claim
        scores = []
        for i in self.where[element]:
            text = self.texts[i]
            if element.is_marked and i in self.searched and text.shares is not None and text.predicted == target:
                scores.append(excess(text.shares, element.find(text, self.vocabulary)))
        score_low, score_high = mean_interval(scores, CONFIDENCE, -1, 1)
        return Finding(
            element=str(element),
            kind=element.kind,
            target=self.labels[target],
            source=" and ".join(sources),
            texts=len(self.where[element]),
            score=float(np.mean(scores)) if scores else None,
            score_low=score_low,
            score_high=score_high,
            **judged(self.effects[element], target, p_value, corrected),
        )

    def errors(self, confirmed: Sequence[Claim], among: Collection[int]) -> list[ErrorCause]:
        """Return the findings without which wrong answers become right, those that mend most first.

        Args:
            confirmed: the findings.
            among: numbers of the texts whose answers are looked at.
        """
        causes = []
        for element, target, _ in confirmed:
            wrong = []
            right = []
            for i in self.where[element]:
                if i not in among or self.texts[i].predicted != target:
                    continue
                if self.texts[i].right:
                    right.append(i)
                elif self.texts[i].right is False:
                    wrong.append(i)
            if not wrong:
                continue
            wrong = wrong[:MOST_ERRORS]
            right = right[: len(wrong)]
            answers = self._answers_without(element, [*wrong, *right])
            mended = sum(answers[i] == self.texts[i].example.label for i in wrong)
            lost = sum(answers[i] != self.labels[target] for i in right)
            if mended:
                label = self.labels[target]
                causes.append(ErrorCause(str(element), element.kind, label, len(wrong), mended, lost, len(right)))
        return sorted(causes, key=lambda cause: (-cause.mended, cause.wrong, cause.element))

    def _answers_without(self, element: Element, numbers: Sequence[int]) -> dict[int, str]:
        """Return number of a text -> the answer once an element is taken out; as it is where there is none."""
        answers = {i: self.labels[self.texts[i].predicted] for i in numbers}
        asked = {i: element.without(self.texts[i], self.vocabulary) for i in numbers}
        possible = {i: version for i, version in asked.items() if version is not None}
        rows = self._asked.ask(possible.values(), gaps=True)[:, self._order]
        for i, row in zip(possible, rows, strict=True):
            if not np.isnan(row).any():
                answers[i] = self.labels[row.argmax()]
        return answers

    def differences(self, confirmed: Sequence[Claim]) -> list[GroupDifference]:
        """Compare the effect of taking an element out between each group and the other texts."""

        groups = sorted(set(self.subject.texts.groups) - {""})
        compared = groups
        if len(groups) == 2:
            compared = groups[:1]  # the other comparison is the same
        found = []
        for element, target, _ in confirmed:
            if not groups:
                break
            effects = self._by_group(element, groups)
            for group in compared:
                inside = known(effects[group][:, target])
                outside = known(np.concatenate([effects[other][:, target] for other in groups if other != group]))
                if min(len(inside), len(outside)) < FEWEST_VALUES:
                    continue
                both = np.concatenate([inside, outside])
                tied = without_rounding(both - both.min())
                p_value = rank_sum_test(*np.split(tied, [len(inside)]))
                means = float(inside.mean()), float(outside.mean())
                label = self.labels[target]
                found.append(GroupDifference(group, str(element), element.kind, label, *means, p_value, False))
        corrected = false_discovery([row.corrected for row in found])
        rows = []
        for row, p_value in zip(found, corrected.tolist(), strict=True):
            rows.append(replace(row, corrected=p_value, differs=p_value <= LEVEL))
        return sorted(rows, key=lambda row: (row.corrected, row.group, row.element))

    def _by_group(self, element: Element, groups: Sequence[str]) -> dict[str, Array]:
        """Return group -> effects of taking the element out of at most MOST_TEXTS of its held-out texts, (texts, C)."""
        having = set(self.where[element])
        planned: list[Trials] = []
        for group in groups:
            numbers = [i for i in self.held_out if i in having and self.texts[i].group == group]
            taken_out, _ = self._trials(element, numbers, [])
            planned.append(taken_out)
        return dict(zip(groups, self._ask(planned), strict=True))

    def examples(self, confirmed: Sequence[Claim]) -> list[ExampleText]:
        """Return texts with the words of the three strongest findings of each class marked."""
        counts: Counter[int] = Counter()
        shown = []
        for element, target, _ in confirmed:
            if counts[target] == EXPLAINED or not element.is_marked:
                continue
            counts[target] += 1
            label = self.labels[target]
            having = [self.texts[i] for i in self.where[element] if self.texts[i].predicted == target]
            for text in having[:EXAMPLES]:
                numbers = element.find(text, self.vocabulary)
                row = TextRow("", "", [number in numbers for number in range(len(text.words))])
                answer = f"answer {label} (probability {text.probabilities.max():.2f})"
                pair_start = len(text.example.words) if text.example.pair else None
                title = f"{element} counts for {label}."
                shown.append(ExampleText(title, answer, text.words, [row], pair_start, text.right, text.example.joined))
        return shown


def group_figures(texts: Sequence[AuditText], labels: Sequence[str]) -> list[GroupFigures]:
    """Return the figures of each group, by name, and last how many texts have none if others do."""
    figures = []
    groups = sorted({text.group for text in texts} - {""})
    for group in groups:
        members = [text for text in texts if text.group == group]
        right = accuracy(members)
        low = high = None
        if right is not None:
            low, high = mean_interval([text.right for text in members if text.right is not None], CONFIDENCE, 0, 1)
        small = len(members) < FEWEST_TEXTS
        figures.append(GroupFigures(group, len(members), rates(members, labels), right, low, high, small))
    without = sum(not text.group for text in texts)
    if groups and without:
        figures.append(GroupFigures(NO_GROUP, without, {}, None, None, None, False))
    return figures


def accuracy_test(texts: Sequence[AuditText]) -> float | None:
    """Return the p-value of the test whether all groups get as many right answers; None without groups and labels."""
    by_group: dict[str, list[bool]] = {}
    for text in texts:
        if text.group and text.right is not None:
            by_group.setdefault(text.group, []).append(text.right)
    if len(by_group) < 2:
        return None
    return shares_test([sum(right) for right in by_group.values()], [len(right) for right in by_group.values()])


def _add(trials: Trials, number: int, intervention: Intervention) -> None:
    possible = [(weight, version) for weight, version in intervention if version is not None]
    if len(possible) == len(intervention):
        trials.append((number, possible))
