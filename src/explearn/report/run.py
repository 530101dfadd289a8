"""What a page is about: the evaluations of a run, one a task, and the evaluation over all tasks together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from statistics import fmean

import numpy as np

from explearn.core.arrays import Array
from explearn.evaluation.result import Evaluation, Figures, in_table_order
from explearn.evaluation.run import compare_methods
from explearn.methods.info import ON_MARKS, MethodInfo
from explearn.metrics.base import Metric
from explearn.metrics.registry import CATALOGUE

MARKS = "f1_topk"
"""The figure that says whether the chosen words are the marked ones."""

MODEL = "aopc_comprehensiveness"
"""The figure that says whether they agree with the model."""

ANNOTATORS = {"human": "people", "llm": "a language model"}
"""Kinds of annotators -> what the report calls them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunFacts:
    """The evaluations that a page shows, and facts about the run.

    Attributes:
        title: the page's title.
        subtitle: a sentence on what was evaluated.
        tasks: the evaluations, one a task.
        planted: those on tasks of planted words.
        study: the method under study, if any.
        trained: the learned methods that this run trained; others were already trained.
        chance_margin: by how much a classifier must be better than always choosing the most frequent class for its task
            to count, unless it avoids half of that choice's errors.
        folder: where the figures are, for `explearn.read_report`.
        examples: most example texts of a task.
        parameters: the run's parameters to show, as YAML; empty for none.
        made: when, how and from what the page was made: heading -> fact.
        versions: of the run's packages; empty for all that the pipeline may use.
    """

    title: str
    subtitle: str
    tasks: Sequence[Evaluation]
    planted: Sequence[Evaluation] = ()
    study: str | None = None
    trained: Collection[str] = ()
    chance_margin: float = 0.1
    folder: str = ""
    examples: int = 20
    parameters: str = ""
    made: Mapping[str, str] = field(default_factory=dict)
    versions: Sequence[tuple[str, str]] = ()

    @cached_property
    def counted(self) -> list[Evaluation]:
        """The tasks that count in means: those whose classifier is not near chance, or all if every one is."""
        return [task for task in self.tasks if self.near_chance(task) is None] or list(self.tasks)

    @cached_property
    def overall(self) -> Evaluation:
        """The evaluation over the counted tasks together, with `of_some_tasks` as further metrics."""
        return with_planted(with_annotators(pooled(self.counted), self.counted), self.planted)

    @property
    def of_some_tasks(self) -> list[str]:
        """Names of the metrics of some tasks alone: marks of each kind of annotators, and planted words."""
        return [name for name in self.overall.metrics if name not in CATALOGUE]

    @property
    def unit(self) -> str:
        """What is scored, in the singular."""
        return self.overall.unit

    def near_chance(self, task: Evaluation) -> tuple[float, float] | None:
        """Return test accuracy, and that of always choosing the most frequent class, if it is hardly higher; else None.

        Hardly: by less than `chance_margin`, and with more than half of that choice's errors. None, too, if all texts
        are of one class, so that no classifier could be better.
        """
        test = task.performance.get("test", {})
        accuracy = test.get("accuracy")
        majority = test.get("majority_rate")
        if accuracy is None or majority is None or majority == 1:
            return None
        if accuracy - majority >= min(self.chance_margin, (1 - majority) / 2):
            return None
        return accuracy, majority

    def learned_from_marks(self, method: str) -> bool:
        """Return whether a method needs marked words of the task that it explains."""
        return any(task.options.get(method, {}).get("protocol") in ON_MARKS for task in self.tasks)


