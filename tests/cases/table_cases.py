"""What tests of bad tables share."""

from __future__ import annotations

import json
from typing import Any


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()
