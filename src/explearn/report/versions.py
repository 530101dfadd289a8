"""Versions of Python and the packages of this run."""

from __future__ import annotations

import platform
import re
from collections.abc import Collection
from importlib import metadata

RUN = ("baselines", "pipeline", "annotate", "demo")
"""Extras whose packages a run of the pipeline may use."""

COMPARISON = ("baselines",)
"""Extras whose packages a comparison uses."""


def versions(extras: Collection[str] = RUN) -> list[tuple[str, str]]:
    """Return the versions of Python, Explearn and each direct dependency of its core and of some extras.

    Nothing is imported. Python's version is cut to the part that the lock file fixes; `python_version` has all of it.
    """
    rows = [("python", ".".join(platform.python_version_tuple()[:2])), ("explearn", metadata.version("explearn"))]
    names: dict[str, None] = {}
    for requirement in metadata.requires("explearn") or []:
        extra = re.search(r"""extra == ["']([a-z]+)["']""", requirement)
        if extra is None or extra[1] in extras:
            names[re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0]] = None
    for name in names:
        try:
            rows.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            rows.append((name, "not installed"))
    return rows


def python_version() -> str:
    """Return Python's full version and the kind of machine, such as "3.11.7 on Linux x86_64"."""
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"
