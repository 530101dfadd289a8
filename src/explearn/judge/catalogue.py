"""Every metric, declared once: its name, direction, place in the report, and what it says in plain words.

A new metric takes an entry here, a function in the file that `Metric.family` names, and a test. Evaluation, paired
tests, tables, glossary and the gate of figures follow from the entry.

This module imports nothing heavy, so that the report starts quickly.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Literal

Direction = Literal["higher", "lower"]
Group = Literal["plausibility", "faithfulness", "behaviour", "cost", "other"]

INPUTS = {
    "full": "whole text",
    "without": "without the top",
    "only": "the top alone",
    "masked": "the top masked",
}
"""The inputs whose confidence is noted, and what the report calls them: the text, and those of
comprehensiveness, sufficiency and log-odds."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of one method on one task.

    Attributes:
        name: key of its mean or pooled figure in the metrics files.
        heading: head of its column.
        summary: what it says, for a reader who has never met it. {top}, {percents}, {neighbours}, {confidence} and
            {unit} stand for the run's settings.
        direction: which way is better; None where neither is.
        group: the report's table that shows it; `other` for those that have no column in the tables of all methods.
        family: module of `explearn.judge` whose `measure` gives it; empty for a figure that something else makes.
        reference: paper that defines it, with section or equation.
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
    """

    name: str
    heading: str
    summary: str
    direction: Direction | None
    _: KW_ONLY
    group: Group
    family: str = ""
    reference: str = ""
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

    @property
    def larger_is_better(self) -> bool:
        """The direction, for metrics that have one; raises ValueError for others."""
        if self.direction is None:
            raise ValueError(f"metric {self.name!r} has no direction: neither larger nor smaller is better")
        return self.direction == "higher"


_marked_words = partial(
    Metric, direction="higher", group="plausibility", family="plausibility", reference="ExpNet (2026), appendix B"
)
_PLAUSIBILITY = (
    _marked_words(
        "f1",
        "F1",
        "harmonic mean of precision and recall, {unit}s chosen by the method's own rule; in brackets its {confidence} "
        "% interval over resampled texts",
        by_text="text_f1",
    ),
    _marked_words("precision", "Precision", "share of the chosen {unit}s that are marked"),
    _marked_words("recall", "Recall", "share of the marked {unit}s that are chosen"),
    _marked_words(
        "f1_topk",
        "F1 top-K",
        "F1 with one rule for all: each method's K highest-scoring {unit}s, K being the usual length of a rationale",
        by_text="text_f1_topk",
    ),
    _marked_words("macro_f1", "Macro F1", "F1 of each text, then the mean", by_text="text_f1"),
    _marked_words(
        "iou_f1",
        "Span F1",
        "the same for runs of {unit}s: a chosen run counts where it overlaps a marked one by half or more (ERASER)",
        by_text="text_iou_f1",
    ),
    _marked_words(
        "auroc",
        "AUROC",
        "chance that a marked {unit} scores above an unmarked one; 0.5 is a coin's",
        by_text="text_auroc",
    ),
    _marked_words("auprc", "AUPRC", "mean precision down the list of all {unit}s by score", by_text="text_auprc"),
    _marked_words(
        "eraser_auprc",
        "AUPRC by text",
        "area under each text's precision-recall curve, then the mean (ERASER)",
        by_text="text_auprc",
    ),
)
"""Agreement with the words that people marked."""

_SPARSITY = Metric(
    "important_words",
    "Important words",
    "share of a text's words that the method calls important (IvRA)",
    "lower",
    group="other",
    family="importance",
    reference="IvRA, appendix D",
)
"""How few words an explanation takes."""


def _asking(*metrics: Metric) -> tuple[Metric, ...]:
    """Metrics that ask the classifier, and whose figure is the mean of the texts' own values of the same name."""
    return tuple(replace(metric, by_text=metric.name, of_model=True) for metric in metrics)


_faithful = partial(
    Metric,
    group="faithfulness",
    family="faithfulness",
    reference="ERASER (DeYoung et al. 2020), section 4.2; L2E (Situ et al. 2021), section 4.4",
)
_FAITHFULNESS = _asking(
    _faithful("comprehensiveness", "Comprehensiveness", "how much p falls without the {top} of the {unit}s", "higher"),
    _faithful("sufficiency", "Sufficiency", "how much p falls with those {unit}s alone", "lower"),
    _faithful("log_odds", "Log-odds", "change of log p when those {unit}s are masked", "lower"),
    _faithful(
        "aopc_comprehensiveness",
        "AOPC compr.",
        "the first two, mean over the top {percents} %",
        "higher",
        term="AOPC compr., AOPC suff.",
    ),
    _faithful(
        "aopc_sufficiency",
        "AOPC suff.",
        "sufficiency, mean over the top {percents} %",
        "lower",
        explained_with="aopc_comprehensiveness",
    ),
    _faithful(
        "delta_log_odds_positive",
        "Δ log-odds +",
        "how much logit p falls when those of the {top} that speak for the label are masked",
        "higher",
    ),
    _faithful(
        "delta_log_odds_negative",
        "Δ log-odds −",
        "the same for as many {unit}s that speak against it; only of methods that say so by scores below 0",
        "lower",
    ),
    _faithful(
        "prediction_agreement", "Prediction kept", "share of texts whose label the {top} alone preserve", "higher"
    ),
    Metric(
        "infidelity",
        "Infidelity",
        "squared error of predicting from the scores what masking random {unit}s does to p, each text's scores first "
        "multiplied by the factor, of either sign, that fits those very masks best: only proportions count, and "
        "methods whose scores have no sign gain by it",
        "lower",
        group="faithfulness",
        family="infidelity",
        reference="Yeh et al. 2019, definition 2.1",
        decimals=4,
    ),
)
"""Agreement with the model."""

