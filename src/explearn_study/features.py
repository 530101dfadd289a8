"""The stage features: what learned explainers read of a task's classifier."""

from __future__ import annotations

import logging
from collections.abc import Collection

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnsupportedError
from explearn.core.examples import SPLITS
from explearn.core.writing import atomic_folder
from explearn.lens.attention import layer_count
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn_study.feature_files import texts_to_learn_from, write_features, write_refusal, write_signals
from explearn_study.params import Params
from explearn_study.sections import AttendParams, SignalsParams
from explearn_study.workspace import Workspace

logger = logging.getLogger(__name__)


def write_attention(workspace: Workspace, settings: AttendParams, task: str, classifier: Predictor) -> None:
    """Write the attention features of all splits, or why there are none."""
    with atomic_folder(workspace.features(task)) as folder:
        try:
            layer_count(classifier.transformer.model)
        except UnsupportedError as error:
            write_refusal(folder, error)
            logger.warning("%s: no attention features are written: %s", task, error)
            return
        for split in SPLITS:
            write_features(
                folder / f"{split}.parquet",
                classifier,
                workspace.read_examples(task, split),
                settings.layers,
                settings.hidden_states,
                f"{task}: attention of {split}",
            )


def write_word_signals(
    workspace: Workspace, settings: SignalsParams, task: str, classifier: Predictor, marked: Collection[str], seed: int
) -> None:
    """Write word scores of many methods for texts with marks, and for others drawn by seed."""
    with atomic_folder(workspace.signals(task)) as folder:
        for split in ("train", "validation"):
            examples = workspace.read_examples(task, split)
            chosen = texts_to_learn_from(examples, marked, settings.max_texts, settings.unmarked_texts, seed)
            write_signals(folder / f"{split}.parquet", classifier, chosen, f"{task}: signals of {split}")


def write_task_features(workspace: Workspace, params: Params, task: str, compute: ComputeOptions, seed: int) -> None:
    """Write the features and signals of a task, or that the run wants none."""
    sections = {"attend": workspace.features(task), "signals": workspace.signals(task)}
    for section, target in sections.items():
        if getattr(params, section) is None:
            with atomic_folder(target) as folder:
                write_refusal(folder, UnsupportedError(f"the run's parameter {section!r} is null"))
    if params.attend is None and params.signals is None:
        return
    classifier = load_classifier(workspace.classifier(task), compute)
    if params.attend is not None:
        write_attention(workspace, params.attend, task, classifier)
    if params.signals is not None:
        gold = workspace.read_gold(task, params)
        write_word_signals(workspace, params.signals, task, classifier, gold, seed)
