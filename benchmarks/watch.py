"""What a watch notices, how soon, and what it does not cry about: days whose change is known, drawn from real texts.

    python benchmarks/watch.py pool --task reviews --seed 1 --folder F
    python benchmarks/watch.py series --task reviews --seed 1 --folder F --count 10 [--first 0]
    python benchmarks/watch.py table --folder F
    python benchmarks/watch.py million --folder F [--texts 1000000]

pool: trains a linear classifier of TF-IDF on one half of a task's texts, plainly and with a word planted for each of
two classes (`sources/planted`), and explains the other half by occlusion; with and without planted words, texts of
another task, and texts as a tokenizer reads them that cuts them after eight words. series: draws days of 500 texts
from these with replacement and a reference of 2,000, and looks every day; one file a series, so that a run resumes.
Each has planted words in 10 % of its texts all along. From day 21 on:

    nothing     nothing, for 200 days
    topic       a fifth of the texts is from another task
    plant       the classifier is the one that was trained with the plant
    classes     70 % of the texts have the second answer
    tokenizer   it no longer cuts texts after eight words

table: per kind the share of series with an alarm before the change (for `nothing`, on any day), and the median delay: 1
is an alarm on the first changed day. Beside the watch's three figures are tests of each day against the reference, at
the level 0.05 / 365, as a watch of a year is at 0.05: of words (each word's share of the texts, chi-squared with
Bonferroni's correction), and of answers (chi-squared). million: the time and memory of a watch over made parts of 20
words a text.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.stats import chi2
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import explearn
from _shortcuts import read_task
from explearn.auditing.changes import ABOUT, HORIZON, LEAST_CHANGE, judge
from explearn.auditing.history import MOST_DAYS
from explearn.auditing.tallies import COLUMNS, Lexicon, Tally, shares_of
from explearn.core.arrays import Array, Counts
from explearn.core.file_facts import FileFacts
from explearn.core.parquet import open_parquet, parquet_writer
from explearn.core.seeds import hash_order
from explearn.core.word_tables import WORD_SCHEMA, to_arrow
from explearn.core.writing import write_json
from explearn_study.params import load_params
from explearn_study.sources import SourceDataset
from explearn_study.sources.planted import PLANTS, plant_words

REFERENCE_TEXTS = 2000
DAY_TEXTS = 500
PLANTED_SHARE = 0.1
DAYS = 200
"""Days of a series in which nothing changes; others end 14 days after the change."""
CHANGE_DAY = 20
"""Number of the first changed day, from 0."""

LEVEL = 0.05 / HORIZON
OTHER_TASK = {"reviews": "topics", "topics": "civility", "civility": "reviews"}


# ---- pools of explained texts ----------------------------------------------------------------------------------------


def part(data: SourceDataset, ids: Sequence[str], split: Any) -> SourceDataset:
    chosen = set(ids)
    examples = [replace(example, split=split) for example in data.examples if example.id in chosen]
    return replace(data, examples=examples, rationales=[])


def save_pool(folder: Path, name: str, classifier: Any, texts: Sequence[str]) -> None:
    """Explain texts, and save the scores of their words."""
    explained = explearn.explain(classifier, texts, "occlusion")
    assert isinstance(explained, explearn.Attributions)
    with parquet_writer(folder / f"{name}.parquet", COLUMNS) as writer:
        writer.write_table(to_arrow(explained).select(COLUMNS.names))


def make_pools(task: str, seed: int, folder: Path) -> None:
    """Train the classifiers of a task, and explain what days are drawn from."""
    params = load_params()
    data = read_task(params, task, 1200, 20, seed)
    order = hash_order([example.id for example in data.examples], seed)
    learned = part(data, order[::2], "train")
    rest = part(data, order[1::2], "validation").examples
    texts = [example.text for example in rest]
    labels = [example.label for example in rest]
    planted = []
    for example in rest:
        draw = Random(f"{seed}:{example.id}")
        element = PLANTS["word"][draw.random() < 0.5]
        assert element is not None
        planted.append(" ".join(element.plant(example.words, draw)[0]))
    other = [example.text for example in read_task(params, OTHER_TASK[task], 400, 20, seed).examples]
    for name, training in (("plain", learned), ("plant", plant_words(learned, "word", seed))):
        pipeline = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10, max_iter=1000))
        pipeline.fit([example.text for example in training.examples], [example.label for example in training.examples])
        print(f"{task}, {name}: {np.mean(pipeline.predict(texts) == np.array(labels)):.2f} of the answers are right")
        save_pool(folder, f"{name}-texts", pipeline, texts)
        save_pool(folder, f"{name}-planted", pipeline, planted)
        if name == "plain":
            save_pool(folder, "plain-other", pipeline, other)
            pipeline.set_params(tfidfvectorizer__preprocessor=first_words)
            save_pool(folder, "cut-texts", pipeline, texts)


def first_words(text: str) -> str:
    return " ".join(text.lower().split()[:8])


class Pool:
    """Explained texts, of which a day's are drawn with replacement."""

    def __init__(self, folder: Path, name: str, lexicon: Lexicon) -> None:
        with open_parquet(folder / f"{name}.parquet", COLUMNS) as file:
            table = file.read()
        whole = Tally(lexicon)
        whole.add(table)
        words = table["word"].combine_chunks().dictionary_encode()
        numbers = [lexicon.read(word)[0] for word in words.dictionary.to_pylist()]
        is_first = np.diff(table["text"].to_numpy(), prepend=-1) != 0
        text = np.cumsum(is_first) - 1
        shares = shares_of(table["score"].to_numpy(), np.flatnonzero(is_first))
        self._holders, self._elements, self._levels = whole._weights(text, words.indices.to_numpy(), shares, numbers)
        self.answers = np.array(table["target"].take(np.flatnonzero(is_first)).to_pylist())

    def draw(self, tally: Tally, count: int, draw: np.random.Generator, weights: Array | None = None) -> None:
        """Add so many texts to a tally."""
        times = np.bincount(draw.choice(len(self.answers), count, p=weights), minlength=len(self.answers))
        for target in set(self.answers.tolist()):
            answered = self.answers == target
            inside = answered[self._holders]
            counts = tally.of((target, ""))
            np.add.at(counts, (self._elements[inside], self._levels[inside]), times[self._holders][inside])
            tally.texts[target, ""] += int(times[answered].sum())


