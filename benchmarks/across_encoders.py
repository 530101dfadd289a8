"""What a consensus loses on classifiers of another encoder than it has learned on.

    python benchmarks/across_encoders.py [--root .] [--tasks reviews,civility,topics]
        [--sources reviews,civility,topics] [--encoders minilm,seed,layers,roberta,gpt2] [--texts 250]
        [--kept build/across_encoders] [--out reports/experiments/across_encoders.json]

`--root` is a workspace after the stages prepare, rationalise and finetune, of the embedded encoder. Encoders:

minilm   the workspace's classifiers
seed     the same encoder, fine-tuned with the next seed
layers   its first three layers, fine-tuned
roberta  a RoBERTa of 3 layers, width 64, with a byte-level BPE of 3,000 pieces; no pretrained weight
gpt2     a GPT-2 of 3 layers, width 64, which reads from left to right, with a BPE of its own; no pretrained weight

The last two see nothing but the tasks' training texts. `--kept` keeps classifiers and signals, so that a second run
computes neither. On each encoder's classifiers, one task left out at a time, these explain the task's test texts that
have marks and that the classifier gets right:

same      consensus that has learned from the encoder's own classifiers of the other tasks
minilm    consensus that has learned from MiniLM's classifiers of the other tasks
shipped   consensus with the package's weights. They have seen marks of the training texts of these tasks and of grammar
signals   as same, without the features of the word itself
words     as same, without a signal: no model plays a part, but for which texts are judged
and the methods that the consensus combines, of which the best is shown, chosen by its mean over the tasks in hindsight.

Prints F1 with the top K and AUROC as means over the tasks, the figures of each task, and differences in mean F1 with
their 95 % intervals over texts (drawn anew within each task, 10,000 draws). `--out` keeps all as JSON.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from numpy.typing import NDArray

from explearn.core.compute import ComputeOptions
from explearn.core.writing import atomic_folder, write_json
from explearn.lens.word_signals import SIGNALS
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.consensus.model import MarkedText, weight_of_skill
from explearn.methods.consensus.signals import available_signals
from explearn.metrics.plausibility import rationale_counts, rationale_k, select_top_k
from explearn.predictors.finetune import evaluate_classifier, finetune
from explearn.predictors.loading import EMBEDDED, embedded_encoder
from explearn.predictors.params import FinetuneParams
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn.text.sampling import texts_to_explain
from explearn_study.feature_files import read_signals, write_signals
from explearn_study.params import Params, load_params
from explearn_study.workspace import Workspace
from universal import DRAWS, Judged, auroc, f1, right_order, top_f1

ENCODERS = ("minilm", "seed", "layers", "roberta", "gpt2")
LAYERS, WIDTH, HEADS, PIECES, POSITIONS = 3, 64, 4, 3000, 256
KEPT_LAYERS = 3
CUT = FinetuneParams(epochs=3, learning_rate=2e-4)
SCRATCH = FinetuneParams(epochs=12, learning_rate=1e-3, patience=4)
"""Training where the run's own is too short: what is cut, or starts at random, needs larger steps."""

CONSENSUS = ("same", "minilm", "shipped", "signals", "words")


@dataclass(frozen=True, slots=True)
class Run:
    """What all steps share. sources: tasks to learn from. texts: most training texts of each."""

    workspace: Workspace
    params: Params
    kept: Path
    sources: Sequence[str]
    texts: int


