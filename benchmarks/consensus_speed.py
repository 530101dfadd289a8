"""What the consensus costs: the time of explaining over that of classifying, with all of its signals and with fewer.

    python benchmarks/consensus_speed.py [--classifier FOLDER] [--texts 48] [--runs 7] [--data FILE.jsonl]

Both start from strings: `Consensus.explain`, which classifies too, against `Classifier.predict`, on the same texts, in
pairs; on a CPU by processor time, so that other work on the machine counts less. First the texts of a file as they are,
then texts of four times that length, made by joining them. The weights are those of the package; signals left out are
neutral. What leaving them out costs in agreement is in docs/explearn/consensus.md. Exits with 1 where the consensus
as it is takes more than LIMIT times as long as classifying.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import torch
import transformers

from _timing import CORPUS, load_classifier, load_texts, paired
from explearn.core.attribution import Attribution
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.consensus.params import ConsensusParams
from explearn.predictors.predictor import Predictor

LIMIT = 3.3
"""A tenth above the aim, 3, for machines other than the one where it was reached (docs/explearn/consensus.md)."""


def without(*names: str) -> list[str]:
    return [name for name in ConsensusParams().signals if name not in names]


SETS: dict[str, list[str]] = {
    "as it is": without(),
    **{f"without {name}": without(name) for name in ConsensusParams().signals},
    "forward pass alone": ["rollout"],
}


def explained(consensus: Consensus, classifier: Predictor, texts: list[str]) -> list[Attribution]:
    return list(consensus.explain(classifier, texts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classifier", type=Path, help="folder of a classifier (default: the embedded encoder)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=48)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--data", type=Path, default=CORPUS)
    options = parser.parse_args()
    classifier = load_classifier(options.classifier, options.device)
    short = load_texts(options.data, options.texts)
    groups = {"texts as they are": short, "four joined": [" ".join(short[i : i + 4]) for i in range(0, len(short), 4)]}
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, {classifier.device}, "
        f"{torch.get_num_threads()} threads, {options.runs} paired runs"
    )
    clock = time.process_time if classifier.device.type == "cpu" else time.perf_counter
    failed = False
    for what, texts in groups.items():
        for name, signals in SETS.items():
            explain = partial(explained, Consensus(signals=signals), classifier, texts)
            classify = partial(classifier.predict, texts)
            explain(), classify()
            ratio = paired(explain, classify, options.runs, clock)
            print(f"{what}, {name}: {ratio}", flush=True)
            failed |= name == "as it is" and ratio.median > LIMIT
    sys.exit(failed)


if __name__ == "__main__":
    main()
