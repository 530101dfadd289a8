"""Reader against the methods that ask the classifier itself: faithfulness, certificate and repair.

    python benchmarks/faithful.py --task reviews [--root .] [--texts 100] [--exact 100] [--seeds 5]
        [--complete] [--curve] [--function]
    python benchmarks/faithful.py --task reviews --texts 40 --methods "random,attn_lrp,lime samples=128"

After `make repro`. Trains Reader on the task's training texts, once a seed, and explains test texts. Prints, means over
the seeds where there are several:

* AOPC comprehensiveness and sufficiency (shares 1 to 50 %) of one pass, of budgets 16, 32 and 64, and of baselines,
  with the p-values of the texts' differences in both from one pass (Wilcoxon, corrected by Holm over all rows). With
  --complete the baselines are all methods that need no training but the slowest, solvex and sequential_ig.
* The mean absolute error of predicted against true answers on 40 unseen sets of words; every method scaled at best.
* Spearman's rho with Kernel SHAP of 5,000 samples, of one pass and of Kernel SHAP of 200 samples, and the share of the
  top three words in common.
* Of the certificate: how many of all test texts keep within the bound, for this task and all others that are prepared,
  how many are told apart as unfamiliar, and the true agreement by verdict.
* The rank correlation of scores with those of the classifier with all weights drawn anew.
* With --curve: comprehensiveness after training on 50, 100, 200 and 400 texts.

With --methods only these, each with its options, explain: prints AOPC comprehensiveness and sufficiency, and the texts
in forward and backward passes for one explanation. Learned methods learn from the first `--train` training
texts, by a teacher of `--teacher-samples` samples.

With --function the classifier is a function of texts, scikit-learn's logistic regression of the task's words and pairs
of words; what looks inside a model is left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr, wilcoxon
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from explearn.core.attribution import Attribution
from explearn.core.attribution_fields import top_words
from explearn.core.examples import Example
from explearn.lens.hooks import count_passes
from explearn.methods.base.task import ListedTask
from explearn.methods.base.teachers import Lessons, lessons_of
from explearn.methods.perturbation.random_words import Answered, random_answers
from explearn.methods.reader.explainer import Reader
from explearn.methods.registry import get_explainer, get_info, known_infos
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams, SanityParams
from explearn.metrics.sanity import check_methods
from explearn.metrics.significance import holm
from explearn.predictors.encoding import Encoding
from explearn.predictors.function import FunctionPredictor
from explearn.predictors.predictor import Predictor, transformer_of
from explearn.predictors.pretrained import load_classifier
from explearn_study.example_files import read_examples

BUDGETS = (16, 32, 64)
BASELINES: dict[str, tuple[str, dict[str, Any]]] = {
    "random": ("random", {}),
    "attn_lrp": ("attn_lrp", {}),
    "lime 100": ("lime", {"samples": 100}),
    "lime 1000": ("lime", {"samples": 1000}),
    "kernel_shap 200": ("kernel_shap", {"samples": 200, "removal": "delete"}),
}

Explained = list[Attribution]
Values = NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--task", required=True)
    parser.add_argument("--texts", type=int, default=100, help="test texts")
    parser.add_argument("--exact", type=int, default=100, help="test texts with Shapley values")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--complete", action="store_true")
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--function", action="store_true")
    parser.add_argument("--methods", default="", help="NAME [OPTION=NUMBER ...], ...")
    parser.add_argument("--train", type=int, default=100, help="training texts, with --methods")
    parser.add_argument("--teacher-samples", type=int, default=64, help="samples of a teacher, with --methods")
    options = parser.parse_args()
    data = options.root / "data"
    train = read(data, options.task, "train")
    validation = read(data, options.task, "validation")
    test = read(data, options.task, "test")[: options.texts]
    if options.function:
        classifier = function_of_words(train)
    else:
        classifier = load_classifier(data / "classifiers" / options.task, device="cpu")
    if options.methods:
        taught = Taught(classifier, train[: options.train], name=options.task)
        taught.samples = options.teacher_samples
        print_methods(taught, test, options.methods.split(","))
        return
    task = ListedTask(classifier, train, validation, name=options.task)
    trained = [train_reader(task, seed) for seed in range(options.seeds)]
    seeds = [explain_by_budgets(explainer, classifier, test) for explainer in trained]
    baselines = explain_by_baselines(classifier, test, options.complete)
    encodings = classifier.read(test)
    asked = random_answers(classifier, encodings, [40] * len(test), seed=999)
    print(f"\n{options.task}, {len(test)} texts: compr. and p, suff. and p, error of predicted answers")
    print_faithfulness(classifier, encodings, seeds, baselines, asked)
    few = test[: options.exact]
    exact = list(get_explainer("kernel_shap", samples=5000, removal="delete").explain(classifier, few))
    for label, attributions in (("reader", seeds[0]["reader"]), ("kernel_shap 200", baselines["kernel_shap 200"])):
        print_likeness(label, attributions, exact)
    agreement(classifier, [results["reader"] for results in seeds], asked)
    for other in sorted(folder.name for folder in (data / "examples").iterdir() if folder.is_dir()):
        texts = read(data, other, "test")
        coverage(classifier, texts, [list(explainer.explain(classifier, texts)) for explainer in trained], other)
    if classifier.transformer is not None:
        checks = check_methods([trained[0]], classifier, test[:20], SanityParams(noise_samples=1), seed=0)["reader"]
        print(f"all weights drawn anew: {checks.random_model} {checks.skipped}")
    if options.curve:
        print_curve(task, encodings, test)


class Taught(ListedTask):
    """A task whose teacher takes few samples."""

    samples = 64

    def lessons(self, teacher: str) -> Lessons:
        methods = {teacher: get_explainer(teacher, samples=self.samples)}
        return lessons_of(methods, self.classifier, {"train": self.examples("train")})


def train_reader(task: ListedTask, seed: int) -> Reader:
    start = time.perf_counter()
    explainer = Reader(seed=seed).learn(task)
    print(f"seed {seed}: trained in {time.perf_counter() - start:.0f} s on {explainer.texts}", flush=True)
    return explainer


def explain_by_budgets(explainer: Reader, classifier: Predictor, texts: Sequence[Example]) -> dict[str, Explained]:
    """Explain by one pass and with each budget of calls."""
    results = {"reader": list(explainer.explain(classifier, texts))}
    for budget in BUDGETS:
        explainer.options = explainer.options.model_copy(update={"budget": budget})
        results[f"reader, budget {budget}"] = list(explainer.explain(classifier, texts))
    explainer.options = explainer.options.model_copy(update={"budget": 0})
    return results


def explain_by_baselines(classifier: Predictor, texts: Sequence[Example], complete: bool) -> dict[str, Explained]:
    asked_for = {**BASELINES, **others()} if complete else BASELINES
    results = {}
    for label, (name, more) in asked_for.items():
        method = get_explainer(name, **more)
        if classifier.transformer is not None or not method.needs_model:
            results[label] = list(method.explain(classifier, texts))
    return results


def measure(classifier: Predictor, encodings: Sequence[Encoding], results: dict[str, Explained]) -> dict[str, Values]:
    """Return AOPC comprehensiveness and sufficiency by text: method -> (2, texts)."""
    by_id = {str(encoding.example_id): encoding for encoding in encodings}
    measured = {}
    for name, found in faithfulness(classifier, by_id, results, EvaluateParams()).items():
        measured[name] = np.stack([found.values["aopc_comprehensiveness"], found.values["aopc_sufficiency"]])
    return measured


def print_methods(task: ListedTask, texts: Sequence[Example], labels: Sequence[str]) -> None:
    """Print a line for each method: AOPC comprehensiveness and sufficiency, and passes for one text."""
    classifier = transformer_of(task.classifier)
    encodings = classifier.read(texts)
    for label in labels:
        name, *more = label.split()
        numbers = {key: int(value) for key, value in (option.split("=") for option in more)}
        method: Any = get_explainer(name, **numbers)
        if get_info(name).untrained:
            method.learn(task)
        with count_passes(classifier.model) as passes:
            found = list(method.explain(classifier, texts))
        compr, suff = measure(classifier, encodings, {label: found})[label]
        counted = f"{passes.forward / len(texts):.0f} {passes.backward / len(texts):.0f}"
        print(f"{task.name:9} {label:22} {compr.mean():.3f} {suff.mean():+.3f} {counted}", flush=True)


def print_faithfulness(
    classifier: Predictor,
    encodings: Sequence[Encoding],
    seeds: Sequence[dict[str, Explained]],
    baselines: dict[str, Explained],
    asked: Sequence[Answered],
) -> None:
    """Print a line for each method, with p-values of its difference from one pass of Reader."""
    figures = measure(classifier, encodings, baselines)
    by_seed = [measure(classifier, encodings, results) for results in seeds]
    for name in seeds[0]:
        figures[name] = np.mean([measured[name] for measured in by_seed], axis=0)
    p_compr = holm([p_value(values[0], figures["reader"][0]) for values in figures.values()])
    p_suff = holm([p_value(values[1], figures["reader"][1]) for values in figures.values()])
    for number, (name, (compr, suff)) in enumerate(figures.items()):
        versions = [results[name] for results in seeds if name in results] or [baselines[name]]
        error = np.mean([answer_error(classifier, rows, asked) for rows in versions])
        means = f"{compr.mean():.3f} {p_compr[number]:.3f}  {suff.mean():+.3f} {p_suff[number]:.3f}"
        print(f"  {name:23} {means}  {error:.4f}", flush=True)


def print_likeness(label: str, attributions: Explained, exact: Explained) -> None:
    rhos = []
    shared = []
    for attribution, reference in zip(attributions, exact, strict=False):
        rhos.append(spearmanr(attribution.scores, reference.scores).statistic)
        shared.append(np.isin(top3(attribution), top3(reference)).mean())
    print(f"with Shapley values of 5,000 samples, {label}: rho {np.nanmean(rhos):.3f}, top 3 {np.mean(shared):.3f}")


def print_curve(task: ListedTask, encodings: Sequence[Encoding], texts: Sequence[Example]) -> None:
    """Print faithfulness after training on ever more texts."""
    for count in (50, 100, 200, 400):
        explained = list(Reader(max_texts=count).learn(task).explain(task.classifier, texts))
        compr, suff = measure(task.classifier, encodings, {"few": explained})["few"]
        print(f"trained on {count} texts: compr. {compr.mean():.3f}, suff. {suff.mean():+.3f}", flush=True)


def function_of_words(texts: Sequence[Example]) -> Predictor:
    """Fit a logistic regression of TF-IDF of words and pairs of words."""
    pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(C=30, max_iter=1000))
    pipeline.fit([" ".join(text.all_words) for text in texts], [text.label for text in texts])
    return FunctionPredictor(pipeline.predict_proba, pipeline.classes_)


def read(data: Path, task: str, split: str) -> list[Example]:
    return read_examples(data / "examples" / task / f"{split}.parquet")


def others() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the methods that need no training, but those of BASELINES and the slowest."""
    done = {"solvex", "sequential_ig", *(name for name, _ in BASELINES.values())}
    methods: dict[str, tuple[str, dict[str, Any]]] = {}
    for info in known_infos():
        learns = info.family in ("learned", "given") or info.needs & {"training_rationales", "other_tasks"}
        if not learns and info.name not in done:
            methods[info.name] = (info.name, {})
    return methods


