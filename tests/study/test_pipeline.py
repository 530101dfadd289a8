"""The pipeline itself, run by DVC in a copy of the repository, with the smoke profile and a tiny encoder."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import tiny
import yaml
from warm_python import warm_python

from explearn.lens.features import read_feature_metadata

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

METRICS = (
    "f1",
    "f1_low",
    "f1_high",
    "precision",
    "recall",
    "f1_topk",
    "auroc",
    "auprc",
    "comprehensiveness",
    "sufficiency",
    "log_odds",
    "aopc_comprehensiveness",
    "aopc_sufficiency",
)


@dataclass
class Checkout:
    root: Path
    encoder: Path
    environment: dict[str, str]
    """In which `python` is the usual one."""
    warm: dict[str, str]
    """In which it has torch loaded already."""

    def run(self, *command: str, check: bool = True, **environment: str) -> str:
        """Run a command; standard output and error together."""
        done = subprocess.run(
            command,
            cwd=self.root,
            env={**self.warm, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1000,
            check=False,
        )
        assert (done.returncode == 0) is check, done.stdout
        return done.stdout

    def overrides(self, *more: str) -> list[str]:
        """Of the smoke profile, one task, a few of its explainers: fewer processes that each load torch.

        test_stages.py runs several of each in one process.
        """
        fewer = [
            "tasks=[reviews]",
            "explainer=expnet_in_domain",
            "explainers={expnet:[expnet_in_domain],l2e:[],ivra:[ivra],aml:[paml],other:[]}",
            "refiners=[faml]",
        ]
        costly = ["+baselines.costly.occlusion={}"]
        return ["profile=smoke", "roster=quick", f"encoder={self.encoder}", *fewer, *costly, *more]

    def compose(self, *more: str) -> None:
        self.run("python", "scripts/compose_params.py", *self.overrides(*more))

    def params(self) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((self.root / "params.yaml").read_text(encoding="utf-8"))
        return found


def stages(output: str) -> set[str]:
    """Names of the stages that DVC ran, as in dvc.yaml."""
    return {name.partition("@")[0] for name in re.findall(r"Running stage '([^']+)'", output)}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Checkout]:
    """What a clone of the repository holds, files not yet committed included."""
    if not (repository / ".git").exists():
        pytest.skip("not a git checkout")
    root = tmp_path_factory.mktemp("pipeline") / "copy"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        # dvc.lock is of another run, and DVC writes it anew after each stage: of many stages that takes a second.
        if (repository / name).is_file() and not name.startswith("tests/") and name != "dvc.lock":
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repository / name, root / name)
    encoder = root.parent / "encoder"
    tiny.model("bert", max_position_embeddings=130).bert.save_pretrained(encoder)
    tiny.tokenizer("bert", 128).save_pretrained(encoder)
    apart = ("EXPLEARN_", "GIT_", "DVC_", "PYTHONDONTWRITEBYTECODE")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(apart)}
    environment = {
        **clean,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(root / "src"),
        "EXPLEARN_DEVICE": "cpu",
        "OMP_NUM_THREADS": "1",
        "GIT_AUTHOR_NAME": "test",
        "GIT_AUTHOR_EMAIL": "test@example.org",
        "GIT_COMMITTER_NAME": "test",
        "GIT_COMMITTER_EMAIL": "test@example.org",
    }
    with warm_python(environment) as warm:
        found = Checkout(root, encoder, environment, warm)
        found.run("git", "init", "--quiet")
        found.run("git", "add", "--all")
        found.run("git", "commit", "--quiet", "--message", "copy")
        yield found


@dataclass
class Runs:
    checkout: Checkout
    first: str
    second: str


@pytest.fixture(scope="module")
def runs(checkout: Checkout) -> Runs:
    """`dvc repro`, twice."""
    checkout.compose()
    return Runs(checkout, checkout.run("dvc", "repro"), checkout.run("dvc", "repro"))


def test_leaving_a_task_out_waits_for_all_the_others(checkout: Checkout, tmp_path: Path) -> None:
    """DVC's graph of what one task's ExpNet needs, with two tasks in the profile."""
    copy = Path(shutil.copytree(checkout.root, tmp_path / "copy", ignore=shutil.ignore_patterns("cache", "tmp")))
    planned = replace(checkout, root=copy)
    planned.run("python", "scripts/compose_params.py", "profile=smoke")
    graph = planned.run("dvc", "dag", "--dot", "train-expnet@reviews-expnet")
    for stage in ("attend@reviews", "attend@topics", "rationalise@topics", "finetune@topics"):
        assert stage in graph
    assert "evaluate" not in graph


def methods_of(params: dict[str, Any]) -> set[str]:
    groups = (params["baselines"][group] for group in ("quick", "costly"))
    explainers = (name for room in params["explainers"].values() for name in room)
    return {*explainers, *params["refiners"], *(name for group in groups for name in group)}


def nothing_to_run(matrix: dict[str, Any], params: dict[str, Any]) -> bool:
    """Whether a stage's matrix has an empty side: no teacher, no variant, no explainer of a folder."""
    for side in matrix.values():
        found = side
        if isinstance(side, str):
            found = params
            for key in side.removeprefix("${").removesuffix("}").split("."):
                found = found[key]
        if not found:
            return True
    return False


