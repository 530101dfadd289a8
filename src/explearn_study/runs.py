"""What is known of one method's run: what stands in its attribution file, and what it cost. Reading needs no torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from explearn.core.errors import DataError
from explearn.core.shapes import Count, Figure, Shape, check_shape, read_document
from explearn.core.storage import read_metadata
from explearn_study.params import Params
from explearn_study.workspace import Workspace

COST_FIGURES = ("throughput", "relative_throughput", "peak_memory_mb")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run of a method cost. It differs from machine to machine and from run to run, so it is kept apart from the
    attributions: in a file that DVC does not know.

    Attributes:
        texts: how many texts were explained.
        seconds: to classify and explain them all.
        forward_seconds: to classify them alone, tokenisation included; the mean of a run just before and one just
            after.
        peak_memory_mb: the most memory in use while it explained, of the process or the device, model included; None
            where the system does not say (`explearn.core.memory`).
    """

    texts: int
    seconds: float
    forward_seconds: float
    peak_memory_mb: float | None

    def figures(self) -> dict[str, float | None]:
        """throughput (texts a second), relative_throughput (of classifying alone) and peak_memory_mb."""
        return {
            "throughput": self.texts / self.seconds if self.seconds > 0 else None,
            "relative_throughput": self.forward_seconds / self.seconds if self.seconds > 0 else None,
            "peak_memory_mb": self.peak_memory_mb,
        }


@dataclass(frozen=True, slots=True)
class Run:
    """How an attribution file was made.

    Attributes:
        forward_passes, backward_passes: passes through the model, mean per text; None where they are not known.
        threshold: the method's threshold on the scores; None for a method without one.
        classifier: fingerprint of the classifier that it explained.
        notes: what the method noted about its work (`explearn.methods.base.explainer.Explainer.notes`).
    """

    forward_passes: float | None
    backward_passes: float | None
    threshold: float | None
    classifier: str
    notes: dict[str, Any]


class _RunFacts(Shape):
    forward_passes: Figure
    backward_passes: Figure
    threshold: Figure
    classifier: str
    notes: dict[str, Any]


class _CostFacts(Shape):
    texts: Count
    seconds: Figure
    forward_seconds: Figure
    peak_memory_mb: Figure


def read_run(path: Path) -> Run:
    """Read an attribution file's metadata; raises DataError where the stage attribute did not write them."""
    metadata = read_metadata(path)
    keys = [field.name for field in fields(Run)]
    if missing := [key for key in keys if key not in metadata]:
        raise DataError(f"{path}: its metadata lack {', '.join(missing)}; expected a file of the stage attribute")
    check_shape(metadata, _RunFacts, path, "run the stage attribute again")
    return Run(**{key: metadata[key] for key in keys})


def read_costs(workspace: Workspace, params: Params, task: str) -> dict[str, dict[str, float | None]]:
    """Method -> `Cost.figures`, all None for a method that was not timed here: its attributions are DVC's from a run
    elsewhere. Raises DataError for a damaged file.
    """
    return _figures(workspace, task, {name: params.group_of(name) for name in params.methods}.items())


def read_own_model_costs(
    workspace: Workspace, params: Params, task: str, explainer: str
) -> dict[str, dict[str, float | None]]:
    """The same of an explainer with a classifier of its own and the baselines run on that."""
    group = params.group_of(explainer)
    return _figures(workspace, task, [(name, group) for name in (explainer, *params.baselines.own_model)])


def _figures(workspace: Workspace, task: str, methods: Iterable[tuple[str, str]]) -> dict[str, dict[str, float | None]]:
    found: dict[str, dict[str, float | None]] = {}
    documents: dict[str, Any] = {}
    for name, group in methods:
        path = workspace.costs(task, group)
        if group not in documents:
            documents[group] = read_document(path, dict[str, _CostFacts], "attribute") if path.exists() else {}
        known = documents[group].get(name)
        figures = {} if known is None else {field.name: known[field.name] for field in fields(Cost)}
        found[name] = Cost(**figures).figures() if figures else dict.fromkeys(COST_FIGURES)
    return found