# ---- series ----------------------------------------------------------------------------------------------------------


class Mixture(NamedTuple):
    """Names of the pools of a day's texts: without planted words, with them, and of others, with the share of these."""

    texts: str
    planted: str
    others: str = ""
    share: float = 0.0
    moved: bool = False


PLAIN = Mixture("plain-texts", "plain-planted")
KINDS = {
    "nothing": (PLAIN, PLAIN),
    "topic": (PLAIN, PLAIN._replace(others="plain-other", share=0.2)),
    "plant": (PLAIN, Mixture("plant-texts", "plant-planted")),
    "classes": (PLAIN, PLAIN._replace(moved=True)),
    "tokenizer": (Mixture("cut-texts", "cut-texts"), Mixture("plain-texts", "plain-texts")),
}
"""Kind of series -> its texts before and after the change."""


def draw_day(
    pools: dict[str, Pool], mixture: Mixture, count: int, lexicon: Lexicon, draw: np.random.Generator
) -> Tally:
    tally = Tally(lexicon)
    others = draw.binomial(count, mixture.share)
    planted = draw.binomial(count - others, PLANTED_SHARE)
    for name, number in (
        (mixture.texts, count - others - planted),
        (mixture.planted, planted),
        (mixture.others, others),
    ):
        if not name:
            continue
        pool = pools[name]
        weights = None
        if mixture.moved:
            second = pool.answers == sorted(set(pool.answers.tolist()))[1]
            weights = np.where(second, 0.7 / second.sum(), 0.3 / (~second).sum())
        pool.draw(tally, number, draw, weights)
    return tally


