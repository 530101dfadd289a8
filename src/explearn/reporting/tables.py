"""What the report is made from, and the leaderboard's order and cells."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.data.records import Attribution, Example, RationaleKind
from explearn.errors import DataError
from explearn.metrics.plausibility import binarise
from explearn.registry import get_info
from explearn.reporting.markdown import Markdown, escape_markdown

Number = int | float | None

FAMILY_ORDER = ("learned", "chance", "attention", "gradient", "relevance", "perturbation", "decomposition")
"""Families in the order of the leaderboard; others follow by name."""


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


@dataclass(frozen=True, slots=True, eq=False)
class TaskReport:
    """One task's part of the report.

    Attributes:
        task: name.
        labels: classes in the classifier's order.
        split_counts: texts of each split.
        agreement: figures of `explearn.data.agreement.agreement_metrics`: alpha, alpha_texts, pairwise_f1, mean_length,
            kinds; any may be missing or None.
        classifier: by split, accuracy, macro_f1, mcc, majority_rate, texts; any may be missing.
        methods: by method, the metrics of `explearn.metrics.evaluate.evaluate_task`.
        examples: texts to show.
        k: words chosen a text by the top-K rule; None where unknown.
        positive_rate: share of marked words in training; None where unknown.
        thresholds: method -> score from which a word counts, for methods with that rule.
        notes: method -> what it noted while it explained (`explearn.explainer.Explainer.notes`), for those with notes.
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
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the leaderboard: metric, heading, whether a larger value is better, and the decimals shown."""

    metric: str
    heading: str
    larger_is_better: bool
    suffix: str = ""
    decimals: int = 3

    @property
    def title(self) -> str:
        return f"{self.heading} {'↑' if self.larger_is_better else '↓'}"

    def text(self, value: Number) -> str:
        """The value as shown; a plain 0.000 for values that round to zero."""
        return "–" if value is None else f"{round(value, self.decimals) + 0.0:,.{self.decimals}f}{self.suffix}"


PLAUSIBILITY_COLUMNS = (
    Column("f1", "F1", True),
    Column("precision", "Precision", True),
    Column("recall", "Recall", True),
    Column("f1_topk", "F1 top-K", True),
    Column("macro_f1", "Macro F1", True),
    Column("auroc", "AUROC", True),
    Column("auprc", "AUPRC", True),
)
FAITHFULNESS_COLUMNS = (
    Column("comprehensiveness", "Comprehensiveness", True),
    Column("sufficiency", "Sufficiency", False),
    Column("log_odds", "Log-odds", False),
    Column("aopc_comprehensiveness", "AOPC compr.", True),
    Column("aopc_sufficiency", "AOPC suff.", False),
)
COST_COLUMNS = (
    Column("throughput", "Texts a second", True, decimals=1),
    Column("relative_throughput", "Speed", True, "×"),
    Column("forward_passes", "Forward passes", False, decimals=1),
    Column("backward_passes", "Backward passes", False, decimals=1),
    Column("peak_memory_mb", "Memory, MiB", False, decimals=0),
    Column("completeness_error", "Completeness error", False),
)


def leaderboard_order(methods: Mapping[str, object] | Sequence[str]) -> list[str]:
    """Method names by family (FAMILY_ORDER, then others by name); within a family in the order given."""
    families = {method: get_info(method).family for method in methods}

    def rank(method: str) -> tuple[int, str]:
        family = families[method]
        known = family in FAMILY_ORDER
        return (FAMILY_ORDER.index(family) if known else len(FAMILY_ORDER), "" if known else family)

    return sorted(methods, key=rank)


def leaderboard(methods: Mapping[str, Mapping[str, Number]], columns: Sequence[Column]) -> list[list[Markdown]]:
    """Rows of family, method and one cell a column; the best of each column is bold, all of them where several show
    the same figure. F1 comes with its interval."""
    best = {column.metric: _best(column, methods) for column in columns}
    rows: list[list[Markdown]] = []
    for method in leaderboard_order(methods):
        cells = [escape_markdown(get_info(method).family), escape_markdown(method)]
        for column in columns:
            text = column.text(methods[method].get(column.metric))
            shown = f"**{text}**" if text == best[column.metric] else text
            if column.metric == "f1":
                shown += interval(methods[method])
            cells.append(Markdown(shown))
        rows.append(cells)
    return rows


def interval(metrics: Mapping[str, Number]) -> str:
    """Bounds of F1 as ' (0.31–0.42)', empty where there are none."""
    low, high = metrics.get("f1_low"), metrics.get("f1_high")
    return "" if low is None or high is None else f" ({low:.2f}–{high:.2f})"


def _best(column: Column, methods: Mapping[str, Mapping[str, Number]]) -> str | None:
    values = [value for metrics in methods.values() if (value := metrics.get(column.metric)) is not None]
    if not values:
        return None
    return column.text(max(values) if column.larger_is_better else min(values))


def choose_examples(examples: Sequence[Example], gold: Mapping[str, ArrayLike], count: int, seed: int) -> list[Example]:
    """`count` texts to show, the same whenever the seed is: those with marked words first, then evenly over labels.

    A text's place in the draw depends on the seed and its id alone, not on the other texts or their order.
    """
    draws: dict[tuple[bool, str], list[Example]] = defaultdict(list)
    for example in sorted(examples, key=lambda e: hashlib.sha256(f"{seed}:{e.id}".encode()).digest()):
        unmarked = not np.asarray(gold.get(example.id, False), dtype=np.bool_).any()
        draws[unmarked, example.label].append(example)
    # Turn by turn over the labels: (marked first, turn, label).
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
    """The texts of `choose_examples` with the words each method chose by its own rule.

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
                    method: binarise(
                        attribution.scores,
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
