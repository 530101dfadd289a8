"""The stage judge: all metrics of a task's methods, and sanity checks, from the files of earlier stages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError, UnsupportedError
from explearn.core.examples import Example
from explearn.core.writing import write_json
from explearn.evaluation import EvaluateOptions, add_mosaics, evaluate
from explearn.methods.base.explainer import Explainer
from explearn.metrics.arrays import mean_of_known
from explearn.metrics.faithfulness import METRICS
from explearn.metrics.mosaics import MOSAICS, Mosaics, make_mosaics
from explearn.metrics.plausibility import rationale_k
from explearn.metrics.runs import MethodRun, read_run
from explearn.metrics.sanity import SanityResult, ScoreSimilarity, check_methods
from explearn.predictors.finetune import finetune
from explearn.predictors.params import FinetuneParams
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.sampling import texts_to_explain
from explearn_study.explaining import make_method
from explearn_study.metric_files import write_by_text, write_pairs
from explearn_study.params import Params
from explearn_study.sources.planted import obeyed
from explearn_study.workspace import Workspace

PLANTED_METRICS = ("f1_topk",)
"""Metrics of a task of planted words: precision at these words."""


def judge_task(workspace: Workspace, params: Params, task: str, compute: ComputeOptions, seed: int) -> None:
    """Evaluate every method's attributions of a task's test texts, and write the metrics of the stage judge.

    Of planted words only agreement with them counts, on texts whose answer they turn.

    Args:
        workspace: the files of the stages.
        params: the run's parameters.
        task: name of the task.
        compute: where and how to compute.
        seed: seed of all draws.

    Raises:
        DataError: an attribution file is missing, damaged, or for another classifier.
    """
    classifier = load_classifier(workspace.classifier(task), compute)
    own = {}
    for entry in params.with_own_model:
        own[entry.name] = load_classifier(workspace.explained(params, task, entry.name), compute)
    runs = {}
    for method, path in workspace.attribution_files(params, task).items():
        runs[method] = read_run(path)
        expected = own.get(method, classifier)
        if runs[method].classifier != expected.fingerprint:
            raise DataError(f"{path}: explains another classifier than {expected.name}; run explain again")
    agreement = read_json(workspace.agreement(task))
    options = EvaluateOptions(
        params=params.evaluate,
        seed=seed,
        task=task,
        rules={method: params.method(method).info.binarisation for method in runs},
        k=rationale_k(agreement["mean_length"]),
        positive_rate=agreement["positive_rate"] or 0.0,
        own=own,
    )
    marked = workspace.read_gold(task, params)
    test = workspace.read_examples(task, "test")
    gold = {example.id: marked[example.id] for example in test if example.id in marked}
    metrics = None
    mosaics = Mosaics([], [])
    if task in params.planted_tasks:
        metrics = PLANTED_METRICS
        turned = obeyed(test, classifier.predict(test))
        gold = {example_id: mask for example_id, mask in gold.items() if example_id in turned}
    else:
        if params.evaluate.twin:
            judge_twin(workspace, params, task, classifier, runs, options, compute)
        mosaics = make_mosaics(classifier, test, params.evaluate.mosaics, seed)
    evaluation = evaluate(classifier, runs, gold, metrics, texts=test, options=options)
    figures = evaluation.figures
    explainers = {}
    for name, entry in params.methods.items():
        explainers[name], _ = make_method(entry, params, workspace, task, seed)
    add_mosaics(evaluation, explainers, classifier, mosaics, params.evaluate, own)
    by_mosaic = {MOSAICS.name: evaluation.by_text.pop(MOSAICS.name)}
    leaders = {}
    for metric, tests in evaluation.comparisons.items():
        leaders[metric] = {"best": list(tests.best), "tied": list(tests.tied)}
    write_by_text(workspace.metrics_table("texts", task), evaluation.example_ids, evaluation.by_text)
    ids = [mosaic.id for mosaic in mosaics.examples]
    write_by_text(workspace.metrics_table("mosaics", task), ids, by_mosaic)
    write_pairs(workspace.metrics_table("pairs", task), evaluation)
    write_json(workspace.metrics("comparisons", task), leaders)
    write_json(workspace.metrics("explanations", task), figures)


def finetuned(
    examples: Sequence[Example],
    labels: Sequence[str],
    encoder: str,
    params: FinetuneParams,
    compute: ComputeOptions,
    seed: int,
    revision: str | None = None,
) -> Predictor:
    """Return what `explearn.predictors.finetune.finetune` makes of the same arguments; no file of it stays."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "classifier"
        finetune(target, examples, labels, encoder, params, compute, seed, revision)
        return load_classifier(target, compute)


