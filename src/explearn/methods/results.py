"""The results of a run, as input to its report: facts about the run, and each task's figures.

Evaluation code fills these objects and passes them to `explearn.report`. A method may name a function
`report(run, tasks) -> list[Block]` (`About.report`) that returns its section, empty if the run does not have the
method.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explearn.core.arrays import Array, Mask
from explearn.core.attribution import Attribution
from explearn.core.examples import Example, RationaleKind
from explearn.methods.info import FAMILIES, MethodInfo
from explearn.metrics.params import EvaluateParams
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import PairedTests

Number = int | float | None


def in_table_order(infos: Iterable[MethodInfo]) -> dict[str, MethodInfo]:
    """Return methods by name, ordered by family and within each as given: the order of all tables."""
    return {info.name: info for info in sorted(infos, key=lambda info: FAMILIES.index(info.family))}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """Facts about a run as a whole.

    Attributes:
        title: the page's title.
        subtitle: a sentence on what was evaluated.
        methods: name -> its facts, in the order of `in_table_order`, including variants.
        study: the method under study, if any.
        trained: the learned methods that this run trained; others were already trained.
        options: method -> its options.
        evaluate: parameters of the evaluation.
        chance_margin: by how much a classifier must be better than always choosing the most frequent class for its task
            to count, unless it avoids half of that choice's errors.
        seed: the run's seed.
        remarks: further sentences on what not to trust.
        parameters: the run's parameters to show, as YAML; empty for none.
        unit: what is scored, chosen and marked in every text, in the singular.
        made: when, how and from what the page was made: heading -> fact.
        versions: of the run's packages; empty for all that the pipeline may use.
    """

    title: str
    subtitle: str
    methods: Mapping[str, MethodInfo]
    study: str | None = None
    trained: Collection[str] = ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    evaluate: EvaluateParams = field(default_factory=EvaluateParams)
    chance_margin: float = 0.1
    seed: int = 13
    remarks: Sequence[str] = ()
    parameters: str = ""
    unit: str = "word"
    made: Mapping[str, str] = field(default_factory=dict)
    versions: Sequence[tuple[str, str]] = ()

    @property
    def chance(self) -> set[str]:
        """The methods that draw their scores at random."""
        return {name for name, info in self.methods.items() if info.family == "chance"}

    def ordered(self, names: Collection[str]) -> list[str]:
        """Return `names` in the order of tables."""
        return [name for name in self.methods if name in names]

    def comparable(self, method: str, metric: str) -> bool:
        """Return whether a method's figure can be compared with other methods.

        It cannot if the method explains its own classifier and the metric depends on the classifier.
        """
        return not (self.methods[method].own_model and metric in CATALOGUE and CATALOGUE[metric].of_model)


@dataclass(frozen=True, slots=True, eq=False)
class ExampleReport:
    """One text to show.

    Attributes:
        example: the text and its true label.
        gold: marked words, bool (n,).
        kinds: who marked it (human, llm, unknown); empty if nobody did.
        attributions: by method.
        selected: by method, the words that it chooses by its own rule, bool (n,).
        answer: an explanation of the task's classifier, which also holds the prediction. If all methods explain their
            own classifiers, the first method's; None without methods.
    """

    example: Example
    gold: Mask
    kinds: tuple[RationaleKind, ...]
    attributions: Mapping[str, Attribution]
    selected: Mapping[str, Mask]
    answer: Attribution | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TaskReport:
    """The results of a run on one task.

    Attributes:
        task: name.
        labels: classes in the classifier's order.
        split_counts: texts of each split.
        agreement: figures of `explearn.text.agreement.agreement_metrics`; any may be missing or None.
        classifier: by split, accuracy, macro_f1, mcc, majority_rate, texts; any may be missing.
        methods: by method, the figures of `explearn.evaluate`, costs joined.
        texts: example texts.
        k: number of words that the top-K rule chooses in a text; None where unknown.
        positive_rate: share of marked words in training; None where unknown.
        thresholds: method -> lowest score of a chosen word, for methods that choose by a threshold.
        comparisons: by metric, the paired tests, the best methods, and those that tie with them.
        by_text: metric -> method -> its value on each text, (texts,), in the same order for all methods, NaN where
            undefined; names are those of `explearn.Metric.by_text`.
        sanity: texts, and by method random_model, random_labels, max_sensitivity and skipped
            (`explearn.metrics.sanity.SanityResult`); empty where nothing was checked.
        notes: method -> its notes (`Explainer.notes`), for methods that have some; of a trained one `best_epoch`, 0 if
            none was better than the start.
    """

    task: str
    labels: Sequence[str]
    split_counts: Mapping[str, int]
    agreement: Mapping[str, Any]
    classifier: Mapping[str, Mapping[str, Number]]
    methods: Mapping[str, Mapping[str, Number]]
    texts: Sequence[ExampleReport] = ()
    k: int | None = None
    positive_rate: float | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    comparisons: Mapping[str, PairedTests] = field(default_factory=dict)
    by_text: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)
    sanity: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def standings(self) -> dict[str, tuple[Collection[str], Collection[str]]]:
        """The best methods by tested metric, and those that are not significantly worse."""
        return {metric: (test.best, test.tied) for metric, test in self.comparisons.items()}


Tasks = Sequence[TaskReport]
