"""Parameters of a small run."""

from __future__ import annotations

from typing import Any

MARKERS: dict[str, Any] = {
    "methods": {"marker": {}, "marker_in_domain": {}, "expnet": {}},
    "learned": {"from_features": ["marker", "marker_in_domain", "expnet"]},
    "explainer": "marker",
}
"""Methods of a run that studies Marker."""
