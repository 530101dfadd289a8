"""All metrics of a task together, and the headline over tasks."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from fakes import FakeClassifier, attribution, random_probability

from explearn.core.errors import DataError
from explearn.core.records import Example
from explearn.judge.catalogue import METRICS
from explearn.judge.evaluate import OwnModel, evaluate_task
from explearn.judge.params import EvaluateParams, SimulatabilityParams
from explearn.methods.names import get_info
from explearn_study.report.headline import Rival, best_rival, headline

PARAMS = EvaluateParams(bootstrap_samples=100)
COST = {"forward_passes": 1.0, "backward_passes": 0.0}


def example(i: str, text: str, label: str = "yes") -> Example:
    return Example(id=i, words=tuple(text.split()), label=label, split="test", task="t")


EXAMPLES = {
    e.id: e
    for e in (
        example("a", "a fine film"),
        example("b", "rather dull and long"),
        example("c", "wrongly classified text"),
        example("d", "nobody marked this", "no"),
    )
}
GOLD = {"a": [0, 1, 0], "b": [0, 1, 0, 1], "c": [1, 0, 0], "d": [0, 0, 0]}
PREDICTED = {"a": "yes", "b": "yes", "c": "no", "d": "no"}
SCORES = {"a": [0.1, 0.9, 0.2], "b": [0.6, 0.7, 0.3, 0.4], "c": [0.2, 0.8, 0.4], "d": [0.5, 0.1, 0.0]}


def attributions(scores=SCORES, unaligned=0):
    return [
        attribution(
            EXAMPLES[i].all_words, s, example_id=i, target=PREDICTED[i], predicted=PREDICTED[i], unaligned=unaligned
        )
        for i, s in scores.items()
    ]


def evaluate(methods, costs=None, **arguments):
    return evaluation(methods, costs, **arguments).metrics


def evaluation(
    methods, costs=None, gold=GOLD, k=2, positive_rate=0.25, threshold=0.5, seed=13, params=PARAMS, **vectors
):
    classifier = FakeClassifier(random_probability)
    costs = costs or dict.fromkeys(methods, COST)
    return evaluate_task(
        "t",
        methods,
        costs,
        EXAMPLES,
        gold,
        k,
        positive_rate,
        classifier,
        params,
        seed=seed,
        binarisation={method: get_info(method).binarisation for method in methods},
        thresholds=dict.fromkeys(methods, threshold),
        **vectors,
    )


def test_each_method_chooses_by_its_own_rule_and_all_by_top_k():
    found = evaluate({"expnet_paper": attributions(), "rollout": attributions(), "random": attributions()})
    # Judged are a and b. Score >= 0.5: fine | rather, dull. TP 2, FP 1, FN 1.
    assert found["expnet_paper"]["f1"] == pytest.approx(4 / 6)
    assert (found["expnet_paper"]["precision"], found["expnet_paper"]["recall"]) == pytest.approx((2 / 3, 2 / 3))
    # Top 2: fine, film | rather, dull. TP 2, FP 2, FN 1.
    assert found["rollout"]["f1"] == pytest.approx(4 / 7)
    assert {m["f1_topk"] for m in found.values()} == {found["rollout"]["f1"]}
    # Score >= 1 - 0.25: fine alone. TP 1, FP 0, FN 2.
    assert found["random"]["f1"] == pytest.approx(2 / 4)
    assert (found["random"]["precision"], found["random"]["recall"]) == pytest.approx((1.0, 1 / 3))
    # Macro: fine 1, nothing 0.
    assert found["random"]["macro_f1"] == pytest.approx(0.5)


def test_areas_pool_the_words_of_the_judged_texts():
    # Marked 0.9, 0.7, 0.4 against 0.1, 0.2, 0.6, 0.3: 4 + 4 + 3 pairs in order, of 12.
    assert evaluate({"rollout": attributions()})["rollout"]["auroc"] == pytest.approx(11 / 12)


def test_plausibility_wants_marks_and_a_right_answer_and_faithfulness_takes_every_text():
    found = evaluate({"rollout": attributions(unaligned=2)})["rollout"]
    assert (found["texts"], found["plausibility_texts"], found["unaligned_words"]) == (4, 2, 8)


def test_what_is_undefined_is_null_in_strict_json():
    found = evaluate({"rollout": attributions(), "random": attributions()}, gold={})
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    for name in ("f1", "f1_low", "f1_high", "precision", "recall", "f1_topk", "macro_f1", "auroc", "auprc"):
        assert found["rollout"][name] is None
    assert math.isfinite(found["rollout"]["aopc_comprehensiveness"])


def test_the_interval_holds_the_point_and_follows_the_seed():
    first, again = (evaluate({"rollout": attributions()}, seed=5)["rollout"] for _ in range(2))
    assert first == again
    # Two texts: 2/3 or 1/2 alone, 4/7 together.
    assert first["f1_low"] == pytest.approx(1 / 2) and first["f1_high"] == pytest.approx(2 / 3)


def test_order_of_the_attributions_does_not_matter():
    methods = {"expnet_paper": attributions(), "rollout": attributions()}
    turned = {"expnet_paper": attributions(), "rollout": attributions()[::-1]}
    assert evaluate(methods) == evaluate(turned)


def test_methods_must_cover_the_same_texts():
    with pytest.raises(DataError, match="method 'rollout': example 'b' is not explained"):
        some = {i: s for i, s in SCORES.items() if i != "b"}
        evaluate({"expnet_paper": attributions(), "rollout": attributions(some)})
    with pytest.raises(DataError, match="'expnet_paper': example 'b' is not explained"):
        evaluate({"expnet_paper": attributions({"a": SCORES["a"]}), "rollout": attributions()})


def test_bad_input_is_named():
    good = attributions()
    for methods, message in (
        ([*good, good[0]], "example 'a' comes twice"),
        ([replace(good[0], example_id="z")], "example 'z': no such example"),
        ([replace(good[0], words=("a", "bad", "film"))], "example 'a': 3 scores over 3 words"),
        ([replace(good[0], scores=np.array([0.1, np.inf, 0.2]))], "example 'a': word 1 has score inf"),
    ):
        with pytest.raises(DataError, match=message):
            evaluate({"rollout": methods})
    with pytest.raises(DataError, match="example 'a': 2 marks"):
        evaluate({"rollout": good}, gold=GOLD | {"a": [0, 1]})
    with pytest.raises(DataError, match="costs are missing"):
        evaluate({"rollout": good}, costs={"expnet_paper": COST})
    with pytest.raises(DataError, match="'forward_passes' is missing"):
        evaluate({"rollout": good}, costs={"rollout": {"texts": 4}})
    with pytest.raises(DataError, match="K = 0"):
        evaluate({"rollout": good}, k=0)
    assert evaluate({}) == {}


STATES = {i: [float(n), n * n, 1.0] for n, i in enumerate(EXAMPLES)}
EMBEDDINGS = {i: np.random.default_rng(n).normal(size=(len(e.words), 3)) for n, (i, e) in enumerate(EXAMPLES.items())}
METHODS = {
    "rollout": attributions(),
    "raw_attention": attributions({i: s[::-1] for i, s in SCORES.items()}),
    "expnet_paper": attributions({i: [-x for x in s] for i, s in SCORES.items()}),
}


def test_every_metric_of_the_catalogue_has_a_figure_an_interval_and_values_by_text():
    found = evaluation(METHODS, states=STATES, embeddings=EMBEDDINGS)
    for method in METHODS:
        figures = found.metrics[method]
        for name, metric in METRICS.items():
            value, low, high = (figures[name + end] for end in ("", "_low", "_high"))
            assert low <= value + 1e-12 and value <= high + 1e-12, name
            assert found.by_text[metric.by_text][method].shape == (4,)
    assert json.loads(json.dumps(found.metrics, allow_nan=False)) == found.metrics
    assert set(found.comparisons) == set(METRICS)
    assert {matrix.shape for matrix in found.agreement.values()} == {(3, 3)}


def test_means_by_text_are_the_figures():
    found = evaluation(METHODS, states=STATES, embeddings=EMBEDDINGS)
    pooled = {"f1", "f1_topk", "iou_f1", "auroc", "auprc", "consistency"}
    for name in set(METRICS) - pooled:
        values = found.by_text[METRICS[name].by_text]["rollout"]
        if found.metrics["rollout"][name] is not None:
            assert np.nanmean(values) == pytest.approx(found.metrics["rollout"][name]), name
    judged = np.array([True, True, False, False])
    assert (np.isnan(found.by_text["text_f1"]["rollout"]) == ~judged).all()
    # Marked in a: fine, chosen fine and film; in b: dull and long, chosen rather and dull.
    assert found.by_text["text_f1_topk"]["rollout"][judged] == pytest.approx([2 / 3, 1 / 2])
    # Marked words against others: 1 of 1 ranked above both; 0.7 above 0.6 and 0.3, 0.4 above 0.3.
    assert found.by_text["text_auroc"]["rollout"][judged] == pytest.approx([1, 3 / 4])
    # Spans: film and fine are one, which overlaps fine by half; rather and dull overlap dull by half, long is missed.
    assert found.metrics["rollout"]["iou_f1"] == pytest.approx(2 * 1 * 0.75 / 1.75)


def test_where_all_texts_are_of_one_class_there_is_nothing_to_predict():
    found = evaluation({"rollout": [replace(a, predicted="yes") for a in attributions()]}, embeddings=EMBEDDINGS)
    assert found.metrics["rollout"]["simulatability"] is None and "simulatability" not in found.by_text
    assert (
        evaluation({"rollout": attributions()}, embeddings=EMBEDDINGS).metrics["rollout"]["simulatability"] is not None
    )


def test_what_needs_the_model_is_left_out_without_it():
    found = evaluation({"rollout": attributions()})
    for name in ("consistency", "stability_semantic", "simulatability"):
        assert found.metrics["rollout"][name] is None and found.comparisons[name].best == ()
    assert found.metrics["rollout"]["stability_lexical"] is not None
    less = PARAMS.model_copy(
        update={"infidelity_samples": 0, "simulatability": SimulatabilityParams(enabled=False), "neighbours": 1}
    )
    found = evaluation({"rollout": attributions()}, params=less, states=STATES, embeddings=EMBEDDINGS)
    assert found.metrics["rollout"]["infidelity"] is None and found.metrics["rollout"]["simulatability"] is None
    # What nobody has is no column of values either, which could not be written.
    assert not {"infidelity", "simulatability"} & set(found.by_text)
    assert found.metrics["rollout"]["stability_semantic"] is not None


def test_protocol_eraser_takes_the_words_that_a_method_chose():
    found = {
        protocol: evaluate({"expnet_paper": attributions()}, params=PARAMS.model_copy(update={"protocol": protocol}))[
            "expnet_paper"
        ]
        for protocol in ("default", "eraser")
    }
    # At 0.5: fine | rather, dull | bad | nobody; by default one word of each text.
    assert found["eraser"]["comprehensiveness"] != found["default"]["comprehensiveness"]
    assert found["eraser"]["aopc_comprehensiveness"] == pytest.approx(found["default"]["aopc_comprehensiveness"])


def test_inputs_are_evaluated_once_for_all_methods_and_metrics():
    classifier = FakeClassifier(random_probability)
    evaluate_task(
        "t",
        METHODS,
        dict.fromkeys(METHODS, COST),
        EXAMPLES,
        GOLD,
        2,
        0.25,
        classifier,
        PARAMS,
        13,
        {method: get_info(method).binarisation for method in METHODS},
        {"expnet_paper": 0.5},
    )
    asked = [encoding.key for call in classifier.calls for encoding in call]
    assert len(asked) == len(set(asked))


def test_students_predict_the_classes_of_the_model_that_a_method_explains():
    other = [replace(a, predicted={"yes": "no", "no": "yes"}[a.predicted]) for a in attributions()]
    found = evaluation({"rollout": attributions(), "raw_attention": other}, embeddings=EMBEDDINGS)
    assert all(found.metrics[m]["student_accuracy"] is not None for m in found.metrics)


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
    found = headline("expnet_paper", BASELINES, tasks)
    assert found["f1"] == 0.375 and found["auroc"] == 0.5 and found["aopc_sufficiency"] is None
    assert (found["best_other"], found["best_other_f1"]) == ("expnet_in_domain", 0.5)
    assert (found["best_baseline"], found["best_baseline_f1"]) == ("rollout", 0.375)
    assert (found["tasks_won_f1"], found["tasks_won_f1_baselines"]) == (0, 1)
    assert found["tasks"] == 2 and found["tasks_with_f1"] == 2


def test_headline_skips_tasks_without_marks_and_rivals_that_miss_one():
    tasks = {
        "one": {"expnet_paper": row(0.5), "rollout": row(0.25)},
        "two": {"expnet_paper": row(None), "rollout": row(None)},
        "three": {"expnet_paper": row(0.25), "rollout": row(0.25), "raw_attention": row(0.9)},
    }
    found = headline("expnet_paper", BASELINES, tasks)
    assert found["f1"] == 0.375 and found["tasks"] == 3 and found["tasks_with_f1"] == 2
    assert (found["best_other"], found["best_other_f1"]) == ("rollout", 0.25)
    assert found["tasks_won_f1"] == 2


def test_who_explains_another_classifier_is_compared_in_agreement_with_people_alone():
    own = {"ivra": OwnModel(FakeClassifier(random_probability))}
    found = evaluation({"rollout": attributions(), "ivra": attributions()}, own=own).comparisons
    assert found["f1_topk"].methods == ("rollout", "ivra")
    assert found["aopc_comprehensiveness"].methods == found["infidelity"].methods == ("rollout",)
    both = evaluation({"rollout": attributions(), "ivra": attributions()}).comparisons
    assert both["aopc_comprehensiveness"].methods == ("rollout", "ivra")


def test_the_best_rival_is_one_that_has_the_metric_wherever_the_method_has_it():
    tasks = {
        "one": {"expnet_paper": row(0.5), "rollout": row(0.4), "cam": row(0.9)},
        "two": {"expnet_paper": row(0.3), "rollout": row(0.5), "cam": row(None)},
    }
    assert best_rival(tasks, "expnet_paper", ["rollout", "cam"], "f1") == Rival("rollout", 0.45, 1)
    assert best_rival(tasks, "expnet_paper", ["cam"], "f1") is None


def test_headline_of_nothing_is_null():
    found = headline("expnet_paper", BASELINES, {})
    assert found["f1"] is None and found["best_other"] is None and found["tasks_won_f1"] is None


def test_importing_metrics_and_reporting_needs_no_torch():
    code = (
        "import sys, explearn.judge.evaluate, explearn.judge.faithfulness; "
        "import explearn.show.report_markdown; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0


@pytest.mark.parametrize("module", ["catalogue", "costs", "evaluate", "files", "headline", "judge", "stability"])
def test_importing_metrics_loads_nothing_heavy(module):
    code = (
        f"import sys, explearn.judge.{module}; "
        "sys.exit(' '.join({'torch', 'sklearn', 'scipy.stats'} & set(sys.modules)) or 0)"
    )
    found = subprocess.run([sys.executable, "-c", code], timeout=120, capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")
