"""Versions of Python and the packages of this run."""

from __future__ import annotations

import platform
import re
from importlib import metadata


def versions() -> list[tuple[str, str]]:
    """Python, Explearn and each of its direct dependencies with their versions, without importing them.

    Of Python, the version that the lock file fixes: the last number is that of the machine (`python_version`).
    """
    rows = [("python", ".".join(platform.python_version_tuple()[:2]))]
    try:
        rows.append(("explearn", metadata.version("explearn")))
        required = metadata.requires("explearn") or []
    except metadata.PackageNotFoundError:
        return [*rows, ("explearn", "not installed")]
    for requirement in required:
        name = re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0]
        if "extra ==" not in requirement:
            try:
                rows.append((name, metadata.version(name)))
            except metadata.PackageNotFoundError:
                rows.append((name, "not installed"))
    return rows


def python_version() -> str:
    """Python's whole version and the kind of machine, such as "3.11.7 on Linux x86_64"."""
    return f"{platform.python_version()} on {platform.system()} {platform.machine()}"
