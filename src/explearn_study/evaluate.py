"""All metrics of a task's methods, from the files of earlier stages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explearn.predictors.pretrained import load_classifier
from explearn.predictors.transformer import TransformerPredictor

from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError
from explearn.core.writing import write_json
from explearn.metrics.evaluate import TaskEvaluation, evaluate_task
from explearn.metrics.plausibility import rationale_k
from explearn.metrics.runs import read_run
from explearn_study.metric_files import write_by_text, write_pairs
from explearn_study.params import Params
from explearn_study.workspace import Workspace, read_document


def judge_task(workspace: Workspace, params: Params, task: str, compute: ComputeOptions, seed: int) -> None:
    """Evaluate every method's attributions of a task's test texts, and write the metrics of the stage judge.

    Raises DataError if an attribution file is missing, damaged, or for another classifier.
    """
    examples = {example.id: example for example in workspace.read_examples(task)}
    agreement = read_document(workspace.agreement(task), dict[str, Any], "rationalise")
    gold = workspace.read_gold(task, params)
    classifier = load_classifier(workspace.classifier(task), compute)
    own = {
        method.name: load_classifier(workspace.explained(params, task, method.name), compute)
        for method in params.with_own_model
    }

    def judge(
        files: Mapping[str, Path], model: TransformerPredictor, own: Mapping[str, TransformerPredictor]
    ) -> TaskEvaluation:
        runs = {method: read_run(path) for method, path in files.items()}
        for method, run in runs.items():
            expected = own.get(method, model)
            if run.classifier != expected.fingerprint:
                raise DataError(f"{files[method]}: explains another classifier than {expected.name}; run explain again")
        return evaluate_task(
            task,
            runs,
            examples,
            gold,
            model,
            rules={method: params.method(method).info.binarisation for method in runs},
            k=rationale_k(agreement["mean_length"]),
            positive_rate=agreement["positive_rate"] or 0.0,
            params=params.evaluate,
            seed=seed,
            own=own,
        )

    evaluation = judge(workspace.attribution_files(params, task), classifier, own)
    write_by_text(workspace.metrics_table("texts", task), evaluation)
    write_pairs(workspace.metrics_table("pairs", task), evaluation)
    leaders = {
        metric: {"best": list(tests.best), "tied": list(tests.tied)} for metric, tests in evaluation.comparisons.items()
    }
    write_json(workspace.metrics("comparisons", task), leaders)
    write_json(workspace.metrics("explanations", task), evaluation.metrics)
