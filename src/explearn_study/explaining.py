"""The stage explain: word scores of a task's test texts, by every method of a run."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from explearn.predictors.pretrained import load_classifier
from explearn.predictors.transformer import TransformerPredictor

from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError
from explearn.core.writing import write_json
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.timing import ForwardClock, explain_timed
from explearn.methods.registry import make_explainer, with_seed
from explearn.metrics.runs import read_run, write_run
from explearn.text.sampling import texts_to_explain
from explearn_study.params import Params, RunMethod
from explearn_study.workspace import Workspace

logger = logging.getLogger(__name__)

SOURCES = "sources.json"
"""File in a folder of attributions: file -> hash of all of its inputs."""


WARM_UP_TEXTS = 2
"""Texts that each method explains before the clock starts."""

SUB_TOKEN_FAMILIES = ("attention", "gradient", "relevance", "decomposition")
"""Families whose methods score each sub-token separately; others give all sub-tokens of a word the same score."""


def explain_task(workspace: Workspace, params: Params, task: str, compute: ComputeOptions, seed: int) -> None:
    """Explain a task's test texts with every method of the run, one file per method.

    A method that trained its own classifier explains that one, and so do the baselines under `own_model`. A file is
    kept if it was made with the same code, texts, classifier, options and training. Costs are written to a file outside
    DVC's outputs (`Workspace.costs`).

    Raises as `make_method` and `explain_timed` do.
    """
    marked = workspace.read_gold(task, params)
    examples = texts_to_explain(workspace.read_examples(task, "test"), marked, params.attribute.max_texts, seed)
    texts = json.dumps([(example.id, example.all_words) for example in examples]).encode()
    jobs: list[tuple[RunMethod, str | None]] = [(method, None) for method in params.methods.values()]
    jobs += [(method, own.name) for own in params.with_own_model for method in params.own_model.values()]
    # All methods are made first, so that an error ends the stage before anything is computed.
    made = [make_method(method, params, workspace, task, seed) for method, _ in jobs]
    for (method, _), (explainer, _) in zip(jobs, made, strict=True):
        if params.attribute.pooling != "own" and method.info.family in SUB_TOKEN_FAMILIES:
            explainer.aggregation = params.attribute.pooling
    root = workspace.attributions(task)
    sources: dict[str, str] = read_json(root / SOURCES) if (root / SOURCES).exists() else {}
    classifiers: dict[Path, tuple[TransformerPredictor, ForwardClock]] = {}
    files: set[str] = set()
    for (method, own_model), (explainer, options) in zip(jobs, made, strict=True):
        folder = workspace.explained(params, task, own_model or method.name)
        if folder not in classifiers:
            loaded = load_classifier(folder, compute)
            classifiers[folder] = loaded, ForwardClock(loaded, examples)
        classifier, clock = classifiers[folder]
        path = workspace.attributions(task, own_model) / f"{method.name}.parquet"
        files.add(name := path.relative_to(root).as_posix())
        trained = trained_folder(method, params, workspace, task)
        settings = json.dumps([options, explainer.aggregation], sort_keys=True)
        parts = [texts, settings.encode(), classifier.fingerprint.encode()]
        parts += [workspace.code(code).read_bytes() for code in ("explain", f"methods/{method.name}")]
        parts += [] if trained is None else [path.read_bytes() for path in sorted(trained.rglob("*")) if path.is_file()]
        source = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
        if sources.pop(name, None) == source and _is_whole(path):
            logger.info("%s: the word scores of %s are kept", task, name)
            sources[name] = source
            continue
        run = explain_timed(explainer, classifier, examples, options, clock, warm_up=WARM_UP_TEXTS)
        # The entry is removed while the file is replaced.
        write_json(root / SOURCES, sources)
        write_run(path, run)
        sources[name] = source
        write_json(root / SOURCES, sources)
        costs = workspace.costs(task, own_model)
        of_others: dict[str, Any] = read_json(costs) if costs.exists() else {}
        write_json(costs, {**of_others, method.name: run.cost and run.cost.model_dump()})
    write_json(root / SOURCES, {name: sources[name] for name in sorted(files)})
    for path in root.rglob("*.parquet"):
        if path.relative_to(root).as_posix() not in files:
            path.unlink()


def _is_whole(path: Path) -> bool:
    try:
        read_run(path)
    except DataError:
        return False
    return True


def make_method(
    method: RunMethod, params: Params, workspace: Workspace, task: str, seed: int
) -> tuple[Explainer, dict[str, Any]]:
    """Return a method of the run, loaded from its folder if it is trained, and its options.

    A method that draws at random gets `seed` unless its options have one. Raises ModelError if it was not trained.
    """
    folder, options = trained_folder(method, params, workspace, task), dict(method.options)
    if folder is not None and method.info.base is None:
        return make_explainer(method.info, {}, str(folder)), options
    options = with_seed(method.of, options, seed)
    return make_explainer(method.info, options, None if folder is None else str(folder)), options


def trained_folder(method: RunMethod, params: Params, workspace: Workspace, task: str) -> Path | None:
    """Return the folder of a trained method, or of its base; None for a method without training."""
    if method in params.trained:
        return workspace.explainer(task, method.name)
    return None if method.info.base is None else workspace.explainer(task, method.info.base)
