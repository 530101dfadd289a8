"""List the test files of what differs from another commit: those that changed, and those that import what changed.

python scripts/changed_tests.py            # differs from main, uncommitted files included
python scripts/changed_tests.py HEAD~3
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def changed(base: str) -> list[str]:
    """Return the Python files that differ from a commit, and those that git does not know yet."""
    names: list[str] = []
    for command in (["diff", "--name-only", "--diff-filter=d", base], ["ls-files", "--others", "--exclude-standard"]):
        names += subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in names if name.endswith(".py")]


def main() -> None:
    names = changed(sys.argv[1] if len(sys.argv) > 1 else "main")
    modules = [
        name.removesuffix(".py").replace("/", ".").partition(".")[2] for name in names if name.startswith("src/")
    ]
    named = re.compile(rf"\b({'|'.join(map(re.escape, modules))})\b") if modules else None
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name in names or (named is not None and named.search(path.read_text(encoding="utf-8"))):
            print(name)


if __name__ == "__main__":
    main()
