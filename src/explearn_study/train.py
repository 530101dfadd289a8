"""A task of the pipeline as a learned explainer sees it: the files of earlier stages, read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.core.seeds import seed_everything
from explearn.lens.features import ExampleFeatures
from explearn.lens.word_signals import WordSignals
from explearn.methods.base.learned import LearnedExplainer
from explearn.methods.base.task import Lesson, Lessons
from explearn.methods.base.teachers import members
from explearn.methods.registry import make_explainer
from explearn.predictors.pretrained import load_classifier
from explearn_study.feature_files import check_refusal, read_feature_metadata, read_features, read_signals
from explearn_study.params import Params
from explearn_study.teacher_files import read_lessons
from explearn_study.workspace import Workspace, read_document

if TYPE_CHECKING:
    # transformers takes seconds to import, and not every method needs it.
    from explearn.predictors.predictor import Predictor

Item = TypeVar("Item", WordSignals, ExampleFeatures, Lesson)


class WorkspaceTask:
    """`explearn.methods.base.task.TaskData` of a workspace."""

    def __init__(self, workspace: Workspace, params: Params, name: str, compute: ComputeOptions) -> None:
        self.workspace = workspace
        self.params = params
        self.name = name
        self.compute = compute

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
        return self.params.finetune.class_weights == "balanced"

    @cached_property
    def skill(self) -> float | None:
        judged = read_document(self.workspace.classifier_figures(self.name), dict[str, Any], "finetune")["validation"]
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

        def fits(text: ExampleFeatures, words: tuple[str, ...]) -> bool:
            return not len(text.word_ids) or bool(text.word_ids.max() < len(words))

        features = check_examples(read_features(path, hidden), self.examples(split), path, fits)
        return read_feature_metadata(path), features

    def signals(self, split: str) -> Iterable[WordSignals]:
        path = self.workspace.signals(self.name) / f"{split}.parquet"
        check_refusal(path.parent)

        def fits(text: WordSignals, words: tuple[str, ...]) -> bool:
            return tuple(text.words) == words

        return check_examples(read_signals(path), self.examples(split), path, fits)

    def lessons(self, teacher: str) -> Lessons:
        folders = [self.workspace.teacher(self.name, name) for name in members(teacher)]
        lessons = read_lessons(folders, self.classifier.fingerprint)

        def fits(lesson: Lesson, words: tuple[str, ...]) -> bool:
            return len(lesson.weights) == len(words)

        all_lessons = chain.from_iterable(lessons.by_split.values())
        list(check_examples(all_lessons, self.examples(), folders[0], fits))
        return lessons


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


def check_examples(
    items: Iterable[Item], examples: Sequence[Example], where: Path, fits: Callable[[Item, tuple[str, ...]], bool]
) -> Iterator[Item]:
    """Yield what an earlier stage computed for some texts, after checking that these are still the task's texts.

    Args:
        items: what the stage computed, one item for each text.
        examples: the texts as they are now.
        where: the file, for errors.
        fits: whether an item fits a text with these words.

    Raises:
        DataError: an item's text is not among the examples, comes twice, or has other words.
    """
    words = {example.id: example.all_words for example in examples}
    seen: set[str] = set()
    for item in items:
        name = item.example_id
        problem = ""
        if name not in words:
            problem = "is not of the task"
        elif name in seen:
            problem = "comes twice"
        elif not fits(item, words[name]):
            problem = "has other words"
        if problem:
            raise DataError(f"{where}: text {name!r} {problem}; run the stage that wrote it again")
        seen.add(name)
        yield item


def fit_explainer(
    workspace: Workspace, params: Params, task: str, name: str, compute: ComputeOptions, seed: int
) -> None:
    """Train a learned method of the run for a task, and save it in the workspace.

    Raises what its `fit` raises.
    """
    entry = params.methods[name]
    seed_everything(seed)
    method = make_explainer(entry.info, {"seed": seed, **entry.options})
    assert isinstance(method, LearnedExplainer)
    method.learn(WorkspaceTask(workspace, params, task, compute), description=f"{task}: train {name}")
    method.save_pretrained(workspace.explainer(task, name))