@dataclass(frozen=True, slots=True)
class Source:
    """What a consensus learns from a task: its marked texts with signals, and how well the classifier does."""

    marked: list[MarkedText]
    skill: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--tasks", default="reviews,civility,topics", help="which to judge")
    parser.add_argument("--sources", default="reviews,civility,topics", help="which to learn from")
    parser.add_argument("--encoders", default=",".join(ENCODERS))
    parser.add_argument("--texts", type=int, default=250, help="most training texts of a task to learn from")
    parser.add_argument("--kept", type=Path, default=Path("build/across_encoders"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tasks, sources, names = (given.split(",") for given in (options.tasks, options.sources, options.encoders))
    params = load_params(options.root / "params.yaml")
    run = Run(Workspace(options.root), params, options.kept, sources, options.texts)
    learned: dict[str, dict[str, Source]] = {}
    results, classifiers = {}, {}
    for name in ["minilm", *(name for name in names if name != "minilm")]:
        models = {task: classifier_of(run, name, task) for task in sources}
        learned[name] = {task: source(run, name, task, model) for task, model in models.items()}
        if name not in names:
            continue
        classifiers[name] = {
            task: evaluate_classifier(model, run.workspace.read_examples(task, "test"))
            for task, model in models.items()
        }
        results[name] = {task: judged(run, name, task, models[task], learned) for task in tasks}
        show(name, results[name], classifiers[name], available_signals(models[tasks[0]]))
    if options.out is not None:
        write_json(options.out, {"classifiers": classifiers, "figures": as_figures(results)})


# ---- classifiers -------------------------------------------------------------------------------------------------


def classifier_of(run: Run, name: str, task: str) -> Predictor:
    """A task's classifier with an encoder; trained where it is not kept yet."""
    compute = ComputeOptions(device="cpu")
    if name == "minilm":
        return load_classifier(run.workspace.classifier(task), compute)
    target = run.kept / name / task
    if not target.exists():
        encoder = EMBEDDED if name == "seed" else str(encoder_folder(run, name))
        training = {"layers": CUT, "roberta": SCRATCH, "gpt2": SCRATCH}.get(name, run.params.finetune)
        rows = [e for e in run.workspace.read_examples(task) if e.split in ("train", "validation")]
        seed = run.params.seed + (name == "seed")
        history = finetune(target, rows, run.workspace.read_labels(task), encoder, training, compute, seed)
        print(f"{name}, {task}: trained for {len(history)} epochs", flush=True)
    return load_classifier(target, compute)


def encoder_folder(run: Run, name: str) -> Path:
    """Where the encoder lies that is fine-tuned; made where it is not there."""
    folder = run.kept / name / "encoder"
    if folder.exists():
        return folder
    with atomic_folder(folder) as partial:
        if name == "layers":
            model: Any = transformers.AutoModel.from_pretrained(embedded_encoder(), dtype=torch.float32)
            model.encoder.layer = model.encoder.layer[:KEPT_LAYERS]
            model.config.num_hidden_layers = KEPT_LAYERS
            words: Any = transformers.AutoTokenizer.from_pretrained(embedded_encoder())
        else:
            texts = [" ".join(e.all_words) for task in run.sources for e in run.workspace.read_examples(task, "train")]
            words = byte_pairs(name, texts)
            torch.manual_seed(0)
            model = transformers.AutoModel.from_config(config_of(name, words))
        model.save_pretrained(partial)
        words.save_pretrained(partial)
    return folder


def byte_pairs(name: str, texts: Sequence[str]) -> transformers.PreTrainedTokenizerFast:
    bpe = tokenizers.ByteLevelBPETokenizer(add_prefix_space=True)
    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    bpe.train_from_iterator(texts, vocab_size=PIECES, show_progress=False, special_tokens=list(special.values()))
    made = tokenizers.Tokenizer.from_str(bpe.to_str())
    if name == "roberta":
        special |= {"cls_token": "<s>", "sep_token": "</s>"}
        ends = [(token, bpe.token_to_id(token)) for token in ("<s>", "</s>")]
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> $B </s>", special_tokens=ends
        )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=POSITIONS, **special)


