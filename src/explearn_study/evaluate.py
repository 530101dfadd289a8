"""All metrics of a task's methods, from the files that earlier stages left."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, UnsupportedError
from explearn.core.records import Example
from explearn.core.shapes import read_document
from explearn.core.storage import read_attributions, write_json, write_text
from explearn.judge.evaluate import OwnModel, TaskEvaluation, evaluate_task
from explearn.judge.plausibility import rationale_k
from explearn.judge.predictions import Predictions
from explearn.lens.representations import aggregate_states, word_embeddings
from explearn.methods.names import get_info, leaderboard_order
from explearn.model.classifier import Classifier
from explearn.model.finetune import evaluate_classifier
from explearn_study.metric_files import write_by_text, write_comparisons
from explearn_study.params import Params
from explearn_study.runs import read_run
from explearn_study.shapes import Agreement, TrainedModel
from explearn_study.workspace import Workspace

logger = logging.getLogger(__name__)

PLOTTED = {"f1": "f1", "auroc": "auroc", "faithfulness": "aopc_comprehensiveness"}
"""Plot of DVC -> the metric that it shows."""


def judge_task(
    workspace: Workspace,
    params: Params,
    task: str,
    compute: ComputeOptions,
    seed: int,
    classifier: Classifier | None = None,
    predictions: Predictions | None = None,
) -> None:
    """Judge every method's attributions of a task's test texts, and write what the stage evaluate writes.

    Args:
        classifier: the one that is explained (default: the workspace's).
        predictions: what it has been asked before (default: nothing).

    Raises DataError where an attribution file is missing, damaged, or of another classifier.
    """
    examples = {example.id: example for example in workspace.read_examples(task)}
    if classifier is None:
        classifier = Classifier.from_pretrained(workspace.classifier(task), compute)
    own = {
        name: Classifier.from_pretrained(workspace.explained(task, params.group_of(name)), compute)
        for name in params.own_model
    }
    judge = partial(_evaluate, workspace, params, task, seed, examples)
    evaluation = judge(workspace.attribution_files(params, task), classifier, own, predictions)
    others: dict[str, Any] = {}
    for name, model in own.items():
        found = judge(workspace.own_model_files(params, task, name), model, {})
        rows = {split: [e for e in examples.values() if e.split == split] for split in ("validation", "test")}
        trained = read_document(workspace.explainer(task, name) / "config.json", TrainedModel, "train")
        others[name] = {
            "criteria": trained["options"]["criteria"],
            "epochs": len(trained["history"]) - 1,
            "best_epoch": trained["best_epoch"],
            "coefficients": trained["coefficients"],
            "classifier": {split: evaluate_classifier(model, texts) for split, texts in rows.items() if texts},
            "methods": found.metrics,
            "tied": {metric: [*c.best, *c.tied] for metric, c in found.comparisons.items()},
        }
    for plot, metric in PLOTTED.items():
        write_plot_data(workspace.plot(plot, task), metric, task, evaluation.metrics)
    write_by_text(workspace.metrics_table("texts", task), evaluation)
    write_comparisons(workspace.metrics("comparisons", task), workspace.metrics_table("pairs", task), evaluation)
    write_json(workspace.metrics("own_model", task), others)
    write_json(workspace.metrics("explanations", task), evaluation.metrics)


def _evaluate(
    workspace: Workspace,
    params: Params,
    task: str,
    seed: int,
    examples: Mapping[str, Example],
    files: Mapping[str, Path],
    classifier: Classifier,
    own: Mapping[str, Classifier],
    predictions: Predictions | None = None,
) -> TaskEvaluation:
    """Judge the methods of some attribution files, which explain `classifier`, or their own."""
    agreement = read_document(workspace.agreement(task), Agreement, "rationalise")
    runs = {method: read_run(path) for method, path in files.items()}
    for method, run in runs.items():
        expected = own.get(method, classifier)
        if run.classifier != expected.fingerprint:
            raise DataError(f"{files[method]}: explains another classifier than {expected.name}; run attribute again")
    attributions = {method: read_attributions(path) for method, path in files.items()}
    explained = {a.example_id for texts in attributions.values() for a in texts}
    encodings = classifier.encode([example for i, example in examples.items() if i in explained])
    ids = [encoding.example_id for encoding in encodings]

    def of_texts(model: Classifier, find: Callable[[], Iterable[Any]]) -> dict[str, Any] | None:
        """By id; None for a function of texts, and, with a warning, for a model that has none: metrics stay empty."""
        if not model.has_model:
            return None
        try:
            return dict(zip(ids, find(), strict=True))
        except UnsupportedError as error:
            logger.warning("%s: %s, and stay empty", task, error)
            return None

    def states(model: Classifier) -> dict[str, Any] | None:
        return of_texts(model, lambda: aggregate_states(model, encodings, f"{task}: states"))

    return evaluate_task(
        task=task,
        attributions=attributions,
        costs={
            method: {"forward_passes": run.forward_passes, "backward_passes": run.backward_passes}
            for method, run in runs.items()
        },
        examples=examples,
        gold=workspace.read_gold(task, params),
        k=rationale_k(agreement["mean_length"]),
        positive_rate=agreement["positive_rate"] or 0.0,
        classifier=classifier,
        params=params.evaluate,
        seed=seed,
        binarisation={method: get_info(method).binarisation for method in files},
        thresholds={method: run.threshold for method, run in runs.items() if run.threshold is not None},
        states=states(classifier),
        embeddings=of_texts(classifier, lambda: word_embeddings(classifier, encodings)),
        own={name: OwnModel(model, states(model)) for name, model in own.items() if name in files},
        predictions=predictions,
    )


def write_plot_data(
    path: Path, metric: str, task: str, methods: Mapping[str, Mapping[str, int | float | None]]
) -> None:
    """A metric of a task's methods as CSV: task, method, family, value, low, high; empty where undefined."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["task", "method", "family", "value", "low", "high"])
    for method in leaderboard_order(methods):
        values = [methods[method].get(name) for name in (metric, f"{metric}_low", f"{metric}_high")]
        writer.writerow([task, method, get_info(method).family, *values])
    write_text(path, buffer.getvalue())
