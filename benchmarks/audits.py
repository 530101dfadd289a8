"""How far audits and records can be relied on, for a classifier and a table with a column `text`.

    python benchmarks/audits.py change --classifier C --texts T.jsonl [--count 200] [--longest 15]
    python benchmarks/audits.py records --classifier C --texts T.jsonl [--count 100] --folder F
    OMP_NUM_THREADS=2 ATEN_CPU_CAPABILITY=default python benchmarks/audits.py verify --classifier C --folder F
    python benchmarks/audits.py again --classifier C --texts T.jsonl [--count 500]

change: the smallest change against exhaustive search over one and two words. records, verify: records that are made,
and confirmed elsewhere; altered ones (text, score, hash, classifier, signature; each without the help of the others)
that are refused. again: findings confirmed on the first `count` texts that hold on as many others (p at most 0.05).
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
from explearn.auditing.candidates import find_candidates
from explearn.auditing.elements import Vocabulary
from explearn.auditing.findings import FEWEST_VALUES
from explearn.auditing.reading import AuditOptions, Work, explain_texts, halves, read_subject
from explearn.auditing.tested import LEAST_EFFECT, LEVEL, Tested
from explearn.decision.change import BUDGET, smallest_change
from explearn.decision.checking import observed_differences, signature_differences, text_of
from explearn.decision.decision import Decision
from explearn.decision.document import read_record
from explearn.methods.finding import find_explainer
from explearn.predictors.predictor import Predictor
from explearn.text.encoding import as_segments

NOT_KEPT = Work(None, {})


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
    options = AuditOptions()
    subject = read_subject(classifier, texts[:count], None, None, None, options)
    searched, held_out = halves(subject.user_texts.examples, options.seed)
    read = explain_texts(subject, searched, NOT_KEPT, False)
    known = Vocabulary.from_texts(read)
    candidates = find_candidates([read[i] for i in searched], known, ())
    first = Tested(subject, read, known, searched, held_out, candidates).run(NOT_KEPT, False)
    confirmed = [candidate for candidate, verdict in zip(candidates, first, strict=True) if verdict.confirmed]
    others = read_subject(classifier, texts[count : 2 * count], None, None, None, options)
    read = explain_texts(others, [], NOT_KEPT, False)
    second = Tested(others, read, known, [], range(len(read)), confirmed).run(NOT_KEPT, False)
    tested = [verdict for verdict in second if verdict.changed >= FEWEST_VALUES]
    holds = 0
    for verdict in tested:
        contradicted = any(mean is not None and mean <= -LEAST_EFFECT for mean in (verdict.taken_out, verdict.put_in))
        large = verdict.effect is not None and verdict.effect >= LEAST_EFFECT
        holds += verdict.corrected <= LEVEL and large and not contradicted
    print(f"{len(candidates)} claims, {len(confirmed)} confirmed; on other texts {holds} of {len(tested)} tested again")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("change", "records", "verify", "again"))
    parser.add_argument("--classifier", required=True)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--longest", type=int, default=15)
    parser.add_argument("--folder", type=Path, default=Path("records"))
    options = parser.parse_args()
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
