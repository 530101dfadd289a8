"""Every metric, declared once: its name, direction, place in the report, and meaning in plain words.

A new metric needs an entry here, a function in the file of its kind in this folder, and a test. Evaluation, paired
tests, tables, glossary and the gate follow from the entry.

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
    "without": "without the top words",
    "only": "only the top words",
    "masked": "top words masked",
}
"""The inputs whose confidence is recorded, with their names in the report: the text, and the shortened texts of
comprehensiveness, sufficiency and log-odds."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure of one method on one task.

    Attributes:
        name: key of its mean or pooled figure in the metrics files.
        heading: heading of its column.
        summary: its meaning, for a reader who does not know it. {top}, {percents}, {neighbours}, {confidence} and
            {unit} stand for the run's settings.
        direction: which direction is better; None if neither is.
        group: the report's table that shows it; `other` if no table of all methods has a column for it.
        reference: paper that defines it, with section or equation.
        by_text: name of the values by text for paired tests; empty if methods are not tested on it.
        of_model: whether it depends on the explained classifier. Methods that explain different classifiers cannot be
            compared by such a metric.
        of_machine: whether it depends on the machine and its load: times and memory.
        passes: whether it counts passes through the model.
        derived: whether the report computes it from others; the metrics files do not have it.
        decimals: decimals shown. suffix: shown after the figure.
        limit: the best possible value; better ones come from noise.
        term: its name in the glossary (default: the heading).
        explained_with: metric in whose row the glossary also explains it.
    """

    name: str
    heading: str
    summary: str
    direction: Direction | None
    _: KW_ONLY
    group: Group
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


_marked_words = partial(Metric, direction="higher", group="plausibility", reference="ExpNet (2026), appendix B")
_PLAUSIBILITY = (
    _marked_words(
        "f1",
        "F1",
        "harmonic mean of precision and recall, {unit}s chosen by the method's own rule; in brackets its {confidence} "
        "% interval over the texts",
        by_text="text_f1",
    ),
    _marked_words("precision", "Precision", "share of the chosen {unit}s that are marked"),
    _marked_words("recall", "Recall", "share of the marked {unit}s that are chosen"),
    _marked_words(
        "f1_topk",
        "F1 top-K",
        "F1 with one rule for all: each method's K highest-scoring {unit}s, K being the mean length of a rationale",
        by_text="text_f1_topk",
    ),
    _marked_words("macro_f1", "Macro F1", "F1 of each text, then the mean", by_text="text_f1"),
    _marked_words(
        "iou_f1",
        "Span F1",
        "the same for runs of {unit}s: a chosen run counts if it overlaps a marked one by half or more (ERASER)",
        by_text="text_iou_f1",
    ),
    _marked_words(
        "auroc",
        "AUROC",
        "probability that a marked {unit} scores above an unmarked one; 0.5 is chance",
        by_text="text_auroc",
    ),
    _marked_words("auprc", "AUPRC", "mean precision over the ranking of all {unit}s by score", by_text="text_auprc"),
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
    reference="IvRA, appendix D",
)
"""How concise explanations are."""


def _asking(*metrics: Metric) -> tuple[Metric, ...]:
    """Declare a metric that depends on the classifier, with the mean of its values by text as figure."""
    return tuple(replace(metric, by_text=metric.name, of_model=True) for metric in metrics)


_faithful = partial(
    Metric,
    group="faithfulness",
    reference="ERASER (DeYoung et al. 2020), section 4.2; L2E (Situ et al. 2021), section 4.4",
)
_FAITHFULNESS = _asking(
    _faithful("comprehensiveness", "Comprehensiveness", "how much p falls without the {top} of the {unit}s", "higher"),
    _faithful("sufficiency", "Sufficiency", "how much p falls if only those {unit}s are kept", "lower"),
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
        "how much logit p falls when the {unit}s of the {top} that are evidence for the label are masked",
        "higher",
    ),
    _faithful(
        "delta_log_odds_negative",
        "Δ log-odds −",
        "the same for as many {unit}s that are evidence against it; only for signed methods",
        "lower",
    ),
    _faithful(
        "prediction_agreement",
        "Prediction kept",
        "share of texts whose predicted label stays if only the {top} are kept",
        "higher",
    ),
    Metric(
        "infidelity",
        "Infidelity",
        "squared error of predicting the effect of masking random {unit}s on p from the scores, after multiplying "
        "each text's scores by the factor, of either sign, that fits these masks best: only proportions count, which "
        "favours unsigned methods",
        "lower",
        group="faithfulness",
        reference="Yeh et al. 2019, definition 2.1",
        decimals=4,
    ),
)
"""Agreement with the model."""

_stable = partial(
    Metric,
    direction="higher",
    group="behaviour",
    reference="L2E (Situ et al. 2021), section 4.4, equation 1",
)
_BEHAVIOUR = _asking(
    _stable(
        "stability_semantic",
        "Stability, meaning",
        "overlap of a text's explanation with those of the {neighbours} explained texts nearest to it in the "
        "classifier's states; it rises with the number of {unit}s that count as evidence",
    ),
    _stable("stability_lexical", "Stability, wording", "the same for texts nearest by shared {unit}s and n-grams"),
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
        "rank correlation between the distances of texts in the classifier's states and the distances of their "
        "explanations",
        "higher",
        group="behaviour",
        reference="IvRA, section 2.2.3, equations 12 and 18",
    ),
    Metric(
        "simulatability",
        "Simulatability",
        "gain in accuracy at predicting the classifier for a student that was trained with explanations",
        "higher",
        group="behaviour",
        reference="IvRA, section 2.2.1, equations 6 and 7",
    ),
)
"""Similarity of explanations of similar texts, and what explanations teach a student."""

_DISTRIBUTION = tuple(
    Metric(
        f"confidence_{inputs}",
        f"Confidence, {words}",
        f"largest class probability, {words}",
        None,
        group="other",
    )
    for inputs, words in INPUTS.items()
)
"""The classifier's confidence on the inputs of faithfulness metrics."""

