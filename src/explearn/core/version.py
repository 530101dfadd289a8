"""The installed version of Explearn."""

from __future__ import annotations

from importlib import metadata


def explearn_version() -> str:
    """The installed version; "unknown" where the package is not installed."""
    try:
        return metadata.version("explearn")
    except metadata.PackageNotFoundError:
        return "unknown"
