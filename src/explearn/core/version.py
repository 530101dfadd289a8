"""The installed version of Explearn."""

from __future__ import annotations

from importlib import metadata


def explearn_version() -> str:
    """Return the installed version."""
    return metadata.version("explearn")
