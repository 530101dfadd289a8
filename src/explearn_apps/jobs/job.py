"""What a large job is asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explearn.core.compute import ComputeOptions
from explearn_apps.jobs.reading import Input

if TYPE_CHECKING:
    from explearn.cli.choosing import ChosenMethod


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be explained, how, and where the results go.

    Attributes:
        input: the texts. folder: for the parts. part_texts: texts a part.
        classifier: folder or hub name. choices: the methods. options: as `cli.choosing.make` takes them.
        targets: classes to explain of every text; none: the predicted one.
        windows: see `Explainer.explain`. seed: None: the methods' own. compute: where and in which precision.
    """

    input: Input
    folder: Path
    part_texts: int
    classifier: str
    choices: Sequence[ChosenMethod]
    options: dict[str, Any]
    targets: Sequence[str]
    windows: int | None
    seed: int | None
    compute: ComputeOptions
