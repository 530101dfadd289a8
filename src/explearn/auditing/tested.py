"""Candidates with what interventions show of them: findings, causes of errors, groups, and examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from explearn.auditing.candidates import Candidate, excess, occurrences
from explearn.auditing.elements import Element, Vocabulary, positions, without
from explearn.auditing.findings import ErrorCause, Finding, GroupDifference, GroupFigures
from explearn.auditing.intervene import (
    CONFIDENCE,
    FEWEST_VALUES,
    LEVEL,
    Effects,
    Trials,
    Verdict,
    judge,
    measure,
    plan_trials,
)
from explearn.auditing.reading import Subject
from explearn.auditing.texts import AuditText
from explearn.auditing.work import Work
from explearn.core.arrays import Array
from explearn.metrics.significance import FEWEST_TEXTS, mean_interval
from explearn.predictors.batching import progress
from explearn.show.blocks import ExampleText, TextRow

CHUNK_ELEMENTS = 10
"""Elements that are tested before their effects are kept."""

MOST_ERRORS = 200
"""Most texts that are looked at for a cause of errors."""

EXPLAINED = 3
"""Findings of a class that are shown in example texts, the strongest."""

EXAMPLES = 2
"""Example texts for each of them."""


class Tested:
    """Candidates and what interventions on the held-out texts do.

    Args:
        subject: the classifier that is asked.
        texts: all texts.
        known: what is known of all texts.
        searched: numbers of the texts in which the candidates were found.
        held_out: numbers of those that are changed.
        candidates: the claims.

    Attributes:
        answers: probabilities of the classes for all texts, (texts, C).
        effects: element -> its effects.
        where: element -> numbers of the texts that have it.
    """

    def __init__(
        self,
        subject: Subject,
        texts: Sequence[AuditText],
        known: Vocabulary,
        searched: Sequence[int],
        held_out: Sequence[int],
        candidates: Sequence[Candidate],
    ) -> None:
        self.subject = subject
        self.texts = texts
        self.known = known
        self.searched = set(searched)
        self.held_out = held_out
        self.answers = np.array([text.probabilities for text in texts])
        self.candidates = candidates
        self.elements = sorted({candidate.element for candidate in candidates})
        self.where = occurrences(self.elements, texts, known)
        self.effects: dict[Element, Effects] = {}

    def run(self, work: Work, show_progress: bool) -> list[Verdict]:
        """Measure the effects of all elements, and return what they say of each candidate."""
        name = f"{self.subject.model.fingerprint[:12]}-effects"
        with progress("change texts" if show_progress else None, len(self.elements)) as bar:
            for start in range(0, len(self.elements), CHUNK_ELEMENTS):
                chunk = self.elements[start : start + CHUNK_ELEMENTS]
                rows = work.part(f"{name}-{start}", partial(self._rows, chunk))
                for element, (out, put) in zip(chunk, rows, strict=True):
                    self.effects[element] = Effects(self._array(out), self._array(put))
                bar.update(len(chunk))
        return judge([(candidate.element, candidate.target) for candidate in self.candidates], self.effects)

    def _rows(self, elements: Sequence[Element]) -> list[list[Any]]:
        """Return the effects of taking out and of putting in for each element, as lists."""
        planned: list[Trials] = []
        for element in elements:
            having = self.where[element]
            donors = [i for i in having if i in self.searched] or having
            planned += plan_trials(element, self.texts, self.held_out, having, donors, self.known)
        effects = [values.tolist() for values in self._ask(planned)]
        return [effects[i : i + 2] for i in range(0, len(effects), 2)]

    def _ask(self, planned: Sequence[Trials]) -> list[Array]:
        """Return the effects of several lists of trials, for which the classifier is asked once."""
        effects = measure(list(chain.from_iterable(planned)), self.subject.model, self.answers)
        return np.split(effects, np.cumsum([len(trials) for trials in planned])[:-1])

    def _array(self, rows: Sequence[Sequence[float]]) -> Array:
        return np.array(rows, dtype=np.float64).reshape(-1, self.answers.shape[1])

    def finding(self, candidate: Candidate, verdict: Verdict) -> Finding:
        """Return a finding as it is shown."""
        element = candidate.element
        scores = []
        for i in self.where[element]:
            if i in self.searched and self.texts[i].predicted == candidate.target and element.kind != "length":
                scores.append(excess(element, self.texts[i], self.known))
        score = None
        if scores:
            score = float(np.mean(scores))
        score_low, score_high = mean_interval(scores, CONFIDENCE, -1, 1)
        return Finding(
            element=str(element),
            kind=element.kind,
            target=self.subject.model.labels[candidate.target],
            source=" and ".join(candidate.sources),
            texts=len(self.where[element]),
            score=score,
            score_low=score_low,
            score_high=score_high,
            **asdict(verdict),
        )

    def errors(self, confirmed: Sequence[Candidate]) -> list[ErrorCause]:
        """Return the findings without which wrong answers become right, those that mend most first."""
        if not self.subject.has_labels:
            return []
        labels = self.subject.model.labels
        causes = []
        for element, target, _ in confirmed:
            wrong = []
            right = []
            for i in self.where[element]:
                if self.texts[i].predicted != target:
                    continue
                if self.subject.is_right(self.texts[i]):
                    right.append(i)
                else:
                    wrong.append(i)
            wrong = wrong[:MOST_ERRORS]
            right = right[: len(wrong)]
            answers = self._answers_without(element, [*wrong, *right])
            mended = sum(answers[i] == self.texts[i].example.label for i in wrong)
            lost = sum(answers[i] != labels[target] for i in right)
            if mended:
                cause = ErrorCause(str(element), element.kind, labels[target], len(wrong), mended, lost, len(right))
                causes.append(cause)
        return sorted(causes, key=lambda cause: (-cause.mended, cause.wrong, cause.element))

    def _answers_without(self, element: Element, numbers: Sequence[int]) -> dict[int, str]:
        """Return number of a text -> the answer once an element is taken out; as it is if no word would be left."""
        labels = self.subject.model.labels
        answers = {i: labels[self.texts[i].predicted] for i in numbers}
        asked = {i: without(element, self.texts[i], self.known) for i in numbers}
        possible = {i: version for i, version in asked.items() if version is not None}
        if possible:
            answers.update(zip(possible, self.subject.model.predict(list(possible.values())), strict=True))
        return answers

    def differences(self, confirmed: Sequence[Candidate]) -> list[GroupDifference]:
        """Compare the effect of taking an element out between each group and the other texts."""
        from scipy.stats import false_discovery_control, mannwhitneyu

        groups = sorted(set(self.subject.groups))
        compared = groups
        if len(groups) == 2:
            compared = groups[:1]  # the other comparison is the same
        found = []
        for element, target, _ in confirmed:
            if not groups:
                break
            effects = self._by_group(element, groups)
            for group in compared:
                inside = effects[group][:, target]
                outside = np.concatenate([effects[other][:, target] for other in groups if other != group])
                if min(len(inside), len(outside)) < FEWEST_VALUES:
                    continue
                p_value = float(mannwhitneyu(inside, outside).pvalue)
                means = float(inside.mean()), float(outside.mean())
                label = self.subject.model.labels[target]
                found.append(GroupDifference(group, str(element), element.kind, label, *means, p_value, False))
        if not found:
            return []
        corrected = false_discovery_control([row.corrected for row in found]).tolist()
        rows = []
        for row, p_value in zip(found, corrected, strict=True):
            rows.append(replace(row, corrected=p_value, differs=p_value <= LEVEL))
        return sorted(rows, key=lambda row: (row.corrected, row.group, row.element))

    def _by_group(self, element: Element, groups: Sequence[str]) -> dict[str, Array]:
        """Return group -> effects of taking the element out of at most MOST_TEXTS of its held-out texts, (texts, C)."""
        having = set(self.where[element])
        planned: list[Trials] = []
        for group in groups:
            numbers = [i for i in self.held_out if i in having and self.texts[i].group == group]
            taken_out, _ = plan_trials(element, self.texts, numbers, having, [], self.known)
            planned.append(taken_out)
        return dict(zip(groups, self._ask(planned), strict=True))

    def examples(self, confirmed: Sequence[Candidate]) -> list[ExampleText]:
        """Return texts with the words of the three strongest findings of each class marked."""
        counts: Counter[int] = Counter()
        shown = []
        for element, target, _ in confirmed:
            if counts[target] == EXPLAINED or element.kind == "length":
                continue
            counts[target] += 1
            label = self.subject.model.labels[target]
            having = [self.texts[i] for i in self.where[element] if self.texts[i].predicted == target]
            for text in having[:EXAMPLES]:
                at = positions(element, text, self.known)
                row = TextRow("", "", [position in at for position in range(len(text.words))])
                answer = f"answer {label} (probability {text.probabilities.max():.2f})"
                pair_start = len(text.example.words) if text.example.pair else None
                right = self.subject.is_right(text)
                title = f"{element} counts for {label}."
                shown.append(ExampleText(title, answer, text.words, [row], pair_start, right, text.example.joined))
        return shown


def group_figures(subject: Subject, texts: Sequence[AuditText]) -> list[GroupFigures]:
    """Return the figures of each group, by name."""
    figures = []
    for group in sorted(set(subject.groups)):
        of_group = [text for text in texts if text.group == group]
        rates = subject.rates(of_group)
        accuracy = subject.accuracy(of_group)
        low = high = None
        if accuracy is not None:
            low, high = mean_interval([bool(subject.is_right(text)) for text in of_group], CONFIDENCE, 0, 1)
        small = len(of_group) < FEWEST_TEXTS
        figures.append(GroupFigures(group, len(of_group), rates, accuracy, low, high, small))
    return figures
