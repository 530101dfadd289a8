"""Sanity checks for the methods of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from explearn.core.compute import ComputeOptions
from explearn.core.examples import Example
from explearn.methods.base.explainer import Explainer
from explearn.metrics.arrays import mean_of_known
from explearn.metrics.sanity import SanityResult, ScoreSimilarity, check_methods
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn.text.sampling import texts_to_explain
from explearn_study.evaluate import finetuned
from explearn_study.explaining import make_method
from explearn_study.params import Params
from explearn_study.workspace import Workspace


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
