"""Options of the metrics and of the sanity checks, with types, units and ranges."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from explearn.core.validation import MOST_ROUNDS, MOST_UNITS, OpenFraction, PositiveInt, Rounds, Section, Units


class SimulatabilityParams(Section):
    enabled: bool = True
    """Train the students; the costliest metric."""
    dimensions: Units = 32
    """Principal components of the classifier's word embeddings that the student reads."""
    steps: Rounds = 50
    """Steps of Adam, each on all training texts."""
    learning_rate: Annotated[float, Field(gt=0)] = 0.05
    weight: Annotated[float, Field(ge=0)] = 1.0
    """Of the divergence between explanation and the student's attention, beside its cross-entropy (IvRA eq. 7)."""
    folds: Annotated[int, Field(ge=2, le=MOST_ROUNDS)] = 2
    """Parts of the texts; a student learns from all but one of them and is tested on that one."""
    repeats: Rounds = 5
    """Partitions into folds, each drawn separately."""


class EvaluateParams(Section):
    protocol: Literal["default", "aml", "eraser"] = "default"
    """Which paper's counts and means faithfulness follows; see `explearn.judge.faithfulness`."""
    confidence: OpenFraction = 0.95
    removal: Literal["delete", "mask"] = "delete"
    """How words leave the text for comprehensiveness and sufficiency. Log-odds always masks."""
    percents: Annotated[list[Annotated[int, Field(ge=1, le=100)]], Field(min_length=1)] = [1, 5, 10, 20, 50]
    """Shares of the words removed or kept, in percent, for the AOPC means."""
    headline_percent: Annotated[int, Field(ge=1, le=100)] = 20
    """The share of the single comprehensiveness, sufficiency and log-odds figures, and of L2E's, in percent."""
    significance: OpenFraction = 0.05
    """A method is tied with the best where Holm's corrected p-value of the difference is at least this."""
    neighbours: Units = 3
    """Most similar texts that stability compares a text with."""
    consistency_batch: Annotated[int, Field(ge=3, le=MOST_UNITS)] = 64
    """Most texts whose distances are correlated together."""
    infidelity_samples: Annotated[int, Field(ge=0, le=MOST_ROUNDS)] = 10
    """Random sets of words masked in each text, the same for all methods; 0 leaves infidelity out."""
    simulatability: SimulatabilityParams = SimulatabilityParams()


class SanityParams(Section):
    methods: list[str] | None = None
    """Methods to check (default: the learned and the quick ones of the run)."""
    texts: PositiveInt = 10
    """Test texts explained again on every perturbed model."""
    cascade: bool = False
    """Randomise the classifier from its head downwards, one more part at a time; otherwise only all of it at once."""
    noise_samples: Annotated[int, Field(ge=0, le=MOST_ROUNDS)] = 3
    """Draws of noise on the word embeddings for max-sensitivity; 0 leaves it out."""
    noise_radius: Annotated[float, Field(gt=0)] = 0.02
    """Largest change of an embedding's entry (captum's default), in the embeddings' own unit."""
    seeds: PositiveInt = 1
    """Draws of the weights, of the noise and of the permuted labels: the run's seed and those after it."""
    random_labels: bool = False
    """Also fine-tune a classifier on permuted labels and compare; as costly as the stage finetune."""
