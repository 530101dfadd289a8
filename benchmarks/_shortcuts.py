"""Whether an audit finds the shortcuts of a classifier: known ones, planted into the texts that it learns from.

After Bastings et al. (2022), "Will You Find These Shortcuts?". One half of a task's texts trains the classifier, the
other is audited. Few of the audited texts have the plant, and it counts only if the classifier is seen to follow it.
`python benchmarks/audits.py shortcuts` runs it.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from transformers import AutoModel, AutoTokenizer

import explearn
from explearn.auditing.claims import PREDICTION
from explearn.auditing.findings import Finding, FindingList
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.examples import Split
from explearn.core.seeds import hash_order
from explearn.core.writing import write_json
from explearn.predictors.loading import embedded_encoder
from explearn_study.params import Params, load_params
from explearn_study.sources import SourceDataset, load_task
from explearn_study.sources.planted import PLANTS, SUFFIXES, obeyed, plant_words

RANDOM_LABELS = "random labels"
"""In place of a plant: nothing is planted, and the labels of the training texts are shuffled."""

PLANTED_SHARE = 0.05
"""Share of the audited texts that are planted for a class, for each of two classes."""

LEAST_OBEYED = 0.5
"""A plant counts if it turns the answer of this share of the held-out texts, one way and the other."""


FIRST = 3
"""A plant is found if it is among so many findings."""

HEADINGS = ("plant", "task", "seed", "accuracy", "follows", "effect", "place", "by counts", "confirmed", "seconds")


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


def first_layers(count: int, folder: Path) -> Path:
    """Save the embedded encoder without its upper layers."""
    source = embedded_encoder()
    model = AutoModel.from_pretrained(source)
    model.encoder.layer = model.encoder.layer[:count]
    model.config.num_hidden_layers = count
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


def read_task(params: Params, task: str, texts: int, words: int, seed: int) -> SourceDataset:
    """Return some texts of a task, cut to their first words."""
    data = load_task(task, params.sources[task], params.data_dir, seed)
    chosen = set(hash_order([example.id for example in data.examples], seed)[:texts])
    examples = []
    for example in data.examples:
        if example.id in chosen:
            examples.append(replace(example, words=example.words[:words], gaps=()))
    return replace(data, examples=examples)


def shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def print_table(results: Sequence[ShortcutResult]) -> None:
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + " --- |" * len(HEADINGS))
    for result in results:
        cells = [result.plant, result.task, str(result.seed), shown(result.accuracy), shown(result.obeyed)]
        cells += [shown(result.effect), str(result.rank or "–"), str(result.rank_by_counts or "–")]
        cells += [f"{result.confirmed} of {result.looked_at}", f"{result.seconds:.0f}"]
        print("| " + " | ".join(cells) + " |")


def print_shares(results: Sequence[ShortcutResult]) -> None:
    followed = [result for result in results if result.follows]
    found = [result for result in followed if result.rank is not None and result.rank <= FIRST]
    counted = [result for result in followed if result.rank_by_counts is not None and result.rank_by_counts <= FIRST]
    print(f"\n{len(followed)} classifiers follow their plant. It is among the first {FIRST} findings of {len(found)}; ")
    print(f"among those of word counts, of {len(counted)}.")
    random = [result for result in results if result.plant == RANDOM_LABELS]
    confirmed = sum(result.confirmed for result in random)
    print(f"Random labels: {confirmed} of {sum(result.looked_at for result in random)} claims are confirmed.")


def measure_shortcuts(
    plants: Sequence[str], tasks: Sequence[str], seeds: Sequence[int], options: argparse.Namespace
) -> None:
    """Measure each plant on each task and with each seed, and print what was found.

    Args:
        plants: names in PLANTS, or RANDOM_LABELS.
        tasks: sources in the parameters.
        seeds: seeds of all draws.
        options: texts and words (most of a task and of a text), layers, epochs, precision, keep and out.
    """
    params = load_params()
    compute = ComputeOptions(precision=options.precision)
    recipe = {"epochs": options.epochs, "patience": options.epochs, "learning_rate": 2e-4, "batch_size": 16}
    results = []
    with tempfile.TemporaryDirectory() as folder:
        encoder = first_layers(options.layers, Path(folder) / "encoder")
        for seed, plant, task in product(seeds, plants, tasks):
            kept = options.keep and options.keep / f"{plant}-{task}-{seed}.json"
            if kept and kept.is_file():
                results.append(ShortcutResult(**read_json(kept)))
                continue
            data = read_task(params, task, options.texts, options.words, seed)
            place = Path(folder) / "classifier"
            result = measure_shortcut(data, plant, seed, place, str(encoder), compute, **recipe)
            print(result, flush=True)
            results.append(result)
            if kept:
                write_json(kept, asdict(result))
    print_table(results)
    print_shares(results)
    if options.out is not None:
        write_json(options.out, [asdict(result) for result in results])
