"""Parameters of a small run."""

from __future__ import annotations

from typing import Any

BASE: dict[str, Any] = {
    "profile": "p",
    "data_dir": "mine",
    "tasks": ["films"],
    "sources": {"films": {"kind": "files", "adapter": "custom", "columns": {"text": "text"}}},
    "methods": {"expnet_in_domain": {}},
    "learned": {"from_features": ["expnet_in_domain"]},
    "explainer": "expnet_in_domain",
}

EXPNETS: dict[str, Any] = {
    "methods": {"expnet": {}, "expnet_in_domain": {}, "expnet_paper": {}},
    "learned": {"from_features": ["expnet", "expnet_in_domain", "expnet_paper"]},
    "explainer": "expnet",
}
"""Methods of a run that studies ExpNet."""
