"""A task of the pipeline as a learned explainer sees it: the files of earlier stages, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ParamsError
from explearn.core.records import Example
from explearn.core.seeds import seed_everything
from explearn.core.shapes import Number, Shape, read_document
from explearn.lens.features import ExampleFeatures, check_refusal, read_feature_metadata, read_features
from explearn.lens.word_signals import WordSignals, read_signals
from explearn.methods.base.learned import LearnedExplainer
from explearn.methods.base.task import Lessons
from explearn.methods.base.teachers import members
from explearn.methods.registry import get_explainer, get_info
from explearn_study.fitting import check_lessons, fitting_features, fitting_signals
from explearn_study.params import Params
from explearn_study.teacher_files import read_lessons
from explearn_study.workspace import Workspace

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every method needs it.
    from explearn.model.classifier import Classifier


class _Skill(Shape):
    mcc: Number


class _Judged(Shape):
    """What the stage finetune found on validation texts, where there are any."""

    validation: _Skill | None


class WorkspaceTask:
    """`explearn.methods.base.task.TaskData` of a workspace."""

    def __init__(self, workspace: Workspace, params: Params, name: str, compute: ComputeOptions) -> None:
        self.workspace, self.params, self.name, self.compute = workspace, params, name, compute

    @cached_property
    def classifier(self) -> Classifier:
        from explearn.model.classifier import Classifier

        return Classifier.from_pretrained(self.workspace.classifier(self.name), self.compute)

    @property
    def device(self) -> torch.device:
        return self.compute.resolve_device()

    @property
    def encoder(self) -> str:
        return self.params.encoder_of(self.name)

    @property
    def encoder_revision(self) -> str | None:
        return self.params.encoder_revision_of(self.name)

    @property
    def balanced(self) -> bool:
        return self.params.finetune.class_weights == "balanced"

    @property
    def untrained_encoder(self) -> Callable[[], torch.nn.Module]:
        def load() -> torch.nn.Module:
            from explearn.model.finetune import load_encoder

            limit = self.params.finetune.max_length
            model, _ = load_encoder(self.encoder, self.classifier.labels, limit, self.encoder_revision)
            return model

        return load

    @cached_property
    def skill(self) -> float | None:
        judged = read_document(self.workspace.metrics("classifier", self.name), _Judged, "finetune").get("validation")
        return None if judged is None else float(judged["mcc"])

    @cached_property
    def gold(self) -> dict[str, tuple[bool, ...]]:
        return self.workspace.read_gold(self.name, self.params)

    @property
    def rationale_split(self) -> str:
        return self.params.rationale_params(self.name).train_split

    @property
    def others(self) -> list[WorkspaceTask]:
        names = [name for name in self.params.tasks if name != self.name]
        return [SourceTask(self.workspace, self.params, name, self.compute) for name in names]

    def examples(self, split: str | None = None) -> list[Example]:
        return self.workspace.read_examples(self.name, split)

    def features(self, split: str, hidden: bool = False) -> tuple[dict[str, Any], Iterable[ExampleFeatures]]:
        folder = self.workspace.features(self.name)
        check_refusal(folder)
        path = folder / f"{split}.parquet"
        return read_feature_metadata(path), fitting_features(read_features(path, hidden), self.examples(split), path)

    def signals(self, split: str) -> Iterable[WordSignals]:
        path = self.workspace.signals(self.name) / f"{split}.parquet"
        return fitting_signals(read_signals(path), self.examples(split), path)

    def lessons(self, teacher: str) -> Lessons:
        folders = [self.workspace.teacher(self.name, name) for name in members(teacher)]
        found = read_lessons(folders, self.classifier.fingerprint)
        check_lessons(found, self.examples(), " and ".join(map(str, folders)))
        return found

    def scratch(self, name: str) -> Path:
        return self.workspace.study(self.name, name)


class SourceTask(WorkspaceTask):
    """A task whose marks another one's explainer learns from."""

    @cached_property
    def gold(self) -> dict[str, tuple[bool, ...]]:
        """Raises DataError where there are rationales, and no word is marked in any: left out, nobody would notice."""
        found = self.workspace.read_gold(self.name, self.params)
        if not found and (count := len(self.workspace.read_rationales(self.name))):
            raise DataError(
                f"task {self.name!r}: no word is marked in any of its {count} rationales; expected marked words and "
                "others"
            )
        return found


def train_explainer(
    workspace: Workspace, params: Params, task: str, name: str, compute: ComputeOptions, seed: int
) -> None:
    """Train a learned method of the run for a task, and keep it where the workspace says.

    Raises UnknownNameError for a method that does not exist, ParamsError for one without a training, and what
    its `fit` raises.
    """
    info = get_info(name)
    if not info.learned:
        raise ParamsError(f"explainer {name!r} is not trained; name it under baselines, not under explainers")
    if info.base is not None:
        raise ParamsError(f"explainer {name!r} has no training of its own; train {info.base!r}, which it starts from")
    seed_everything(seed)
    method = get_explainer(name, **{**params.options_of(name), "seed": seed})
    assert isinstance(method, LearnedExplainer)
    method.fit(WorkspaceTask(workspace, params, task, compute), description=f"{task}: train {name}")
    method.save_pretrained(workspace.explainer(task, name))
