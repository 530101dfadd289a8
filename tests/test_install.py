"""`pip install explearn`: what the wheel holds, how much it brings, and that its core works without any extra."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from itertools import chain

import grimp
import pytest
import yaml
from core_session import METHODS, TEXT
from core_venv import build_wheel, closure, make_core_venv
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from places import ROOT

from explearn import UnsupportedError, get_explainer
from explearn.core.extras import MissingExtraError, check_installed, need
from explearn.testing import tiny

MOST_PACKAGES = 60
OURS = ("explearn", "explearn_study", "explearn_apps")
SOURCES = list(chain(*((ROOT / "src" / name).rglob("*.py") for name in OURS)))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
BROUGHT = {"tokenizers": "transformers", "pydantic_core": "pydantic"}
"""Packages that a direct dependency is known to bring, and that are imported without being named."""


def names(requirements):
    return {canonicalize_name(Requirement(line).name) for line in requirements}


CORE = names(PROJECT["dependencies"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def session(wheel, tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("core")
    python = make_core_venv(folder / "venv", wheel)
    work = folder / "work"
    work.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "EXPLEARN"))}
    command = [python, "-I", ROOT / "tests/cases/core_session.py", tiny_folder, ROOT]
    done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout.splitlines()[-1])
    # Else the session was not about the wheel.
    assert document["prefix"] == str(folder / "venv") and document["where"].startswith(document["prefix"])
    return document


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = chain(*((source / name).rglob("*.*") for name in OURS))
    there = {path.relative_to(source).as_posix() for path in files}
    assert inside == {name for name in there if "__pycache__" not in name}
    assert {"explearn/py.typed", "explearn/methods/index.json", "explearn/cli/demo/headlines.jsonl"} <= inside


def test_the_core_brings_few_packages():
    # torch's build for CUDA brings some twenty of NVIDIA's on Linux; they are torch's choice, not the core's.
    brought = {name for name in closure(PROJECT["dependencies"]) if not name.startswith(("nvidia-", "cuda-", "triton"))}
    assert len(brought) + len({"explearn", "pip"}) <= MOST_PACKAGES
    used = [lines for name, lines in EXTRAS.items() if name not in ("all", "dev")]
    extras = closure(chain(*used))
    only = {"dvc", "hydra-core", "datasets", "openai", "accelerate", "optuna", "peft", "fastapi", "onnxruntime", "ray"}
    assert only <= extras and not only & brought


def test_torch_is_a_range_for_users_and_one_version_for_make_install():
    (torch,) = (Requirement(line) for line in PROJECT["dependencies"] if line.startswith("torch"))
    assert [part.operator for part in torch.specifier] == [">="]
    (locked,) = map(Requirement, PYPROJECT["tool"]["uv"]["constraint-dependencies"])
    assert locked.name == "torch" and [part.operator for part in locked.specifier] == ["=="]


def test_the_lock_has_hashes_of_every_package_but_torch():
    packages = re.findall(r"^(\S+)==", LOCK, re.M)
    hashed = re.findall(r"^(\S+)==[^\n]* \\\n    --hash=sha256:[0-9a-f]{64}(?: \\)?$", LOCK, re.M)
    assert hashed == packages
    assert "torch" not in packages


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    # The keys that the format 1.2.0 asks for, and those that must agree with the package.
    assert citation["cff-version"] == "1.2.0" and citation["message"] and citation["title"] and citation["authors"]
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_core_explains_a_local_classifier_by_methods_of_every_kind(session):
    explained = session["explained"]
    for name, actual in explained.items():
        assert actual["code"] == (2 if name == "verify" else 0), (name, actual)
    records = [json.loads(line) for line in explained["explain"]["out"].splitlines()]
    assert [record["method"] for record in records] == list(METHODS)
    assert all(record["words"] == TEXT.split() for record in records)
    assert "gae" in explained["bundle"]["out"]
    # A bundle's manifest is none of a page: the command ran, and says so.
    assert "pip install" not in explained["verify"]["err"] and explained["verify"]["err"].startswith("error: ")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_core_does_from_python_what_the_docs_promise(session):
    actual = session["python"]
    assert actual["words"] == TEXT.split()
    assert actual["rationale"] and actual["names"] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_extra_that_is_missing_is_one_sentence_that_names_it(session):
    for case, actual in session["missing"].items():
        extra, package, _ = case.split()
        sentence = f"needs the package {package}, which is not installed; pip install 'explearn[{extra}]'\n"
        assert actual["code"] == 2 and actual["err"].startswith("error: ") and actual["err"].endswith(sentence), case
        assert actual["err"].count("\n") == 1 and actual.get("import", True), case


def test_an_import_error_by_itself_says_which_extra():
    with pytest.raises(ImportError) as caught:
        need("no_such_package.part", extra="onnx", what="the graph")
    assert isinstance(caught.value, MissingExtraError)
    assert (caught.value.name, caught.value.extra, caught.value.exit_code) == ("no_such_package.part", "onnx", 2)
    assert str(caught.value) == (
        "the graph needs the package no_such_package, which is not installed; pip install 'explearn[onnx]'"
    )
    assert need("json.decoder", extra="onnx") is sys.modules["json.decoder"]
    check_installed("json", extra="onnx")


@pytest.mark.parametrize(("method", "package"), [("lime", "lime"), ("shap", "shap"), ("kernel_shap", "shap")])
def test_a_method_whose_library_is_missing_cannot_explain(method, package, monkeypatch):
    """So a comparison leaves it out, with the reason."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UnsupportedError, match=rf"^{method} needs the package {package}, .*explearn\[baselines\]"):
        get_explainer(method).check_explains(tiny.classifier())


