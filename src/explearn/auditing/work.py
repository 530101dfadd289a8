"""A folder that keeps the finished parts of an audit, so that a stopped one goes on where it was."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from explearn.core.documents import read_json
from explearn.core.writing import check_place, write_json


class Work:
    """Finished parts, each a JSON file.

    Args:
        folder: the folder. None: nothing is kept.
        request: everything that the parts depend on; each request has a folder of its own within `folder`.

    Raises:
        DataError: the folder cannot be written.
    """

    def __init__(self, folder: str | Path | None, request: Mapping[str, Any]) -> None:
        self._folder = None
        if folder is not None:
            digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
            self._folder = Path(folder) / f"audit-{digest[:16]}"
            check_place(self._folder / "request.json")
            write_json(self._folder / "request.json", dict(request))

    def part(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return a part as JSON values: that of an earlier call, or else what `compute` returns."""
        if self._folder is None:
            return compute()
        path = self._folder / f"{name}.json"
        if path.is_file():
            return read_json(path)
        value = compute()
        write_json(path, value)
        return value
