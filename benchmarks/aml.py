"""AML's faithfulness on a task whose classifier is trained.

    python benchmarks/aml.py methods   --task sst2 [--texts 200] [--methods paml,faml,lime,...] [--root .]
    python benchmarks/aml.py ablations --task sst2 [--texts 200]
    python benchmarks/aml.py people    --task movies --trained-on sst2 [--texts 200] [--top 25]

`--root` holds data/examples/TASK, data/classifiers/TASK and, but for `ablations`, the methods in data/explainers/TASK,
as the pipeline leaves them; params.yaml there gives the options. With `--trained-on` classifier and pAML are those of
another task. Among `--methods`, `faml:METRIC` is fAML for another metric, and `solvex:50` Solvex with a beam of 50.

methods: the five metrics of AML's Table 1 for every method, under the protocol of the parameters `evaluate`;
in the row `faml, each by its own`, each column is that of the best map by this metric among those fAML looked at. (The
paper goes further: it searches for the weights and trains anew for each metric.)
ablations: AML's Table 4, without L_p (Xpred) and without L_inv (Xinv). Where the parameters have `trials`, the weights
of the terms that stay are searched for anew in each, as in the paper; data/studies/TASK keeps the searches.
people: AML's Table 3, F1 of the words with the top scores, of each text (macro) and pooled (micro), on texts with marks
(data/rationales/TASK).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from explearn.core.attribution import Attribution
from explearn.core.examples import Example
from explearn.methods.aml.faml import FAML
from explearn.methods.aml.paml import PAML
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.task import ListedTask
from explearn.methods.finding import find_explainer
from explearn.methods.registry import get_info
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.plausibility import f1_of_texts, rationale_counts, select_top_k
from explearn.metrics.registry import CATALOGUE
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import load_classifier
from explearn.text.sampling import texts_to_explain
from explearn_study.params import Params, load_params
from explearn_study.workspace import Workspace

FIVE = ("sufficiency", "log_odds", "comprehensiveness", "aopc_sufficiency", "aopc_comprehensiveness")
SMALLER = tuple(name for name in FIVE if not CATALOGUE[name].larger_is_better)


def five(
    classifier: Predictor, params: Params, texts: Sequence[Example], explainers: Mapping[str, Explainer]
) -> dict[str, list[float]]:
    """The five metrics of each method, means over the texts. Prints the processor time that explaining took."""
    found: dict[str, list[Attribution]] = {}
    for name, explainer in explainers.items():
        began = time.process_time()
        found[name] = list(explainer.explain(classifier, texts, description=name))
        print(f"{name}: {time.process_time() - began:.1f} s of processor time", flush=True)
    encodings = {encoding.example_id: encoding for encoding in classifier.read(texts)}
    means = {}
    for name, result in faithfulness(classifier, encodings, found, params.evaluate).items():
        means[name] = [float(np.mean(result.values[metric])) for metric in FIVE]
    return means


def print_table(rows: Mapping[str, Sequence[float]]) -> None:
    """Print the figures, with a star at the best of each column."""
    columns = dict(zip(FIVE, zip(*rows.values(), strict=True), strict=True))
    best = {name: min(values) if name in SMALLER else max(values) for name, values in columns.items()}
    width = max(map(len, rows)) + 2
    print(" " * width + "  ".join([f"{name[:20]:>20s}" for name in FIVE]))
    for method, row in rows.items():
        cells = []
        for name, value in zip(FIVE, row, strict=True):
            star = "*" if value == best[name] else " "
            cells.append(f"{value:>19.3f}{star}")
        print(f"{method:<{width}s}" + "  ".join(cells))


def chosen(options: argparse.Namespace, params: Params) -> dict[str, Explainer]:
    """The methods of `--methods`."""
    workspace = Workspace(options.root)
    task = options.trained_on or options.task
    explainers: dict[str, Explainer] = {}
    for given in options.methods.split(","):
        name, _, value = given.partition(":")
        info = get_info(name)
        changed: dict[str, object] = {}
        if value:
            changed = {"metric": value} if info.base else {"beam": int(value)}
        if info.trained:
            explainers[given] = find_explainer(workspace.explainer(task, name))
        elif info.base:
            refining = {**params.method(name).all_options, **changed}
            explainers[given] = find_explainer(workspace.explainer(task, info.base), refining, method=name)
        else:
            settings = {**params.method(name).options, **changed}
            explainers[given] = find_explainer(name, settings, seed=params.seed)
    return explainers


def methods(options: argparse.Namespace, classifier: Predictor, params: Params, texts: Sequence[Example]) -> None:
    explainers = chosen(options, params)
    rows = five(classifier, params, texts, explainers)
    for name, explainer in explainers.items():
        if isinstance(explainer, FAML):
            judged = explainer.notes()["judged"]
            rows[f"{name}, each by its own"] = [judged[metric][metric] for metric in FIVE]
    print_table(rows)


def people(options: argparse.Namespace, classifier: Predictor, params: Params, texts: Sequence[Example]) -> None:
    gold = Workspace(options.root).read_gold(options.task, params)
    marked = [text for text in texts if any(gold.get(text.id, ()))]
    if not marked:
        sys.exit(f"--task {options.task}: none of {len(texts)} test texts has marked words")
    print(f"{len(marked)} texts with marks, top {options.top} words")
    for name, explainer in chosen(options, params).items():
        attributions = explainer.explain(classifier, marked, description=name)
        chosen_words = [select_top_k(attribution.scores, options.top) for attribution in attributions]
        counts = rationale_counts(chosen_words, [gold[text.id] for text in marked])
        macro = np.nanmean(f1_of_texts(counts))
        micro = f1_of_texts(counts.sum(axis=0, keepdims=True))[0]
        print(f"{name:<24} macro F1 {macro:.3f}  micro F1 {micro:.3f}", flush=True)


def ablations(options: argparse.Namespace, classifier: Predictor, params: Params, texts: Sequence[Example]) -> None:
    workspace = Workspace(options.root)
    splits = [workspace.read_examples(options.task, split) for split in ("train", "validation")]
    encoder, revision = params.encoder_of(options.task)
    explainers: dict[str, Explainer] = {}
    for name, change in (("", {}), (" Xpred", {"prediction_weight": 0.0}), (" Xinv", {"inverse_weight": 0.0})):
        paml = PAML(**{**params.method("paml").all_options, "seed": params.seed, **change})
        paml.learn(
            ListedTask(classifier, *splits, encoder=encoder, encoder_revision=revision),
            description=f"paml{name}",
        )
        searched = "searched" if paml.options.trials else "given"
        print(f"paml{name}: weights {paml.weights} ({searched})", flush=True)
        faml = FAML(**params.method("faml").all_options)
        faml.start = paml
        explainers[f"paml{name}"] = paml
        explainers[f"faml{name}"] = faml
    print_table(five(classifier, params, texts, explainers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["methods", "ablations", "people"])
    parser.add_argument("--task", required=True)
    parser.add_argument("--trained-on", help="task of classifier and pAML (default: --task)")
    parser.add_argument("--top", type=int, default=25, help="words that people are asked about")
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--params", type=Path, help="default: params.yaml under the root")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--methods", default="paml,faml,gradient,input_x_gradient,deep_lift,raw_attention,occlusion")
    options = parser.parse_args()
    params = load_params(options.params or options.root / "params.yaml")
    workspace = Workspace(options.root)
    classifier = load_classifier(workspace.classifier(options.trained_on or options.task), device=options.device)
    rows = workspace.read_examples(options.task, "test")
    texts = texts_to_explain(rows, workspace.read_gold(options.task, params), options.texts, params.seed)
    print(
        f"torch {torch.__version__}, {classifier.device}, {torch.get_num_threads()} threads, {options.task}, "
        f"{len(texts)} test texts"
    )
    run = {"methods": methods, "ablations": ablations, "people": people}[options.what]
    run(options, classifier, params, texts)


if __name__ == "__main__":
    main()
