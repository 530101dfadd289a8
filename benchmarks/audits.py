"""How far audits and records can be relied on: for a classifier and a table with a column `text`; for known shortcuts.

    python benchmarks/audits.py change --classifier C --texts T.jsonl [--count 200] [--longest 15]
    python benchmarks/audits.py records --classifier C --texts T.jsonl [--count 100] --folder F
    OMP_NUM_THREADS=2 ATEN_CPU_CAPABILITY=default python benchmarks/audits.py verify --classifier C --folder F
    python benchmarks/audits.py again --classifier C --texts T.jsonl [--count 500]
    python benchmarks/audits.py shortcuts [--plants word,phrase,...] [--tasks reviews,civility,topics] [--seeds 1,2,3]
        [--texts 660] [--words 12] [--layers 3] [--epochs 5] [--precision fp32] [--keep FOLDER]
        [--out reports/experiments/shortcuts.json]

change: the smallest change against exhaustive search over one and two words. records, verify: records that are made,
and confirmed elsewhere; altered ones (text, score, hash, classifier, signature; each without the help of the others)
that are refused. again: findings confirmed on the first `count` texts that hold on as many others (p at most 0.05).

shortcuts: for each plant, task (a source in the parameters) and seed, trains the first `--layers` layers of the
embedded encoder on one half of at most `--texts` texts, cut to `--words` words, with their planted copies; checks on
the other half that the classifier follows the plant; audits it on that half, of which 5 % is planted for either class.
`random labels` among the plants trains on shuffled labels instead, without a plant. After few epochs such a classifier
answers all texts alike, and is not audited; after many it leans on the words that it learned. Prints a Markdown table,
one row a classifier: accuracy without the plant, texts that follow the plant, its effect, its place among the findings
and among those of word counts, what was confirmed, seconds of the audit. Then the share of the classifiers that follow
their plant for which it is among the first three findings, and the share of all claims that were confirmed under random
labels. `--keep` is a folder of results by classifier, from which a run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import base64
import json
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import explearn
from _shortcuts import RANDOM_LABELS, measure_shortcuts
from explearn.auditing.claims import find_claims
from explearn.auditing.findings import FEWEST_VALUES
from explearn.auditing.reading import audited_texts, explain_texts, halves
from explearn.auditing.tested import LEAST_EFFECT, LEVEL, Tested
from explearn.decision.change import BUDGET, smallest_change
from explearn.decision.checking import observed_differences, signature_differences, text_of
from explearn.decision.decision import Decision
from explearn.decision.document import read_record
from explearn.methods.finding import find_explainer
from explearn.predictors.predictor import Predictor
from explearn.subject.subject import make_subject
from explearn.text.encoding import as_segments
from explearn.text.scored import Vocabulary
from explearn_study.sources.planted import PLANTS


def read_texts(path: Path, longest: int) -> list[str]:
    """Return the texts of a table that have 3 to `longest` words."""
    texts = []
    for line in path.read_text(encoding="utf-8").splitlines():
        text = json.loads(line)["text"]
        if 3 <= len(text.split()) <= longest:
            texts.append(text)
    return texts


def smallest(decision: Decision, words: int) -> int | None:
    """Return how many words must be taken out to turn the answer, by trying all of one and two; None: more."""
    for size in (1, 2):
        changes = []
        for positions in combinations(range(words), size):
            edits = dict.fromkeys(positions)
            if decision.possible(edits):
                changes.append(edits)
        if changes and decision.turned(decision.ask(changes)).any():
            return size
    return None


def change(classifier: Predictor, texts: Sequence[str]) -> None:
    counts: Counter[str] = Counter()
    attributions = find_explainer(None, classifier=classifier).explain(classifier, texts)
    for text, attribution in zip(texts, attributions, strict=True):
        segments, _ = as_segments(text, 1)
        decision = Decision(classifier, segments)
        found = smallest_change(decision, attribution.scores.astype(np.float64))
        assert decision.passes <= BUDGET
        size = smallest(Decision(classifier, segments), len(attribution.words))
        counts["exhaustive search finds one"] += size is not None
        counts["as small a one is found"] += size is not None and found is not None and len(found) <= size
        counts["a larger one is found"] += size is not None and found is not None and len(found) > size
        counts["one is found"] += found is not None
        if found is not None:
            counts["does not turn the answer"] += not decision.turned(decision.ask([found]))[0]
    print(f"{len(texts)} texts: {dict(counts)}")


def records(classifier: Predictor, texts: Sequence[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(*form))
    public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    (folder / "key.txt").write_text(public, encoding="utf-8")
    for number, text in enumerate(texts):
        explearn.record(classifier, text, key=folder / "key.pem", out=folder / f"{number}.html")
    print(f"{len(texts)} records made")


def altered(document: dict[str, Any], kind: str, number: int) -> dict[str, Any]:
    """Return a record with one thing altered, as little as can matter."""
    changed: dict[str, Any] = json.loads(json.dumps(document))
    if kind == "text":
        words = changed["text"]["segments"][0].split()
        words[number % len(words)] += "x"
        changed["text"]["segments"] = [" ".join(words)]
    elif kind == "score":
        scores = changed["scores"]
        scores[number % len(scores)] += 0.005 * max(abs(score) for score in scores if score is not None)
    else:
        place, name = {
            "hash": (changed["text"]["sha256"], 0),
            "classifier": (changed["classifier"], "sha256"),
            "signature": (changed["signature"], "value"),
        }[kind]
        letter = number % 60
        other = "1" if place[name][letter] == "0" else "0"
        place[name] = place[name][:letter] + other + place[name][letter + 1 :]
    return changed


def verify(classifier: Predictor, folder: Path) -> None:
    public = (folder / "key.txt").read_text(encoding="utf-8")
    explainer = find_explainer(None, classifier=classifier)
    confirmed = 0
    refused: Counter[str] = Counter()
    paths = sorted(folder.glob("[0-9]*.json"))
    kinds = ("text", "score", "hash", "classifier", "signature")
    for number, path in enumerate(paths):
        record, document = read_record(path)
        differing = list(signature_differences(record, document, public))
        differing += observed_differences(record, classifier, explainer, text_of(record, None))
        confirmed += not differing
        for difference in differing:
            print(path.name, difference)
        kind = kinds[number % len(kinds)]
        changed = altered(document, kind, number)
        record = type(record).model_validate(changed)
        if kind == "signature":
            differing = list(signature_differences(record, changed, public))
        else:
            differing = list(observed_differences(record, classifier, explainer, text_of(record, None)))
        refused[kind] += bool(differing)
    print(f"{confirmed} of {len(paths)} confirmed; {refused.total()} of {len(paths)} altered ones refused: {refused}")


def again(classifier: Predictor, texts: Sequence[str], count: int) -> None:
    subject = make_subject("again", classifier, audited_texts(texts[:count], None, None, None), [None])
    searched, held_out = halves(subject.texts.examples, subject.seed)
    read = explain_texts(subject, classifier.labels, searched, None, False)
    vocabulary = Vocabulary.from_texts(read)
    claims = find_claims([read[i] for i in searched], vocabulary, ())
    first = Tested(subject, classifier.labels, read, vocabulary, searched, held_out, claims).run(False)
    confirmed = [claim for claim, verdict in zip(claims, first, strict=True) if verdict.confirmed]
    others = make_subject("again", classifier, audited_texts(texts[count : 2 * count], None, None, None), [None])
    read = explain_texts(others, classifier.labels, [], None, False)
    second = Tested(others, classifier.labels, read, vocabulary, [], range(len(read)), confirmed).run(False)
    tested = [verdict for verdict in second if verdict.changed >= FEWEST_VALUES]
    holds = 0
    for verdict in tested:
        contradicted = any(mean is not None and mean <= -LEAST_EFFECT for mean in (verdict.taken_out, verdict.put_in))
        large = verdict.effect is not None and verdict.effect >= LEAST_EFFECT
        holds += verdict.corrected <= LEVEL and large and not contradicted
    print(f"{len(claims)} claims, {len(confirmed)} confirmed; on other texts {holds} of {len(tested)} tested again")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    for name in ("change", "records", "verify", "again"):
        command = commands.add_parser(name)
        command.add_argument("--classifier", required=True)
        command.add_argument("--texts", type=Path)
        command.add_argument("--count", type=int, default=100)
        command.add_argument("--longest", type=int, default=15)
        command.add_argument("--folder", type=Path, default=Path("records"))
    command = commands.add_parser("shortcuts")
    command.add_argument("--plants", default=",".join([*PLANTS, RANDOM_LABELS]))
    command.add_argument("--tasks", default="reviews,civility,topics")
    command.add_argument("--seeds", default="1,2,3")
    command.add_argument("--texts", type=int, default=660, help="most texts of a task")
    command.add_argument("--words", type=int, default=12, help="most words of a text")
    command.add_argument("--layers", type=int, default=3)
    command.add_argument("--epochs", type=int, default=5)
    command.add_argument("--precision", default="fp32")
    command.add_argument("--keep", type=Path, help="folder of results")
    command.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> None:
    options = read_options()
    if options.what == "shortcuts":
        seeds = [int(seed) for seed in options.seeds.split(",")]
        measure_shortcuts(options.plants.split(","), options.tasks.split(","), seeds, options)
        return
    classifier = explearn.load_classifier(options.classifier, device="cpu")
    if options.what == "verify":
        verify(classifier, options.folder)
        return
    texts = read_texts(options.texts, options.longest)
    if options.what == "change":
        change(classifier, texts[: options.count])
    elif options.what == "records":
        records(classifier, texts[: options.count], options.folder)
    else:
        again(classifier, texts, options.count)


if __name__ == "__main__":
    main()