def words_drift(reference: Tally, day: Tally) -> bool:
    """Return whether some word's share of the texts differs, by chi-squared tests with Bonferroni's correction."""
    tables = []
    for tally in (reference, day):
        hits = np.sum([tally.of(stratum).sum(axis=1) for stratum in tally.texts], axis=0)
        tables.append(np.stack([hits, tally.total - hits], axis=1))
    first, second = tables
    common = (first + second)[:, 0] >= 5
    statistics = _chi_squared(np.stack([first[common], second[common]], axis=1))
    return bool(chi2.sf(statistics.max(), 1) * common.sum() <= LEVEL)


def answers_drift(reference: Tally, day: Tally) -> bool:
    """Return whether the shares of answers differ, by a chi-squared test."""
    strata = sorted(reference.texts.keys() | day.texts.keys())
    table = np.array([[[tally.texts[stratum] for stratum in strata] for tally in (reference, day)]])
    return bool(chi2.sf(_chi_squared(table)[0], len(strata) - 1) <= LEVEL)


def _chi_squared(tables: Counts) -> Array:
    """Return Pearson's statistic of each table, (tables,), of (tables, rows, columns)."""
    rows = tables.sum(axis=2, keepdims=True)
    columns = tables.sum(axis=1, keepdims=True)
    expected = rows * columns / tables.sum(axis=(1, 2), keepdims=True)
    return np.asarray(((tables - expected) ** 2 / np.maximum(expected, 1e-12)).sum(axis=(1, 2)))


def run_series(pools: dict[str, Pool], lexicon: Lexicon, kind: str, seed: str) -> dict[str, list[int]]:
    """Return what each test alarms on, as numbers of days from 0."""
    draw = np.random.default_rng([ord(letter) for letter in seed])
    before, after = KINDS[kind]
    reference = draw_day(pools, before, REFERENCE_TEXTS, lexicon, draw)
    days: list[Tally] = []
    alarms: dict[str, list[int]] = {name: [] for name in ("reasons", "inputs", "answers", "words", "output", "plant")}
    for number in range(DAYS if kind == "nothing" else CHANGE_DAY + MOST_DAYS):
        mixture = before if number < CHANGE_DAY else after
        days = [*days, draw_day(pools, mixture, DAY_TEXTS, lexicon, draw)][-MOST_DAYS:]
        judged = judge([reference, *days], LEAST_CHANGE, HORIZON)
        changed = [figure for figure, found in zip(judged.figures, judged.changed, strict=True) if found]
        for about in ABOUT:
            if any(figure.about == about for figure in changed):
                alarms[about].append(number)
        if any(figure.about == "reasons" and figure.element in ("‘zinc’", "‘tulip’") for figure in changed):
            alarms["plant"].append(number)
        if words_drift(reference, days[-1]):
            alarms["words"].append(number)
        if answers_drift(reference, days[-1]):
            alarms["output"].append(number)
    return alarms


def make_series(task: str, seed: int, folder: Path, first: int, count: int, kinds: Sequence[str]) -> None:
    lexicon = Lexicon()
    mixtures = [mixture for kind in kinds for mixture in KINDS[kind]]
    names = sorted({name for mixture in mixtures for name in mixture[:3] if name})
    pools = {name: Pool(folder / f"{task}-{seed}", name, lexicon) for name in names}
    for number in range(first, first + count):
        for kind in kinds:
            target = folder / "series" / f"{kind}-{task}-{seed}-{number}.json"
            if target.exists():
                continue
            start = time.perf_counter()
            alarms = run_series(pools, lexicon, kind, f"{kind}-{task}-{seed}-{number}")
            write_json(target, {"kind": kind, "alarms": alarms})
            print(
                target.name, {name: days[:3] for name, days in alarms.items()}, f"{time.perf_counter() - start:.0f} s"
            )


