"""What stands in the place of attention features where a classifier's attention cannot be captured."""

from __future__ import annotations

from pathlib import Path

from explearn.core.errors import UnsupportedError
from explearn.core.storage import read_json, write_json

REFUSAL = "refused.json"


def write_refusal(folder: Path, error: UnsupportedError) -> None:
    """Say in a folder of features why it holds none, so that methods without need of them can go on."""
    write_json(folder / REFUSAL, {"reason": str(error)})


def check_refusal(folder: Path) -> None:
    """Raise the UnsupportedError that `write_refusal` wrote there, if any."""
    path = folder / REFUSAL
    if path.is_file():
        raise UnsupportedError(f"{path}: there are no attention features, for {read_json(path)['reason']}")
