"""What a learned explainer may learn from: the texts of a task, and all that earlier steps found out about them.

The pipeline's is `explearn_study.train.WorkspaceTask`, which reads the files of the stages before. From lists of
texts, make an `explearn.methods.base.listed_task.ListedTask`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.documents import kind_of
from explearn.core.errors import ParamsError
from explearn.core.records import Example
from explearn.lens.features import ExampleFeatures
from explearn.lens.word_signals import WordSignals

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every method needs it.
    from explearn.model.classifier import Classifier


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What a teacher says of one text.

    target: name of the class explained. weights: float64, (words,), larger for more evidence.
    """

    example_id: str
    target: str
    weights: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """A teacher's scores of a task's texts.

    by_split: lessons in the texts' order; texts that the teacher failed on are missing.
    signed: whether weights below 0 speak against the class.
    """

    by_split: dict[str, list[Lesson]]
    signed: bool


class TaskData(Protocol):
    """One task. Nothing is read or computed before it is asked for."""

    @property
    def name(self) -> str:
        """Of the task, for records and messages."""

    @property
    def classifier(self) -> Classifier:
        """What is to be explained."""

    @property
    def device(self) -> torch.device:
        """Where to train what needs no classifier."""

    @property
    def encoder(self) -> str | None:
        """The pretrained encoder that the classifier comes from: `embedded`, a hub name or a folder."""

    @property
    def encoder_revision(self) -> str | None:
        """Git revision of `encoder`."""

    @property
    def balanced(self) -> bool:
        """Whether the classifier was fine-tuned with classes weighed against their frequency."""

    @property
    def untrained_encoder(self) -> Callable[[], torch.nn.Module] | None:
        """Makes the classifier's encoder as it was before fine-tuning, with a new head; None where it is not known."""

    @property
    def skill(self) -> float | None:
        """Matthews correlation of the classifier's predictions with the validation texts' labels; None: unknown."""

    @property
    def gold(self) -> Mapping[str, Sequence[bool]]:
        """Example id -> which of its words are evidence."""

    @property
    def rationale_split(self) -> str:
        """The split whose rationales may be learned from."""

    @property
    def others(self) -> Sequence[TaskData]:
        """The other tasks."""

    def examples(self, split: str | None = None) -> list[Example]:
        """The texts of a split (default: of all)."""

    def features(self, split: str, hidden: bool = False) -> tuple[dict[str, Any], Iterable[ExampleFeatures]]:
        """Attention features of a split's texts, `hidden` states too if asked for.

        The first part says what they were taken from (`explearn.lens.features.feature_source`).
        """

    def signals(self, split: str) -> Iterable[WordSignals]:
        """Word scores of many methods, side by side, of texts of the train or validation split: with marks first."""

    def lessons(self, teacher: str) -> Lessons:
        """What a method, or an ensemble of them (`ensemble:NAME,NAME`), says of the training and validation texts."""

    def scratch(self, name: str) -> Path | None:
        """File in which explainer `name` may keep what lets a search go on; None where there is no such place."""


def check_task(task: object) -> None:
    """Raise ParamsError for what is no task."""
    if not hasattr(task, "examples"):
        raise ParamsError(f"task: got {kind_of(task)}; expected a task, such as an explearn.ListedTask")
