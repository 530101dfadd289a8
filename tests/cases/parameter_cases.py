"""Parameters of a small run."""

from explearn_study.params import Params

MARKERS = {
    "methods": {"marker": {}, "marker_in_domain": {}, "expnet": {}},
    "learned": {"from_features": ["marker", "marker_in_domain", "expnet"]},
    "explainer": "marker",
}
"""Methods of a run that studies Marker."""


def params_of(adapters=("corpus", "corpus"), **changes):
    """The parameters of a run with a task for each adapter."""
    tasks = ["films", "meals", "notes", "plays"][: len(adapters)]
    sources = {name: {"kind": "embedded", "adapter": adapter} for name, adapter in zip(tasks, adapters, strict=True)}
    return Params.model_validate({**MARKERS, "profile": "test", "tasks": tasks, "sources": sources, **changes})
