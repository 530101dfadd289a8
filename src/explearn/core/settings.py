"""Old names, on their way out."""

from explearn.core.validation import (
    LARGEST_SEED,
    MOST,
    MOST_ROUNDS,
    MOST_UNITS,
    Fraction,
    LayerIndex,
    OpenFraction,
    PositiveInt,
    Rounds,
    Section,
    Seed,
    Seeded,
    Units,
    check_section,
    problems_sentence,
    whole_number,
)

__all__ = [
    "LARGEST_SEED",
    "MOST",
    "MOST_ROUNDS",
    "MOST_UNITS",
    "Fraction",
    "LayerIndex",
    "OpenFraction",
    "PositiveInt",
    "Rounds",
    "Section",
    "Seed",
    "Seeded",
    "Units",
    "check_section",
    "problems_sentence",
    "whole_number",
]
