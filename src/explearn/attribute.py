"""Explaining a task's test texts with one method, timed, into one Parquet file."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from explearn.compute import peak_memory_mb
from explearn.data.records import Example
from explearn.data.sources.splits import hash_order
from explearn.data.storage import ATTRIBUTION_SCHEMA, attribution_row, parquet_writer, read_metadata
from explearn.errors import DataError, ParamsError, UnknownNameError
from explearn.explainer import Explainer
from explearn.models.classifier import Classifier
from explearn.params import Params
from explearn.registry import accepted_options, get_explainer, get_info, learned_options
from explearn.workspace import Workspace

SHARD_TEXTS = 512
WARM_UP_TEXTS = 8
"""Texts explained before the clock starts: first calls load kernels and allocate buffers."""

COST_TEXTS = 32
COST_RUNS = 3
COST_SECONDS = 3.0
"""Texts, pairs of runs and the run length up to which runs are repeated when a method is timed."""


def texts_to_explain(
    examples: Iterable[Example], marked: Collection[str], most: int | None, seed: int
) -> list[Example]:
    """Choose at most `most` examples, those with a rationale (ids in `marked`) first, otherwise by seed.

    Returned in the order given. The draw depends on ids and seed alone.
    """
    rows = list(examples)
    if most is None or len(rows) <= most:
        return rows

    # sorted is stable: within the marked and the others, the order stays that of the draw.
    order = sorted(hash_order((example.id for example in rows), seed), key=lambda example_id: example_id not in marked)
    chosen = set(order[:most])
    return [example for example in rows if example.id in chosen]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a method costs on the texts it was timed on.

    texts: how many. seconds: to classify and explain them; forward_seconds: to classify them, tokenisation included.
    peak_memory_mb: of the process, or of the device, so far; methods of one family share a process.
    """

    texts: int
    seconds: float
    forward_seconds: float
    peak_memory_mb: float


def measure_cost(explainer: Explainer, classifier: Classifier, examples: Sequence[Example]) -> Cost:
    """Time a method against plain classification on the same texts, in pairs of runs, after a warm-up.

    Uses at most COST_TEXTS texts, and COST_RUNS pairs, or one where a run takes longer than COST_SECONDS. The pair with
    the median ratio is returned: a pause of the machine in one run does not count.
    """
    texts = examples[:COST_TEXTS]

    def classify() -> float:
        start = time.perf_counter()
        classifier.predict_proba(classifier.encode(texts))
        return time.perf_counter() - start

    def explain() -> float:
        start = time.perf_counter()
        for _ in explainer.explain(classifier, texts):
            pass
        return time.perf_counter() - start

    list(explainer.explain(classifier, texts[:WARM_UP_TEXTS]))
    classify()
    pairs = [(classify(), explain())]
    while pairs[0][1] < COST_SECONDS and len(pairs) < COST_RUNS:
        pairs.append((classify(), explain()))
    forward, seconds = sorted(pairs, key=lambda pair: pair[1] / pair[0])[len(pairs) // 2]
    return Cost(len(texts), seconds, forward, peak_memory_mb(classifier.device))


def write_attributions(
    target: Path,
    explainer: Explainer,
    classifier: Classifier,
    examples: Sequence[Example],
    options: Mapping[str, Any],
) -> None:
    """Explain the predicted class of every example; write attributions shard by shard, with the cost as metadata.

    The metadata holds method, options, classifier (fingerprint), threshold, and the fields of Cost.
    Raises DataError when there is no example.
    """
    if not examples:
        raise DataError(f"{target}: there is no text to explain; expected at least one test example")
    cost = measure_cost(explainer, classifier, examples)
    metadata = {
        "method": explainer.name,
        "options": dict(options),
        "classifier": classifier.fingerprint,
        "threshold": explainer.threshold,
        **asdict(cost),
    }
    found = explainer.explain(classifier, examples, description=f"explain with {explainer.name}")
    with parquet_writer(target, ATTRIBUTION_SCHEMA, metadata) as writer:
        while rows := [attribution_row(attribution) for attribution in islice(found, SHARD_TEXTS)]:
            writer.write_table(pa.Table.from_pylist(rows, schema=ATTRIBUTION_SCHEMA))


def group_methods(
    group: str, task: str, params: Params, workspace: Workspace, seed: int
) -> list[tuple[Explainer, dict[str, Any]]]:
    """The methods of a group with their options: a family's baselines, or the one learned explainer, as trained.

    Methods that draw at random take `seed` where their options name none.
    Raises UnknownNameError for a group that is neither, ModelError for an explainer that was not trained.
    """
    if group in params.explainers:
        return [(get_explainer(group, path=str(workspace.explainer(task, group))), learned_options(group, params))]
    if group not in params.baselines:
        raise UnknownNameError("group", group, [*params.explainers, *params.baselines])
    methods = []
    for name, given in params.baselines[group].items():
        if get_info(name).family != group:
            raise ParamsError(f"baselines.{group}.{name}: {name} belongs under baselines.{get_info(name).family}")
        options = {**({"seed": seed} if "seed" in accepted_options(name) else {}), **(given or {})}
        methods.append((get_explainer(name, **options), options))
    return methods


@dataclass(frozen=True, slots=True)
class Run:
    """How an attribution file came about: the method's cost and threshold (None without one), the classifier's
    fingerprint."""

    cost: Cost
    threshold: float | None
    classifier: str


def read_run(path: Path) -> Run:
    """Read an attribution file's metadata; raises DataError where they are not those of the stage attribute."""
    metadata = read_metadata(path)
    keys = [field.name for field in fields(Cost)]
    missing = [key for key in (*keys, "threshold", "classifier") if key not in metadata]
    if missing:
        raise DataError(f"{path}: its metadata lack {', '.join(missing)}; expected a file of the stage attribute")
    return Run(Cost(**{key: metadata[key] for key in keys}), metadata["threshold"], metadata["classifier"])
