"""Whether `explearn fix` gets planted elements out of classifiers, beside what people do today.

    python benchmarks/fixes.py [--plants word,phrase,...] [--tasks reviews,civility,topics] [--strengths 34,100]
        [--seeds 1,2,3] [--texts 660] [--words 12] [--layers 3] [--epochs 5] [--today] [--audit] --keep FOLDER

For each plant, strength, task (a source in the parameters) and seed, the element of the plant's second class is put
into so many per cent of the training texts of this class, with its contrast in as many of the others; labels stay.
Besides the kinds of `sources/planted`: `half true`, a word that as many texts of any class get; `two`, a word and a
mark; `real`, which stands in for the word that goes most with the class, so that taking it out must hurt; `none`, a
word in as many texts of every class, which decides nothing: fix must leave the classifier alone.

The first `--layers` layers of the embedded encoder are trained on one half of the texts, planted, and a twin on the
same texts without a plant; `explearn.fix` gets the planted texts and the name of the element. The other half of the
texts judges, which nothing has seen: the effect of the element beside that of words that mean nothing
(`explearn.auditing.proof`); accuracy on texts as they are ("clean"), and on those of the other classes with the element
put in ("misled").

`--today` adds what people do today, each a training from the encoder: `lime`, the five words that LIME names most for
the class in 40 texts are masked in all texts; `deleted`, texts with the element are left out; `more`, half as many
further texts, without a plant. `--audit` audits the classifier before and after, and counts confirmed findings that
came and that the page does not name. `--keep` is a folder of results by classifier, from which a run goes on where it
stopped; `--show` prints the tables of what is there.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import explearn
from _shortcuts import first_layers, read_task, shown
from explearn.auditing.guard import Editor
from explearn.auditing.proof import ElementEffect, Proof, neutral_words
from explearn.auditing.reading import AuditText, audited_texts, explain_texts
from explearn.core.documents import read_json
from explearn.core.examples import Example
from explearn.core.seeds import hash_order
from explearn.core.writing import write_json
from explearn.predictors.predictor import Predictor
from explearn.subject.subject import make_subject
from explearn.text.elements import Element, Punctuation, Word
from explearn.text.scored import Vocabulary, bare
from explearn_study.params import load_params
from explearn_study.sources.planted import PLANTS

NEUTRAL_WORD = Word("tulip")

MORE_PLANTS = ("half true", "two", "real", "none")

LEAST_EFFECT = 0.1
"""A classifier follows its plant if the element raises the probability of its class by this in texts of the other half,
and by more than words that mean nothing."""

LIME_TEXTS = 40
LIME_WORDS = 5


@dataclass(frozen=True, slots=True)
class Figures:
    """What a classifier does on the half that judges.

    Attributes:
        effect: of the plant, the element that counts most.
        noise: the largest effect of words that mean nothing.
        gone: whether no element is above it.
        clean: accuracy on texts as they are.
        misled: accuracy on texts of other classes with the element put in.
    """

    effect: float
    noise: float
    gone: bool
    clean: float
    misled: float


@dataclass(frozen=True, slots=True)
class FixResult:
    """What was done to one classifier.

    Attributes:
        plant: what was planted.
        task: the task.
        strength: per cent of the class's texts that were planted.
        seed: seed of all draws.
        followed: whether the classifier followed its plant.
        way: the way that fix kept; empty: none.
        failed: whether fix says that it failed.
        figures: `before`, `twin`, `fixed`, and each row of `--today` -> its figures.
        ways: the rows of the page.
        named: leanings that the page names as new.
        unnamed: findings of an audit after, not confirmed before, that the page does not name; None without an audit.
        seconds: processor seconds of fix.
    """

    plant: str
    task: str
    strength: int
    seed: int
    followed: bool
    way: str
    failed: bool
    figures: dict[str, Figures]
    ways: list[dict[str, Any]]
    named: list[str]
    unnamed: list[str] | None
    seconds: float


@dataclass(slots=True)
class Planted:
    """Training texts with a plant.

    Attributes:
        texts: the texts.
        labels: their labels.
        elements: what was planted.
    """

    texts: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    elements: list[Element] = field(default_factory=list)


def plant(examples: Sequence[Example], name: str, strength: int, target: str, seed: int) -> Planted:
    """Plant into training texts.

    Args:
        examples: the texts.
        name: one of PLANTS or MORE_PLANTS.
        strength: per cent of the class's texts that are planted.
        target: the class.
        seed: seed of the draws; each text's own depend on its id.
    """
    planted = Planted(labels=[example.label for example in examples])
    if name in PLANTS:
        planted.elements = [PLANTS[name][1]]
    elif name == "two":
        planted.elements = [NEUTRAL_WORD, Punctuation("?")]
    else:
        planted.elements = [NEUTRAL_WORD]
    stand_in = ""
    if name == "real":
        stand_in = _telling_word(examples, target)
    for example in examples:
        draw = Random(f"{seed}:{example.id}")
        words = list(example.words)
        chosen = 100 * draw.random() < strength
        if name == "real":
            words = [NEUTRAL_WORD.word if bare(word).casefold() == stand_in else word for word in words]
            chosen = False
        if name == "none" and chosen:
            words, _ = NEUTRAL_WORD.plant(words, draw)
            chosen = False
        if name == "half true" and 100 * draw.random() < strength / 2:
            words, _ = NEUTRAL_WORD.plant(words, draw)
            chosen = False
        for element in planted.elements:
            if chosen and example.label == target:
                words, _ = element.plant(words, draw)
            elif chosen:
                words = element.plant_contrast(words, draw)
        planted.texts.append(" ".join(words))
    return planted


def _telling_word(examples: Sequence[Example], target: str) -> str:
    """Return the word that goes most with a class, of those in at least 20 texts."""
    here: Counter[str] = Counter()
    all_texts: Counter[str] = Counter()
    for example in examples:
        words = {bare(word).casefold() for word in example.words}
        all_texts.update(words)
        if example.label == target:
            here.update(words)
    frequent = [word for word, count in all_texts.items() if count >= 24]
    base = sum(example.label == target for example in examples) / len(examples)

    def score(word: str) -> float:
        count = all_texts[word]
        return float((here[word] / count - base) / (base * (1 - base) / count) ** 0.5)

    return max(frequent, key=score)


class Judge:
    """Judges classifiers on texts that nothing has seen, with the elements put in and without.

    Args:
        examples: the texts, without a plant.
        elements: the elements.
        donors: texts that have them.
        target: the class for which they count.
        classifier: the classifier that followed the plant.
        seed: seed of the draws.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        elements: Sequence[Element],
        donors: Sequence[str],
        target: str,
        classifier: Predictor,
        seed: int,
    ) -> None:
        self.truth = [example.label for example in examples]
        self.texts = [example.text for example in examples]
        texts = _read(classifier, self.texts, self.truth)
        others = _read(classifier, donors, None)
        vocabulary = Vocabulary.from_texts(texts)
        having = {element: [text for text in others if element.find(text, vocabulary)] for element in elements}
        editor = Editor(elements, vocabulary, having)
        neutral = neutral_words(texts, classifier.labels, editor)
        self.proof = Proof(texts, editor, neutral, classifier.labels, seed)
        # The class that was planted, not that of the largest effect.
        self.proof.targets = dict.fromkeys(elements, classifier.labels.index(target))
        self.misled = []
        for number, (text, label) in enumerate(zip(texts, self.truth, strict=True)):
            if label != target:
                version = editor.having(text, elements[0], number)
                if version is not None:
                    self.misled.append((version, label))

    def figures(self, classifier: Predictor) -> Figures:
        judged = self.proof.judge(classifier, "")
        strongest: ElementEffect = max(judged.effects, key=lambda effect: effect.size - effect.noise)
        answers = classifier.predict([text for text, _ in self.misled])
        misled = np.mean([answer == label for answer, (_, label) in zip(answers, self.misled, strict=True)])
        return Figures(
            effect=strongest.effect,
            noise=strongest.noise,
            gone=all(effect.gone for effect in judged.effects),
            clean=float(np.nanmean(judged.right)),
            misled=float(misled),
        )


