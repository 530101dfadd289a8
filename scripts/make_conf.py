"""Write conf/method/NAME.yaml, the defaults of each learned method's options, from the sections that declare them.

    python scripts/make_conf.py            # write
    python scripts/make_conf.py --check    # exit code 1 where a file is not what the sections say

conf/config.yaml takes these files and says only where a run of this project differs from them.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from explearn.core.settings import Section
from explearn.core.storage import write_text
from explearn.methods.registry import get_info, learned_sections

FOLDER = Path(__file__).resolve().parents[1] / "conf" / "method"
HEADER = "# Made by scripts/make_conf.py from {section}; `make params` writes it anew.\n"
WIDTH = 118


def lines(section: Section, indent: int = 0) -> Iterator[str]:
    """The fields of a section with their defaults, each below its description."""
    margin = " " * indent
    for name, field in type(section).model_fields.items():
        if name == "seed":
            continue  # The run's own.
        if field.description:
            words = " ".join(field.description.split())
            yield from textwrap.wrap(
                words, WIDTH, initial_indent=f"{margin}# ", subsequent_indent=f"{margin}# ", break_on_hyphens=False
            )
        value = getattr(section, name)
        if isinstance(value, Section):
            yield f"{margin}{name}:"
            yield from lines(value, indent + 2)
        else:
            yield f"{margin}{name}: {scalar(value)}"


def scalar(value: Any) -> str:
    """A value in YAML, on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=1000).removesuffix("...\n").strip()


def contents() -> dict[str, str]:
    """Name of each file -> its text."""
    found = {}
    for name, (target, defaults) in learned_sections().items():
        if not target.startswith("explearn."):
            continue
        module, _, attribute = target.partition(":")
        section: type[Section] = getattr(importlib.import_module(module), attribute)
        of = get_info(name).of
        body = "\n".join(lines(section())) if of is None else variant(section, of, defaults)
        found[f"{name}.yaml"] = f"{HEADER.format(section=target.replace(':', '.'))}{body}\n"
    return found


def variant(section: type[Section], of: str, defaults: Mapping[str, Any]) -> str:
    """A variant that every run knows: the options of its method, but for those that it stands for."""
    values = {
        name: scalar(defaults[name]) if name in defaults else f"${{{of}.{name}}}"
        for name in section.model_fields
        if name != "seed"
    }
    return "\n".join(f"{name}: {value}" for name, value in values.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file would change")
    options = parser.parse_args()
    expected = contents()
    there = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))}
    stale = sorted(name for name in {*expected, *there} if expected.get(name) != there.get(name))
    if options.check:
        if stale:
            print(f"conf/method/{', '.join(stale)}: not what the sections declare; run `make params`", file=sys.stderr)
            raise SystemExit(1)
        return
    for name in stale:
        if name in expected:
            write_text(FOLDER / name, expected[name])
        else:
            (FOLDER / name).unlink()


if __name__ == "__main__":
    main()