def config_of(name: str, words: transformers.PreTrainedTokenizerFast) -> transformers.PretrainedConfig:
    ids = {key: getattr(words, key) for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    if name == "gpt2":
        return transformers.GPT2Config(
            vocab_size=len(words), n_positions=POSITIONS, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, **ids
        )
    return transformers.RobertaConfig(
        vocab_size=len(words),
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=4 * WIDTH,
        # Positions count from the padding index + 1.
        max_position_embeddings=POSITIONS + 2,
        type_vocab_size=1,
        **ids,
    )


# ---- consensus ---------------------------------------------------------------------------------------------------


def marked_texts(run: Run, name: str, task: str, classifier: Predictor, split: str) -> list[MarkedText]:
    """The marked texts of a split that the classifier gets right, with their signals, which are kept."""
    gold = run.workspace.read_gold(task, run.params)
    marked = [e for e in run.workspace.read_examples(task, split) if e.id in gold]
    chosen = marked if split == "test" else texts_to_explain(marked, gold, run.texts, run.params.seed)
    path = run.kept / "signals" / name / f"{task}-{split}-{len(chosen)}.parquet"
    if not path.exists():
        write_signals(path, classifier, chosen)
    return [
        MarkedText(text, gold[text.example_id])
        for text, example in zip(read_signals(path), chosen, strict=True)
        if text.predicted == example.label and text.read.any()
    ]


def source(run: Run, name: str, task: str, classifier: Predictor) -> Source:
    judged = evaluate_classifier(classifier, run.workspace.read_examples(task, "validation"))
    return Source(marked_texts(run, name, task, classifier, "train"), judged["mcc"])


def learn(sources: Mapping[str, Source], left_out: str, **options: Any) -> Consensus:
    others = {task: one for task, one in sources.items() if task != left_out}
    weights = {task: weight_of_skill(one.skill) for task, one in others.items()}
    marked = {task: one.marked for task, one in others.items()}
    return Consensus(**options).fit_tasks(marked, weights=weights)


def judged(
    run: Run, name: str, task: str, classifier: Predictor, learned: Mapping[str, Mapping[str, Source]]
) -> dict[str, Judged]:
    """Method -> what it gave on the task's test texts. The same signals serve all methods."""
    gold = run.workspace.read_gold(task, run.params)
    lengths = [sum(gold[e.id]) for e in run.workspace.read_examples(task, "train") if e.id in gold]
    k, texts = rationale_k(float(np.mean(lengths))), marked_texts(run, name, task, classifier, "test")
    taught = {
        "same": learn(learned[name], task),
        "minilm": learn(learned["minilm"], task),
        "shipped": Consensus(),
        "signals": learn(learned[name], task, word_features=False),
        "words": learn(learned[name], task, signals=[]),
    }
    found = {
        method: judge([made.word_probabilities(t.signals) for t in texts], texts, k) for method, made in taught.items()
    }
    for signal in available_signals(classifier):
        column = SIGNALS.index(signal)
        found[signal] = judge([t.signals.scores[:, column].astype(np.float64) for t in texts], texts, k)
    return found


def judge(scores: Sequence[NDArray[np.float64]], texts: Sequence[MarkedText], k: int) -> Judged:
    """Words that the classifier did not read come last."""
    filled = [np.where(t.signals.read, s, s[t.signals.read].min()) for s, t in zip(scores, texts, strict=True)]
    marks = [np.asarray(text.mask, dtype=bool) for text in texts]
    top = rationale_counts([select_top_k(s, k) for s in filled], marks)
    marked, other = (np.array([mask.sum() for mask in found]) for found in (marks, [~mask for mask in marks]))
    return Judged(top, top, right_order(filled, marks), marked, other)


# ---- figures -----------------------------------------------------------------------------------------------------

Results = Mapping[str, Mapping[str, Judged]]
"""Task -> method -> what it gave."""


def mean(results: Results, method: str, figure: Any) -> float:
    return float(np.mean([figure(found[method]) for found in results.values()]))


def best_signal(results: Results, figure: Any) -> str:
    there = set.intersection(*(set(found) for found in results.values())) - set(CONSENSUS)
    return max(sorted(there), key=lambda method: mean(results, method, figure))


def difference(results: Results, first: str, second: str) -> tuple[float, float, float]:
    """Of the mean F1 over the tasks, with its 95 % interval."""
    generator = np.random.default_rng(0)
    drawn = []
    for found in results.values():
        count = len(found[first].top)
        weights = generator.multinomial(count, np.full(count, 1 / count), DRAWS)
        drawn.append(f1(weights @ found[first].top) - f1(weights @ found[second].top))
    low, high = np.percentile(np.mean(drawn, 0), (2.5, 97.5)).tolist()
    return mean(results, first, top_f1) - mean(results, second, top_f1), low, high


def show(name: str, results: Results, classifiers: Mapping[str, Any], signals: Sequence[str]) -> None:
    print(f"\n{name}: {len(signals)} signals ({', '.join(signals)})")
    for task, found in classifiers.items():
        print(f"  {task}: accuracy {found['accuracy']:.3f}, most frequent class {found['majority_rate']:.3f}")
    best = {figure: best_signal(results, figure) for figure in (top_f1, auroc)}
    for method in dict.fromkeys([*CONSENSUS, *best.values()]):
        cells = [(len(found[method].top), top_f1(found[method]), auroc(found[method])) for found in results.values()]
        by_task = "  ".join(f"{task} ({n}) {f:.3f}/{a:.3f}" for task, (n, f, a) in zip(results, cells, strict=True))
        print(f"  {method:24} {mean(results, method, top_f1):.3f}/{mean(results, method, auroc):.3f}  {by_task}")
    pairs = [("minilm", "same"), *((first, best[top_f1]) for first in ("same", "minilm"))]
    for first, second in pairs:
        by, low, high = difference(results, first, second)
        print(f"  {first} - {second}: F1 {by:+.3f} ({low:+.3f} to {high:+.3f})", flush=True)


def as_figures(results: Mapping[str, Results]) -> dict[str, Any]:
    return {
        name: {
            task: {m: {"texts": len(j.top), "f1_topk": top_f1(j), "auroc": auroc(j)} for m, j in found.items()}
            for task, found in of_encoder.items()
        }
        for name, of_encoder in results.items()
    }


if __name__ == "__main__":
    main()