_stable = partial(
    Metric,
    direction="higher",
    group="behaviour",
    family="stability",
    reference="L2E (Situ et al. 2021), section 4.4, equation 1",
)
_BEHAVIOUR = _asking(
    _stable(
        "stability_semantic",
        "Stability, meaning",
        "overlap of the explanations of a text and of the {neighbours} nearest to it in the classifier's states, among "
        "the texts explained; the more {unit}s of a text count as evidence, the larger it gets by itself",
    ),
    _stable("stability_lexical", "Stability, wording", "the same for the nearest by shared {unit}s and runs of them"),
    _stable(
        "stability_semantic_content",
        "Meaning, content words",
        "the same without stop words",
        term="Meaning, Wording, content words",
    ),
    _stable(
        "stability_lexical_content",
        "Wording, content words",
        "stability by wording, without stop words",
        explained_with="stability_semantic_content",
    ),
    Metric(
        "consistency",
        "Consistency",
        "rank correlation between how far apart the classifier's states of two texts are, and how far apart their "
        "explanations",
        "higher",
        group="behaviour",
        family="consistency",
        reference="IvRA, section 2.2.3, equations 12 and 18",
    ),
    Metric(
        "simulatability",
        "Simulatability",
        "how many more of the classifier's answers a student predicts that was taught with explanations",
        "higher",
        group="behaviour",
        family="simulatability",
        reference="IvRA, section 2.2.1, equations 6 and 7",
    ),
)
"""How alike the explanations of like texts are, and what they teach."""

_DISTRIBUTION = tuple(
    Metric(
        f"confidence_{inputs}",
        f"Confidence, {words}",
        f"largest class probability, {words}",
        None,
        group="other",
        family="faithfulness",
    )
    for inputs, words in INPUTS.items()
)
"""The classifier on the inputs that faithfulness makes."""

_cost = partial(Metric, group="cost", family="costs")
_COSTS = (
    _cost("throughput", "Texts a second", "classified and explained", "higher", of_machine=True, decimals=1),
    _cost(
        "relative_throughput",
        "Speed",
        "time of classifying alone, divided by the time of classifying and explaining; 1× costs nothing",
        "higher",
        of_machine=True,
        decimals=2,
        suffix="×",
        limit=1.0,
    ),
    Metric(
        "time",
        "Time",
        "the other way round: how many times longer than classifying alone",
        "lower",
        group="cost",
        of_machine=True,
        derived=True,
        decimals=1,
        suffix="×",
        limit=1.0,
    ),
    _cost(
        "forward_passes",
        "Forward passes",
        "texts sent through the classifier, and gradients taken through it, for one text explained",
        "lower",
        passes=True,
        decimals=1,
        term="Forward, backward passes",
    ),
    _cost(
        "backward_passes",
        "Backward passes",
        "gradients taken through the classifier for one text explained",
        "lower",
        passes=True,
        decimals=1,
        explained_with="forward_passes",
    ),
    _cost(
        "peak_memory_mb",
        "Memory, MiB",
        "largest memory in use while explaining, model included: of the GPU, or else of the whole process",
        "lower",
        of_machine=True,
        decimals=0,
        term="Memory",
    ),
    _cost(
        "completeness_error",
        "Completeness error",
        "for methods whose scores should add up to a known number: by how much they miss it, as a share of their "
        "absolute sum, on average",
        "lower",
    ),
)
"""What an explanation costs: passes are counted, times and memory measured on the machine."""

_elsewhere = partial(Metric, direction="higher", group="other")
_OTHERS = (
    _elsewhere("difference", "Difference", "comprehensiveness - sufficiency", of_model=True),
    _elsewhere("aopc_difference", "AOPC difference", "aopc_comprehensiveness - aopc_sufficiency", of_model=True),
    _elsewhere(
        "agreement",
        "Agreement",
        "share of texts whose class the words of an explanation alone preserve (L2E)",
        of_model=True,
    ),
    _elsewhere("accuracy", "Accuracy", "share of texts that a classifier labels correctly"),
)
"""Figures that other stages give, or that a method optimises."""

CATALOGUE: dict[str, Metric] = {
    metric.name: metric
    for metric in (*_PLAUSIBILITY, _SPARSITY, *_FAITHFULNESS, *_BEHAVIOUR, *_DISTRIBUTION, *_COSTS, *_OTHERS)
}
"""Every metric by name; tables show them, and families are measured, in this order."""

METRICS: dict[str, Metric] = {name: metric for name, metric in CATALOGUE.items() if metric.by_text}
"""Those that methods are compared by, with paired tests over the texts."""
