"""The JSON files of a project's report, and the parameters that it shows."""

import yaml
from evaluations import metrics, run, task
from parameter_cases import MARKERS, params_of

from explearn.core.documents import read_json
from explearn.metrics.registry import CATALOGUE
from explearn.report.run import MARKS, MODEL
from explearn_study.report.project import parameters_text, write_metrics


def keys(document):
    if isinstance(document, dict):
        for key, value in document.items():
            yield key
            yield from keys(value)


def test_parameters_list_only_what_is_set():
    methods = {**MARKERS["methods"], "random": {}, "lime": {"options": {"samples": 12}}}
    shown = yaml.safe_load(parameters_text(params_of(methods=methods)))
    assert shown["methods"]["lime"] == {"of": "lime", "options": {"samples": 12}}
    assert not {"encoder_revision", "report"} & set(shown)
    assert shown["sources"]["films"] == {"kind": "embedded", "adapter": "corpus"}


def test_metrics_and_costs_are_two_files(tmp_path):
    methods = {name: metrics(0.4, throughput=45.0, relative_throughput=0.5) for name in ("marker", "rollout")}
    meals = {"marker": metrics(0.2, relative_throughput=0.5), "rollout": metrics(0.9)}
    write_metrics(tmp_path, run(task("films", methods), task("meals", meals)))
    figures, headline, costs = (read_json(tmp_path / f"{name}.json") for name in ("metrics", "headline", "costs"))
    of_machine = {name for name, metric in CATALOGUE.items() if metric.of_machine}
    assert not of_machine & {*keys(figures), *keys(headline)}
    assert set(costs["tasks"]["films"]["rollout"]) == of_machine
    # Without values by text the two cannot be told apart.
    assert figures["verdict"] == {MARKS: ["rollout", "marker"], MODEL: ["marker", "rollout"]}
    assert figures["tasks"]["films"]["rollout"]["f1"] == 0.4
    assert set(figures["classifiers"]) == {"films", "meals"}
    # The means over the tasks, of each method that was trained.
    assert set(headline) == {"marker"} and headline["marker"]["f1"] == figures["headline"]["f1"] == 0.3