def judge_twin(
    workspace: Workspace,
    params: Params,
    task: str,
    classifier: Predictor,
    runs: Mapping[str, MethodRun],
    options: EvaluateOptions,
    compute: ComputeOptions,
) -> None:
    """Fine-tune the twin of a task's classifier, and write the faithfulness of its explanations on the twin.

    Without words a text may lie outside the distribution that a classifier has learned, so that its answer says little
    about these words. F-Fidelity (Zheng et al. 2025, "F-Fidelity: A Robust Framework for Faithfulness Evaluation of
    Explainable AI") fine-tunes the finished classifier with random removal, explains the classifier, and measures
    faithfulness on the fine-tuned one. Methods that explain a classifier of their own are left out.

    Args:
        workspace: the files of the stages.
        params: the run's parameters.
        task: name of the task.
        classifier: the task's classifier.
        runs: method -> its explanations.
        options: settings of the evaluation.
        compute: where and how to compute.

    Raises:
        UnsupportedError: the classifier has no head for classes that could be fine-tuned.
    """
    if not isinstance(classifier, TransformerPredictor) or classifier.completion is not None:
        raise UnsupportedError("evaluate.twin: this model has no classification head to fine-tune; leave it out")
    settings = params.finetune_of(task).model_copy(update={"random_removal": params.evaluate.removal})
    examples = workspace.read_examples(task)
    folder = str(workspace.classifier(task))
    twin = finetuned(examples, classifier.labels, folder, settings, compute, options.seed)
    explained = {method: run for method, run in runs.items() if method not in options.own}
    evaluation = evaluate(twin, explained, metrics=METRICS, options=options)
    write_json(workspace.metrics("twin", task), evaluation.figures)


def check_task(workspace: Workspace, params: Params, task: str, compute: ComputeOptions, seed: int) -> dict[str, Any]:
    """Explain some test texts again on classifiers with random weights and with noise on their embeddings.

    A method with its own classifier is checked on copies of that one, others on copies of the task's classifier.

    Returns a JSON document: texts, seeds if there are several, and by method the fields of `SanityResult`, over all
    seeds. Raises as `make_method` and `check_methods` do.
    """
    chosen = params.sanity.methods
    if chosen is None:
        trained = {method.name for method in params.trained}
        chosen = [name for name, method in params.methods.items() if name in trained or not method.info.costly]
    examples = texts_to_explain(
        workspace.read_examples(task, "test"), workspace.read_gold(task, params), params.sanity.texts, seed
    )
    by_classifier: dict[Path, list[Explainer]] = defaultdict(list)
    for name in chosen:
        explainer, _ = make_method(params.methods[name], params, workspace, task, seed)
        by_classifier[workspace.explained(params, task, name)].append(explainer)
    other_labels = None
    if params.sanity.random_labels:
        other_labels = cache(partial(_finetuned_on_permuted_labels, workspace, task, params, compute))
    results: dict[str, SanityResult] = {}
    for folder, explainers in by_classifier.items():
        model = load_classifier(folder, compute)
        percent = params.evaluate.headline_percent
        draws: dict[str, list[SanityResult]] = defaultdict(list)
        for draw in range(seed, seed + params.sanity.seeds):
            checks = check_methods(explainers, model, examples, params.sanity, draw, percent, other_labels)
            for name, result in checks.items():
                draws[name].append(result)
        for name, checked in draws.items():
            results[name] = over_draws(checked)
    document = {"texts": len(examples), "methods": {name: asdict(results[name]) for name in chosen}}
    if params.sanity.seeds > 1:
        document["seeds"] = params.sanity.seeds
    return document


def over_draws(results: Sequence[SanityResult]) -> SanityResult:
    """Combine one method's checks over several draws: means.

    Skipped if it could not be checked in one of them.
    """
    for result in results:
        if result.skipped or len(results) == 1:
            return result

    random_model = {}
    for part in results[0].random_model:
        random_model[part] = _mean([result.random_model[part] for result in results])
    labels = [result.random_labels for result in results if result.random_labels is not None]
    return SanityResult(
        random_model=random_model,
        random_labels=_mean(labels) if labels else None,
        max_sensitivity=mean_of_known(result.max_sensitivity for result in results),
    )


def _mean(similarities: Sequence[ScoreSimilarity]) -> ScoreSimilarity:
    return ScoreSimilarity(
        spearman=mean_of_known(draw.spearman for draw in similarities),
        overlap=fmean(draw.overlap for draw in similarities),
    )


def _finetuned_on_permuted_labels(
    workspace: Workspace, task: str, params: Params, compute: ComputeOptions, seed: int
) -> Predictor:
    """Fine-tune the task's encoder as in the stage finetune, with the labels permuted within each split."""
    rng = np.random.default_rng(seed)
    permuted: list[Example] = []
    for split in ("train", "validation"):
        rows = workspace.read_examples(task, split)
        labels = [rows[i].label for i in rng.permutation(len(rows))]
        permuted.extend(replace(row, label=label) for row, label in zip(rows, labels, strict=True))
    encoder, revision = params.encoder_of(task)
    labels = workspace.read_labels(task)
    return finetuned(permuted, labels, encoder, params.finetune_of(task), compute, seed, revision)