def print_table(folder: Path) -> None:
    found: dict[str, list[dict[str, list[int]]]] = {}
    for path in sorted((folder / "series").glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(document["kind"], []).append(document["alarms"])
    tests = ("reasons", "plant", "inputs", "answers", "words", "output")
    print(f"| change | series | {' | '.join(tests)} |")
    print("| --- " * (2 + len(tests)) + "|")
    for kind, series in found.items():
        cells = []
        for test in tests:
            early = sum(any(kind == "nothing" or day < CHANGE_DAY for day in alarms[test]) for alarms in series)
            delays = []
            for alarms in series:
                delays += [day - CHANGE_DAY + 1 for day in alarms[test] if day >= CHANGE_DAY][:1]
            cell = f"{early} false"
            if kind != "nothing":
                cell += f"; {len(delays)} noticed"
                if delays:
                    cell += f", delay {np.median(delays):g} (at most {max(delays)})"
            cells.append(cell)
        print(f"| {kind} | {len(series)} | {' | '.join(cells)} |")


# ---- a million texts -------------------------------------------------------------------------------------------------


def make_job(folder: Path, texts: int, seed: int) -> None:
    """Write the parts and the manifest of a job with drawn words and scores."""
    draw = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = np.array([f"word{number}" for number in range(100_000)])
    shares = 1 / np.arange(1, len(vocabulary) + 1)
    cumulated = np.cumsum(shares / shares.sum())
    labels = np.array(["no", "yes"])
    parts: dict[str, Any] = {}
    for number in range(-(-texts // 10_000)):
        file = f"part-{number:05d}.parquet"
        with parquet_writer(folder / file, WORD_SCHEMA) as writer:
            for start in range(0, 10_000, 2_000):
                count = 2_000 * 20
                words = np.minimum(np.searchsorted(cumulated, draw.random(count)), len(vocabulary) - 1)
                answers = np.repeat(labels[(draw.random(2_000) < 0.4).astype(int)], 20)
                index = np.tile(np.arange(20, dtype=np.int32), 2_000)
                constant = {"id": "", "method": "gae", "output": "", "unit": "word"}
                columns: dict[str, Any] = {name: np.repeat(value, count) for name, value in constant.items()}
                columns |= {"text": np.repeat(np.arange(2_000) + number * 10_000 + start, 20), "index": index}
                columns |= {"target": answers, "predicted": answers, "probability": np.full(count, 0.9)}
                columns |= {"segment": np.zeros(count, np.int32), "start": index * 11, "end": index * 11 + 10}
                columns |= {"word": vocabulary[words], "score": draw.exponential(size=count).astype(np.float32)}
                arrays = []
                for field in WORD_SCHEMA:
                    values = columns.get(field.name)
                    arrays.append(pa.nulls(count, field.type) if values is None else pa.array(values, field.type))
                writer.write_table(pa.Table.from_arrays(arrays, schema=WORD_SCHEMA))
        parts[str(number)] = {"file": file, **FileFacts.of(folder / file).model_dump()}
    settings: dict[str, Any] = {"classifier": "made", "labels": ["no", "yes"], "methods": [{"name": "gae"}]}
    settings |= {"options": {"gae": {}}, "weights": {"gae": None}, "windows": None, "unit": "word"}
    settings |= {"versions": {"torch": "2"}}
    write_json(folder / "_manifest.json", {"settings": settings, "parts": parts})
    (folder / "_SUCCESS").touch()


def million(folder: Path, texts: int) -> None:
    for seed, (name, count) in enumerate({"reference": texts // 10, "now": texts}.items()):
        if not (folder / name / "_SUCCESS").exists():
            make_job(folder / name, count, seed)
    start = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    watch = explearn.watch(folder / "reference", folder / "now", history=folder / "history.parquet")
    watch.print()
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = f"{after / 2**20:.2f} GiB at most ({before / 2**20:.2f} before)"
    print(f"a reference of {texts // 10:,} texts and a day of {texts:,}: {seconds:.0f} s; {memory}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("pool", "series", "table", "million"))
    parser.add_argument("--task", default="reviews")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--texts", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.what == "pool":
        place = options.folder / f"{options.task}-{options.seed}"
        place.mkdir(parents=True, exist_ok=True)
        make_pools(options.task, options.seed, place)
    elif options.what == "series":
        kinds = options.kinds.split(",")
        make_series(options.task, options.seed, options.folder, options.first, options.count, kinds)
    elif options.what == "table":
        print_table(options.folder)
    else:
        million(options.folder, options.texts)


if __name__ == "__main__":
    main()
