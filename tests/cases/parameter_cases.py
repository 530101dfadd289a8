"""Parameters of a small run."""

from __future__ import annotations

from typing import Any

EXPNETS: dict[str, Any] = {
    "methods": {"expnet": {}, "expnet_in_domain": {}, "expnet_paper": {}},
    "learned": {"from_features": ["expnet", "expnet_in_domain", "expnet_paper"]},
    "explainer": "expnet",
}
"""Methods of a run that studies ExpNet."""
