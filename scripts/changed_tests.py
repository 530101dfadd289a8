"""List the test files of what differs from another commit: those that changed, and of each changed module the nearest.

python scripts/changed_tests.py            # differs from main, uncommitted files included
python scripts/changed_tests.py HEAD~3
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

MOST_FILES = 6
"""Test files that are run for one module: some twenty seconds' worth. `make test` runs them all."""


def changed(base: str) -> list[str]:
    """Return the Python files that differ from a commit, and those that git does not know yet."""
    names: list[str] = []
    for command in (["diff", "--name-only", "--diff-filter=d", base], ["ls-files", "--others", "--exclude-standard"]):
        names += subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in names if name.endswith(".py")]


def nearest(module: str, tests: Mapping[Path, str], methods: Mapping[str, str]) -> list[Path]:
    """Return the test file of a module, those that import it or try its method, and those of its folder.

    Of those that import it, what names it often and imports little else comes first.
    """
    package, _, stem = module.removeprefix("explearn_").removesuffix(".__init__").rpartition(".")
    folders = package.split(".")
    own = [name for name, target in methods.items() if target == module]
    ranks = {}
    for path, text in tests.items():
        places = (path.parent.name, path.stem.removeprefix("test_"))
        shared = [name for name in places if name in (folders[1:] or folders)]
        mentions = len(re.findall(rf"\b{re.escape(module)}\b", text))
        mentions += sum(text.count(f'"{name}"') for name in own if shared)
        if path == ROOT.joinpath("tests", *folders, f"test_{stem}.py"):
            ranks[path] = (0, 0.0)
        elif mentions:
            ranks[path] = (1, text.count("import ") / mentions)
        elif shared:
            ranks[path] = (2, -len(shared))
    return sorted(ranks, key=ranks.__getitem__)[:MOST_FILES]


def main() -> None:
    (base,) = sys.argv[1:] or ["main"]
    names = changed(base)
    tests = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    index = json.loads((ROOT / "src/explearn/methods/index.json").read_bytes())
    methods = {entry["name"]: entry["target"].partition(":")[0] for entry in index}
    chosen = {ROOT / name for name in names} & tests.keys()
    for name in names:
        if name.startswith("src/"):
            chosen.update(nearest(name.removeprefix("src/").removesuffix(".py").replace("/", "."), tests, methods))
    print(*sorted(path.relative_to(ROOT).as_posix() for path in chosen), sep="\n")


if __name__ == "__main__":
    main()
