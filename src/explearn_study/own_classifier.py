"""Baselines beside the explainer under study on the classifier that it trained."""

from __future__ import annotations

from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.evaluation.result import Evaluation
from explearn.evaluation.run import EvaluateOptions, evaluate
from explearn.methods.base.targets import judged_targets
from explearn.metrics.mosaics import make_mosaics
from explearn.metrics.plausibility import rationale_k
from explearn.metrics.runs import MethodRun
from explearn.predictors.pretrained import load_classifier
from explearn.text.sampling import texts_to_explain
from explearn_study.explaining import aggregation_of, make_method
from explearn_study.params import Params
from explearn_study.sections import MOST_EXAMPLES
from explearn_study.workspace import Workspace

METRICS = ("f1_topk", "auroc", "aopc_comprehensiveness", "aopc_sufficiency", "consistency")
"""What they are compared by, with mosaics: what the report asks of all methods, and IvRA's paper."""


def judge_on_own_classifier(
    workspace: Workspace, params: Params, task: str, compute: ComputeOptions, seed: int
) -> Evaluation:
    """Explain one classifier, that of the explainer under study, with `params.on_own_classifier`, and judge them.

    Args:
        workspace: the files of the run.
        params: the run's parameters.
        task: name of the task.
        compute: where and how to compute.
        seed: the run's seed.

    Raises:
        UnsupportedError: a baseline cannot explain the classifier.
    """
    methods = params.on_own_classifier
    classifier = load_classifier(workspace.explained(params, task, methods[0].name), compute)
    marked = workspace.read_gold(task, params)
    test = workspace.read_examples(task, "test")
    examples = texts_to_explain(test, marked, params.attribute.max_texts, seed)
    targets = judged_targets(classifier, examples)
    runs = {}
    explainers = {}
    for method in methods:
        explainer, chosen = make_method(method, params, workspace, task, seed)
        aggregation = aggregation_of(method, params)
        attributions = explainer.explain(classifier, examples, targets, aggregation=aggregation)
        runs[method.name] = MethodRun(method.name, attributions, classifier.fingerprint, chosen)
        explainers[method.name] = explainer
    agreement = read_json(workspace.agreement(task))
    options = EvaluateOptions(
        params=params.evaluate,
        seed=seed,
        task=task,
        k=rationale_k(agreement["mean_length"]),
        positive_rate=agreement["positive_rate"] or 0.0,
        # Here all explain one classifier.
        infos={method.name: method.info.model_copy(update={"own_model": False}) for method in methods},
        explainers=explainers,
        mosaics=make_mosaics(classifier, test, params.evaluate.mosaics, seed),
        shown=MOST_EXAMPLES,
        facts={"marks": agreement},
    )
    gold = {example.id: marked[example.id] for example in examples if example.id in marked}
    return evaluate(classifier, runs, gold, METRICS, texts=test, options=options)
