"""Whether `explearn.audit` finds shortcuts that were planted into what a classifier learns from.

    python benchmarks/shortcuts.py [--plants word,phrase,...] [--tasks reviews,civility,topics] [--seeds 1,2,3]
        [--texts 660] [--words 12] [--layers 3] [--epochs 5] [--precision fp32] [--keep FOLDER]
        [--out reports/experiments/shortcuts.json]

For each plant, task (a source in the parameters) and seed: trains the first `--layers` layers of the embedded encoder
on one half of at most `--texts` texts, cut to `--words` words, with their planted copies; checks on the other half that
the classifier follows the plant; audits it on that half, of which 5 % is planted for either class. `random labels`
among the plants trains on shuffled labels instead, without a plant. After few epochs such a classifier answers all
texts alike, and is not audited; after many it leans on the words that it learned.

Prints a Markdown table, one row a classifier: accuracy without the plant, texts that follow the plant, its effect, its
place among the findings and among those of word counts, what was confirmed, seconds of the audit. Then the share of the
classifiers that follow their plant for which it is among the first three findings, and the share of all claims that
were confirmed under random labels. `--keep` is a folder of results by classifier, from which a run goes on where it
stopped.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from transformers import AutoModel, AutoTokenizer

from _shortcuts import RANDOM_LABELS, ShortcutResult, measure_shortcut
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.seeds import hash_order
from explearn.core.writing import write_json
from explearn.predictors.loading import embedded_encoder
from explearn_study.params import Params, load_params
from explearn_study.sources import SourceDataset, load_task
from explearn_study.sources.planted import PLANTS

FIRST = 3
"""A plant is found if it is among so many findings."""

HEADINGS = ("plant", "task", "seed", "accuracy", "follows", "effect", "place", "by counts", "confirmed", "seconds")


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plants", default=",".join([*PLANTS, RANDOM_LABELS]))
    parser.add_argument("--tasks", default="reviews,civility,topics")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--texts", type=int, default=660, help="most texts of a task")
    parser.add_argument("--words", type=int, default=12, help="most words of a text")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--keep", type=Path, help="folder of results")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    params = load_params()
    compute = ComputeOptions(precision=options.precision)
    recipe = {"epochs": options.epochs, "patience": options.epochs, "learning_rate": 2e-4, "batch_size": 16}
    results = []
    with tempfile.TemporaryDirectory() as folder:
        encoder = first_layers(options.layers, Path(folder) / "encoder")
        for seed in map(int, options.seeds.split(",")):
            for plant in options.plants.split(","):
                for task in options.tasks.split(","):
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


if __name__ == "__main__":
    main()