_cost = partial(Metric, group="cost")
_COSTS = (
    _cost("throughput", "Texts per second", "classified and explained", "higher", of_machine=True, decimals=1),
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
        "the inverse: how many times longer than classifying alone",
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
        "forward and backward passes through the classifier per explained text",
        "lower",
        passes=True,
        decimals=1,
        term="Forward, backward passes",
    ),
    _cost(
        "backward_passes",
        "Backward passes",
        "backward passes through the classifier per explained text",
        "lower",
        passes=True,
        decimals=1,
        explained_with="forward_passes",
    ),
    _cost(
        "peak_memory_mb",
        "Memory, MiB",
        "peak memory while explaining, including the model: of the GPU, or else of the whole process",
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
"""Costs of an explanation: passes are counted, times and memory measured on the machine."""

_elsewhere = partial(Metric, direction="higher", group="other")
_OTHERS = (
    _elsewhere("difference", "Difference", "comprehensiveness - sufficiency", of_model=True),
    _elsewhere("aopc_difference", "AOPC difference", "aopc_comprehensiveness - aopc_sufficiency", of_model=True),
    _elsewhere(
        "agreement",
        "Agreement",
        "share of texts whose class stays if only the words of an explanation are kept (L2E)",
        of_model=True,
    ),
    _elsewhere("accuracy", "Accuracy", "share of texts that a classifier labels correctly"),
)
"""Figures of other stages, or optimised by a method."""

CATALOGUE: dict[str, Metric] = {
    metric.name: metric
    for metric in (*_PLAUSIBILITY, _SPARSITY, *_FAITHFULNESS, *_BEHAVIOUR, *_DISTRIBUTION, *_COSTS, *_OTHERS)
}
"""Every metric by name; tables show them, and families are measured, in this order."""

METRICS: dict[str, Metric] = {name: metric for name, metric in CATALOGUE.items() if metric.by_text}
"""The metrics by which methods are compared, with paired tests over the texts."""
