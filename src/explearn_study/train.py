"""A task of the pipeline as a learned explainer sees it: the files of earlier stages, read when they are asked for."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.core.parquet import read_metadata
from explearn.core.seeds import seed_everything
from explearn.core.writing import atomic_folder, write_json
from explearn.lens.features import ExampleFeatures
from explearn.lens.word_signals import WordSignals
from explearn.methods.base.learned import LearnedExplainer
from explearn.methods.base.teachers import Lessons, members
from explearn.methods.finding import seeded
from explearn.methods.registry import get_explainer
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn.text.equal import text_hash
from explearn_study.feature_files import check_refusal, read_features, read_signals
from explearn_study.params import Params
from explearn_study.teacher_files import read_lessons
from explearn_study.workspace import REFUSAL, Workspace


@dataclass(eq=False)
class WorkspaceTask:
    """`explearn.methods.base.task.TaskData` of a workspace."""

    workspace: Workspace
    params: Params
    name: str
    compute: ComputeOptions

    @cached_property
    def classifier(self) -> Predictor:
        return load_classifier(self.workspace.classifier(self.name), self.compute)

    @property
    def device(self) -> torch.device:
        return self.compute.resolve_device()

    @property
    def encoder(self) -> str:
        return self.params.encoder_of(self.name)[0]

    @property
    def encoder_revision(self) -> str | None:
        return self.params.encoder_of(self.name)[1]

    @property
    def balanced(self) -> bool:
        return self.params.finetune_of(self.name).class_weights == "balanced"

    @cached_property
    def skill(self) -> float | None:
        judged = read_json(self.workspace.classifier_figures(self.name))["validation"]
        return None if judged is None else float(judged["mcc"])

    @cached_property
    def gold(self) -> dict[str, tuple[bool, ...]]:
        return self.workspace.read_gold(self.name, self.params)

    @property
    def rationale_split(self) -> str:
        return self.params.rationale_params(self.name).train_split

    @property
    def others(self) -> list[WorkspaceTask]:
        names = [name for name in self.params.plain_tasks if name != self.name]
        return [SourceTask(self.workspace, self.params, name, self.compute) for name in names]

    def examples(self, split: str | None = None) -> list[Example]:
        return self.workspace.read_examples(self.name, split)

    def features(self, split: str, hidden: bool = False) -> tuple[dict[str, Any], Iterable[ExampleFeatures]]:
        folder = self.workspace.features(self.name)
        check_refusal(folder)
        path = folder / f"{split}.parquet"
        return read_metadata(path), read_features(path, hidden)

    def signals(self, split: str) -> Iterable[WordSignals]:
        folder = self.workspace.signals(self.name)
        check_refusal(folder)
        return read_signals(folder / f"{split}.parquet")

    def lessons(self, teacher: str) -> Lessons:
        folders = [self.workspace.teacher(self.name, name) for name in members(teacher)]
        return read_lessons(folders, self.classifier.fingerprint)


class SourceTask(WorkspaceTask):
    """A task whose marks another one's explainer learns from."""

    @cached_property
    def gold(self) -> dict[str, tuple[bool, ...]]:
        """Marked words; an error if there are rationales but none marks a word, which nobody would notice otherwise."""
        gold = self.workspace.read_gold(self.name, self.params)
        count = len(self.workspace.read_rationales(self.name))
        if count and not gold:
            raise DataError(
                f"task {self.name!r}: no word is marked in any of its {count} rationales; expected marked words and "
                "others"
            )
        return gold


def fit_explainer(
    workspace: Workspace, params: Params, task: str, name: str, compute: ComputeOptions, seed: int
) -> None:
    """Train a learned method of the run for a task, and save it in the workspace, and the processor time it took.

    For a method that learns from the task's own marks, where there are none, a note of that is saved.

    Raises what its `learn` raises.
    """
    entry = params.methods[name]
    seed_everything(seed)
    method = get_explainer(entry.of, **seeded(entry.of, entry.options, seed))
    method.name = entry.name
    assert isinstance(method, LearnedExplainer)
    data = WorkspaceTask(workspace, params, task, compute)
    if entry.learns_own_marks and not data.gold:
        with atomic_folder(workspace.explainer(task, name)) as folder:
            write_json(folder / REFUSAL, {"reason": f"no marked word in {task}"})
        return
    start = time.process_time()
    limits = params.training
    method.learn_within(data, limits.patience, limits.minutes, description=f"{task}: train {name}")
    seconds = time.process_time() - start
    seen = [*data.examples("train"), *data.examples("validation")]
    method.trained_texts = frozenset(map(text_hash, seen))
    method.save_pretrained(workspace.explainer(task, name))
    write_json(workspace.training_cost(task, name), {"training_seconds": seconds})
