"""What the report on a task is made from, and the choice of example texts."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.errors import DataError
from explearn.core.records import Attribution, Example, RationaleKind
from explearn.judge.plausibility import binarise
from explearn.judge.significance import PairedTests
from explearn.methods.registry import get_info

Number = int | float | None


@dataclass(frozen=True, slots=True, eq=False)
class ExampleReport:
    """One text to show.

    Attributes:
        example: the text and its true label.
        gold: marked words, bool (n,).
        kinds: who marked it (human, llm, author); empty when nobody did.
        attributions: by method.
        selected: by method, the words chosen, bool (n,).
    """

    example: Example
    gold: NDArray[np.bool_]
    kinds: tuple[RationaleKind, ...]
    attributions: Mapping[str, Attribution]
    selected: Mapping[str, NDArray[np.bool_]]

    @property
    def has_label(self) -> bool:
        """Whether the true label, or a question's answer, is known."""
        return bool(self.example.label) or self.example.answer is not None

    @property
    def true_label(self) -> str:
        """The example's label, a dash where it is not known; of a question, its answer's words."""
        example = self.example
        return example.label or "–" if example.answer is None else " ".join(example.all_words[slice(*example.answer)])

    @property
    def task_attribution(self) -> Attribution | None:
        """An explanation of the task's classifier, which also holds its answer.

        Where all methods explain classifiers of their own, that of the first method; None without methods.
        """
        shared = (a for method, a in self.attributions.items() if not get_info(method).own_model)
        return next(shared, next(iter(self.attributions.values()), None))

    def other_answer(self, method: str) -> str | None:
        """The class that a method explains, where it is not the answer of the task's classifier; methods with a
        classifier of their own explain that one's answer."""
        answer, of_task = self.attributions[method].target, self.task_attribution
        return answer if of_task is not None and answer != of_task.predicted else None


@dataclass(frozen=True, slots=True, eq=False)
class TaskReport:
    """All that the report shows of one task.

    Attributes:
        task: name.
        labels: classes in the classifier's order.
        split_counts: texts of each split.
        agreement: figures of `explearn.text.agreement.agreement_metrics`: alpha, alpha_texts, pairwise_f1, mean_length,
            kinds; any may be missing or None.
        classifier: by split, accuracy, macro_f1, mcc, majority_rate, texts; any may be missing.
        methods: by method, the metrics of `explearn.judge.evaluate.evaluate_task`.
        examples: texts to show.
        k: number of words that the top-K rule chooses in a text; None where unknown.
        positive_rate: share of marked words in training; None where unknown.
        thresholds: method -> lowest score of a chosen word, for methods that choose by a threshold.
        comparisons: by metric, the paired tests, the best methods, and those that tie with them.
        by_text: metric -> method -> its value on each text, (texts,), in the same order for all methods, NaN where
            undefined; names are those of `explearn.judge.catalogue.Metric.by_text`.
        method_agreement: measure -> its value for every two methods, (methods, methods), in the order of `methods`.
        sanity: texts, and by method random_model, random_labels, max_sensitivity and skipped
            (`explearn.judge.sanity.SanityResult`); empty where nothing was checked.
        heatmaps: texts to show with all methods' scores.
        own_models: explainer -> what the stage evaluate found on the classifier that it trained for itself: criteria,
            epochs (how many were run), best_epoch (the one that was kept; 0 where none was better than the start),
            coefficients (of heads, and of layers where it has some), classifier and methods (as above).
        curve: what the stage marks-curve found (`explearn_study.curve_figures`); empty where it did not run.
        notes: method -> its notes (`Explainer.notes`), for methods that have some.
    """

    task: str
    labels: Sequence[str]
    split_counts: Mapping[str, int]
    agreement: Mapping[str, Any]
    classifier: Mapping[str, Mapping[str, Number]]
    methods: Mapping[str, Mapping[str, Number]]
    examples: Sequence[ExampleReport] = field(default_factory=list)
    k: int | None = None
    positive_rate: float | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    comparisons: Mapping[str, PairedTests] = field(default_factory=dict)
    by_text: Mapping[str, Mapping[str, NDArray[np.float64]]] = field(default_factory=dict)
    method_agreement: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    sanity: Mapping[str, Any] = field(default_factory=dict)
    heatmaps: Sequence[ExampleReport] = field(default_factory=list)
    own_models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    curve: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def choose_examples(examples: Sequence[Example], gold: Mapping[str, ArrayLike], count: int, seed: int) -> list[Example]:
    """Draw `count` texts to show: those with marked words first, and the labels in turn.

    The same seed gives the same texts. A text's place in the draw depends on the seed and its id alone, not on the
    other texts or their order.
    """
    draws: dict[tuple[bool, str], list[Example]] = defaultdict(list)
    for example in sorted(examples, key=lambda e: hashlib.sha256(f"{seed}:{e.id}".encode()).digest()):
        unmarked = not np.asarray(gold.get(example.id, False), dtype=np.bool_).any()
        draws[unmarked, example.label].append(example)
    # The labels take turns: (marked first, turn, label).
    turns = [(unmarked, turn, label, e) for (unmarked, label), drawn in draws.items() for turn, e in enumerate(drawn)]
    return [turn[-1] for turn in sorted(turns, key=lambda t: t[:3])[:count]]


def example_reports(
    chosen: Sequence[Example],
    gold: Mapping[str, ArrayLike],
    kinds: Mapping[str, Sequence[RationaleKind]],
    attributions: Mapping[str, Mapping[str, Attribution]],
    *,
    k: int,
    thresholds: Mapping[str, float],
    positive_rate: float,
) -> list[ExampleReport]:
    """The texts of `choose_examples` with the words that each method chooses by its own rule.

    `gold` and `kinds` by example id, `attributions` by method and then example id.
    Raises DataError naming method and id where a method does not explain one of the texts.
    """
    reports = []
    for example in chosen:
        for method, texts in attributions.items():
            if example.id not in texts:
                raise DataError(
                    f"method {method!r}: example {example.id!r} is not explained; expected it for the report"
                )
        mine = {method: texts[example.id] for method, texts in attributions.items()}
        marked = gold.get(example.id)
        reports.append(
            ExampleReport(
                example=example,
                gold=np.zeros(len(example.all_words), dtype=np.bool_)
                if marked is None
                else np.asarray(marked, dtype=np.bool_),
                kinds=tuple(kinds.get(example.id, ())),
                attributions=mine,
                selected={
                    method: attribution.read
                    & binarise(
                        attribution.filled(),
                        get_info(method).binarisation,
                        k=k,
                        threshold=thresholds.get(method),
                        positive_rate=positive_rate,
                    )
                    for method, attribution in mine.items()
                },
            )
        )
    return reports