def p_value(values: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    return float(wilcoxon(values, reference).pvalue) if (values != reference).any() else 1.0


def top3(attribution: Attribution) -> list[int]:
    return np.flatnonzero(top_words(attribution.filled().astype(np.float64))).tolist()


def answer_error(classifier: Predictor, rows: Explained, asked: Sequence[Answered]) -> float:
    """Return the mean absolute error of predicted answers, each text's sums scaled and shifted at best."""
    errors = []
    for row, one in zip(rows, asked, strict=True):
        sums = one.kept @ np.nan_to_num(row.scores[one.text.words]).astype(np.float64)
        answers = one.answers[:, classifier.label_index(row.target)]
        slope = 0.0
        offset = answers.mean()
        if np.ptp(sums) > 0:
            slope, offset = np.polyfit(sums, answers, 1)
        errors.append(np.abs(slope * sums + offset - answers).mean())
    return float(np.mean(errors))


def agreement(classifier: Predictor, seeds: Sequence[Explained], asked: Sequence[Answered]) -> None:
    """Print the mean agreement with the classifier's answers by verdict."""
    agreements: dict[str, list[float]] = {}
    for rows in seeds:
        for row, one in zip(rows, asked, strict=True):
            assert row.certificate is not None
            sums = one.kept @ row.scores[one.text.words]
            answers = one.answers[:, classifier.label_index(row.target)]
            agreements.setdefault(row.certificate.verdict, []).append(np.corrcoef(sums, answers)[0, 1])
    means = {verdict: f"{np.nanmean(values):.2f} ({len(values)} texts)" for verdict, values in agreements.items()}
    print("agreement by verdict:", means)


def coverage(classifier: Predictor, texts: Sequence[Example], seeds: Sequence[Explained], name: str) -> None:
    """Print how many texts keep within the bound, and how many are told apart."""
    encodings = classifier.read(texts)
    whole = classifier.predict_proba(encodings)
    within: list[bool] = []
    familiar: list[bool] = []
    for rows in seeds:
        tops = [top3(row) for row in rows]
        left = classifier.predict_proba([one.delete(top) for one, top in zip(encodings, tops, strict=True)])
        for i, (row, top) in enumerate(zip(rows, tops, strict=True)):
            target = classifier.label_index(row.target)
            assert row.certificate is not None
            error = abs(whole[i, target] - left[i, target] - float(row.scores[top].sum()))
            within.append(error <= row.certificate.bound)
            familiar.append(row.certificate.familiar)
    covered = np.array(within)
    known = np.array(familiar)
    print(
        f"bound on {name}, {len(texts)} texts: {covered.mean():.3f} within, {covered[known].mean():.3f} of the "
        f"familiar; {1 - known.mean():.3f} told apart; {(covered | ~known).mean():.3f} within or told apart",
        flush=True,
    )


if __name__ == "__main__":
    main()
