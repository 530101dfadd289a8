"""The headlines that `explearn demo` learns from: those of the corpus's topics, without the marks.

A copy within the package, because an installed package has no data/corpus. `--check` fails where it is not up to date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "data/corpus/topics.jsonl"
TARGET = ROOT / "src/explearn/cli/demo/headlines.jsonl"


def headlines() -> str:
    lines = []
    for line in SOURCE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        split = "test" if row["split"] == "test" else "train"
        headline = {"split": split, "label": row["label"], "text": " ".join(row["words"])}
        lines.append(json.dumps(headline, ensure_ascii=False) + "\n")
    return "".join(lines)


def main() -> None:
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(headlines(), encoding="utf-8")
    elif not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != headlines():
        sys.exit(f"{TARGET.relative_to(ROOT)} is not up to date; run python scripts/make_demo.py")


if __name__ == "__main__":
    main()
