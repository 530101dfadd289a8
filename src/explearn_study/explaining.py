"""The stage explain: word scores of a task's test texts, by every method of a run."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from explearn.core.attribution import Aggregation
from explearn.core.compute import ComputeOptions
from explearn.core.documents import file_digest, text_digest
from explearn.core.writing import write_json
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.timing import ForwardClock, explain_timed
from explearn.methods.finding import find_explainer, seeded
from explearn.metrics.runs import kept_run, write_run
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn.text.sampling import texts_to_explain
from explearn_study.params import Params, RunMethod
from explearn_study.workspace import Workspace, read_costs

logger = logging.getLogger(__name__)

WARM_UP_TEXTS = 2
"""Texts that each method explains before the clock starts: first calls load kernels and allocate buffers."""

CLOCK_SHARE = 4
"""1 / share of the texts on which the time of classifying alone is measured anew beside each method."""

SUB_TOKEN_FAMILIES = ("attention", "gradient", "relevance", "decomposition")
"""Families whose methods score each sub-token separately; others give all sub-tokens of a word the same score."""


def explain_task(workspace: Workspace, params: Params, task: str, compute: ComputeOptions, seed: int) -> None:
    """Explain a task's test texts with every method of the run, one file per method.

    A method that trained its own classifier explains that one; one that was not trained, for want of
    marks, explains nothing. A file is kept if it was made with the same code, texts, classifier, options and training.
    Costs are written to a file outside DVC's outputs (`Workspace.costs`).

    Raises as `make_method` and `explain_timed` do.
    """
    marked = workspace.read_gold(task, params)
    examples = texts_to_explain(workspace.read_examples(task, "test"), marked, params.attribute.max_texts, seed)
    texts = [(example.id, example.all_words) for example in examples]
    # All methods are made first, so that an error ends the stage before anything is computed.
    made: dict[str, tuple[Explainer, dict[str, Any]]] = {}
    for name, method in params.methods.items():
        if workspace.refusal(task, name):
            continue
        made[name] = make_method(method, params, workspace, task, seed)
    folder = workspace.attributions(task)
    classifiers: dict[Path, tuple[Predictor, ForwardClock]] = {}
    for name, (explainer, options) in made.items():
        explained = workspace.explained(params, task, name)
        if explained not in classifiers:
            loaded = load_classifier(explained, compute)
            classifiers[explained] = loaded, ForwardClock(loaded, examples, CLOCK_SHARE)
        classifier, clock = classifiers[explained]
        path = folder / f"{name}.parquet"
        files = [workspace.code("explain"), workspace.code(f"methods/{name}")]
        trained = trained_folder(params.methods[name], params, workspace, task)
        if trained is not None:
            files += [file for file in sorted(trained.rglob("*")) if file.is_file()]
        aggregation = aggregation_of(params.methods[name], params)
        inputs = [texts, options, aggregation, classifier.fingerprint, *map(file_digest, files)]
        source = text_digest(json.dumps(inputs, sort_keys=True))
        if kept_run(path, source):
            logger.info("%s: the word scores of %s are kept", task, name)
            continue
        run = explain_timed(
            explainer, classifier, examples, options, clock, warm_up=WARM_UP_TEXTS, aggregation=aggregation
        )
        # The costs come first: a run that is killed in between explains anew, and measures again.
        measured = workspace.costs(task)
        write_json(measured, {**read_costs(measured), name: run.cost and run.cost.model_dump()})
        write_run(path, replace(run, source=source))
    for path in folder.iterdir():
        if path.stem not in made:
            path.unlink()


def aggregation_of(method: RunMethod, params: Params) -> Aggregation | None:
    """Return how a method's scores of sub-tokens become those of words; None: in its own way."""
    if params.attribute.pooling == "own" or method.info.family not in SUB_TOKEN_FAMILIES:
        return None
    return params.attribute.pooling


def make_method(
    method: RunMethod, params: Params, workspace: Workspace, task: str, seed: int
) -> tuple[Explainer, dict[str, Any]]:
    """Return a method of the run, loaded from its folder if it is trained, and its options.

    A method that draws at random gets `seed` unless its options have one.

    Raises:
        ModelError: the method was not trained.
    """
    folder = trained_folder(method, params, workspace, task)
    if folder is not None and method.info.base is None:
        # Training has fixed its options.
        explainer = find_explainer(folder, method=method.of)
        options = dict(method.options)
    else:
        options = seeded(method.of, method.options, seed)
        explainer = find_explainer(folder or method.of, options, method=method.of)
    explainer.name = method.name
    return explainer, options


def trained_folder(method: RunMethod, params: Params, workspace: Workspace, task: str) -> Path | None:
    """Return the folder of a trained method, or of its base; None for a method without training."""
    if method.path is not None:
        return workspace.root / method.path.replace("{task}", task)
    if method in params.trained:
        return workspace.explainer(task, method.name)
    return None if method.info.base is None else workspace.explainer(task, method.info.base)