def test_every_package_that_is_imported_is_named_by_the_core_or_an_extra():
    graph = grimp.build_graph(*OURS, include_external_packages=True, exclude_type_checking_imports=True)
    imported = {module for module in graph.modules if graph.is_module_squashed(module)} - sys.stdlib_module_names
    brought_by = packages_distributions()
    named = CORE.union(*map(names, EXTRAS.values()))
    for module in imported:
        packages = {canonicalize_name(name) for name in brought_by.get(module, [module])}
        assert packages & named or BROUGHT.get(module) in CORE, f"{module}: no requirement of pyproject.toml brings it"


def test_what_is_asked_for_is_what_the_extra_brings():
    asked = re.compile(r"""(?:need|check_installed)\(((?:"[\w.]+", )+)extra="(\w+)\"""")
    actual = list(chain(*(asked.findall(source.read_text(encoding="utf-8")) for source in SOURCES)))
    brought_by = packages_distributions()
    assert len(actual) > 10
    for packages, extra in actual:
        for package in re.findall(r'"(\w+)', packages):
            brought = {canonicalize_name(name) for name in brought_by.get(package, [package])}
            assert brought & names(EXTRAS[extra]), f"the extra {extra} does not name {package}"


def test_no_string_names_a_module_of_another_house_or_of_a_layer_above():
    """As importlib takes them: import-linter reads import statements alone."""
    layers = PYPROJECT["tool"]["importlinter"]["contracts"][1]["layers"]
    depth = {name: place for place, layer in enumerate(layers) for name in layer.split(" | ")}
    for source in SOURCES:
        house, layer = source.relative_to(ROOT / "src").with_suffix("").parts[:2]
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            named = re.fullmatch(r"(explearn\w*)\.(\w*)[\w.:]*", str(getattr(node, "value", "")))
            if named and (ROOT / "src" / named[1]).is_dir():
                assert named[1] in (house, "explearn"), f"{source}: {named[0]}"
                if house == "explearn":
                    assert depth.get(named[2], 99) >= depth.get(layer, 0), f"{source}: {named[0]}"
