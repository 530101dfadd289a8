"""Fingerprints of code: the modules that a stage or a method uses, according to the imports in the source.

grimp reads the imports. All count, also those in functions, except under TYPE_CHECKING. Methods are loaded by name, so
each has its own fingerprint in addition to those of the stages.
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import grimp

from explearn.core.documents import file_digest, text_digest
from explearn.core.errors import ParamsError
from explearn.core.writing import atomic_folder, write_text
from explearn.methods.registry import ENTRY_POINTS, INDEX, get_info
from explearn_study.workspace import Workspace

SOURCE = Path(__file__).resolve().parents[1]

SHOWS_ONLY = ("explearn.cli", "explearn.show", "explearn.report")
"""Packages for display only: no computed result depends on them, so they count only for SHOWING_STAGES."""

SHOWING_STAGES = ("report",)

FINDERS = ("explearn.methods.registry", "explearn.methods.finding")
"""Modules that return methods by name or folder."""

FOUND = ("explearn.methods.base.", "explearn.methods.defaults", "explearn.predictors.")
"""What they import to make a method counts with that method; no stage takes a default or a bundle of the hub."""


def write_fingerprints(workspace: Workspace, stages: Path, methods: Mapping[str, str]) -> None:
    """Write the fingerprint of every stage in a folder, and of the methods of a run.

    A fingerprint is a text of lines "SHA-256 FILE", sorted by file.

    Args:
        workspace: where data/code is written.
        stages: folder of the stages' scripts.
        methods: name in the run -> method.

    Raises:
        ParamsError: the installed code is not the checkout's.
    """
    if not stages.resolve().is_relative_to(SOURCE.parent):
        raise ParamsError(
            f"explearn is installed in {SOURCE}; expected the checkout's own src, so that edits count: "
            f"pip install -e {stages.parent}"
        )
    with atomic_folder(workspace.code("").parent) as folder:
        for path in sorted(stages.glob("*.py")):
            write_text(folder / f"{path.stem}.txt", stage_fingerprint(path))
        for name in sorted(methods):
            write_text(folder / "methods" / f"{name}.txt", method_fingerprint(methods[name]))


def stage_fingerprint(script: Path) -> str:
    """Return the fingerprint of a stage: its script and all that this imports."""
    shows = script.stem in SHOWING_STAGES
    modules: set[str] = set()
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            modules.add(node.module)
    return fingerprint([script, *files_of(modules, shows)])


def method_fingerprint(name: str) -> str:
    """Return the fingerprint of a method: its modules and declaration; for a package's method the package's version."""
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS, name=name):
        version = entry.dist.version if entry.dist else ""
        return f"{version} {entry.value}\n"
    declared = next(entry for entry in json.loads(INDEX.read_bytes()) if entry["name"] == name)
    digest = text_digest(json.dumps(declared))
    module = get_info(name).target.partition(":")[0]
    return f"{digest} {name}\n{fingerprint(files_of([module], shows=False))}"


def fingerprint(files: Iterable[Path]) -> str:
    """Return a line with hash and name for each file."""
    lines = {}
    for file in files:
        name = file.relative_to(SOURCE.parent).as_posix()
        lines[name] = f"{file_digest(file)} {name}\n"
    return "".join(lines[name] for name in sorted(lines))


@cache
def import_graph(shows: bool) -> grimp.ImportGraph:
    """Return which module imports which; each imports its package, too.

    Args:
        shows: whether modules for display count.
    """
    graph = grimp.build_graph("explearn", "explearn_study", exclude_type_checking_imports=True, cache_dir=None)
    for finder in FINDERS:
        for module in graph.find_modules_directly_imported_by(finder):
            if module.startswith(FOUND):
                graph.remove_import(importer=finder, imported=module)
    for module in graph.modules:
        if not shows and f"{module}.".startswith(tuple(f"{package}." for package in SHOWS_ONLY)):
            graph.remove_module(module)
    for module in graph.modules:
        package = module.rpartition(".")[0]
        # The package `explearn` itself only names things for users.
        if package in graph.modules - {"explearn"}:
            graph.add_import(importer=module, imported=package)
    return graph


def files_of(modules: Iterable[str], shows: bool) -> set[Path]:
    """Return the files of some modules, of all that these import, and of the packages around them."""
    graph = import_graph(shows)
    reached: set[str] = set()
    for module in graph.modules & set(modules):
        reached |= {module, *graph.find_upstream_modules(module)}
    files = {file_of(module) for module in reached}
    # Templates, prompts and weights count with the packages that hold them. The index of methods counts by method. A
    # style sheet only shows things.
    for package in {file.parent for file in files} - {INDEX.parent}:
        files.update(file for file in data_files(package) if shows or file.suffix != ".css")
    return files


def file_of(module: str) -> Path:
    """Return the file of a module or package of this project."""
    path = SOURCE.joinpath(*module.split("."))
    file = path.with_suffix(".py")
    return file if file.is_file() else path / "__init__.py"


@cache
def data_files(package: Path) -> frozenset[Path]:
    """Return the files other than Python of a package, and of the folders in it that are not packages."""
    files: set[Path] = set()
    for path in package.iterdir():
        if path.is_file():
            files.add(path)
        elif path.name != "__pycache__" and not (path / "__init__.py").exists():
            files.update(inner for inner in path.rglob("*") if inner.is_file())
    return frozenset(file for file in files if file.suffix not in (".py", ".pyc"))
