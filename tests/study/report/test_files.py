"""The files of the report: times and memory stand in some, and leave all others as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from task_reports import metrics, task

from explearn.show.machine_figures import MACHINE_FIGURES
from explearn.show.task_report import TaskReport
from explearn_study.params import Params
from explearn_study.report.files import write_metrics, write_report

OF_MACHINE = {"report.html", "costs.json", "machine/costs.md", "machine/glance.svg", "machine/pareto.svg"}


def params() -> Params:
    # The adapters of ExpNet's data sets: one of the paper's tables shows texts a second.
    names = ("films", "meals", "notes")
    adapters = ("sst2", "cola", "hatexplain")
    sources = {name: {"kind": "embedded", "adapter": adapter} for name, adapter in zip(names, adapters, strict=True)}
    return Params.of({"profile": "test", "tasks": list(names), "sources": sources})


def tasks(slower: float) -> list[TaskReport]:
    """Three tasks, on a machine that is so many times slower."""

    def figures(f1: float, speed: float) -> dict[str, float]:
        costs = {
            "throughput": 100 * speed / slower,
            "relative_throughput": speed / slower,
            "peak_memory_mb": 400 * slower,
        }
        return metrics(f1, **costs)

    methods = {"expnet": figures(0.5, 1.0), "rollout": figures(0.4, 0.9), "random": figures(0.2, 0.95)}
    return [task(name, methods) for name in ("films", "meals", "notes")]


def students(slower: float) -> list[dict[str, object]]:
    seconds = {name: 0.5 * slower for name in ("teacher", "classifier", "student_classified", "student")}
    costs = {"seconds": seconds, "training": [10 * slower]}
    return [{"task": "films", "teacher": "lime", "formulations": {}, "students": [], **costs}]


def written(folder: Path, slower: float) -> dict[str, bytes]:
    write_report(folder, params(), tasks(slower), students(slower))
    write_metrics(folder, params(), tasks(slower))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def keys(document: object) -> Iterator[str]:
    if isinstance(document, dict):
        for key, value in document.items():
            yield key
            yield from keys(value)


def test_another_machine_changes_only_the_files_with_times(tmp_path: Path) -> None:
    here, there = written(tmp_path / "here", 1.0), written(tmp_path / "there", 2.5)
    assert here.keys() == there.keys()
    assert {name for name in here if here[name] != there[name]} == OF_MACHINE


def test_the_page_of_costs_has_all_that_the_report_leaves_out(tmp_path: Path) -> None:
    pages = {name: text.decode() for name, text in written(tmp_path, 2.5).items() if name.endswith(".md")}
    shown = ("Texts a second ↑", "Memory, MiB ↓", "ExpNet, Table 8", "2.5× as long as classifying alone", "ms per text")
    for words in shown:
        assert words in pages["machine/costs.md"] and words not in pages["report.md"]
    assert "](machine/costs.md)" in pages["report.md"] and "Forward passes" in pages["report.md"]


def test_metrics_and_costs_are_two_files(tmp_path: Path) -> None:
    write_metrics(tmp_path, params(), tasks(2.0))
    found = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("metrics", "headline", "costs")}
    assert not MACHINE_FIGURES & {*keys(found["metrics"]), *keys(found["headline"])}
    assert set(found["metrics"]) == set(found["costs"]) == {"headline", "tasks"}
    assert found["costs"]["headline"] == {"explainer": "expnet", "relative_throughput": 0.5}
    assert found["costs"]["tasks"]["films"]["rollout"] == {
        "throughput": 45.0,
        "relative_throughput": 0.45,
        "peak_memory_mb": 800.0,
    }
    assert found["metrics"]["tasks"]["films"]["rollout"]["f1"] == 0.4
    assert found["headline"]["f1_by_task"] == {"films": 0.5, "meals": 0.5, "notes": 0.5}


def test_help_of_the_report_waits_for_no_heavy_package() -> None:
    heavy = ("torch", "sklearn", "transformers", "datasets", "captum", "scipy.stats", "matplotlib")
    code = f"import sys, explearn_study.report.project; sys.exit(' '.join(set({heavy}) & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_writing_the_report_needs_neither_torch_nor_transformers() -> None:
    code = "import sys, explearn_study.report.files, explearn_study.report.collect as _; "
    code += "sys.exit(' '.join({'torch', 'transformers'} & set(sys.modules)) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
