"""Fingerprints of code: the modules that a stage or a method uses, according to the imports in the source.

All imports count, also those in functions, except under TYPE_CHECKING. Methods are loaded by name, so each has its own
fingerprint in addition to those of the stages.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from explearn.core.errors import ParamsError
from explearn.core.writing import atomic_folder, write_text
from explearn.methods.registry import ENTRY_POINTS, INDEX, get_info
from explearn_study.workspace import Workspace

SOURCE = Path(__file__).resolve().parents[1]

SHOWS_ONLY = (
    "explearn.cli",
    "explearn.show",
    "explearn.show.attributions",
    "explearn.show.blocks",
    "explearn.show.display",
    "explearn.show.heat_map",
)
"""Packages and modules for display only: no computed result depends on them, so they count only for SHOWING_STAGES."""

SHOWING_STAGES = ("report",)

LOADS_BY_NAME = "src/explearn/methods/registry.py"
"""The registry of methods, whose imports in functions count for the method that is loaded."""

NAMES_ALL = ("explearn",)
"""Packages whose __init__ imports names for users, not what a stage runs."""


def write_fingerprints(workspace: Workspace, stages: Path, methods: Mapping[str, str]) -> None:
    """Write the fingerprint of every stage in a folder, and of the methods of a run.

    A fingerprint is a text of lines "SHA-256 MODULE", sorted by module.

    Args:
        methods: name in the run -> method.

    Raises ParamsError if the installed code is not the checkout's.
    """
    if not stages.resolve().is_relative_to(SOURCE.parent):
        raise ParamsError(
            f"explearn is installed in {SOURCE}; expected the checkout's own src, so that edits count: "
            f"pip install -e {stages.parent}"
        )
    with atomic_folder(workspace.code("").parent) as folder:
        for path in sorted(stages.glob("*.py")):
            write_text(folder / f"{path.stem}.txt", fingerprint([path], path.stem in SHOWING_STAGES))
        for name in sorted(methods):
            write_text(folder / "methods" / f"{name}.txt", method_fingerprint(methods[name]))


def method_fingerprint(name: str) -> str:
    """Return the fingerprint of a method: its modules and declaration; for a package's method the package's version."""
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS, name=name):
        return f"{entry.dist.version if entry.dist else ''} {entry.value}\n"
    info = get_info(name)
    declared = next(entry for entry in json.loads(INDEX.read_bytes()) if entry["name"] == name)
    line = f"{hashlib.sha256(json.dumps(declared).encode()).hexdigest()} {name}\n"
    return line + fingerprint(_files(info.target.partition(":")[0]), shows=False)


def fingerprint(paths: Iterable[Path], shows: bool) -> str:
    """Return the fingerprint of some files and all of the project's modules and data files that they import.

    Args:
        shows: whether modules for display count.
    """
    reached, ahead = set(), set(paths)
    while ahead:
        path = ahead.pop()
        reached.add(path)
        for module in _imports(path):
            if shows or not any(module == left_out or module.startswith(f"{left_out}.") for left_out in SHOWS_ONLY):
                ahead.update(file for file in _files(module) if file not in reached)
    # Templates, prompts and weights count with the packages that hold them. The index of methods counts by method, and
    # the rosters beside it are for what runs outside a project. A style sheet only shows things.
    for package in {path.parent for path in reached if path.is_relative_to(SOURCE)} - {INDEX.parent}:
        reached.update(file for file in _data_files(package) if shows or file.suffix != ".css")
    named = {path.relative_to(SOURCE.parent).as_posix(): path for path in reached}
    return "".join(f"{hashlib.sha256(named[name].read_bytes()).hexdigest()} {name}\n" for name in sorted(named))


@cache
def _imports(path: Path) -> frozenset[str]:
    if path.suffix != ".py":
        return frozenset()
    left_out = ast.FunctionDef if path.as_posix().endswith(LOADS_BY_NAME) else ()
    return frozenset(_imported(ast.parse(path.read_text(encoding="utf-8")), left_out))


def _imported(tree: ast.AST, left_out: type[ast.AST] | tuple[()]) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, left_out) or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                # Of an f-string, each part in braces may be anything.
                name = node.args[0]
                parts = name.values if isinstance(name, ast.JoinedStr) else [name]
                pattern = "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts)
                if pattern.startswith("explearn"):
                    for path in SOURCE.glob(f"{pattern.replace('.', '/')}.py"):
                        yield ".".join(path.relative_to(SOURCE).with_suffix("").parts)
            yield from _imported(node, left_out)


@cache
def _files(module: str) -> tuple[Path, ...]:
    """Return the file of a module of this project, and those of the packages around it; none for other names."""
    parts = module.split(".")
    path = SOURCE.joinpath(*parts)
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    if not file.is_file():
        return ()
    packages = [".".join(parts[:end]) for end in range(1, len(parts))]
    above = [SOURCE.joinpath(*package.split("."), "__init__.py") for package in packages if package not in NAMES_ALL]
    return tuple(path for path in (file, *above) if path.stat().st_size)


@cache
def _data_files(package: Path) -> tuple[Path, ...]:
    """Return the files other than Python of a package, and of the folders in it that are no packages."""
    files: list[Path] = []
    for path in package.iterdir():
        if path.is_dir() and not (path / "__init__.py").exists() and path.name != "__pycache__":
            files += [file for file in path.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")]
        elif path.is_file() and path.suffix not in (".py", ".pyc"):
            files.append(path)
    return tuple(files)
