"""A run's results as the report gets them, written by hand."""

import numpy as np

from explearn import Attribution, Example, get_info
from explearn.methods.results import ExampleReport, RunFacts, TaskReport, in_table_order
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import PairedTests

HOSTILE = "<script>alert(1)</script>"


def run(*methods, **changes):
    """The facts of a run of these methods; by default the one under study is marker, which the run trained."""
    fields = {
        "title": "Which explanations to use",
        "subtitle": "Profile test.",
        "methods": in_table_order(map(get_info, methods or ("marker", "rollout", "random", "cam", "lime", "ivra"))),
        "study": "marker",
        "trained": ["marker"],
    }
    return RunFacts(**{**fields, **changes})


def metrics(f1=0.5, low=None, high=None, **others):
    """A method's figures; `f1`, `low` and `high` are those of both rules of choosing words."""
    row = {metric.name: 0.25 for metric in CATALOGUE.values() if metric.group != "other" and not metric.derived}
    row |= {"f1_topk": f1, "f1_topk_low": low, "f1_topk_high": high}
    return {**row, "f1": f1, "f1_low": low, "f1_high": high, "texts": 4, "plausibility_texts": 3, **others}


def task(name="films", methods=None, **changes):
    fields = {
        "task": name,
        "labels": ["bad", "good"],
        "split_counts": {"train": 1200, "validation": 90, "test": 4},
        "agreement": {"alpha": 0.75, "alpha_texts": 4, "mean_length": 2.5, "kinds": {"unknown": 1234}},
        "classifier": {"test": {"accuracy": 0.9, "macro_f1": 0.8, "mcc": 0.7, "majority_rate": 0.5, "texts": 4}},
        "methods": methods if methods is not None else {"marker": metrics(), "rollout": metrics(0.25)},
        "k": 2,
        "positive_rate": 0.2,
    }
    return TaskReport(**{**fields, **changes})


def comparison(metric, values, p_values=(), larger_is_better=True, level=0.05, direction=None):
    """`p_values`: (method, method) -> corrected p-value; 1 where none is given. The test's direction is by default that
    of the values."""
    methods = tuple(values)
    adjusted = np.ones((len(methods), len(methods)))
    for (a, b), p in dict(p_values).items():
        i = methods.index(a)
        j = methods.index(b)
        adjusted[i, j] = adjusted[j, i] = p
    figures = np.array(list(values.values()), dtype=np.float64)
    return PairedTests(
        metric=metric,
        larger_is_better=larger_is_better,
        methods=methods,
        values=figures,
        texts=np.full(adjusted.shape, 4),
        p_values=adjusted,
        adjusted=adjusted,
        direction=np.sign(figures[:, None] - figures).astype(np.int8) if direction is None else direction,
        significance=level,
    )


def similarity(rho):
    return {"spearman": rho, "overlap": 0.5}


def check(rho=0.1, **changes):
    """One method's sanity checks, as the stage judge writes them."""
    result = {
        "random_model": {"embeddings": similarity(rho)},
        "random_labels": None,
        "max_sensitivity": 0.25,
        "skipped": "",
    }
    return {**result, **changes}


def attributed(example, scores, method, predicted="good"):
    array = np.asarray(scores, dtype=np.float32)
    return Attribution(
        words=example.all_words, scores=array, tokens=example.all_words, token_scores=array, target=predicted,
        method=method, probability=0.875, predicted=predicted, aggregation="max", signed=True, example_id=example.id,
    )  # fmt: skip


def shown(
    words="not a good film", gold=(0, 0, 1, 0), methods=("marker", "rollout"), predicted="good", number=0, label="good"
):
    """A text that every method chooses the second half of."""
    example = Example(f"films-{number}", tuple(words.split()), label, "test", "films")
    scores = np.linspace(-1, 1, len(example.words))
    attributions = {method: attributed(example, scores, method, predicted) for method in methods}
    return ExampleReport(
        example,
        np.array(gold, dtype=bool),
        ("human",),
        attributions,
        {method: scores > 0 for method in methods},
        next(iter(attributions.values())),
    )
