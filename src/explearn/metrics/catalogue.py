"""Every metric, declared once: its name, direction, place in the report, and what it says in plain words.

A new metric takes an entry here, a function in the file that `Metric.family` names, and a test. Evaluation, paired
tests, tables, glossary and the gate of figures follow from the entry.

This module imports nothing heavy, so that the report starts quickly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Literal

Direction = Literal["higher", "lower"]
Group = Literal["plausibility", "faithfulness", "behaviour", "cost", "distribution", "other"]

INPUTS = {
    "full": "whole text",
    "without": "without top words",
    "only": "top words alone",
    "masked": "top words masked",
}
"""The inputs whose confidence and entropy are noted, and what the report calls them: the text, and those of
comprehensiveness, sufficiency and log-odds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A figure of one method on one task.

    Attributes:
        name: key of its mean or pooled figure in the metrics files.
        direction: which way is better; None where neither is.
        group: the report's table that shows it; `other` for those that have no column in the tables of all methods.
        heading: head of its column.
        summary: what it says, for a reader who has never met it. {top}, {percents}, {neighbours} and {confidence} stand
            for the run's settings.
        family: module of `explearn.metrics` whose `measure` gives it; empty for a figure that something else makes.
        by_text: name of the texts' own values that paired tests take; empty where methods are not tested on it.
        of_model: whether it asks the classifier that is explained. Methods that explain different classifiers cannot be
            compared by such a metric.
        of_machine: whether it depends on the machine and its load: times and memory.
        passes: counts passes through the model.
        derived: computed by the report from others; the metrics files do not hold it.
        decimals: shown of it. suffix: shown behind it.
        limit: the best value that a true figure can have; better ones come from noise.
        term: its name in the glossary (default: the heading).
        explained_with: metric in whose row the glossary explains it too.
        explained_after: metric that the glossary explains first (default: as in the catalogue).
    """

    name: str
    direction: Direction | None
    group: Group
    heading: str
    summary: str
    family: str = ""
    by_text: str = ""
    of_model: bool = False
    of_machine: bool = False
    passes: bool = False
    derived: bool = False
    decimals: int = 3
    suffix: str = ""
    limit: float | None = None
    term: str = ""
    explained_with: str = ""
    explained_after: str = ""

    @property
    def larger_is_better(self) -> bool:
        """The direction, for metrics that have one; raises ValueError for others."""
        if self.direction is None:
            raise ValueError(f"metric {self.name!r} has no direction: neither larger nor smaller is better")
        return self.direction == "higher"


def _plausibility() -> Iterator[Metric]:
    """Agreement with the words that people marked."""

    def entry(
        name: str, heading: str, summary: str, by_text: str = "", term: str = "", explained_after: str = ""
    ) -> Metric:
        return Metric(
            name=name,
            direction="higher",
            group="plausibility",
            heading=heading,
            summary=summary,
            family="judge",
            by_text=by_text,
            term=term,
            explained_after=explained_after,
        )

    yield entry(
        "f1",
        "F1",
        "harmonic mean of the two, words chosen by the method's own rule; in brackets its {confidence} % interval over "
        "resampled texts",
        "text_f1",
        explained_after="recall",
    )
    yield entry("precision", "Precision", "share of the chosen words that are marked")
    yield entry("recall", "Recall", "share of the marked words that are chosen")
    yield entry(
        "f1_topk",
        "F1 top-K",
        "the same with one rule for all: each method's K highest-scoring words, K being the usual length of a "
        "rationale",
        "text_f1_topk",
    )
    yield entry("macro_f1", "Macro F1", "F1 of each text, then the mean", "text_f1")
    yield entry(
        "iou_f1",
        "Span F1",
        "the same for runs of words: a chosen run counts where it overlaps a marked one by half or more (ERASER)",
        "text_iou_f1",
    )
    yield entry(
        "auroc", "AUROC", "chance that a marked word scores above an unmarked one; 0.5 is a coin's", "text_auroc"
    )
    yield entry("auprc", "AUPRC", "mean precision down the list of all words by score", "text_auprc")
    yield entry(
        "eraser_auprc",
        "AUPRC by text",
        "area under each text's precision-recall curve, then the mean (ERASER)",
        "text_auprc",
    )


def _sparsity() -> Iterator[Metric]:
    """How few words an explanation takes."""
    yield Metric(
        name="important_words",
        direction="lower",
        group="other",
        heading="Important words",
        summary="share of a text's words that the method calls important (IvRA)",
        family="importance",
    )


def _of_model(
    name: str,
    direction: Direction,
    group: Group,
    heading: str,
    summary: str,
    family: str,
    decimals: int = 3,
    term: str = "",
    explained_with: str = "",
) -> Metric:
    """A metric that asks the classifier, and whose figure is the mean of the texts' own values."""
    return Metric(
        name=name,
        direction=direction,
        group=group,
        heading=heading,
        summary=summary,
        family=family,
        by_text=name,
        of_model=True,
        decimals=decimals,
        term=term,
        explained_with=explained_with,
    )


