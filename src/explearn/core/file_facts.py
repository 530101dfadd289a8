"""Size and hash of a file, by which manifests notice that it has changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self

from explearn.core.documents import file_digest
from explearn.core.validation import Shape


class FileFacts(Shape):
    """Size and hash of a file.

    Attributes:
        bytes: its size.
        sha256: SHA-256 of its content, in hexadecimal digits.
    """

    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path, **fields: Any) -> Self:
        """Return the facts about a file.

        Args:
            path: the file.
            fields: further fields of a subclass.
        """
        return cls(bytes=path.stat().st_size, sha256=file_digest(path), **fields)

    def match(self, path: Path) -> bool:
        """Return whether a file exists and is unchanged."""
        is_file = os.path.isfile(path)  # noqa: PTH113 (Path.is_file raises for names that no file can have)
        return is_file and path.stat().st_size == self.bytes and file_digest(path) == self.sha256
