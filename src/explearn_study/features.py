"""The stage features: what learned explainers read of a task's classifier."""

from __future__ import annotations

import logging

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnsupportedError
from explearn.core.examples import SPLITS
from explearn.core.writing import atomic_folder
from explearn.lens.attention import layer_count
from explearn.predictors.pretrained import load_classifier
from explearn_study.feature_files import texts_to_learn_from, write_features, write_refusal, write_signals
from explearn_study.params import Params
from explearn_study.workspace import Workspace

logger = logging.getLogger(__name__)


def write_task_features(workspace: Workspace, params: Params, task: str, compute: ComputeOptions, seed: int) -> None:
    """Write the attention features and signals of a task, or why there are none."""
    sections = {"attend": workspace.features(task), "signals": workspace.signals(task)}
    for section, target in sections.items():
        if getattr(params, section) is None:
            with atomic_folder(target) as folder:
                write_refusal(folder, UnsupportedError(f"the run's parameter {section!r} is null"))
    if params.attend is None and params.signals is None:
        return
    classifier = load_classifier(workspace.classifier(task), compute)
    if params.attend is not None:
        with atomic_folder(workspace.features(task)) as folder:
            try:
                layer_count(classifier.transformer.model)
            except UnsupportedError as error:
                write_refusal(folder, error)
                logger.warning("%s: no attention features are written: %s", task, error)
            else:
                settings = params.attend.layers, params.attend.hidden_states
                for split in SPLITS:
                    examples = workspace.read_examples(task, split)
                    what = f"{task}: attention of {split}"
                    write_features(folder / f"{split}.parquet", classifier, examples, *settings, what)
    if params.signals is not None:
        gold = workspace.read_gold(task, params)
        most = params.signals.max_texts, params.signals.unmarked_texts
        with atomic_folder(workspace.signals(task)) as folder:
            for split in ("train", "validation"):
                examples = texts_to_learn_from(workspace.read_examples(task, split), gold, *most, seed)
                write_signals(folder / f"{split}.parquet", classifier, examples, f"{task}: signals of {split}")
