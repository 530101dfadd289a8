"""Would ExpNet gain if it read the word itself? Cross-validated on marked training texts; no test text plays a part.

    python benchmarks/expnet_inputs.py [--root .] [--tasks reviews,sst2] [--protocols universal,in_domain] [--folds 3]

`--root` is a workspace after the stages prepare, rationalise, finetune, attend and signals, whose parameters name
several tasks. The marked training texts that the classifier gets right are parted at random. ExpNet, with the run's
options, learns from the texts outside a fold (`universal`: also from unmarked ones) and is judged on the fold's marks.
Inputs:

attention          what ExpNet reads
attention, words   the word features of the consensus besides: length, stop word, punctuation, position, capital, and
                   the number of words of the text
words              these alone

Prints F1 with the top K and AUROC, a column a task; one training a fold.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from explearn.core.compute import ComputeOptions
from explearn.judge.plausibility import pooled_agreement, rationale_counts, rationale_k, select_top_k
from explearn.judge.significance import resampled_areas
from explearn.lens.word_signals import SIGNALS, WordSignals
from explearn.methods.consensus.word_features import word_columns
from explearn.methods.expnet.params import ExpNetParams
from explearn.methods.expnet.student import Student, Words, train_student
from explearn.methods.expnet.targets import (
    PSEUDO_SPLITS,
    Lesson,
    curriculum_for,
    marked_lessons,
)
from explearn.methods.expnet.words import log_attention, pool_words
from explearn_study.marks_curve import SECTIONS, KeptTask
from explearn_study.params import Params, load_params
from explearn_study.workspace import Workspace

INPUTS = ("attention", "attention, words", "words")


@dataclass(frozen=True, slots=True)
class Text:
    """The words of a text that the classifier read.

    owners: which they are, (words,). attention, words: float32, what there is to read of them, (words, width).
    """

    owners: NDArray[np.int64]
    attention: torch.Tensor
    words: torch.Tensor

    def inputs(self, which: str) -> torch.Tensor:
        return torch.cat([getattr(self, part) for part in which.split(", ")], 1)


def read_texts(task: KeptTask) -> dict[str, Text]:
    """Example id -> text, of all that can be learned from."""
    found = {}
    words = {example.id: example.all_words for example in task.examples()}
    for split in dict.fromkeys((*PSEUDO_SPLITS, task.rationale_split)):
        for row in task.features(split)[1]:
            if not len(row.word_ids):
                continue
            pooled = pool_words(torch.from_numpy(row.attention), row.word_ids.astype(np.int64))
            nothing = np.zeros((len(words[row.example_id]), len(SIGNALS)), dtype=np.float32)
            # The same probability everywhere: what is left is of the words alone.
            blank = WordSignals(row.example_id, tuple(words[row.example_id]), row.predicted, 0.5, nothing)
            columns = torch.from_numpy(word_columns(blank)[pooled.owners]).float()
            found[row.example_id] = Text(pooled.owners, log_attention(pooled.values), columns)
    return found


def train(texts: Mapping[str, Text], lessons: Mapping[str, Lesson], which: str, options: ExpNetParams) -> Student:
    chosen = [(texts[key], lesson) for key, lesson in lessons.items() if key in texts]
    words = Words(
        torch.cat([text.inputs(which) for text, _ in chosen]),
        torch.cat([torch.full((len(text.owners),), number) for number, (text, _) in enumerate(chosen)]),
        torch.cat([torch.from_numpy(lesson.targets[text.owners]).float() for text, lesson in chosen]),
        torch.ones(sum(len(text.owners) for text, _ in chosen)),
    )
    return train_student(words, options, 0, torch.device("cpu"))[0]


def scores_of(student: Student, text: Text, which: str, words: int) -> NDArray[np.float32]:
    """Words that the classifier did not read have the lowest score of their text."""
    with torch.inference_mode():
        found = student(text.inputs(which), torch.zeros(len(text.owners))).numpy()
    scores = np.full(words, found.min(), dtype=np.float32)
    scores[text.owners] = found
    return scores


def judge(task: KeptTask, params: Params, protocol: str, folds: int) -> dict[str, tuple[float, float]]:
    """Inputs -> F1 with the top K, AUROC; means over the folds, which have as many texts each."""
    options = ExpNetParams(**{**params.options_of(SECTIONS[protocol]), "protocol": protocol})
    texts, gold = read_texts(task), task.gold
    lessons = dict(curriculum_for(task, options, params.seed).lessons)
    marked = [key for key in marked_lessons(task) if key in texts]
    k = rationale_k(float(np.mean([sum(gold[e.id]) for e in task.examples(task.rationale_split) if e.id in gold])))
    parts = np.random.default_rng(0).permutation(len(marked))
    found = {}
    for which in INPUTS:
        figures = []
        for fold in range(folds):
            out = [marked[i] for i in parts[fold::folds]]
            rest = {key: lesson for key, lesson in lessons.items() if key not in set(out)}
            student = train(texts, rest, which, options)
            scores = [scores_of(student, texts[key], which, len(gold[key])) for key in out]
            marks = [np.asarray(gold[key], dtype=bool) for key in out]
            counts = rationale_counts([select_top_k(one, k) for one in scores], marks)
            (area,), _ = resampled_areas(scores, marks, np.ones((1, len(marks)), dtype=np.int64))
            figures.append((pooled_agreement(counts).f1, area))
        f1, area = np.mean(figures, 0).tolist()
        found[which] = (f1, area)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", help="comma-separated (default: all)")
    parser.add_argument("--protocols", default="universal,in_domain", help="some of both")
    parser.add_argument("--folds", type=int, default=3)
    options = parser.parse_args()
    params = load_params(options.root / "params.yaml")
    names = options.tasks.split(",") if options.tasks else params.tasks
    workspace = Workspace(options.root)
    tables: dict[str, list[dict[str, tuple[float, float]]]] = {}
    for name in names:
        task = KeptTask(workspace, params, name, ComputeOptions())
        for protocol in options.protocols.split(","):
            tables.setdefault(protocol, []).append(found := judge(task, params, protocol, options.folds))
            shown = "; ".join(f"{which} {f1:.3f}/{area:.3f}" for which, (f1, area) in found.items())
            print(f"{name}, {protocol}: {shown}", flush=True)
    for protocol, rows in tables.items():
        for which in INPUTS:
            f1, area = np.mean([row[which] for row in rows], 0).tolist()
            print(f"mean, {protocol}, {which}: {f1:.3f}/{area:.3f}", flush=True)


if __name__ == "__main__":
    main()
