"""Whether an audit finds the shortcuts of a classifier: known ones, planted into the texts that it learns from.

After Bastings et al. (2022), "Will You Find These Shortcuts?". One half of a task's texts trains the classifier, the
other is audited. Few of the audited texts have the plant, and it counts only if the classifier is seen to follow it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import explearn
from explearn.auditing.claims import PREDICTION
from explearn.auditing.findings import Finding, FindingList
from explearn.core.compute import ComputeOptions
from explearn.core.examples import Split
from explearn.core.seeds import hash_order
from explearn_study.sources import SourceDataset
from explearn_study.sources.planted import PLANTS, SUFFIXES, obeyed, plant_words

RANDOM_LABELS = "random labels"
"""In place of a plant: nothing is planted, and the labels of the training texts are shuffled."""

PLANTED_SHARE = 0.05
"""Share of the audited texts that are planted for a class, for each of two classes."""

LEAST_OBEYED = 0.5
"""A plant counts if it turns the answer of this share of the held-out texts, one way and the other."""


@dataclass(frozen=True, slots=True)
class ShortcutResult:
    """What an audit makes of one classifier.

    Attributes:
        plant: what was planted, or RANDOM_LABELS.
        task: the task.
        seed: seed of all draws.
        accuracy: share of right answers to held-out texts without a plant.
        obeyed: share of held-out texts that are answered as planted, for both classes; None without a plant.
        effect: by how much planting for the second class rather than the first raises the second's probability, mean.
        rank: place of the first confirmed finding that names the plant; None if none does.
        rank_by_counts: its place among the findings of word counts alone, without explanations.
        looked_at: number of claims that were tested; 0 if the classifier answers all texts alike.
        confirmed: number of them that were confirmed.
        first: the first three findings, each with its class.
        seconds: time of the audit.
    """

    plant: str
    task: str
    seed: int
    accuracy: float
    obeyed: float | None
    effect: float | None
    rank: int | None
    rank_by_counts: int | None
    looked_at: int
    confirmed: int
    first: list[str]
    seconds: float

    @property
    def follows(self) -> bool:
        """Whether the classifier follows the plant."""
        return self.obeyed is not None and self.obeyed >= LEAST_OBEYED


def measure_shortcut(
    data: SourceDataset, plant: str, seed: int, folder: Path, encoder: str, compute: ComputeOptions, **options: Any
) -> ShortcutResult:
    """Train a classifier on planted texts, audit it, and look for the plant among the findings.

    Args:
        data: a task's texts.
        plant: one of PLANTS, or RANDOM_LABELS.
        seed: seed of all draws.
        folder: folder for the classifier.
        encoder: as for `explearn.finetune`.
        compute: where and how to compute.
        options: as for `explearn.finetune`.
    """
    task = data.examples[0].task
    order = hash_order([example.id for example in data.examples], seed)
    held_out = _part(data, order[1::2], "validation")
    learned = _part(data, order[::2], "train")
    audited = held_out
    if plant == RANDOM_LABELS:
        labels = Random(seed).sample([example.label for example in learned.examples], len(learned.examples))
    else:
        learned = plant_words(learned, plant, seed)
        labels = [example.label for example in learned.examples]
        audited = _few_planted(plant_words(held_out, plant, seed))
    explearn.finetune(encoder, _texts(learned), folder, labels=labels, seed=seed, compute=compute, **options)
    classifier = explearn.load_classifier(folder, compute=compute)
    truth = [example.label for example in held_out.examples]
    answers = classifier.predict(_texts(held_out))
    followed = effect = None
    if plant != RANDOM_LABELS:
        followed, effect = _follows(classifier, plant_words(_part(data, order[1::2], "test"), plant, seed))
    start = time.perf_counter()
    findings = FindingList()
    # After random labels it may answer all alike, which an audit refuses.
    if len(set(classifier.predict(_texts(audited)))) > 1:
        findings = explearn.audit(classifier, _texts(audited), options=explearn.AuditOptions(seed=seed)).findings
    seconds = time.perf_counter() - start
    by_counts = [finding for finding in findings if PREDICTION in finding.source]
    return ShortcutResult(
        plant=plant,
        task=task,
        seed=seed,
        accuracy=float(np.mean([answer == label for answer, label in zip(answers, truth, strict=True)])),
        obeyed=followed,
        effect=effect,
        rank=rank_of_plant(findings, plant, data.labels),
        rank_by_counts=rank_of_plant(by_counts, plant, data.labels),
        looked_at=len(findings),
        confirmed=len(findings.confirmed),
        first=[f"{finding.element}: {finding.target}" for finding in findings[:3]],
        seconds=seconds,
    )


def _part(data: SourceDataset, ids: Collection[str], split: Split) -> SourceDataset:
    """Return the texts with these ids, all in one split."""
    chosen = set(ids)
    examples = [replace(example, split=split) for example in data.examples if example.id in chosen]
    return replace(data, examples=examples, rationales=[])


def _few_planted(data: SourceDataset) -> SourceDataset:
    """Return the texts, and of their planted copies only PLANTED_SHARE for each class."""
    copies: dict[str, list[str]] = {suffix: [] for suffix in SUFFIXES}
    chosen = set()
    for example in data.examples:
        suffix = example.id[example.id.rindex("-") :]
        if suffix in copies:
            copies[suffix].append(example.id)
        else:
            chosen.add(example.id)
    count = math.ceil(PLANTED_SHARE * len(chosen) / (1 - PLANTED_SHARE * len(SUFFIXES)))
    for of_class in copies.values():
        chosen.update(of_class[:count])
    return replace(data, examples=[example for example in data.examples if example.id in chosen])


def _texts(data: SourceDataset) -> list[str]:
    return [example.text for example in data.examples]


def _follows(classifier: Any, copies: SourceDataset) -> tuple[float, float]:
    """Return the share of texts that are answered as planted, and the mean effect of the plant (`ShortcutResult`)."""
    probabilities = classifier.predict_proba(_texts(copies))
    predicted = [classifier.labels[number] for number in probabilities.argmax(-1)]
    second = probabilities[:, classifier.labels.index(copies.labels[1])]
    signs_of = [1 if example.id.endswith(SUFFIXES[1]) else -1 for example in copies.examples]
    share = len(obeyed(copies.examples, predicted)) / len(copies.examples)
    return share, float(2 * np.mean(second * signs_of))


def signs(plant: str, second: bool) -> list[str]:
    """Return the elements of which an audit should find one as counting for the first class or (True) the second.

    Args:
        plant: one of PLANTS.
        second: which class.
    """
    element = PLANTS[plant][second]
    if element is None:
        return []
    return [str(sign) for sign in element.signs()]


def rank_of_plant(findings: Sequence[Finding], plant: str, labels: Sequence[str]) -> int | None:
    """Return the place, from 1, of the first confirmed finding that names the plant; None if none does.

    Args:
        findings: in their order.
        plant: one of PLANTS; RANDOM_LABELS is found nowhere.
        labels: the task's classes, between the first two of which the plant decides.
    """
    if plant == RANDOM_LABELS:
        return None
    wanted = {labels[0]: signs(plant, False), labels[1]: signs(plant, True)}
    for place, finding in enumerate(findings, start=1):
        if finding.confirmed and finding.element in wanted.get(finding.target, ()):
            return place
    return None