def _faithfulness() -> Iterator[Metric]:
    """Agreement with the model."""

    def entry(
        name: str, direction: Direction, heading: str, summary: str, term: str = "", explained_with: str = ""
    ) -> Metric:
        return _of_model(
            name,
            direction,
            "faithfulness",
            heading,
            summary,
            "faithfulness",
            term=term,
            explained_with=explained_with,
        )

    yield entry("comprehensiveness", "higher", "Comprehensiveness", "how much p falls without the {top} of the words")
    yield entry("sufficiency", "lower", "Sufficiency", "how much p falls with those words alone")
    yield entry("log_odds", "lower", "Log-odds", "change of log p when those words are masked")
    yield entry(
        "aopc_comprehensiveness",
        "higher",
        "AOPC compr.",
        "the first two, mean over the top {percents} %",
        term="AOPC compr., AOPC suff.",
    )
    yield entry(
        "aopc_sufficiency",
        "lower",
        "AOPC suff.",
        "sufficiency, mean over the top {percents} %",
        explained_with="aopc_comprehensiveness",
    )
    yield entry(
        "delta_log_odds_positive",
        "higher",
        "Δ log-odds +",
        "how much logit p falls when those of the {top} that speak for the label are masked",
    )
    yield entry(
        "delta_log_odds_negative",
        "lower",
        "Δ log-odds −",
        "the same for as many words that speak against it; only of methods that say so by scores below 0",
    )
    yield entry(
        "prediction_agreement", "higher", "Prediction kept", "share of texts whose label the {top} alone preserve"
    )
    yield _of_model(
        "infidelity",
        "lower",
        "faithfulness",
        "Infidelity",
        "squared error of predicting from the scores what masking random words does to p, each text's scores first "
        "multiplied by the factor, of either sign, that fits those very masks best: only proportions count, and "
        "methods whose scores have no sign gain by it",
        "infidelity",
        decimals=4,
    )


def _behaviour() -> Iterator[Metric]:
    """Likeness among texts, and what explanations teach."""

    def stability(name: str, heading: str, summary: str, term: str = "", explained_with: str = "") -> Metric:
        return _of_model(
            name, "higher", "behaviour", heading, summary, "stability", term=term, explained_with=explained_with
        )

    yield stability(
        "stability_semantic",
        "Stability, meaning",
        "overlap of the explanations of a text and of the {neighbours} nearest to it in the classifier's states, among "
        "the texts explained; the more words of a text count as evidence, the larger it gets by itself",
    )
    yield stability("stability_lexical", "Stability, wording", "the same for the nearest by shared words and phrases")
    yield stability(
        "stability_semantic_content",
        "Meaning, content words",
        "the same without stop words",
        term="Meaning, Wording, content words",
    )
    yield stability(
        "stability_lexical_content",
        "Wording, content words",
        "stability by wording, without stop words",
        explained_with="stability_semantic_content",
    )
    yield _of_model(
        "consistency",
        "higher",
        "behaviour",
        "Consistency",
        "rank correlation between how far apart the classifier's states of two texts are, and how far apart their "
        "explanations",
        "consistency",
    )
    yield _of_model(
        "simulatability",
        "higher",
        "behaviour",
        "Simulatability",
        "how many more of the classifier's answers a student predicts that was taught with explanations",
        "simulatability",
    )


