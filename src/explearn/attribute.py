"""Explaining a task's test texts with one method, timed, into one Parquet file."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from explearn.compute import peak_memory_mb
from explearn.data.records import Attribution, Example
from explearn.data.sources.splits import hash_order
from explearn.data.storage import ATTRIBUTION_SCHEMA, add_metadata, attribution_row, parquet_writer, read_metadata
from explearn.errors import DataError, ParamsError, UnknownNameError
from explearn.explainer import Explainer
from explearn.models.classifier import Classifier
from explearn.params import Params
from explearn.registry import accepted_options, get_explainer, get_info, learned_options
from explearn.workspace import Workspace

SHARD_TEXTS = 512
WARM_UP_TEXTS = 8
"""Texts explained before the clock starts: first calls load kernels and allocate buffers."""


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


def forward_seconds(classifier: Classifier, examples: Sequence[Example]) -> float:
    """Time to classify the texts, tokenisation included: the yardstick of every method's cost. Warmed up first."""
    classifier.predict_proba(classifier.encode(examples[:WARM_UP_TEXTS]))
    start = time.perf_counter()
    classifier.predict_proba(classifier.encode(examples))
    return time.perf_counter() - start


def write_attributions(
    target: Path,
    explainer: Explainer,
    classifier: Classifier,
    examples: Sequence[Example],
    options: Mapping[str, Any],
    forward: float,
) -> None:
    """Explain the predicted class of every example; write attributions shard by shard, with the cost as metadata.

    The metadata holds method, options, classifier (fingerprint), texts, seconds (classification included, writing
    excluded), forward_seconds (classification alone) and peak_memory_mb (of the process or the device, so far).
    """
    if not examples:
        raise DataError(f"{target}: there is no text to explain; expected at least one test example")
    list(explainer.explain(classifier, examples[:WARM_UP_TEXTS]))
    clock = _Clock()
    found = clock(explainer.explain(classifier, examples, description=f"explain with {explainer.name}"))
    with parquet_writer(target, ATTRIBUTION_SCHEMA) as writer:
        while rows := [attribution_row(attribution) for attribution in islice(found, SHARD_TEXTS)]:
            writer.write_table(pa.Table.from_pylist(rows, schema=ATTRIBUTION_SCHEMA))
        add_metadata(
            writer,
            {
                "method": explainer.name,
                "options": dict(options),
                "classifier": classifier.fingerprint,
                "texts": len(examples),
                "seconds": clock.seconds,
                "forward_seconds": forward,
                "peak_memory_mb": peak_memory_mb(classifier.device),
            },
        )


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


class _Clock:
    """Sums the time that an iterator takes, leaving out what its consumer does between items."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self, items: Iterator[Attribution]) -> Iterator[Attribution]:
        while True:
            start = time.perf_counter()
            item = next(items, None)
            self.seconds += time.perf_counter() - start
            if item is None:
                return
            yield item


def read_cost(path: Path) -> dict[str, float]:
    """seconds, forward_seconds, texts and peak_memory_mb of an attribution file; raises DataError where one lacks."""
    metadata = read_metadata(path)
    keys = ("seconds", "forward_seconds", "texts", "peak_memory_mb")
    missing = [key for key in keys if key not in metadata]
    if missing:
        raise DataError(f"{path}: its metadata lack {', '.join(missing)}; expected a file of the stage attribute")
    return {key: float(metadata[key]) for key in keys}
