"""The record of one method's run that stands in its attribution file. Reading it needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from explearn.core.errors import DataError
from explearn.core.storage import read_metadata


@dataclass(frozen=True, slots=True)
class Cost:
    """What a method costs on the texts it explained.

    Attributes:
        texts: how many texts were explained.
        seconds: to classify and explain them all.
        forward_seconds: to classify them alone, tokenisation included; the mean of a run just before and one just
            after.
        peak_memory_mb: the most memory in use while it explained, of the process or the device, model included; None
            where the system does not say (`explearn.core.memory`).
        forward_passes, backward_passes: passes through the model, mean per text.
    """

    texts: int
    seconds: float
    forward_seconds: float
    peak_memory_mb: float | None
    forward_passes: float
    backward_passes: float


@dataclass(frozen=True, slots=True)
class Run:
    """How an attribution file was made.

    Attributes:
        cost: what the method took.
        threshold: its threshold on the scores; None for a method without one.
        classifier: fingerprint of the classifier that it explained.
        notes: what the method noted about its work (`explearn.methods.base.explainer.Explainer.notes`).
    """

    cost: Cost
    threshold: float | None
    classifier: str
    notes: dict[str, Any]


def read_run(path: Path) -> Run:
    """Read an attribution file's metadata; raises DataError where the stage attribute did not write them."""
    metadata = read_metadata(path)
    keys = [field.name for field in fields(Cost)]
    missing = [key for key in (*keys, "threshold", "classifier", "notes") if key not in metadata]
    if missing:
        raise DataError(f"{path}: its metadata lack {', '.join(missing)}; expected a file of the stage attribute")
    return Run(
        Cost(**{key: metadata[key] for key in keys}), metadata["threshold"], metadata["classifier"], metadata["notes"]
    )