def pooled(tasks: Sequence[Evaluation]) -> Evaluation:
    """Return one evaluation of several tasks: figures are means over them, tests are over all their texts together.

    A method has a figure if it has one on each task on which any method has it.
    """
    if len(tasks) == 1:
        return tasks[0]
    infos: dict[str, MethodInfo] = {}
    names: dict[str, None] = {}
    figures: dict[str, Figures] = {}
    for task in tasks:
        infos |= task.infos
        for method, of_method in task.figures.items():
            figures.setdefault(method, {})
            names |= dict.fromkeys(name for name in of_method if name in CATALOGUE)
    by_text: dict[str, dict[str, Array]] = {}
    for name in names:
        by = CATALOGUE[name].by_text
        measured = [task.values(name) for task in tasks if task.values(name)]
        texts = [task.by_text[by] for task in tasks if by in task.by_text]
        for method, of_method in figures.items():
            if measured and all(method in values for values in measured):
                of_method[name] = fmean(values[method] for values in measured)
            if texts and all(method in values for values in texts):
                by_text.setdefault(by, {})[method] = np.concatenate([values[method] for values in texts])
    own = {name for name, info in infos.items() if info.own_model}
    tested = [CATALOGUE[name] for name in names if CATALOGUE[name].by_text in by_text]
    first = tasks[0]
    return Evaluation(
        figures=figures,
        example_ids=tuple(chain.from_iterable(task.example_ids for task in tasks)),
        by_text=by_text,
        comparisons=compare_methods(figures, by_text, own, first.params.significance, tested),
        task="all tasks",
        unit=first.unit,
        infos=in_table_order(infos),
        params=first.params,
        seed=first.seed,
    )


def with_annotators(overall: Evaluation, tasks: Sequence[Evaluation]) -> Evaluation:
    """Return an evaluation with the agreement with each kind of annotators as a metric, if there are several kinds.

    Args:
        overall: the evaluation of all tasks.
        tasks: the tasks; those marked by more than one kind of annotators are left out.
    """
    by_kind: dict[str, list[Evaluation]] = {}
    for task in tasks:
        kinds = list(task.marks.get("marked_by") or ())
        if len(kinds) == 1 and task.values(MARKS):
            by_kind.setdefault(kinds[0], []).append(task)
    if len(by_kind) < 2:
        return overall
    for kind, marked in sorted(by_kind.items()):
        name = f"marks_{kind}"
        who = ANNOTATORS.get(kind, kind)
        metric = replace(
            CATALOGUE[MARKS],
            name=name,
            by_text=name,
            heading=f"F1 top-K: {who}",
            summary=f"F1 top-K for the words that {who} marked ({', '.join(task.task for task in marked)})",
        )
        together = pooled(marked)
        values: dict[str, Figures] = {method: {name: value} for method, value in together.values(MARKS).items()}
        overall = with_metric(overall, metric, values, together.by_text.get(CATALOGUE[MARKS].by_text, {}))
    return overall


def with_metric(
    overall: Evaluation, metric: Metric, values: Mapping[str, Figures], by_text: Mapping[str, Array]
) -> Evaluation:
    """Return an evaluation with a further metric, and its tests.

    Args:
        overall: the evaluation.
        metric: the metric.
        values: method -> its figures; methods that `overall` does not have are left out.
        by_text: method -> the metric's values by text.
    """
    figures = {method: of_method | values.get(method, {}) for method, of_method in overall.figures.items()}
    all_by_text = {**overall.by_text, metric.by_text: dict(by_text)}
    tests = compare_methods(values, all_by_text, (), overall.params.significance, [metric])
    update = {
        "figures": figures,
        "comparisons": overall.comparisons | tests,
        "metrics": {**overall.metrics, metric.name: metric},
        "by_text": all_by_text,
    }
    return overall.model_copy(update=update)


def with_planted(overall: Evaluation, planted: Sequence[Evaluation]) -> Evaluation:
    """Return an evaluation with the precision at planted words as a metric for each of their tasks.

    Methods that have learned from these words' marks have no figure.
    """
    for task in planted:
        metric = replace(
            CATALOGUE[MARKS],
            name=f"planted_{task.task}",
            by_text=f"planted_{task.task}",
            heading=f"Planted: {task.task}",
            summary=f"share of the planted {{unit}}s that decide the label among the {task.k} highest scores",
        )
        values = {}
        for method, of_method in task.figures.items():
            if task.options.get(method, {}).get("protocol") not in ON_MARKS and method in overall.figures:
                values[method] = {
                    f"{metric.name}{end}": of_method.get(f"{MARKS}{end}") for end in ("", "_low", "_high")
                }
        overall = with_metric(overall, metric, values, task.by_text.get(CATALOGUE[MARKS].by_text, {}))
    return overall