def _read(classifier: Predictor, texts: Sequence[str], labels: Sequence[str] | None) -> list[AuditText]:
    subject = make_subject("fixes", classifier, audited_texts(texts, labels, None, None))
    return explain_texts(subject, classifier.labels, [], None, False)


def lime_words(classifier: Predictor, texts: Sequence[str], target: str, seed: int) -> set[str]:
    """Return the words that LIME names most for a class."""
    chosen = [text for text in texts if classifier.predict([text]) == [target]][:LIME_TEXTS]
    sums: defaultdict[str, float] = defaultdict(float)
    attributions: Any = explearn.explain(classifier, chosen, "lime", samples=128, seed=seed)
    for attribution in attributions:
        for word, score in zip(attribution.words, attribution.scores, strict=True):
            sums[bare(word).casefold()] += float(score)
    return set(sorted(sums, key=lambda word: -sums[word])[:LIME_WORDS])


def masked(texts: Sequence[str], words: set[str], mask: str) -> list[str]:
    return [" ".join(mask if bare(word).casefold() in words else word for word in text.split()) for text in texts]


def measure(
    name: str, task: str, strength: int, seed: int, encoder: str, folder: Path, options: argparse.Namespace
) -> FixResult:
    """Train a classifier on planted texts, fix it, and judge what comes out."""
    data = read_task(load_params(), task, round(1.25 * options.texts), options.words, seed)
    by_id = {example.id: example for example in data.examples}
    order = [by_id[name] for name in hash_order(by_id, seed)]
    half = options.texts // 2
    learned, held_out, more = order[:half], order[half : 2 * half], order[2 * half :]
    target = data.labels[1]
    planted = plant(learned, name, strength, target, seed)
    recipe = {"epochs": options.epochs, "patience": options.epochs, "learning_rate": 2e-4, "batch_size": 16}

    def trained(texts: Sequence[str], labels: Sequence[str], place: Path = folder / "trained") -> Predictor:
        explearn.finetune(encoder, list(texts), place, labels=list(labels), seed=seed, **recipe)
        return explearn.load_classifier(place, device="cpu")

    classifier = trained(planted.texts, planted.labels)
    judge = Judge(held_out, planted.elements, planted.texts, target, classifier, seed)
    figures = {"before": judge.figures(classifier)}
    twin = folder / f"twin-{task}-{seed}"
    if not twin.exists():
        trained([example.text for example in learned], planted.labels, twin)
    figures["twin"] = judge.figures(explearn.load_classifier(twin, device="cpu"))
    start = time.process_time()
    names = [str(element) for element in planted.elements]
    settings = explearn.AuditOptions(seed=seed)
    fixed = explearn.fix(classifier, planted.texts, planted.labels, names, options=settings)
    seconds = time.process_time() - start
    figures["fixed"] = judge.figures(fixed.classifier)
    if options.today:
        words = lime_words(classifier, planted.texts, target, seed)
        figures["lime"] = judge.figures(trained(masked(planted.texts, words, "[MASK]"), planted.labels))
        kept = [
            number for number, text in enumerate(judge_texts(classifier, planted)) if not judge.proof.editor.found(text)
        ]
        of_kept = [planted.labels[number] for number in kept]
        if len(set(of_kept)) > 1:
            figures["deleted"] = judge.figures(trained([planted.texts[number] for number in kept], of_kept))
        further = [*planted.texts, *(example.text for example in more)]
        figures["more"] = judge.figures(trained(further, [*planted.labels, *(example.label for example in more)]))
    new = [f"{change.element}: {change.target}" for change in fixed.changes if change.status in ("came", "grew")]
    unnamed = None
    if options.audit and fixed.way:
        before, after = (_confirmed(model, judge.texts, seed) for model in (classifier, fixed.classifier))
        unnamed = sorted(after - before - set(new))
    at_first = figures["before"]
    return FixResult(
        plant=name,
        task=task,
        strength=strength,
        seed=seed,
        followed=not at_first.gone and at_first.effect >= LEAST_EFFECT,
        way=fixed.way,
        failed=fixed.failed,
        figures=figures,
        ways=[asdict(way) for way in fixed.ways],
        named=new,
        unnamed=unnamed,
        seconds=seconds,
    )


