"""Explaining a task's test texts with one method, timed, into one Parquet file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, UnknownNameError
from explearn.core.memory import peak_from_here
from explearn.core.records import Example
from explearn.core.storage import (
    ATTRIBUTION_SCHEMA,
    atomic_folder,
    attribution_row,
    parquet_writer,
    set_metadata,
    write_json,
)
from explearn.lens.passes import count_passes
from explearn.methods.base.asking import judged_targets
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.registry import accepted_options, get_explainer
from explearn.methods.names import get_info, known_infos
from explearn.model.classifier import Classifier
from explearn.text.choice import texts_to_explain
from explearn_study.params import LEARNED, Params
from explearn_study.runs import Cost
from explearn_study.workspace import Workspace

SHARD_TEXTS = 512
WARM_UP_TEXTS = 2
"""Texts explained before the clock starts: first calls load kernels and allocate buffers."""


class ForwardClock:
    """Times the plain classification of some texts, tokenisation included, round about what it is compared with.

    A computer is not equally fast all the time, so a ratio of two durations is taken close together.
    """

    def __init__(self, classifier: Classifier, examples: Sequence[Example], share: int = 1) -> None:
        """Times 1 / share of the texts, drawn evenly over their lengths, and takes the others to be as fast."""
        by_length = sorted(examples, key=lambda example: -len(example.all_words)) if share > 1 else examples
        self._classifier, self._examples = classifier, by_length[share // 2 :: share] or examples
        self._scale = len(examples) / len(self._examples)
        self._run()  # first calls load kernels and allocate buffers
        self._before = self._run()

    def seconds(self) -> float:
        """Mean of one classification of all texts now and the one before: at the last call, or in the constructor."""
        before, self._before = self._before, self._run()
        return (before + self._before) / 2

    def _run(self) -> float:
        start = time.perf_counter()
        self._classifier.predict_proba(self._classifier.encode(self._examples))
        return self._scale * (time.perf_counter() - start)


def write_attributions(
    target: Path,
    explainer: Explainer,
    classifier: Classifier,
    examples: Sequence[Example],
    options: Mapping[str, Any],
    clock: ForwardClock | None = None,
) -> Cost:
    """Explain the predicted class (`judged_targets`) of every example; write attributions shard by shard.

    The file's metadata holds method, options, classifier (fingerprint), threshold, notes, texts, and the passes through
    the model for one text. Nothing in it depends on the machine's speed. Returns the cost of this very run, measured
    after a warm-up.

    Args:
        clock: one of the same texts that has been running, where the method has explained texts in this process before;
            without it, both are warmed up here.

    Raises DataError when there is no example, UnsupportedError where the method cannot explain the classifier.
    """
    if not examples:
        raise DataError(f"{target}: there is no text to explain; expected at least one test example")
    explainer.check_explains(classifier)
    # First of all, since it gives freed memory back to the system, and what allocates it anew is some 20 % slower.
    peak = peak_from_here(classifier.device)
    forward = clock or ForwardClock(classifier, examples)
    if clock is None:
        list(explainer.explain(classifier, examples[:WARM_UP_TEXTS]))
    seconds, targets = 0.0, judged_targets(classifier, examples)
    with parquet_writer(target, ATTRIBUTION_SCHEMA) as writer:
        # Of a function of texts there are no passes to count.
        with count_passes(classifier.model) if classifier.has_model else nullcontext() as passes:
            found = explainer.explain(classifier, examples, targets, description=f"explain with {explainer.name}")
            while True:
                start = time.perf_counter()
                attributions = list(islice(found, SHARD_TEXTS))
                seconds += time.perf_counter() - start
                if not attributions:
                    break
                rows = [attribution_row(attribution) for attribution in attributions]
                writer.write_table(pa.Table.from_pylist(rows, schema=ATTRIBUTION_SCHEMA))
        memory = peak()
        cost = Cost(len(examples), seconds, forward.seconds(), memory)
        metadata = {
            "method": explainer.name,
            "options": dict(options),
            "classifier": classifier.fingerprint,
            "threshold": explainer.threshold,
            "notes": explainer.notes(),
            "texts": len(examples),
            "forward_passes": None if passes is None else passes.forward / len(examples),
            "backward_passes": None if passes is None else passes.backward / len(examples),
        }
        set_metadata(writer, metadata)
    return cost


def attribute_group(
    workspace: Workspace, params: Params, task: str, group: str, compute: ComputeOptions, seed: int
) -> None:
    """Explain a task's test texts with every method of a group; write a file for each, in place of the group's folder.

    What each cost goes to a file beside DVC's (`Workspace.costs`).

    Raises as `group_methods` and `write_attributions` do.
    """
    methods = group_methods(group, task, params, workspace, seed)
    if not methods:
        with atomic_folder(workspace.attributions(task, group)):
            return
    classifier = Classifier.from_pretrained(workspace.explained(task, group), compute)
    marked = workspace.read_gold(task, params)
    examples = texts_to_explain(workspace.read_examples(task, "test"), marked, params.attribute.max_texts, seed)
    costs: dict[str, Any] = {}
    with atomic_folder(workspace.attributions(task, group)) as folder:
        for method, options in methods:
            cost = write_attributions(folder / f"{method.name}.parquet", method, classifier, examples, options)
            costs[method.name] = asdict(cost)
    write_json(workspace.costs(task, group), costs)


def group_methods(
    group: str, task: str, params: Params, workspace: Workspace, seed: int
) -> list[tuple[Explainer, dict[str, Any]]]:
    """The methods of a group with their options.

    A group is what one process of the pipeline runs: `quick`, all quick baselines; one costly baseline, by its name;
    learned_ROOM, the explainers of a room as trained; one that refines such a one; on_NAME, explainer NAME and the
    baselines run on the classifier that it trained; a variant, by its name, as its method would be run.
    Methods that draw at random take `seed` where their options name none.
    A room of which the run trains no explainer is a group without methods.

    Raises UnknownNameError for a group that is none of these, ModelError for an explainer that was not trained.
    """
    groups: dict[str, list[str]] = {f"{LEARNED}{info.room}": [] for info in known_infos() if info.trained}
    groups |= {name: list(methods) for name, methods in params.baseline_groups.items()}
    for name in params.learned:
        groups.setdefault(params.group_of(name), []).append(name)
    groups |= {name: [name] for name in params.variants}
    if group not in groups:
        raise UnknownNameError("group", group, groups)
    methods = [_ready(name, task, params, workspace, seed) for name in groups[group]]
    if any(name in params.own_model for name in groups[group]):
        methods += [untrained_method(name, options, seed) for name, options in params.baselines.own_model.items()]
    return methods


def _ready(name: str, task: str, params: Params, workspace: Workspace, seed: int) -> tuple[Explainer, dict[str, Any]]:
    """A method of the run, loaded where it was trained."""
    info, options = get_info(name), params.options_of(name)
    if not info.learned or name in params.baseline_names:
        return untrained_method(name, options, seed)
    if info.base is not None:
        options = {**options, "seed": seed}
        return get_explainer(name, path=str(workspace.explainer(task, info.base)), **options), options
    return get_explainer(name, path=str(workspace.explainer(task, name))), options


def untrained_method(name: str, given: Mapping[str, Any], seed: int) -> tuple[Explainer, dict[str, Any]]:
    """A method that needs no training, and its options; it takes `seed` where these name none."""
    options = {**({"seed": seed} if "seed" in accepted_options(name) else {}), **given}
    return get_explainer(name, **options), options
