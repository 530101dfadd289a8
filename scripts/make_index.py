"""Write what the classes of the methods declare to where it is read without them.

    python scripts/make_index.py            # write what has changed
    python scripts/make_index.py --check    # write nothing; exit code 1 where a file is stale

Two files follow from the classes under explearn.methods: src/explearn/methods/index.json, which the registry reads, and
the table in docs/explearn/methods.md, between two comments. A new method comes last in its family.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import pkgutil
import sys
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import explearn.methods
from explearn.core.writing import write_text
from explearn.methods.base.explainer import Explainer
from explearn.methods.info import Family, MethodInfo, Variant

INDEX = ROOT / "src" / "explearn" / "methods" / "index.json"
TABLE = ROOT / "docs" / "explearn" / "methods.md"

START = "<!-- The methods: written by `make index` from what their classes declare. -->"
END = "<!-- End of the methods. -->"

Found = dict[str, tuple[MethodInfo, type[Explainer]]]


def find_methods() -> Found:
    """Name -> what is known of a method, and its class: all that can be made under explearn.methods.

    Ends with a sentence where a class declares nothing, two have one name, or a base does not exist.
    """
    found: Found = {}
    for entry in pkgutil.walk_packages(explearn.methods.__path__, "explearn.methods."):
        module = importlib.import_module(entry.name)
        for cls in vars(module).values():
            if not (inspect.isclass(cls) and issubclass(cls, Explainer) and cls.__module__ == module.__name__):
                continue
            if inspect.isabstract(cls):
                continue
            info = MethodInfo.of_class(cls)
            if info.name in found:
                raise SystemExit(f"{info.target}: the name {info.name!r} is taken by {found[info.name][0].target}")
            found[info.name] = (info, cls)
    for info, _ in found.values():
        if info.base is not None and info.base not in found:
            raise SystemExit(f"{info.target}: its base {info.base!r} does not exist; expected the name of a method")
    return found


def in_order(found: Found) -> Found:
    """By family; within one the order of the index as it is, then by name."""
    indexed = [entry["name"] for entry in json.loads(INDEX.read_text(encoding="utf-8"))]
    new = sorted(found.keys() - set(indexed))
    names = [name for name in indexed if name in found] + new
    families = get_args(Family)
    return {name: found[name] for name in sorted(names, key=lambda name: families.index(found[name][0].family))}


def index(found: Found) -> str:
    """Return the text of the index: of each method, and of each of its variants, what has not its default."""
    infos = []
    for info, cls in found.values():
        infos.append(info)
        for name, variant in cls.variants.items():
            infos.append(MethodInfo(**{**info.model_dump(), **_as_info(info, name, variant)}))
    entries = [info.model_dump(mode="json", exclude_defaults=True) for info in infos]
    for entry in entries:  # what was a set has no order of its own
        entry |= {name: sorted(entry[name]) for name in ("needs", "later") if name in entry}
    return json.dumps(entries, indent=2, ensure_ascii=False) + "\n"


def _as_info(info: MethodInfo, name: str, variant: Variant) -> dict[str, Any]:
    base = variant.base or info.base
    return {"name": name, "of": info.name, "summary": variant.summary, "defaults": variant.options, "base": base}


def table(text: str, found: Found) -> str:
    """The text of docs/explearn/methods.md with the table of the methods that need no training."""
    head, start, rest = text.partition(START)
    _, end, tail = rest.partition(END)
    if not (start and end):
        raise SystemExit(f"{TABLE}: the comments about the table are missing; expected {START!r} and {END!r}")
    rows = ["| method | family | passes | what it is |", "| --- | --- | --- | --- |"]
    for name, (info, cls) in found.items():
        if info.learned:
            continue
        shown = f"{name} ±" if cls.signed else name
        rows.append(f"| {shown} | {info.family} | {info.cost} | {info.summary} |")
    return "\n".join([f"{head}{START}", "", *rows, "", f"{END}{tail}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file would change")
    check = parser.parse_args().check
    found = in_order(find_methods())
    made = {
        INDEX: index(found),
        TABLE: table(TABLE.read_text(encoding="utf-8"), found),
    }
    stale = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not check:
        for path in stale:
            write_text(path, made[path])
    elif stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(f"{names}: not what the classes of the methods declare; run `make index`")


if __name__ == "__main__":
    main()
