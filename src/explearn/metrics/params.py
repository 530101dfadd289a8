"""Options of the metrics and of the sanity checks, with types, units and ranges."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from explearn.core.validation import (
    MOST_ROUNDS,
    MOST_UNITS,
    NonNegativeFloat,
    OpenFraction,
    Percent,
    PositiveFloat,
    PositiveInt,
    Rounds,
    RoundsOrNone,
    Section,
    Units,
)


class SimulatabilityParams(Section):
    enabled: bool = True
    """Train the students; the costliest metric."""
    dimensions: Units = 32
    """Principal components of the classifier's word embeddings that the student reads."""
    steps: Rounds = 50
    """Steps of Adam, each on all training texts."""
    learning_rate: PositiveFloat = 0.05
    weight: NonNegativeFloat = 1.0
    """Weight, relative to the cross-entropy, of the divergence of the student's attention from explanations (IvRA
    eq. 7)."""
    folds: Annotated[int, Field(ge=2, le=MOST_ROUNDS)] = 2
    """Number of parts of the texts; a student learns from all but one and is tested on that one."""
    repeats: Rounds = 5
    """Random partitions into folds."""


class EvaluateParams(Section):
    protocol: Literal["default", "aml", "eraser"] = "default"
    """Paper whose counts and means faithfulness follows; see `explearn.metrics.faithfulness`."""
    confidence: OpenFraction = 0.95
    removal: Literal["delete", "mask"] = "delete"
    """How words are removed for comprehensiveness and sufficiency. Log-odds always masks."""
    percents: Annotated[list[Percent], Field(min_length=1)] = [1, 5, 10, 20, 50]
    """Shares of the words removed or kept, in percent, for the AOPC means."""
    headline_percent: Percent = 20
    """Share of words for single comprehensiveness, sufficiency, log-odds and L2E figures, in percent."""
    significance: OpenFraction = 0.05
    """A method is tied with the best if the Holm-corrected p-value of the difference is at least this."""
    neighbours: Units = 3
    """Number of nearest texts with which stability compares a text."""
    consistency_batch: Annotated[int, Field(ge=3, le=MOST_UNITS)] = 64
    """Most texts in a batch within which distances are correlated."""
    infidelity_samples: RoundsOrNone = 10
    """Random sets of words masked in each text, the same for all methods; 0 leaves infidelity out."""
    mosaics: RoundsOrNone = 30
    """Mosaics, of four test texts each, that every method explains; 0 leaves them out."""
    simulatability: SimulatabilityParams = SimulatabilityParams()


class SanityParams(Section):
    methods: list[str] | None = None
    """Methods to check (default: the learned and the quick ones of the run)."""
    texts: PositiveInt = 10
    """Number of test texts explained again on every perturbed model."""
    cascade: bool = False
    """Randomise the classifier from its head downwards, one more part at a time, instead of only all of it at once."""
    noise_samples: RoundsOrNone = 3
    """Draws of noise on the word embeddings for max-sensitivity; 0 leaves it out."""
    noise_radius: PositiveFloat = 0.02
    """Largest change of an embedding's entry (captum's default), in the embeddings' own unit."""
    seeds: PositiveInt = 1
    """Number of draws of weights, noise and permuted labels, with the run's seed and the following ones."""
    random_labels: bool = False
    """Also fine-tune a classifier on permuted labels and compare; as costly as the stage finetune."""
