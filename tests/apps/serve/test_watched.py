"""What a watch found, as Prometheus reads it."""

import json

import pytest
from prometheus_client import CollectorRegistry

from explearn.core.errors import DataError
from explearn_apps.serve.watched import WatchCollector

CHANGE = {"about": "reasons", "element": "‘beta’", "target": "yes", "group": "", "reference": 0.0, "now": 0.2}


def write(path, **fields):
    path.write_text(json.dumps({"changes": [{**CHANGE, "changed": True, "kind": "word", **fields}], "texts": 3}))


def test_figures_are_read_anew_at_each_scrape(tmp_path):
    registry = CollectorRegistry()
    write(tmp_path / "watch.changes.json")
    registry.register(WatchCollector(tmp_path / "watch.html"))
    labels = {name: CHANGE[name] for name in ("about", "element", "target", "group")}
    assert registry.get_sample_value("explearn_watch_now", labels) == 0.2
    assert registry.get_sample_value("explearn_watch_changed", labels) == 1
    write(tmp_path / "watch.changes.json", now=0.05, changed=False)
    assert registry.get_sample_value("explearn_watch_now", labels) == 0.05
    assert registry.get_sample_value("explearn_watch_changed", labels) == 0


def test_figures_that_are_none_are_a_sentence(tmp_path):
    with pytest.raises(DataError, match=r"watch\.changes\.json"):
        WatchCollector(tmp_path / "watch.html")
    write(tmp_path / "watch.changes.json", now="much")
    with pytest.raises(DataError, match="now"):
        WatchCollector(tmp_path / "watch.html")
