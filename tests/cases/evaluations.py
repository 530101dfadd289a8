"""Evaluations as the report gets them, written by hand."""

from dataclasses import replace

import numpy as np
from fakes import attribution

from explearn import Evaluation, Example, UnknownNameError, get_info
from explearn.evaluation.result import in_table_order
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.sanity import SanityResult, ScoreSimilarity
from explearn.metrics.significance import PairedTests
from explearn.report.run import RunFacts

HOSTILE = "<script>alert(1)</script>"


def run(*tasks, **changes):
    """The facts of a run with these tasks; by default the one under study is marker, which the run trained."""
    fields = {"title": "Which explanations to use", "subtitle": "Profile test.", "study": "marker"}
    return RunFacts(**{**fields, "tasks": tasks or [task()], "trained": ["marker"], **changes})


def metrics(f1=0.5, low=None, high=None, **others):
    """A method's figures; `f1`, `low` and `high` are those of both rules of choosing words."""
    row = {metric.name: 0.25 for metric in CATALOGUE.values() if metric.group not in ("none", "other", "reasons")}
    row |= {"f1_topk": f1, "f1_topk_low": low, "f1_topk_high": high}
    return {**row, "f1": f1, "f1_low": low, "f1_high": high, "texts": 4, "plausibility_texts": 3, **others}


def infos(names):
    known = {}
    for name in names:
        try:
            known[name] = get_info(name)
        except UnknownNameError:
            continue
    return in_table_order(known)


def task(name="films", figures=None, **changes):
    figures = {"marker": metrics(), "rollout": metrics(0.25)} if figures is None else figures
    fields = {
        "task": name,
        "figures": figures,
        "example_ids": ("a", "b", "c", "d"),
        "infos": infos(figures),
        "labels": ["bad", "good"],
        "splits": {"train": 1200, "validation": 90, "test": 4},
        "marks": {"alpha": 0.75, "alpha_texts": 4, "mean_length": 2.5, "kinds": {"unknown": 1234}},
        "performance": {"test": {"accuracy": 0.9, "macro_f1": 0.8, "mcc": 0.7, "majority_rate": 0.5, "texts": 4}},
        "k": 2,
        "positive_rate": 0.2,
    }
    return Evaluation(**{**fields, **changes})


def paired(metric, values, p_values=(), larger_is_better=True, level=0.05, direction=None):
    """Paired tests. `p_values`: (method, method) -> corrected p-value; 1 where none is given. The test's direction is
    by default that of the values."""
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


def check(rho=0.1, **changes):
    """One method's sanity checks."""
    fields = {"random_model": {"embeddings": ScoreSimilarity(rho, 0.5)}, "max_sensitivity": 0.25}
    return SanityResult(**{**fields, **changes})


def attributed(example, scores, method, predicted="good"):
    made = attribution(
        example.all_words, scores, example_id=example.id, target=predicted, predicted=predicted, method=method
    )
    return replace(made, probability=0.875)


def shown(*texts):
    """Fields of an evaluation with some texts to show; see `text`."""
    fields = {"examples": [], "gold": {}, "attributions": []}
    for example, gold, attributions in texts:
        fields["examples"].append(example)
        if any(gold):
            fields["gold"][example.id] = [bool(mark) for mark in gold]
        fields["attributions"] += attributions
    return fields


def text(
    words="not a good film", gold=(0, 0, 1, 0), methods=("marker", "rollout"), predicted="good", number=0, label="good"
):
    """A text, its marks, and explanations in which every word scores more than the one before it."""
    example = Example(f"films-{number}", tuple(words.split()), label, "test", "films")
    scores = np.linspace(0, 1, len(example.words))
    return example, gold, [attributed(example, scores, method, predicted) for method in methods]
