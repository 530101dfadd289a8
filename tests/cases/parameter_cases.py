"""Parameters of a small run."""

MARKERS = {
    "methods": {"marker": {}, "marker_in_domain": {}, "expnet": {}},
    "learned": {"from_features": ["marker", "marker_in_domain", "expnet"]},
    "explainer": "marker",
}
"""Methods of a run that studies Marker."""
