"""Parameters of a small run."""

from __future__ import annotations

from typing import Any

BASE: dict[str, Any] = {
    "profile": "p",
    "data_dir": "mine",
    "tasks": ["films"],
    "sources": {"films": {"kind": "files", "adapter": "custom", "columns": {"text": "text"}}},
    "explainer": "expnet_in_domain",
    "explainers": ["expnet_in_domain"],
}
