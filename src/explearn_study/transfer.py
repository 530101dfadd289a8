"""Explainers that trained a classifier of their own, tried on other tasks with the same classes (IvRA, appendix E)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from explearn.predictors.pretrained import load_classifier
from explearn.predictors.transformer import TransformerPredictor

from explearn.core.attribution import Attribution
from explearn.core.compute import ComputeOptions
from explearn.core.errors import ParamsError
from explearn.core.examples import Example
from explearn.methods.base.explainer import Explainer
from explearn.methods.registry import make_explainer
from explearn.metrics.evaluate import evaluate_task
from explearn.metrics.params import EvaluateParams
from explearn.metrics.runs import MethodRun
from explearn.predictors.finetune import evaluate_classifier
from explearn.text.sampling import texts_to_explain
from explearn_study.params import Params
from explearn_study.workspace import Workspace, read_document

CRITERIA = ("aopc_comprehensiveness", "aopc_sufficiency", "consistency", "simulatability")


def transfer(workspace: Workspace, params: Params, name: str, compute: ComputeOptions, seed: int) -> dict[str, Any]:
    """Judge an explainer, as trained on each task, on the test texts of every task with the same classes.

    The texts are those of the stage explain. What was trained on the task itself is judged anew beside the others.

    Returns explainer, criteria (it was trained for), texts, and by task, by the task that it was trained on: accuracy,
    and simulatability, aopc_comprehensiveness, aopc_sufficiency and consistency, None where undefined.
    Raises ParamsError where no two tasks have the same classes.
    """
    by_classes: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for task in params.tasks:
        by_classes[tuple(workspace.read_labels(task))].append(task)
    groups = [tasks for tasks in by_classes.values() if len(tasks) > 1]
    if not groups:
        raise ParamsError(
            f"studies.transfer: got {name}; expected two tasks with the same classes among {params.tasks}"
        )
    figures_of: dict[str, dict[str, dict[str, float | None]]] = {}
    texts: dict[str, int] = {}
    criteria: list[str] = []
    for group in groups:
        tests = {task: workspace.read_examples(task, "test") for task in group}
        chosen = {
            task: texts_to_explain(rows, workspace.read_gold(task, params), params.attribute.max_texts, seed)
            for task, rows in tests.items()
        }
        texts |= {task: len(rows) for task, rows in chosen.items()}
        for trained in group:
            folder = workspace.explainer(trained, name)
            explainer = make_explainer(params.methods[name].info, {}, str(folder))
            classifier = load_classifier(folder / "classifier", compute)
            criteria = list(read_document(folder / "config.json", dict[str, Any], "fit")["options"]["criteria"])
            for task in group:
                description = f"{name} of {trained} on {task}"
                attributions = list(explainer.explain(classifier, chosen[task], description=description))
                judged = criteria_figures(classifier, explainer, chosen[task], attributions, params.evaluate, seed)
                accuracy = evaluate_classifier(classifier, tests[task], f"{trained}'s classifier on {task}")["accuracy"]
                figures_of.setdefault(task, {})[trained] = {"accuracy": accuracy, **judged}
    return {"explainer": name, "criteria": criteria, "texts": texts, "tasks": figures_of}


def criteria_figures(
    classifier: TransformerPredictor,
    explainer: Explainer,
    examples: Sequence[Example],
    attributions: Sequence[Attribution],
    params: EvaluateParams,
    seed: int,
) -> dict[str, float | None]:
    """Return the metrics of IvRA's four criteria, of one method on some texts; None where one is undefined."""
    name, by_id = explainer.name, {example.id: example for example in examples}
    run = {name: MethodRun(name, attributions, classifier.fingerprint)}
    judged = evaluate_task(
        name, run, by_id, {}, classifier, rules={name: "top_k"}, k=1, positive_rate=0.0, params=params, seed=seed
    )
    return {metric: judged.metrics[name][metric] for metric in CRITERIA}
