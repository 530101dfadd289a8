"""The stage judge: all metrics of a task's methods, and sanity checks, from the files of earlier stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError, UnsupportedError
from explearn.core.examples import SPLITS, Example
from explearn.evaluation.result import Evaluation
from explearn.evaluation.run import EvaluateOptions, evaluate
from explearn.metrics.faithfulness import METRICS
from explearn.metrics.mosaics import make_mosaics
from explearn.metrics.plausibility import rationale_k
from explearn.metrics.runs import MethodRun, read_run
from explearn.predictors.finetune import finetune
from explearn.predictors.params import FinetuneParams
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn.predictors.transformer import TransformerPredictor
from explearn.text.sampling import texts_to_explain
from explearn_study.explaining import make_method
from explearn_study.params import Params
from explearn_study.sections import MOST_EXAMPLES
from explearn_study.sources.planted import obeyed
from explearn_study.workspace import Workspace

PLANTED_METRICS = ("f1_topk",)
"""Metrics of a task of planted words: precision at these words."""


def judge_task(workspace: Workspace, params: Params, task: str, compute: ComputeOptions, seed: int) -> None:
    """Evaluate every method's attributions of a task's test texts, and write the evaluation.

    Of planted words only agreement with them counts, on texts whose answer they turn.

    Args:
        workspace: the files of the stages.
        params: the run's parameters.
        task: name of the task.
        compute: where and how to compute.
        seed: seed of all draws.

    Raises:
        DataError: an attribution file is missing, damaged, or for another classifier.
        ModelError: a method was not trained.
    """
    classifier = load_classifier(workspace.classifier(task), compute)
    own = {}
    for entry in params.with_own_model:
        own[entry.name] = load_classifier(workspace.explained(params, task, entry.name), compute)
    reasons = {name: workspace.refusal(task, name) for name in params.methods}
    left_out = {name: reason for name, reason in reasons.items() if reason}
    methods = {name: method for name, method in params.methods.items() if name not in left_out}
    runs = {}
    for name in methods:
        path = workspace.attributions(task) / f"{name}.parquet"
        runs[name] = read_run(path)
        explained = own.get(name, classifier)
        if runs[name].classifier != explained.fingerprint:
            raise DataError(f"{path}: explains another classifier than {explained.name}; run explain again")
    agreement = read_json(workspace.agreement(task))
    performance = read_json(workspace.classifier_figures(task))
    facts = {
        "options": {name: method.all_options for name, method in methods.items() if method.info.learned},
        "marks": agreement,
        "performance": {split: performance[split] for split in ("validation", "test") if performance[split]},
        "left_out": left_out,
        "splits": {split: len(workspace.read_examples(task, split)) for split in SPLITS},
    }
    options = EvaluateOptions(
        params=params.evaluate,
        seed=seed,
        task=task,
        k=rationale_k(agreement["mean_length"]),
        positive_rate=agreement["positive_rate"] or 0.0,
        own=own,
        infos={name: method.info for name, method in methods.items()},
        shown=MOST_EXAMPLES,
        facts=facts,
    )
    marked = workspace.read_gold(task, params)
    test = workspace.read_examples(task, "test")
    gold = {example.id: marked[example.id] for example in test if example.id in marked}
    metrics = None
    twin = None
    if task in params.planted_tasks:
        turned = obeyed(test, classifier.predict(test))
        gold = {example_id: mask for example_id, mask in gold.items() if example_id in turned}
        metrics = PLANTED_METRICS
    else:
        if params.evaluate.twin:
            twin = judge_twin(workspace, params, task, classifier, runs, options, compute)
        explainers = {}
        for name, entry in methods.items():
            explainers[name], _ = make_method(entry, params, workspace, task, seed)
        other_labels = None
        if params.sanity.random_labels:
            other_labels = partial(_finetuned_on_permuted_labels, workspace, task, params, compute)
        options = replace(
            options,
            explainers=explainers,
            mosaics=make_mosaics(classifier, test, params.evaluate.mosaics, seed),
            checked=texts_to_explain(test, marked, params.sanity.texts, seed),
            unchecked=unchecked(params),
            sanity=params.sanity,
            other_labels=other_labels,
        )
    evaluate(classifier, runs, gold, metrics, texts=test, options=options).save(workspace.metrics(task))
    if twin is not None:
        twin.save(workspace.twin(task))


def unchecked(params: Params) -> list[str]:
    """Return the methods that the sanity checks leave out: by default, those that are costly and not trained."""
    if params.sanity.methods is not None:
        return [name for name in params.methods if name not in params.sanity.methods]
    trained = {method.name for method in params.trained}
    return [name for name, method in params.methods.items() if method.info.costly and name not in trained]


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
) -> Evaluation:
    """Fine-tune the twin of a task's classifier, and measure the faithfulness of its explanations on the twin.

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
    folder = str(workspace.classifier(task))
    twin = finetuned(workspace.read_examples(task), classifier.labels, folder, settings, compute, options.seed)
    explained = {method: run for method, run in runs.items() if method not in options.own}
    faithful = EvaluateOptions(params=options.params, seed=options.seed, task=task, infos=options.infos)
    return evaluate(twin, explained, metrics=METRICS, options=faithful)


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
