"""A method's run on some texts: its attributions, how they were made and at what cost; and the file of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from explearn.core.attribution import Attribution
from explearn.core.errors import DataError
from explearn.core.parquet import read_metadata
from explearn.core.storage import read_attributions, write_attributions
from explearn.core.validation import Count, Figure, Number, Shape, check

COST_FIGURES = ("throughput", "relative_throughput", "time", "peak_memory_mb")


class Cost(Shape):
    """The cost of a method's run. It differs from machine to machine and from run to run.

    Attributes:
        texts: how many texts were explained.
        seconds: to classify and explain them all.
        forward_seconds: to classify them alone, tokenisation included; the mean of a run just before and one just
            after.
        peak_memory_mb: the most memory in use while it explained, of the process or the device, model included; None
            where the system does not say (`explearn.core.compute`).
    """

    texts: Count
    seconds: Number
    forward_seconds: Number
    peak_memory_mb: Figure

    def figures(self) -> dict[str, float | None]:
        """Return throughput (texts a second), relative_throughput (of classifying alone), time (its inverse) and
        peak_memory_mb."""
        figures = dict.fromkeys(COST_FIGURES, None) | {"peak_memory_mb": self.peak_memory_mb}
        if self.seconds > 0:
            figures["throughput"] = self.texts / self.seconds
            figures["relative_throughput"] = self.forward_seconds / self.seconds
        if self.forward_seconds > 0:
            figures["time"] = self.seconds / self.forward_seconds
        return figures


@dataclass(frozen=True, slots=True, eq=False)
class MethodRun:
    """The attributions of some texts by one method.

    Attributes:
        method: name.
        attributions: one a text.
        classifier: fingerprint of the classifier that it explained.
        options: of the method.
        forward_passes: passes through the model, mean per text; None where they are not known.
        backward_passes: backward passes, likewise.
        threshold: the method's threshold on the scores; None for a method without one.
        notes: what the method noted about its work (`explearn.methods.base.explainer.Explainer.notes`).
        cost: None where it is not known.
        source: hash of all that it was made from; empty where the file is not kept for a later call.
    """

    method: str
    attributions: Sequence[Attribution]
    classifier: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    forward_passes: float | None = None
    backward_passes: float | None = None
    threshold: float | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    cost: Cost | None = None
    source: str = ""


class _RunShape(Shape):
    method: str
    classifier: str
    options: dict[str, Any]
    forward_passes: Figure
    backward_passes: Figure
    threshold: Figure
    notes: dict[str, Any]
    cost: Cost | None = None
    source: str = ""


def write_run(path: Path, run: MethodRun, with_cost: bool = False, what: str | None = None) -> None:
    """Write the attributions, and as the file's metadata all else; what the run cost only `with_cost`.

    Without it nothing in the file depends on the machine's speed. `what` is as for `explearn.core.writing.atomic_path`.
    """
    metadata = {name: getattr(run, name) for name in _RunShape.model_fields if name != "cost"}
    attributions = run.attributions
    if with_cost:
        metadata["cost"] = run.cost and run.cost.model_dump()
    else:
        attributions = [replace(attribution, seconds=0.0) for attribution in attributions]
    write_attributions(path, attributions, {**metadata, "texts": len(attributions)}, what)


def read_run(path: Path, attributions: bool = True) -> MethodRun:
    """Read what `write_run` wrote; without the attributions where only the metadata are wanted.

    Args:
        path: the file.
        attributions: whether to read the attributions, too.

    Raises:
        DataError: the file is missing, damaged or of something else.
    """
    known = check(_RunShape, read_metadata(path), before=f"{path}, its description, ", after="; make it anew")
    return MethodRun(attributions=read_attributions(path) if attributions else (), **dict(known))


def kept_run(path: Path, source: str) -> MethodRun | None:
    """Return the run of an earlier call that was made from the same (`MethodRun.source`); None if there is none."""
    try:
        run = read_run(path)
    except DataError:  # missing or damaged: it is computed again
        return None
    if run.source != source:
        return None
    return run
