"""The shapes of the JSON documents between stages, for `explearn.core.validation`: what a later stage relies on."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from explearn.core.validation import Count, Figure, Figures, Shape


class AgreementFile(Shape):
    """Figures of stage rationalise (`explearn.text.agreement.agreement_metrics`)."""

    mean_length: Figure
    positive_rate: Figure
    alpha: Figure = None
    pairwise_f1: Figure = None
    alpha_texts: Count | None = None
    texts: dict[str, Count] | None = None
    alpha_by_pair: dict[str, Figures] | None = None
    kinds: dict[str, Count] | None = None


class ClassifierFigures(Shape):
    """A classifier's figures on the texts of two splits; a split without texts has none."""

    validation: Figures | None = None
    test: Figures | None = None


class MethodFigures(Shape):
    """Metric -> value, of one method; the catalogue has the metrics."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Figure] = Field(init=False)

    texts: Count


Explanations = dict[str, MethodFigures]
"""Method -> its figures."""


class SimilarityFigures(Shape):
    """See `explearn.judge.sanity.ScoreSimilarity`."""

    spearman: Figure
    spearman_low: Figure
    spearman_high: Figure
    overlap: Figure


class SanityOfMethod(Shape):
    """See `explearn.judge.sanity.SanityResult`."""

    random_model: dict[str, SimilarityFigures]
    random_labels: SimilarityFigures | None
    max_sensitivity: Figure
    skipped: str


class Sanity(Shape):
    """What stage judge measures."""

    texts: Count
    methods: dict[str, SanityOfMethod]


class CurvePoint(Shape):
    """Figures after training with a number of marked texts, NAME_low and NAME_high besides."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Figure] = Field(init=False)

    marks: Count
    protocol: str
    f1_topk: Figure
    auroc: Figure
    f1: Figure
    by_draw: dict[str, list[Figure]]


class MarksCurve(Shape):
    """What study marks_curve measures (`explearn_study.curve_figures`)."""

    task: str
    texts: Count
    k: Count
    draws: Count
    points: list[CurvePoint]


class Coefficients(Shape):
    """The weight of attention: heads (layers, heads), layers (layers,)."""

    heads: list[list[Figure]]
    layers: list[Figure] | None = None


class _Criteria(Shape):
    criteria: list[str]


class TrainedModel(Shape):
    """The part of the config.json of an explainer with a classifier of its own that is judged."""

    options: _Criteria
    history: list[Any]
    best_epoch: Count
    coefficients: Coefficients


class OwnModelFigures(Shape):
    """What stage judge measures on the classifier that an explainer trained for itself."""

    criteria: list[str]
    epochs: Count
    best_epoch: Count
    coefficients: Coefficients
    classifier: ClassifierFigures
    methods: Explanations
    tied: dict[str, list[str]] | None = None


OwnModels = dict[str, OwnModelFigures]


class EpochFigures(Shape):
    loss: Figure
    agreement: Figure


class StudentTraining(Shape):
    """The training of one student."""

    formulation: str
    seed: Count
    texts: Count
    epochs: list[EpochFigures]
    rank_agreement: Figure
    top_overlap: Figure


class ComparedSides(Shape):
    """A teacher, its students and chance, in one metric; `both` and errors besides."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Figure] = Field(init=False)

    teacher: Figure
    student: Figure
    random: Figure
    texts: Count
    p_value: Figure


class Distillation(Shape):
    """What study students measures: formulation -> metric -> figures, and the students."""

    task: str
    teacher: str
    texts: Count
    formulations: dict[str, dict[str, ComparedSides]]
    students: list[StudentTraining]


class DistillationCosts(Shape):
    """Seconds a text by side, and seconds of each student's training."""

    seconds: Figures
    training: list[Figure]


class Transfer(Shape):
    """What study transfer measures: source task -> target task -> figures."""

    explainer: str
    criteria: list[str]
    texts: dict[str, Count]
    tasks: dict[str, dict[str, Figures]]
