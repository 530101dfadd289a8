"""Explaining a task's test texts with the methods of a group, each into a Parquet file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from explearn.core.compute import ComputeOptions
from explearn.core.errors import UnknownNameError
from explearn.core.storage import atomic_folder, write_json
from explearn.judge.runs import write_run
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.timing import explain_timed, untrained_method
from explearn.methods.registry import get_explainer, get_info, known_infos
from explearn.model.classifier import Classifier
from explearn.text.choice import texts_to_explain
from explearn_study.params import LEARNED, Params
from explearn_study.workspace import Workspace


def attribute_group(
    workspace: Workspace, params: Params, task: str, group: str, compute: ComputeOptions, seed: int
) -> None:
    """Explain a task's test texts with every method of a group; write a file for each, in place of the group's folder.

    What each cost goes to a file beside DVC's (`Workspace.costs`).

    Raises as `group_methods` and `explain_timed` do.
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
            run = explain_timed(method, classifier, examples, options)
            write_run(folder / f"{method.name}.parquet", run)
            costs[method.name] = None if run.cost is None else asdict(run.cost)
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
