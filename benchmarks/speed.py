"""What an explanation costs beside classifying, and a training step of IvRA beside a plain one.

    python benchmarks/speed.py one_pass  [--classifier FOLDER] [--texts 16] [--runs 15]
    python benchmarks/speed.py consensus [--classifier FOLDER] [--texts 48] [--runs 7]
    python benchmarks/speed.py ivra      [--classifier FOLDER] [--texts 32] [--runs 15]
    python benchmarks/speed.py students  [--classifier FOLDER] [--texts 32] [--runs 5]

Two functions run in turn on the same texts, so that a drift of the machine's speed touches both. Printed are the median
of the paired ratios, its quartiles, and the limit, if there is one. Both sides start from strings, unless the class is
given. Weights play no part in the speed: without --classifier it is the embedded encoder with a new head, and
explainers are barely trained.

one_pass: `marker`, which reads the attention of all layers, `expnet`, which reads the last one, and `reader`, which
reads hidden states, on texts of exactly 128 and 512 sub-tokens, against classifying.
consensus: the package's consensus, with all of its signals and with fewer, on texts of the corpus and on four of them
joined, against classifying; on a CPU by processor time, so that other work on the machine counts less.
ivra: a step for a criterion against a plain fine-tuning step (one batch: losses, gradients, AdamW; word embeddings left
out on both sides); explaining with `ivra` and `smat` against classifying.
students: teachers against a student of `l2e`, with the class given and with the classifier's pass counted.

Exits with 1 where a ratio is outside its limit.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import transformers

from explearn.core.examples import Example
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.task import ListedTask
from explearn.methods.base.teachers import Lesson, Lessons
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.consensus.params import ConsensusParams
from explearn.methods.expnet.explainer import ExpNet
from explearn.methods.ivra.attention import HeadAttention, InterpretableAttention, size_of
from explearn.methods.ivra.explainer import IvRA, SMaT
from explearn.methods.ivra.params import IvRAParams
from explearn.methods.ivra.training import JointTrainer
from explearn.methods.l2e.explainer import L2E
from explearn.methods.marker.explainer import Marker
from explearn.methods.reader.explainer import Reader
from explearn.methods.registry import get_explainer
from explearn.predictors import pretrained
from explearn.predictors.finetune import load_encoder
from explearn.predictors.loading import quiet_transformers
from explearn.predictors.predictor import Predictor, transformer_of

CORPUS = Path(__file__).resolve().parents[1] / "data" / "corpus" / "reviews.jsonl"

PASS_LIMITS = {128: {"marker": 1.25, "reader": 1.15}, 512: {"marker": 1.45, "reader": 1.15}}
"""Sub-tokens a text -> method -> largest ratio."""

CONSENSUS_LIMIT = 3.3
"""A tenth above the aim, 3, for machines other than the one where it was reached (docs/explearn/consensus.md)."""

IVRA_LIMIT = 1.10
STEP_LIMIT = 3.5

Norm = Literal["softmax", "sparsemax"]
NORMS: tuple[Norm, ...] = ("softmax", "sparsemax")

TEACHER_LIMITS = {"input_x_gradient": 5.0, "lime": 500.0}
"""Teacher -> least ratio with the class given."""

Task = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """How two functions are timed: the number of paired runs, and the clock."""

    runs: int
    clock: Callable[[], float] = time.perf_counter

    def ratio(self, what: str, slow: Task, fast: Task, limit: float | None = None) -> float:
        """Time two functions in turn, print the ratio, and return its median."""
        slow()
        fast()
        times = np.array([(self.seconds(slow), self.seconds(fast)) for _ in range(self.runs)])
        ratios = times[:, 0] / times[:, 1]
        low, median, high = np.quantile(ratios, (0.25, 0.5, 0.75))
        slow_seconds, fast_seconds = np.median(times, axis=0)
        line = f"{what}: {median:.3f} x (quartiles {low:.3f} to {high:.3f}; {slow_seconds:.2f} s, {fast_seconds:.2f} s)"
        if limit is not None:
            line += f", limit {limit}"
        print(line, flush=True)
        return float(median)

    def seconds(self, task: Task) -> float:
        start = self.clock()
        task()
        return self.clock() - start


def explain(explainer: Explainer, classifier: Predictor, texts: list[str]) -> object:
    return list(explainer.explain(classifier, texts))


# ---- marker, expnet, reader ------------------------------------------------------------------------------------------


def one_pass(classifier: Predictor, options: argparse.Namespace) -> bool:
    task = marked_task(classifier)
    explainers: dict[str, Explainer] = {
        "marker": Marker(protocol="in_domain", epochs=1).learn(task),
        "expnet": ExpNet(protocol="in_domain", epochs=1).learn(task),
        "reader": Reader(epochs=1, samples=4).learn(task),
    }
    timing = Timing(options.runs)
    fine = True
    for tokens, limits in PASS_LIMITS.items():
        if tokens > classifier.max_length:
            print(f"{tokens} sub-tokens: the classifier takes {classifier.max_length} at most")
            continue
        texts = texts_of_length(classifier, tokens, options.texts)
        classify = partial(classifier.predict, texts)
        for name, explainer in explainers.items():
            limit = limits.get(name)
            both = partial(explain, explainer, classifier, texts)
            ratio = timing.ratio(f"{tokens} sub-tokens, {name}", both, classify, limit)
            fine &= limit is None or ratio <= limit
        timing.ratio(f"{tokens} sub-tokens, all attention alone", partial(attend, classifier, texts), classify)
    return fine


def attend(classifier: Predictor, texts: Sequence[str]) -> None:
    """Compute as many matrices of attention as a model does, a head at a time: the least that reading them costs."""
    config = transformer_of(classifier).model.config
    heads = config.num_attention_heads
    for encoding in classifier.read(texts):
        query = torch.randn(heads, len(encoding), config.hidden_size // heads)
        for _ in range(config.num_hidden_layers):
            for head in query:
                (head @ head.T).softmax(-1)


def marked_task(classifier: Predictor) -> ListedTask:
    """Return texts with the labels that the classifier gives them, one word of the first two marked."""
    texts = ["a warm funny sequel", "no refund at all"] * 15
    gold = {f"train-{n}": (False, True, False, False) for n in (1, 2)}
    return ListedTask(classifier, texts, labels=classifier.predict(texts), gold=gold)


def texts_of_length(classifier: Predictor, tokens: int, count: int) -> list[str]:
    """Return texts of random whole-word pieces, `tokens` sub-tokens each with the special ones."""
    tokenizer = transformer_of(classifier).tokenizer
    words = [word for word in tokenizer.get_vocab() if word.isascii() and word.isalpha() and len(word) > 3]
    size = (count, tokens - tokenizer.num_special_tokens_to_add())
    rows = torch.randint(len(words), size, generator=torch.Generator().manual_seed(0)).tolist()
    texts = []
    for row in rows:
        texts.append(" ".join([words[number] for number in row]))
    lengths = {len(encoding) for encoding in classifier.read(texts)}
    if lengths != {tokens}:
        raise SystemExit(f"texts have {sorted(lengths)} sub-tokens; expected {tokens}")
    return texts


# ---- consensus -------------------------------------------------------------------------------------------------------


def consensus(classifier: Predictor, options: argparse.Namespace) -> bool:
    clock = time.process_time if classifier.device.type == "cpu" else time.perf_counter
    timing = Timing(options.runs, clock)
    short = load_texts(options.data, options.texts)
    joined = [" ".join(short[first : first + 4]) for first in range(0, len(short), 4)]
    fine = True
    for length, texts in (("texts as they are", short), ("four joined", joined)):
        classify = partial(classifier.predict, texts)
        for name, signals in signal_sets().items():
            limit = CONSENSUS_LIMIT if name == "all signals" else None
            both = partial(explain, Consensus(signals=signals), classifier, texts)
            ratio = timing.ratio(f"{length}, {name}", both, classify, limit)
            fine &= limit is None or ratio <= limit
    return fine


def signal_sets() -> dict[str, Sequence[str]]:
    """Return all signals, all but each one, and those of one forward pass."""
    signals = ConsensusParams().signals
    sets: dict[str, Sequence[str]] = {"all signals": signals}
    for left_out in signals:
        sets[f"without {left_out}"] = [name for name in signals if name != left_out]
    sets["forward pass alone"] = ["rollout"]
    return sets


# ---- ivra, smat ------------------------------------------------------------------------------------------------------


def ivra(classifier: Predictor, options: argparse.Namespace) -> bool:
    timing = Timing(options.runs)
    texts = load_texts(options.data, options.texts)
    fine = True
    plain = training_step(classifier, texts, None)
    for criterion in ("comp", "suff"):
        step = training_step(classifier, texts, criterion)
        fine &= timing.ratio(f"step for {criterion}", step, plain, STEP_LIMIT) <= STEP_LIMIT
    classify = partial(classifier.predict, texts)
    for norm in NORMS:
        for explainer in untrained_attentions(classifier, norm):
            both = partial(explain, explainer, classifier, texts)
            ratio = timing.ratio(f"{explainer.name}, {norm}", both, classify, IVRA_LIMIT)
            fine &= ratio <= IVRA_LIMIT
    return fine


def untrained_attentions(classifier: Predictor, norm: Norm) -> list[Explainer]:
    size = size_of(transformer_of(classifier).model)
    found: list[Explainer] = []
    for method, kind in ((IvRA, InterpretableAttention), (SMaT, HeadAttention)):
        explainer = method(norm=norm)
        explainer.attention = kind(*size, norm=norm).requires_grad_(False)
        explainer.trained_classifier = classifier.fingerprint
        found.append(explainer)
    return found


def training_step(classifier: Predictor, texts: list[str], criterion: str | None) -> Task:
    """Return a function that makes one training step for a criterion; None: of plain fine-tuning."""
    copied = transformer_of(classifier).with_model(copy.deepcopy(transformer_of(classifier).model))
    copied.model.requires_grad_(True).train()
    copied.model.get_input_embeddings().weight.requires_grad_(False)
    module = InterpretableAttention(*size_of(copied.model))
    labels = [number % len(copied.labels) for number in range(len(texts))]
    examples = []
    for number, (text, label) in enumerate(zip(texts, labels, strict=True)):
        examples.append(Example(str(number), tuple(text.split()), copied.labels[label], "train", "timing"))
    generator = torch.Generator().manual_seed(0)
    settings = IvRAParams(criteria=[criterion or "comp"])
    trainer = JointTrainer(copied, module, examples, None, settings, generator, None, lambda: (0.0, {}))
    parameters = [*copied.model.parameters(), *module.parameters()]
    optimiser = torch.optim.AdamW([p for p in parameters if p.requires_grad], lr=1e-5)
    batch = copied.batch(copied.encode(texts))
    targets = torch.tensor(labels)

    def plain_loss() -> torch.Tensor:
        return torch.nn.functional.cross_entropy(copied.model(**batch.model_inputs()).logits, targets)

    def joint_loss() -> torch.Tensor:
        return torch.stack(list(trainer.losses(examples).values())).sum()

    loss = joint_loss if criterion else plain_loss

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        loss().backward()
        optimiser.step()

    return step


# ---- l2e -------------------------------------------------------------------------------------------------------------


def students(classifier: Predictor, options: argparse.Namespace) -> bool:
    timing = Timing(options.runs)
    texts = load_texts(options.data, options.texts)
    student = untrained_student(classifier, texts)
    encodings = classifier.read(texts)
    targets = classifier.predict_proba(encodings).argmax(-1).tolist()
    print(f"{sum(map(len, encodings)) / len(texts):.0f} sub-tokens a text")
    alone = partial(student.read_words, classifier, encodings, targets)
    classified = partial(explain, student, classifier, texts)
    timing.ratio("classifier over student, class given", partial(classifier.predict_proba, encodings), alone)
    teachers: dict[str, dict[str, Any]] = {
        "input_x_gradient": {},
        "full_lrp": {},
        "occlusion": {},
        "lime": {"samples": options.lime_samples},
    }
    fine = True
    for name, settings in teachers.items():
        limit = TEACHER_LIMITS.get(name)
        teach = partial(explain, get_explainer(name, **settings), classifier, texts)
        ratio = timing.ratio(f"{name} over student, class given", teach, alone, limit)
        timing.ratio(f"{name} over student with the classifier's pass", teach, classified)
        fine &= limit is None or ratio >= limit
    return fine


def untrained_student(classifier: Predictor, texts: list[str]) -> L2E:
    """Train for one epoch on made-up scores of a few texts."""
    rows = []
    lessons = []
    for number, text in enumerate(texts[:4]):
        words = tuple(text.split())
        rows.append(Example(str(number), words, "x", "train", "x"))
        lessons.append(Lesson(str(number), classifier.labels[0], torch.linspace(-1, 1, len(words)).numpy()))
    return L2E(epochs=1).fit_lessons(classifier, rows, Lessons({"train": lessons}, signed=True))


# ---- inputs ----------------------------------------------------------------------------------------------------------


def load_classifier(folder: Path | None, device: str) -> Predictor:
    """Load a classifier, or the embedded encoder with a new head."""
    quiet_transformers()
    if folder is not None:
        return pretrained.load_classifier(folder, device=device)
    with tempfile.TemporaryDirectory() as temporary:
        model, tokenizer = load_encoder("embedded", ["no", "yes"], limit=512)
        model.save_pretrained(temporary)
        tokenizer.save_pretrained(temporary)
        return pretrained.load_classifier(temporary, device=device)


def load_texts(path: Path, count: int) -> list[str]:
    """Return the first `count` values of the field text (or words) of a JSON Lines file."""
    texts: list[str] = []
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            texts.append(row["text"] if "text" in row else " ".join(row["words"]))
            if len(texts) == count:
                return texts
    raise SystemExit(f"{path} has {len(texts)} texts; expected {count}")


BENCHMARKS = {"one_pass": one_pass, "consensus": consensus, "ivra": ivra, "students": students}
DEFAULTS = {"one_pass": (16, 15), "consensus": (48, 7), "ivra": (32, 15), "students": (32, 5)}
"""Texts and paired runs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=BENCHMARKS)
    parser.add_argument("--classifier", type=Path, help="folder of a classifier (default: the embedded encoder)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--data", type=Path, default=CORPUS, help="JSON Lines with text or words, not for one_pass")
    parser.add_argument("--lime-samples", type=int, default=1000, help="for students")
    options = parser.parse_args()
    texts, runs = DEFAULTS[options.what]
    options.texts = options.texts or texts
    options.runs = options.runs or runs
    classifier = load_classifier(options.classifier, options.device)
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, {classifier.device}, "
        f"{torch.get_num_threads()} threads, {options.texts} texts, {options.runs} paired runs"
    )
    fine = BENCHMARKS[options.what](classifier, options)
    sys.exit(not fine)


if __name__ == "__main__":
    main()
