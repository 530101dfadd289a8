"""The pipeline itself, run by DVC in a copy of the repository, with the smoke profile and a tiny encoder."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import tiny
import yaml
from places import PATH
from warm_python import LOADED, warm_python

from explearn.core.documents import read_json
from explearn_study.code import SHOWING_STAGES, SHOWS_ONLY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

METHODS = {"random", "gae", "attcat", "attn_lrp", "occlusion", "marker_in_domain", "ivra", "l2e"}


@dataclass
class Checkout:
    root: Path
    encoder: Path
    environment: dict[str, str]
    """In which `python` is the usual one."""
    warm: dict[str, str]
    """In which it has torch loaded already."""

    def run(self, *command, check=True, **environment):
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

    def overrides(self, *more):
        """Of the smoke profile, one task and a few methods. test_outputs.py runs more of each in one process."""
        few = [
            "tasks=[reviews]",
            "sources.reviews.max_examples={train: 32, validation: 8, test: 8}",
            "~methods.marker",
            "~methods.expnet",
            "~methods.reader",
            "~studies.students",
            "explainer=marker_in_domain",
            "+methods.occlusion={}",
            "+methods.ivra={options: {schedule: {epochs: 1, validation_texts: 8}}}",
            "learned.from_texts=[ivra]",
            "learned.from_features=[marker_in_domain]",
        ]
        return ["profile=smoke", "roster=quick", f"encoder={self.encoder}", *few, *more]

    def repro(self, *arguments):
        """The names of the stages that DVC runs, as in dvc.yaml."""
        return stages(self.run("dvc", "repro", *arguments))


def stages(output):
    return {name.partition("@")[0] for name in re.findall(r"Running stage '([^']+)'", output)}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, repository):
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
    loaded = root.parent / "loaded"
    loaded.mkdir()
    tiny.model("bert", max_position_embeddings=130).bert.save_pretrained(encoder)
    tiny.tokenizer("bert", 128).save_pretrained(encoder)
    apart = ("EXPLEARN_", "GIT_", "DVC_", "PYTHONDONTWRITEBYTECODE")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(apart)}
    environment = {
        **clean,
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"), "a@example.org"),
        **dict.fromkeys(("GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"), "a@example.org"),
        "PATH": PATH,
        "PYTHONPATH": str(root / "src"),
        "EXPLEARN_DEVICE": "cpu",
        "OMP_NUM_THREADS": "1",
        LOADED: str(loaded),
    }
    with warm_python(environment) as warm:
        copy = Checkout(root, encoder, environment, warm)
        copy.run("git", "init", "--quiet")
        copy.run("git", "add", "--all")
        copy.run("git", "commit", "--quiet", "--message", "copy")
        yield copy


@pytest.fixture(scope="module")
def ran(checkout):
    """The copy after `dvc repro`."""
    checkout.run("python", "scripts/compose_params.py", *checkout.overrides())
    every = yaml.safe_load((checkout.root / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert checkout.repro() == set(every) - {"study"}
    return checkout


def test_a_second_run_has_nothing_to_do(ran):
    assert "Data and pipelines are up to date" in ran.run("dvc", "repro")


def test_the_report_has_figures_of_every_method_and_its_pictures(ran):
    metrics = read_json(ran.root / "reports" / "metrics.json")
    assert set(metrics) == {"headline", "verdict", "classifiers", "overall", "tasks"}
    assert set(metrics["tasks"]["reviews"]) == METHODS
    named = {"f1", "f1_low", "precision", "f1_topk", "auroc", "auprc", "aopc_comprehensiveness", "aopc_sufficiency"}
    for figures in metrics["tasks"]["reviews"].values():
        assert named <= set(figures)
        assert all(value is None or value == round(value, 3) for value in figures.values())
    report = (ran.root / "reports" / "report.md").read_text(encoding="utf-8")
    for figure in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", report):
        assert (ran.root / "reports" / figure).is_file()


def test_git_keeps_what_people_read_and_dvc_the_rest(ran):
    ran.run("git", "add", "--all")
    tracked = set(ran.run("git", "ls-files", "reports", "data").split())
    folders = {"/".join(name.split("/")[:2]) for name in tracked}
    names = ("report.md", "figures", "metrics.json", "headline.json", "study")
    assert folders == {*(f"reports/{name}" for name in names), "data/annotations", "data/corpus", "data/papers"}
    assert "reports/headline.json" in ran.run("dvc", "metrics", "show", "--json")


def test_what_a_stage_loads_stands_in_its_fingerprint(ran):
    """Except for what only shows things, and packages whose __init__ is empty or names what users want at hand."""
    loaded = {path.stem: path.read_text().split() for path in (ran.root.parent / "loaded").glob("*.loaded")}
    assert set(loaded) >= {"prepare", "rationalise", "finetune", "features", "fit", "explain", "judge", "report"}
    of_methods = set(" ".join(path.read_text() for path in (ran.root / "data/code/methods").iterdir()).split())
    for stage in set(loaded) & {path.stem for path in (ran.root / "stages").iterdir()}:
        lines = {*(ran.root / f"data/code/{stage}.txt").read_text().split(), *of_methods}
        for module in loaded[stage]:
            shows = stage not in SHOWING_STAGES and module.startswith(SHOWS_ONLY)
            file = ran.root / "src" / f"{module.replace('.', '/')}.py"
            assert shows or not file.is_file() or f"src/{module.replace('.', '/')}.py" in lines, f"{stage}: {module}"


def test_a_second_run_of_everything_leaves_every_figure_as_it_was(ran):
    """Times are in files that DVC does not know, so that dvc.lock, too, is the same."""

    def kept():
        files = [ran.root / "dvc.lock", *(ran.root / "reports").rglob("*")]
        apart = ("reports/costs.json", "reports/report.html", "reports/report.json")
        named = {path.relative_to(ran.root).as_posix(): path for path in files if path.is_file()}
        return {name: path.read_bytes() for name, path in named.items() if not name.startswith(apart)}

    before = kept()
    shutil.rmtree(ran.root / "data" / "attributions")
    # In processes with another hash seed, as on another day.
    with warm_python(ran.environment) as warm:
        replace(ran, warm=warm).repro("--force", "--no-run-cache")
    after = kept()
    assert "reports/metrics/reviews/evaluation.json" in before
    assert {name for name in before if before[name] != after.get(name)} == set()


def test_another_option_and_an_edit_run_what_depends_on_them_and_explain_by_these_methods_alone(ran):
    """That a stage's fingerprint names all that it loads, a learned method's code too, is tested above."""
    edited = ran.root / "src/explearn/methods/perturbation/occlusion.py"
    edited.write_bytes(edited.read_bytes() + b"\n")
    attributions = ran.root / "data" / "attributions" / "reviews"
    times = {path.name: path.stat().st_mtime_ns for path in attributions.iterdir()}
    option = "+methods.marker_in_domain.options.hidden=8"
    output = ran.run("dvc", "exp", "run", *(f"--set-param={override}" for override in ran.overrides(option)))
    assert stages(output) == {"code", "fit-features", "explain", "judge", "own-classifier", "report"}
    changed = {name for name, time in times.items() if (attributions / name).stat().st_mtime_ns != time}
    assert changed == {"occlusion.parquet", "marker_in_domain.parquet"}
    config = ran.root / "data" / "explainers" / "reviews" / "marker_in_domain" / "config.json"
    assert read_json(config)["options"]["hidden"] == 8
    assert "methods.marker_in_domain.options.hidden" in ran.run("dvc", "exp", "show", "--csv")
