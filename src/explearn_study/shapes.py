"""The shapes of the JSON documents under reports/metrics, for `explearn.core.shapes`."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from explearn.core.shapes import Count, Figure, Figures, Shape


class Agreement(Shape):
    """What stage rationalise finds (`explearn.text.agreement.agreement_metrics`)."""

    mean_length: Figure
    positive_rate: Figure
    alpha: Figure = None
    pairwise_f1: Figure = None
    alpha_texts: Count | None = None
    mean_length_by_split: Figures | None = None
    positive_rate_by_split: Figures | None = None
    texts: dict[str, Count] | None = None
    alpha_by_pair: dict[str, Figures] | None = None
    kinds: dict[str, Count] | None = None
    rationales: Count | None = None
    annotators: Count | None = None
    adjudicated: Count | None = None
    llm: dict[str, Any] | None = None


class ClassifierFigures(Shape):
    """What stage finetune finds on a split's texts; a split without texts has none."""

    validation: Figures | None
    test: Figures | None
    epochs: Count | None = None


class MethodFigures(Shape):
    """Metric -> value, of one method; the catalogue has the metrics."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Figure] = Field(init=False)

    texts: Count


Explanations = dict[str, MethodFigures]
"""Method -> its figures."""


class ComparedMethods(Shape):
    """Of one metric, who is best and who ties."""

    larger_is_better: bool
    best: list[str]
    tied: list[str]
    values: Figures
    texts: dict[str, Count]


class Comparisons(Shape):
    """What `explearn_study.metric_files.write_comparisons` writes."""

    methods: list[str]
    agreement: list[str]
    metrics: dict[str, ComparedMethods]


class Similarity(Shape):
    """See `explearn.judge.sanity.Similarity`."""

    spearman: Figure
    spearman_low: Figure
    spearman_high: Figure
    overlap: Figure


class SanityOfMethod(Shape):
    """See `explearn.judge.sanity.SanityResult`."""

    random_model: dict[str, Similarity]
    random_labels: Similarity | None
    max_sensitivity: Figure
    skipped: str


class Sanity(Shape):
    """What stage sanity finds."""

    texts: Count
    methods: dict[str, SanityOfMethod]


class Point(Shape):
    """Figures after training with a number of marked texts."""

    marks: Count
    protocol: str
    f1_topk: Figure
    f1_topk_low: Figure
    f1_topk_high: Figure
    auroc: Figure
    auroc_low: Figure
    auroc_high: Figure
    f1: Figure
    f1_low: Figure
    f1_high: Figure
    by_draw: dict[str, list[Figure]]


class MarksCurve(Shape):
    """What stage marks-curve finds (`explearn_study.curve_figures`)."""

    task: str
    texts: Count
    k: Count
    draws: Count
    points: list[Point]


class Coefficients(Shape):
    """How much attention counts: heads (layers, heads), layers (layers,)."""

    heads: list[list[Figure]]
    layers: list[Figure] | None = None


class _Criteria(Shape):
    criteria: list[str]


class TrainedModel(Shape):
    """What of the config.json of an explainer with a classifier of its own is judged."""

    options: _Criteria
    history: list[Any]
    best_epoch: Count
    coefficients: Coefficients


class OwnClassifier(Shape):
    validation: Figures | None = None
    test: Figures | None = None


class OwnModel(Shape):
    """What stage evaluate finds on the classifier that an explainer trained for itself."""

    criteria: list[str]
    epochs: Count
    best_epoch: Count
    coefficients: Coefficients
    classifier: OwnClassifier
    methods: Explanations
    tied: dict[str, list[str]] | None = None


OwnModels = dict[str, OwnModel]


class Epoch(Shape):
    loss: Figure
    agreement: Figure


class Student(Shape):
    """How the training of one student went."""

    formulation: str
    seed: Count
    texts: Count
    epochs: list[Epoch]


class Compared(Shape):
    """A teacher, its students and chance, in one metric."""

    teacher: Figure
    student: Figure
    random: Figure
    texts: Count
    p_value: Figure
    teacher_error: Figure = None
    student_error: Figure = None
    seeds_error: Figure = None
    random_error: Figure = None
    both: Figure = None
    both_error: Figure = None


class Distillation(Shape):
    """What stage distil finds: formulation -> metric -> figures, and the students."""

    task: str
    teacher: str
    texts: Count
    formulations: dict[str, dict[str, Compared]]
    students: list[Student]


class DistillationCosts(Shape):
    """Seconds a text by side, and seconds of each student's training."""

    seconds: Figures
    training: list[Figure]


class Transfer(Shape):
    """What stage transfer finds: source task -> target task -> figures."""

    explainer: str
    criteria: list[str]
    texts: dict[str, Count]
    tasks: dict[str, dict[str, Figures]]
