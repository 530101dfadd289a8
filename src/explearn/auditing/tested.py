"""Candidates with what interventions show of them: findings, causes of errors, groups, and examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from explearn.auditing.candidates import Candidate, excess, occurrences
from explearn.auditing.elements import Element, Vocabulary, positions, take_out
from explearn.auditing.findings import ErrorCause, Finding, GroupDifference, GroupFigures, number
from explearn.auditing.intervene import (
    FEWEST_VALUES,
    LEVEL,
    MOST_TEXTS,
    Array,
    Effects,
    Verdict,
    measure,
    plan_trials,
    turned,
)
from explearn.auditing.reading import Subject
from explearn.auditing.texts import AuditText
from explearn.auditing.work import Work
from explearn.metrics.significance import FEWEST_TEXTS, mean_interval
from explearn.predictors.batching import progress
from explearn.show.blocks import ExampleText, TextRow

CHUNK_ELEMENTS = 10
"""Elements that are tested before their effects are kept."""

MOST_ERRORS = 200
"""Most texts that are looked at for a cause of errors."""

CONFIDENCE = 0.95

EXAMPLES = 2
"""Example texts for each of the three strongest findings of a class."""


class Tested:
    """Candidates and what interventions on the held-out texts do.

    Args:
        subject: the classifier that is asked.
        texts: all texts.
        answers: its probabilities for them, (texts, C).
        known: what is known of all texts.
        searched: numbers of the texts in which the candidates were found.
        held_out: numbers of those that are changed.
        candidates: the claims.

    Attributes:
        effects: element -> its effects.
        where: element -> numbers of the texts that have it.
    """

    def __init__(
        self,
        subject: Subject,
        texts: Sequence[AuditText],
        answers: Array,
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
        self.answers = answers
        self.elements = sorted({candidate.element for candidate in candidates})
        self.where = occurrences(self.elements, texts, known)
        self.effects: dict[Element, Effects] = {}

    def run(self, work: Work, name: str, show_progress: bool) -> None:
        """Measure the effects of all elements."""
        with progress("change texts" if show_progress else None, len(self.elements)) as bar:
            for start in range(0, len(self.elements), CHUNK_ELEMENTS):
                chunk = self.elements[start : start + CHUNK_ELEMENTS]

                def measured(chunk: Sequence[Element] = chunk) -> Any:
                    planned = [self._trials(element) for element in chunk]
                    rows = []
                    for effects in measure(planned, self.subject.model, self.answers):
                        out = [list(effects.out_texts), effects.out.tolist()]
                        rows.append([out, [list(effects.put_texts), effects.put.tolist()]])
                    return rows

                kept = work.part(f"{self.subject.model.fingerprint[:12]}-{name}-{start}", measured)
                for element, (out, put) in zip(chunk, kept, strict=True):
                    self.effects[element] = Effects(out[0], self._array(out[1]), put[0], self._array(put[1]))
                bar.update(len(chunk))

    def _array(self, rows: Sequence[Sequence[float]]) -> Array:
        return np.array(rows, dtype=np.float64).reshape(-1, self.answers.shape[1])

    def _trials(self, element: Element) -> Any:
        having = self.where[element]
        donors = [i for i in having if i in self.searched] or having
        return plan_trials(element, self.texts, self.held_out, having, donors, self.known)

    def finding(self, candidate: Candidate, verdict: Verdict) -> Finding:
        """Return a finding as it is shown."""
        element = candidate.element
        scored = []
        for i in self.where[element]:
            if i in self.searched and self.texts[i].predicted == candidate.target and element.kind != "length":
                scored.append(excess(element, self.texts[i], self.known))
        low, high = mean_interval(scored, CONFIDENCE, -1, 1) if scored else (None, None)
        effect_low, effect_high = mean_interval(verdict.values, CONFIDENCE, -1, 1)
        return Finding(
            element=str(element),
            kind=element.kind,
            target=self.subject.model.labels[candidate.target],
            source=" and ".join(candidate.sources),
            texts=len(self.where[element]),
            score=float(np.mean(scored)) if scored else None,
            score_low=low,
            score_high=high,
            taken_out=number(verdict.taken_out),
            put_in=number(verdict.put_in),
            effect=float(verdict.values.mean()) if len(verdict.values) else None,
            low=effect_low,
            high=effect_high,
            changed=len(verdict.values),
            p_value=verdict.p_value,
            corrected=verdict.corrected,
            confirmed=verdict.confirmed,
        )

    def errors(self, confirmed: Sequence[Candidate]) -> list[ErrorCause]:
        """Return the findings without which wrong answers become right, those that mend most first."""
        if not self.subject.has_labels:
            return []
        labels = self.subject.model.labels
        causes = []
        for candidate in confirmed:
            element = candidate.element
            answered = [i for i in self.where[element] if self.texts[i].predicted == candidate.target]
            wrong = [i for i in answered if self.texts[i].example.label != labels[candidate.target]][:MOST_ERRORS]
            right = [i for i in answered if self.texts[i].example.label == labels[candidate.target]][: len(wrong)]
            new = dict(turned(element, self.texts, [*wrong, *right], self.subject.model, self.known))
            mended = sum(i in new and labels[new[i]] == self.texts[i].example.label for i in wrong)
            lost = sum(i in new and new[i] != candidate.target for i in right)
            if mended:
                target = labels[candidate.target]
                causes.append(ErrorCause(str(element), element.kind, target, len(wrong), mended, lost, len(right)))
        return sorted(causes, key=lambda cause: (-cause.mended, cause.wrong, cause.element))

    def differences(self, confirmed: Sequence[Candidate]) -> list[GroupDifference]:
        """Compare the effect of taking an element out between each group and the other texts."""
        from scipy.stats import false_discovery_control, mannwhitneyu

        groups = sorted(set(self.subject.groups))
        if len(groups) == 2:
            groups = groups[:1]  # the other comparison is the same
        compared = []
        p_values = []
        for candidate in confirmed:
            values = self._by_group(candidate) if groups else {}
            for group in groups:
                inside = values.get(group, [])
                outside = [value for other in values if other != group for value in values[other]]
                if min(len(inside), len(outside)) >= FEWEST_VALUES:
                    p_values.append(float(mannwhitneyu(inside, outside).pvalue))
                    compared.append((candidate, group, float(np.mean(inside)), float(np.mean(outside))))
        if not compared:
            return []
        found = []
        for (candidate, group, mean, elsewhere), corrected in zip(
            compared, false_discovery_control(p_values).tolist(), strict=True
        ):
            element = candidate.element
            target = self.subject.model.labels[candidate.target]
            differs = corrected <= LEVEL
            found.append(
                GroupDifference(group, str(element), element.kind, target, mean, elsewhere, corrected, differs)
            )
        return sorted(found, key=lambda row: (row.corrected, row.group, row.element))

    def _by_group(self, candidate: Candidate) -> dict[str, list[float]]:
        """Return group -> effects of taking the element out, on at most MOST_TEXTS held-out texts each."""
        having = set(self.where[candidate.element])
        trials: dict[str, list[Any]] = {}
        for i in self.held_out:
            of_group = trials.setdefault(self.texts[i].group, [])
            if i in having and len(of_group) < MOST_TEXTS:
                intervention = take_out(candidate.element, self.texts[i], self.known)
                if all(version is not None for _, version in intervention):
                    of_group.append((i, intervention))
        planned: list[Any] = [(of_group, []) for of_group in trials.values()]
        effects = measure(planned, self.subject.model, self.answers)
        return {group: e.out[:, candidate.target].tolist() for group, e in zip(trials, effects, strict=True)}

    def examples(self, confirmed: Sequence[Candidate]) -> list[ExampleText]:
        """Return texts with the words of the three strongest findings of each class marked."""
        labels = self.subject.model.labels
        counts: Counter[int] = Counter()
        shown = []
        for candidate in confirmed:
            if counts[candidate.target] == 3 or candidate.element.kind == "length":
                continue
            counts[candidate.target] += 1
            having = [i for i in self.where[candidate.element] if self.texts[i].predicted == candidate.target]
            for i in having[:EXAMPLES]:
                text = self.texts[i]
                at = positions(candidate.element, text, self.known)
                marked = [position in at for position in range(len(text.words))]
                right = None
                if self.subject.has_labels:
                    right = text.example.label == labels[text.predicted]
                answer = f"answer {labels[text.predicted]} (probability {text.probabilities.max():.2f})"
                pair_start = len(text.example.words) if text.example.pair else None
                row = TextRow("", "", marked)
                title = f"{candidate.element} counts for {labels[candidate.target]}."
                shown.append(ExampleText(title, answer, text.words, [row], pair_start, right, text.example.joined))
        return shown


def group_figures(subject: Subject, texts: Sequence[AuditText], right: Sequence[bool]) -> list[GroupFigures]:
    """Return the figures of each group, by name."""
    figures = []
    for group in sorted(set(subject.groups)):
        numbers = [i for i, text in enumerate(texts) if text.group == group]
        answers = Counter(texts[i].predicted for i in numbers)
        rates = {label: answers[i] / len(numbers) for i, label in enumerate(subject.model.labels)}
        accuracy = low = high = None
        if subject.has_labels:
            hits = [float(right[i]) for i in numbers]
            accuracy = float(np.mean(hits))
            low, high = mean_interval(hits, CONFIDENCE, 0, 1)
        figures.append(GroupFigures(group, len(numbers), rates, accuracy, low, high, len(numbers) < FEWEST_TEXTS))
    return figures