def test_all_stages_run_once(runs: Runs) -> None:
    every = yaml.safe_load((runs.checkout.root / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    params = runs.checkout.params()
    expected = {name for name, stage in every.items() if not nothing_to_run(stage.get("matrix", {}), params)}
    assert expected - stages(runs.first) == set() == stages(runs.first) - expected
    assert {"prepare", "finetune", "train-expnet", "train-ivra", "train-aml", "evaluate", "report"} <= expected
    assert stages(runs.second) == set()
    assert "Data and pipelines are up to date" in runs.second


def test_the_metrics_have_the_form_that_later_work_relies_on(runs: Runs) -> None:
    params = runs.checkout.params()
    found = json.loads((runs.checkout.root / "reports" / "metrics.json").read_text(encoding="utf-8"))
    assert set(found) == {"headline", "tasks"}
    assert found["headline"]
    assert set(found["tasks"]) == set(params["tasks"])
    for task in found["tasks"].values():
        assert set(task) == methods_of(params)
        for metrics in task.values():
            assert set(METRICS) <= set(metrics)
            for name in ("f1", "precision", "recall", "auroc"):
                assert metrics[name] is None or metrics[name] >= 0
    costs = json.loads((runs.checkout.root / "reports" / "costs.json").read_text(encoding="utf-8"))
    assert costs["headline"]["relative_throughput"] > 0 and set(costs["tasks"]) == set(params["tasks"])
    for task in costs["tasks"].values():
        assert set(task) == methods_of(params)
        assert all(method["relative_throughput"] > 0 for method in task.values())


def test_the_report_speaks_of_every_task_and_method(runs: Runs) -> None:
    params = runs.checkout.params()
    report = (runs.checkout.root / "reports" / "report.md").read_text(encoding="utf-8")
    for task in params["tasks"]:
        section = report.partition(f"\n## Task: {task}\n")[2].partition("\n## ")[0]
        for name in methods_of(params):
            # Agreement with the words, agreement with the model, behaviour, cost, sanity.
            assert len(re.findall(rf"\n\| {name}( [†‡])? \| ", section)) >= 5
    for figure in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", report):
        assert (runs.checkout.root / "reports" / figure).is_file()


def test_dvc_shows_metrics_and_plots(runs: Runs) -> None:
    shown = runs.checkout.run("dvc", "metrics", "show", "--json")
    assert "reports/headline.json" in shown
    for task in runs.checkout.params()["tasks"]:
        assert f"reports/metrics/classifier/{task}.json" in shown
    assert "file://" in runs.checkout.run("dvc", "plots", "show", "--out", "shown")


def test_a_changed_explainer_runs_just_what_depends_on_it(runs: Runs) -> None:
    overrides = [f"--set-param={override}" for override in runs.checkout.overrides("expnet.hidden=8")]
    output = runs.checkout.run("dvc", "exp", "run", *overrides)
    assert runs.checkout.params()["expnet"]["hidden"] == 8
    assert stages(output) == {"train-expnet", "attribute-learned", "evaluate", "sanity", "report"}
    for task in runs.checkout.params()["tasks"]:
        config = runs.checkout.root / "data" / "explainers" / task / "expnet_in_domain" / "config.json"
        assert json.loads(config.read_text(encoding="utf-8"))["options"]["hidden"] == 8
    assert "expnet.hidden" in runs.checkout.run("dvc", "exp", "show", "--csv")


@pytest.mark.parametrize(
    ("file", "stale"),
    [
        # The scores of pAML and what refines it, and the checks that run all methods; ExpNet and IvRA stay as they are.
        (
            "methods/aml/loss.py",
            {
                "train-aml@reviews-paml",
                "attribute-learned@reviews-aml",
                "attribute-refined@reviews-faml",
                "sanity@reviews",
            },
        ),
        ("show/verdict.py", {"report"}),
        ("annotation/people/sheets.py", {"rationalise@reviews"}),
    ],
)
def test_an_edit_makes_just_the_stages_stale_that_run_its_room(runs: Runs, file: str, stale: set[str]) -> None:
    path = runs.checkout.root / "src" / "explearn" / file
    before = path.read_bytes()
    assert json.loads(runs.checkout.run("dvc", "status", "--json")) == {}
    try:
        path.write_bytes(before + b"# An edit.\n")
        found = json.loads(runs.checkout.run("dvc", "status", "--json"))
    finally:
        path.write_bytes(before)
    assert set(found) == stale


def test_a_second_run_of_everything_leaves_every_figure_as_it_was(runs: Runs) -> None:
    """Times are in files that DVC does not know, so that dvc.lock, too, is the same."""
    root = runs.checkout.root

    def kept() -> dict[str, bytes]:
        files = [root / "dvc.lock", *(root / "reports").rglob("*")]
        apart = ("reports/machine/", "reports/costs.json", "reports/report.html")
        named = {path.relative_to(root).as_posix(): path for path in files if path.is_file()}
        return {name: path.read_bytes() for name, path in named.items() if not name.startswith(apart)}

    before = kept()
    assert "reports/metrics.json" in before and (root / "reports" / "costs.json").is_file()
    # In processes with another hash seed, as on another day.
    with warm_python(runs.checkout.environment) as warm:
        replace(runs.checkout, warm=warm).run("dvc", "repro", "--force", "--no-run-cache")
    after = kept()
    assert {name for name in before if before[name] != after.get(name)} == set()


KILLER = """
# Ends the stage attend at its last moment: all is written, nothing is in place.
import os, signal, sys

if any(argument.endswith("attend.py") for argument in sys.orig_argv):
    os.replace = lambda source, target: os.kill(os.getpid(), signal.SIGKILL) if "/features" in str(target) else None
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
def test_a_stage_that_is_killed_leaves_nothing_that_the_next_run_takes_for_whole(runs: Runs, tmp_path: Path) -> None:
    checkout = runs.checkout
    task = checkout.params()["tasks"][0]
    features = checkout.root / "data" / "features" / task
    before = {path.name: path.read_bytes() for path in features.iterdir()}
    assert read_feature_metadata(features / "test.parquet")["attended"] == list(range(tiny.LAYERS))
    checkout.compose("attend.layers=[0]")
    (tmp_path / "sitecustomize.py").write_text(KILLER, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), checkout.environment["PYTHONPATH"]])
    # A new interpreter, which reads sitecustomize.
    cold = replace(checkout, warm=checkout.environment)
    cold.run("dvc", "repro", f"attend@{task}", check=False, PYTHONPATH=path)
    leftovers = [p.name for p in features.parent.iterdir() if p.name.startswith(".")]
    assert any(name.startswith(f".{task}.partial-") for name in leftovers)
    assert {path.name: path.read_bytes() for path in features.iterdir()} == before

    output = checkout.run("dvc", "repro", f"attend@{task}")
    assert stages(output) == {"attend"}
    assert read_feature_metadata(features / "test.parquet")["attended"] == [0]
    assert not any(p.name.startswith(f".{task}.partial-") for p in features.parent.iterdir())
    assert stages(checkout.run("dvc", "repro", f"attend@{task}")) == set()


def test_a_lost_output_comes_back_as_it_was(runs: Runs) -> None:
    """From DVC's cache, without running the stage."""
    checkout = runs.checkout
    task = checkout.params()["tasks"][0]
    examples = checkout.root / "data" / "examples" / task
    before = {path.name: path.read_bytes() for path in examples.iterdir()}
    shutil.rmtree(examples)
    checkout.run("dvc", "repro", f"prepare@{task}")
    assert {path.name: path.read_bytes() for path in examples.iterdir()} == before
