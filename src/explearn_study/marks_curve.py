"""Marker trained with none of a task's marked texts, with some, and with all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm.auto import tqdm

from explearn.core.attribution import filled
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError
from explearn.lens.features import ExampleFeatures
from explearn.methods.base.task import check_source
from explearn.methods.marker.explainer import Marker
from explearn.methods.marker.targets import PSEUDO_SPLITS, Sources, curriculum_for, marked_targets, read_sources
from explearn.metrics.arrays import float_or_none
from explearn.metrics.plausibility import binarise, f1_of_texts, rationale_counts, rationale_k, select_top_k
from explearn.metrics.significance import pooled_interval, resampled_areas
from explearn.text.sampling import texts_to_explain
from explearn_study.params import Params
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace

SECTIONS = {"universal": "marker", "few_shot": "marker_few_shot", "in_domain": "marker_in_domain"}
"""Protocol -> the method whose options of the run are used."""


class CachedTask(WorkspaceTask):
    """A task that reads features only once, and only for texts that can be learned from."""

    @cache  # noqa: B019 (a task lives as long as its study)
    def features(self, split: str, hidden: bool = False) -> tuple[dict[str, Any], Iterable[ExampleFeatures]]:
        source, rows = super().features(split, hidden)
        check_source(self, source, split)
        ids = set(self.gold)
        for signalled in PSEUDO_SPLITS:
            ids.update(text.example_id for text in self.signals(signalled))
        return source, [row for row in rows if row.example_id in ids]


def marks_curve(workspace: Workspace, params: Params, name: str, compute: ComputeOptions, seed: int) -> dict[str, Any]:
    """Train Marker with each number of marked texts in the study, and evaluate it on the run's test texts.

    0 is universal, all marked texts are in_domain, numbers in between few_shot. Each draw has its own seed; the first
    is the run's. The other tasks' marks are read once. Test texts are those with marks that the classifier gets right,
    as for all plausibility figures; they are scored from the features stored by the stage features.

    Args:
        workspace: the files of the run.
        params: the run's parameters.
        name: name of the task.
        compute: where to compute.
        seed: the run's seed.

    Returns:
        A JSON document: task, texts, k, draws, and points, each with marks, protocol and what `judge_draws` gives.

    Raises:
        ParamsError: no other task has marks.
        DataError: no texts to learn from or to judge, or features of another classifier than the task's.
    """
    study = params.studies.marks_curve
    assert study is not None
    task = CachedTask(workspace, params, name, compute)
    explained = texts_to_explain(task.examples("test"), task.gold, params.attribute.max_texts, seed)
    labels = {example.id: example.label for example in explained if example.id in task.gold}
    rows = task.features("test")[1]
    tested = [row for row in rows if row.predicted == labels.get(row.example_id)]
    if not tested:
        raise DataError(
            f"task {name!r}: no test text has both marks and a right prediction; there is nothing to evaluate"
        )
    marked = [np.asarray(task.gold[row.example_id], dtype=np.bool_) for row in tested]
    k = rationale_k(read_json(workspace.agreement(name))["mean_length"])
    available = len(marked_targets(task))
    sources = read_sources(task, "universal")
    counts = [count for count in sorted(study.marks) if count < available]
    points = []
    with tqdm(total=(len(counts) + 1) * study.draws, desc=f"{name}: marks", unit="training") as bar:
        for count in (*counts, available):
            protocol = "few_shot"
            if count == available:
                protocol = "in_domain"
            elif count == 0:
                protocol = "universal"
            draws = []
            for draw in range(study.draws):
                explainer = trained(task, params, protocol, count, seed + draw, sources)
                scores = []
                for row in tested:
                    scores.append(explainer.score_features(row, len(task.gold[row.example_id])))
                draws.append(scores)
                bar.update()
            figures = judge_draws(draws, marked, k, Marker.about.binarisation, params.evaluate.confidence)
            points.append({"marks": count, "protocol": protocol, **figures})
    return {"task": name, "texts": len(tested), "k": k, "draws": study.draws, "points": points}


def trained(task: WorkspaceTask, params: Params, protocol: str, marks: int, seed: int, sources: Sources) -> Marker:
    """Return Marker with the run's options for a protocol and a number of marked texts."""
    options = {**params.method(SECTIONS[protocol]).all_options, "protocol": protocol}
    explainer = Marker(**{**options, "marks": marks or options["marks"]}, seed=seed)
    curriculum = curriculum_for(task, explainer.options, sources)
    splits = dict.fromkeys((*PSEUDO_SPLITS, task.rationale_split))
    by_split = [task.features(split) for split in splits]
    features = chain.from_iterable(rows for _, rows in by_split)
    return explainer.fit_curriculum(curriculum, features, by_split[0][0], task.device)


def judge_draws(
    draws: Sequence[Sequence[ArrayLike]], marked: Sequence[ArrayLike], k: int, rule: str, confidence: float
) -> dict[str, Any]:
    """Average the draws of one number of marked texts, with intervals over texts (the jackknife) and draws.

    Args:
        draws: for each draw, scores of each text's words; NaN: the word was not read. Such words are never chosen and
            come last, as in `explearn.metrics.evaluate`.
        marked: masks of the same texts.
        k: number of words chosen by the top-K rule.
        rule: the explainer's own rule; one of `explearn.methods.info.Binarisation`.
        confidence: coverage of the intervals.

    Returns:
        F1 with the top K words (f1_topk), AUROC (auroc) and F1 by the explainer's own rule (f1), each with NAME_low and
        NAME_high, and by_draw, NAME -> the figure of each draw; None where a figure is undefined.
    """
    # All texts as they are, then all but each one.
    counts = np.vstack([np.ones((1, len(marked)), np.int64), 1 - np.eye(len(marked), dtype=np.int64)])
    by_draw: dict[str, list[NDArray[np.float64]]] = {"f1_topk": [], "auroc": [], "f1": []}
    for scores in draws:
        texts = [np.asarray(text, dtype=np.float32) for text in scores]
        values = [filled(text) for text in texts]
        by_rule = {
            "f1_topk": [select_top_k(text, k) for text in values],
            "f1": [binarise(text, rule, k=k, threshold=None, positive_rate=0.0) for text in values],
        }
        for name, masks in by_rule.items():
            chosen = [mask & ~np.isnan(text) for mask, text in zip(masks, texts, strict=True)]
            by_draw[name].append(f1_of_texts(counts @ rationale_counts(chosen, marked)))
        by_draw["auroc"].append(resampled_areas(values, marked, counts)[0])
    point: dict[str, Any] = {"by_draw": {}}
    for name, rows in by_draw.items():
        whole = [row[0] for row in rows]
        means = np.mean(rows, axis=0)
        variance = 0.0
        if len(rows) > 1:
            variance = float(np.var(whole, ddof=1)) / len(rows)
        low, high = pooled_interval(float(means[0]), means[1:], confidence, variance=variance)
        point |= {name: float_or_none(means[0]), f"{name}_low": low, f"{name}_high": high}
        point["by_draw"][name] = [float_or_none(figure) for figure in whole]
    return point
