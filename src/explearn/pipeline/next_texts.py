"""Which of a task's unmarked texts to mark next: those whose marks the consensus is least sure of, and unlike each
other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError
from explearn.core.records import Example
from explearn.core.shapes import read_document
from explearn.introspection.representations import aggregate_states
from explearn.methods.expnet.targets import PSEUDO_SPLITS, Sources, read_sources
from explearn.metrics.marks_curve import Curve
from explearn.metrics.plausibility import select_expected_f1
from explearn.metrics.shapes import MarksCurve
from explearn.pipeline.base.params import Params
from explearn.pipeline.base.workspace import Workspace
from explearn.pipeline.train import WorkspaceTask

POOL = 10
"""Texts that are weighed against each other for each one proposed, the least certain ones (Zhdanov 2019: beta)."""


@dataclass(frozen=True, slots=True)
class Proposed:
    """A text to mark. doubt: see `doubt_of`."""

    example: Example
    doubt: float


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to mark next.

    texts: to mark, the least certain first. candidates: how many texts they were chosen from. marked: how many texts of
    the task an explainer can learn from now. trained_on: the other tasks that the consensus has learned from. curve:
    what the stage marks-curve found for the task, None where it did not run.
    """

    texts: list[Proposed]
    candidates: int
    marked: int
    trained_on: Sequence[str]
    curve: Curve | None


def propose(
    workspace: Workspace,
    params: Params,
    name: str,
    count: int,
    split: str | None,
    taken: Collection[str],
    compute: ComputeOptions,
    seed: int,
) -> Proposal:
    """Propose texts to mark for a task.

    Candidates are the texts of a split that the stage `signals` has covered, that nobody has marked, and that the
    classifier gets right: ExpNet learns from no others.

    Args:
        count: how many texts; fewer where there are not as many. split: train or validation (default: the one whose
            rationales train). taken: ids of texts that people have marked since the stage rationalise.

    Raises ParamsError without another task with marks, DataError where there is no candidate.
    """
    task = WorkspaceTask(workspace, params, name, compute)
    split = split or task.rationale_split
    if split not in PSEUDO_SPLITS:
        raise DataError(f"split {split!r}: its texts have no signals; expected {' or '.join(PSEUDO_SPLITS)}")
    examples = {example.id: example for example in task.examples(split)}
    marked = {example_id for example_id in task.gold if example_id in examples}
    sources = read_sources(task, "annotate next", seed)
    usable = {
        text.example_id
        for text in sources.texts
        if text.example_id in examples and text.predicted == examples[text.example_id].label and text.read.any()
    }
    candidates = sorted(usable - marked - set(taken))
    if not candidates:
        covered = sum(text.example_id in examples for text in sources.texts)
        raise DataError(
            f"task {name!r}, split {split!r}: each of the {covered} texts with signals is marked already, or not got "
            "right by the classifier; raise signals.unmarked_texts and run the stage signals, or name another split"
        )
    doubts = doubts_of(task, params, sources, usable & marked, candidates)
    states = aggregate_states(
        task.classifier, task.classifier.encode([examples[i] for i in candidates]), f"{name}: states"
    )
    chosen = spread_out(np.array([doubts[i] for i in candidates]), states, count, seed)
    found = [Proposed(examples[candidates[row]], doubts[candidates[row]]) for row in chosen]
    path = workspace.metrics("curve", name)
    return Proposal(
        sorted(found, key=lambda text: -text.doubt),
        len(candidates),
        len(usable & marked),
        sources.names,
        read_document(path, MarksCurve, "marks-curve") if path.exists() else None,
    )


def doubts_of(
    task: WorkspaceTask, params: Params, sources: Sources, marked: Collection[str], wanted: Collection[str]
) -> Mapping[str, float]:
    """`doubt_of` each text wanted, by the consensus of the other tasks' marks and those that the task has."""
    few_shot = params.section("expnet_few_shot")
    model, ids = sources.consensus(task, few_shot, marked), set(wanted)
    return {
        text.example_id: doubt_of(model.probabilities(features)[text.read])
        for text, features in zip(sources.texts, sources.features, strict=True)
        if text.example_id in ids
    }


def doubt_of(probabilities: NDArray[np.float64]) -> float:
    """Mean entropy, in bits, of the words most likely to be marked: those that the rule of expected F1 chooses.

    Args:
        probabilities: (words,), that each is marked.
    """
    p = probabilities[select_expected_f1(probabilities)]
    return float(np.mean(entr(p) + entr(1 - p)) / np.log(2))


def spread_out(doubts: NDArray[np.float64], states: NDArray[np.float64], count: int, seed: int) -> list[int]:
    """Rows with much doubt and unlike each other: POOL x `count` with the most doubt, parted by k-means with the doubts
    as weights; the row next to each centre (Zhdanov 2019, "Diverse mini-batch Active Learning").

    Args:
        doubts: (texts,). states: (texts, d).

    Returns `count` rows, or all where there are no more.
    """
    # scikit-learn takes a second to import.
    from sklearn.cluster import KMeans
    from sklearn.metrics import pairwise_distances

    if len(doubts) <= count:
        return list(range(len(doubts)))
    pool = np.argsort(-doubts, kind="stable")[: POOL * count]
    clusters = KMeans(count, n_init=4, random_state=seed).fit(states[pool], sample_weight=doubts[pool] + 1e-9)
    chosen: list[int] = []
    for distances in pairwise_distances(clusters.cluster_centers_, states[pool]):
        nearest = next(row for row in np.argsort(distances, kind="stable") if pool[row] not in chosen)
        chosen.append(int(pool[nearest]))
    return chosen
