"""A task's results as the report gets them, written by hand."""

from __future__ import annotations

from explearn.reporting.tables import COST_COLUMNS, FAITHFULNESS_COLUMNS, PLAUSIBILITY_COLUMNS, TaskReport


def metrics(f1=0.5, low=None, high=None, **others):
    row = {column.metric: 0.25 for column in (*PLAUSIBILITY_COLUMNS, *FAITHFULNESS_COLUMNS, *COST_COLUMNS)}
    return {**row, "f1": f1, "f1_low": low, "f1_high": high, "texts": 4, "plausibility_texts": 3, **others}


def task(name="films", methods=None, examples=(), **changes) -> TaskReport:
    fields = {
        "task": name,
        "labels": ["bad", "good"],
        "split_counts": {"train": 1200, "validation": 90, "test": 4},
        "agreement": {
            "alpha": 0.75,
            "alpha_texts": 4,
            "mean_length": 2.5,
            "pairwise_f1": None,
            "kinds": {"author": 1234},
        },
        "classifier": {"test": {"accuracy": 0.9, "macro_f1": 0.8, "mcc": 0.7, "majority_rate": 0.5, "texts": 4}},
        "methods": methods if methods is not None else {"expnet": metrics(), "rollout": metrics(0.25)},
        "examples": list(examples),
        "k": 2,
        "positive_rate": 0.2,
    }
    return TaskReport(**{**fields, **changes})
