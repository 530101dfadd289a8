"""The headline over tasks: the method under study against the others."""

from __future__ import annotations

from explearn_study.report.headline import headline

BASELINES = {"random", "rollout", "raw_attention"}


def row(f1, **others):
    return {"f1": f1, "auroc": 0.5, "aopc_comprehensiveness": 0.1, "relative_throughput": 1.0, **others}


def test_headline_compares_means_over_the_tasks():
    tasks = {
        "one": {
            "expnet_paper": row(0.5, auroc=0.75),
            "expnet_in_domain": row(0.75),
            "rollout": row(0.25),
            "random": row(0.125),
        },
        "two": {
            "expnet_paper": row(0.25, auroc=0.25),
            "expnet_in_domain": row(0.25),
            "rollout": row(0.5),
            "random": row(0.125),
        },
    }
    figures = headline("expnet_paper", BASELINES, tasks)
    assert figures["f1"] == 0.375 and figures["auroc"] == 0.5 and figures["aopc_sufficiency"] is None
    assert (figures["best_other"], figures["best_other_f1"]) == ("expnet_in_domain", 0.5)
    assert (figures["best_baseline"], figures["best_baseline_f1"]) == ("rollout", 0.375)
    assert (figures["tasks_won_f1"], figures["tasks_won_f1_baselines"]) == (0, 1)
    assert figures["tasks"] == 2 and figures["tasks_with_f1"] == 2


def test_headline_skips_tasks_without_marks_and_rivals_that_miss_one():
    tasks = {
        "one": {"expnet_paper": row(0.5), "rollout": row(0.25)},
        "two": {"expnet_paper": row(None), "rollout": row(None)},
        "three": {"expnet_paper": row(0.25), "rollout": row(0.25), "raw_attention": row(0.9)},
    }
    figures = headline("expnet_paper", BASELINES, tasks)
    assert figures["f1"] == 0.375 and figures["tasks"] == 3 and figures["tasks_with_f1"] == 2
    assert (figures["best_other"], figures["best_other_f1"]) == ("rollout", 0.25)
    assert figures["tasks_won_f1"] == 2


def test_headline_of_nothing_is_null():
    figures = headline("expnet_paper", BASELINES, {})
    assert figures["f1"] is None and figures["best_other"] is None and figures["tasks_won_f1"] is None