def _costs() -> Iterator[Metric]:
    """What an explanation costs, with the passes counted and the rest measured on the machine."""
    yield Metric(
        name="throughput",
        direction="higher",
        group="cost",
        heading="Texts a second",
        summary="classified and explained",
        family="costs",
        of_machine=True,
        decimals=1,
    )
    yield Metric(
        name="relative_throughput",
        direction="higher",
        group="cost",
        heading="Speed",
        summary="time of classifying alone, divided by the time of classifying and explaining; 1× costs nothing",
        family="costs",
        of_machine=True,
        decimals=2,
        suffix="×",
        limit=1.0,
    )
    yield Metric(
        name="time",
        direction="lower",
        group="cost",
        heading="Time",
        summary="the other way round: how many times longer than classifying alone",
        of_machine=True,
        derived=True,
        decimals=1,
        suffix="×",
        limit=1.0,
    )
    yield Metric(
        name="forward_passes",
        direction="lower",
        group="cost",
        heading="Forward passes",
        summary="texts sent through the classifier, and gradients taken through it, for one text explained",
        family="costs",
        passes=True,
        decimals=1,
        term="Forward, backward passes",
    )
    yield Metric(
        name="backward_passes",
        direction="lower",
        group="cost",
        heading="Backward passes",
        summary="gradients taken through the classifier for one text explained",
        family="costs",
        passes=True,
        decimals=1,
        explained_with="forward_passes",
    )
    yield Metric(
        name="peak_memory_mb",
        direction="lower",
        group="cost",
        heading="Memory, MiB",
        summary="largest memory in use while explaining, model included: of the GPU, or else of the whole process",
        family="costs",
        of_machine=True,
        decimals=0,
        term="Memory",
    )
    yield Metric(
        name="completeness_error",
        direction="lower",
        group="cost",
        heading="Completeness error",
        summary="for methods whose scores should add up to a known number: by how much they miss it, on average",
        family="costs",
    )


def _distribution() -> Iterator[Metric]:
    """The classifier on the inputs that faithfulness makes."""
    for measure, heading, summary in (
        ("confidence", "Confidence", "largest class probability"),
        ("entropy", "Entropy", "entropy of the class probabilities, in nats"),
    ):
        for inputs, words in INPUTS.items():
            yield Metric(
                name=f"{measure}_{inputs}",
                direction=None,
                group="distribution",
                heading=f"{heading}, {words}",
                summary=f"{summary}, {words}",
                family="faithfulness",
            )


def _elsewhere() -> Iterator[Metric]:
    """Figures that other stages give, or that a method optimises."""
    yield Metric(
        name="difference",
        direction="higher",
        group="other",
        heading="Difference",
        summary="comprehensiveness - sufficiency",
        of_model=True,
    )
    yield Metric(
        name="aopc_difference",
        direction="higher",
        group="other",
        heading="AOPC difference",
        summary="aopc_comprehensiveness - aopc_sufficiency",
        of_model=True,
    )
    yield Metric(
        name="agreement",
        direction="higher",
        group="other",
        heading="Agreement",
        summary="share of texts whose class the words of an explanation alone preserve (L2E)",
        of_model=True,
    )
    yield Metric(
        name="accuracy",
        direction="higher",
        group="other",
        heading="Accuracy",
        summary="share of texts that a classifier labels correctly",
    )


CATALOGUE: dict[str, Metric] = {
    metric.name: metric
    for metric in chain(
        _plausibility(), _sparsity(), _faithfulness(), _behaviour(), _distribution(), _costs(), _elsewhere()
    )
}
"""Every metric by name; tables show them, and families are measured, in this order."""

METRICS: dict[str, Metric] = {name: metric for name, metric in CATALOGUE.items() if metric.by_text}
"""Those that methods are compared by, with paired tests over the texts."""

FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(metric.family for metric in CATALOGUE.values() if metric.family))
"""Modules of `explearn.metrics` that measure them."""
