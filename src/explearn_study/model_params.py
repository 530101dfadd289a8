"""Which model each task starts from: an encoder to fine-tune, or a classifier that is there already."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import Field, field_validator

from explearn.core.errors import UnknownNameError
from explearn.core.settings import Section
from explearn_study.sections import ClassifierParams


class ModelParams(Section):
    """The parameters of a run that name models."""

    encoder: str | dict[str, str] = "embedded"
    """`embedded`, a hub name, a local folder, or `scratch` (a small decoder without pretrained weights); or task -> one
    of these, for every task that has no classifier."""
    encoder_revision: str | dict[str, str] | None = None
    """git revision of a hub name; or task -> one."""
    classifiers: dict[str, ClassifierParams] = Field(default_factory=dict)
    """Task -> a classifier that is taken as it is, instead of fine-tuning the encoder: its hub name or folder, or a
    section with `name`, `revision` and `labels`."""

    @field_validator("classifiers", mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {task: {"name": found} if isinstance(found, str) else found for task, found in given.items()}

    def check_models(self, tasks: Collection[str], known: Collection[str]) -> None:
        """Raise ValueError for a task that has no model, and for a model of a task that is not known."""
        for name in ("encoder", "encoder_revision", "classifiers"):
            found = getattr(self, name)
            for task in found if isinstance(found, dict) else ():
                if task not in known:
                    raise ValueError(str(UnknownNameError(f"task under {name!r}", task, known)))
        if isinstance(self.encoder, dict):
            missing = [task for task in tasks if task not in self.encoder and task not in self.classifiers]
            if missing:
                raise ValueError(
                    f"tasks {', '.join(missing)} have no entry under 'encoder' or 'classifiers'; expected one each"
                )

    def encoder_of(self, task: str) -> str:
        """The encoder that a task's own models start from.

        Where a classifier is given for the task and no encoder for it alone, that is the classifier's.
        """
        if isinstance(self.encoder, dict) and task in self.encoder:
            return self.encoder[task]
        if task in self.classifiers:
            return self.classifiers[task].name
        assert isinstance(self.encoder, str)
        return self.encoder

    def encoder_revision_of(self, task: str) -> str | None:
        """The revision that goes with `encoder_of`."""
        own = isinstance(self.encoder, dict) and task in self.encoder
        if not own and task in self.classifiers:
            return self.classifiers[task].revision
        return self.encoder_revision.get(task) if isinstance(self.encoder_revision, dict) else self.encoder_revision