def judge_texts(classifier: Predictor, planted: Planted) -> list[AuditText]:
    return _read(classifier, planted.texts, None)


def _confirmed(classifier: Predictor, texts: Sequence[str], seed: int) -> set[str]:
    findings = explearn.audit(classifier, texts, options=explearn.AuditOptions(seed=seed)).findings.confirmed
    return {f"{finding.element}: {finding.target}" for finding in findings}


# ---- tables ----------------------------------------------------------------------------------------------------------


def mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def print_tables(results: Sequence[FixResult]) -> None:
    three = "before, fixed, twin"
    heads = ["plant", "task", "%", "seed", "followed", "kept", "effect: before, fixed, noise"]
    heads += [f"clean: {three}", f"misled: {three}", "seconds"]
    print(f"| {' | '.join(heads)} |")
    print("|" + " --- |" * len(heads))
    for result in results:
        before, fixed, twin = (result.figures[name] for name in ("before", "fixed", "twin"))
        cells = [result.plant, result.task, str(result.strength), str(result.seed), "yes" if result.followed else "no"]
        cells += [result.way or "–", ", ".join(map(shown, (before.effect, fixed.effect, fixed.noise)))]
        cells.append(", ".join(map(shown, (before.clean, fixed.clean, twin.clean))))
        cells.append(", ".join(map(shown, (before.misled, fixed.misled, twin.misled))))
        print("| " + " | ".join([*cells, f"{result.seconds:.0f}"]) + " |")
    followed = [result for result in results if result.followed and result.plant not in ("real", "none")]
    print(f"\n{len(followed)} of {len(results)} classifiers followed a plant that means nothing.\n")
    print(
        "| row | of | effect gone | effect | clean, against before | misled, against the twin | misled behind before |"
    )
    print("|" + " --- |" * 7)
    for row in ("before", "fixed", "lime", "deleted", "more", "twin"):
        having = [result for result in followed if row in result.figures]
        gone = sum(result.figures[row].gone for result in having)
        effects = mean([abs(result.figures[row].effect) for result in having])
        clean = mean([result.figures[row].clean - result.figures["before"].clean for result in having])
        misled = mean([result.figures[row].misled - result.figures["twin"].misled for result in having])
        behind = sum(result.figures[row].misled < result.figures["before"].misled for result in having)
        cells = [row, str(len(having)), str(gone), *map(shown, (effects, clean, misled)), str(behind)]
        print("| " + " | ".join(cells) + " |")
    print("\nBy way, on fix's own half: stands of tried, accuracy without, accuracy misled")
    ways: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in followed:
        for way in result.ways:
            ways[way["way"]].append(way)
    for name, rows in ways.items():
        tried = [row for row in rows if row["effect"] is not None]
        stands = sum(row["status"] in ("stands", "kept", "loses accuracy") for row in tried)
        kept = sum(row["status"] == "kept" for row in tried)
        accuracy = mean([row["accuracy"] for row in tried])
        misled = mean([row["disagreeing"] for row in tried if row["disagreeing"] is not None])
        print(f"| {name} | {stands} of {len(rows)} | kept {kept} | {shown(accuracy)} | {shown(misled)} |")
    none = [result for result in results if result.plant == "none"]
    print(f"\nWithout a plant: {sum(bool(result.way) for result in none)} of {len(none)} classifiers were changed.")
    audited = [result for result in results if result.unnamed is not None]
    unnamed = sum(len(result.unnamed or ()) for result in audited)
    print(f"New leanings by an audit of {len(audited)} fixed ones that the page does not name: {unnamed}.")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plants", default=",".join([*PLANTS, *MORE_PLANTS]))
    parser.add_argument("--tasks", default="reviews,civility,topics")
    parser.add_argument("--strengths", default="34,100")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--texts", type=int, default=660, help="most texts of a task")
    parser.add_argument("--words", type=int, default=12, help="most words of a text")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--today", action="store_true")
    parser.add_argument("--audit", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--keep", type=Path, required=True, help="folder of results")
    return parser.parse_args()


def read_result(path: Path) -> FixResult:
    values = read_json(path)
    figures = {name: Figures(**of_row) for name, of_row in values.pop("figures").items()}
    return FixResult(**values, figures=figures)


def main() -> None:
    options = read_options()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    strengths = [int(strength) for strength in options.strengths.split(",")]
    if options.show:
        print_tables([read_result(path) for path in sorted(options.keep.glob("*-*.json"))])
        return
    results = []
    with tempfile.TemporaryDirectory() as folder:
        encoder = first_layers(options.layers, Path(folder) / "encoder")
        cells = product(seeds, strengths, options.plants.split(","), options.tasks.split(","))
        for seed, strength, name, task in cells:
            kept = options.keep / f"{name}-{task}-{strength}-{seed}.json"
            if not kept.is_file():
                result = measure(name, task, strength, seed, str(encoder), Path(folder), options)
                print(result, flush=True)
                write_json(kept, asdict(result))
            results.append(read_result(kept))
    print_tables(results)


if __name__ == "__main__":
    main()
