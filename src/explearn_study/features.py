"""The stage features: what learned explainers read of a task's classifier."""

from __future__ import annotations

import logging

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnsupportedError
from explearn.core.examples import SPLITS
from explearn.core.writing import atomic_folder
from explearn.lens.attention import layer_count
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn_study.feature_files import texts_to_learn_from, write_features, write_refusal, write_signals
from explearn_study.params import Params
from explearn_study.workspace import Workspace

logger = logging.getLogger(__name__)


def write_nothing(workspace: Workspace, task: str) -> None:
    """Write folders that say that no method of the run learns from features."""
    reason = UnsupportedError("no method of the run learns from any; run the stage features again")
    for target in (workspace.features(task), workspace.signals(task)):
        with atomic_folder(target) as folder:
            write_refusal(folder, reason)


def write_attention(workspace: Workspace, params: Params, task: str, classifier: Predictor) -> None:
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
                params.attend.layers,
                params.attend.hidden_states,
                f"{task}: attention of {split}",
            )


def write_word_signals(workspace: Workspace, params: Params, task: str, classifier: Predictor, seed: int) -> None:
    """Write word scores of many methods for texts with marks, and for others drawn by seed."""
    gold = workspace.read_gold(task, params)
    settings = params.signals
    with atomic_folder(workspace.signals(task)) as folder:
        for split in ("train", "validation"):
            examples = workspace.read_examples(task, split)
            chosen = texts_to_learn_from(examples, gold, settings.max_texts, settings.unmarked_texts, seed)
            write_signals(folder / f"{split}.parquet", classifier, chosen, f"{task}: signals of {split}")


def write_task_features(workspace: Workspace, params: Params, task: str, compute: ComputeOptions, seed: int) -> None:
    """Write the features and signals of a task; no classifier is loaded if no method of the run learns from them."""
    if not params.learned.from_features and params.studies.marks_curve is None:
        write_nothing(workspace, task)
        return
    classifier = load_classifier(workspace.classifier(task), compute)
    write_attention(workspace, params, task, classifier)
    write_word_signals(workspace, params, task, classifier, seed)
