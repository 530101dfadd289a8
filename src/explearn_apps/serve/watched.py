"""The figures of `explearn watch` for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from explearn.core.documents import read_json
from explearn.core.validation import Shape, check

NAMES = ("about", "element", "target", "group")
"""Labels of a figure."""


class _Change(Shape):
    about: str
    element: str
    target: str
    group: str
    reference: float
    now: float
    changed: bool


class _Watched(Shape):
    """The fields of a watch that are collected."""

    changes: list[_Change]


class WatchCollector(Collector):
    """A collector of what the last watch found, read anew at each scrape, since a watch runs every day.

    Args:
        page: the page that `explearn watch` writes; its figures lie beside it.

    Raises:
        DataError: they are missing, or something else.
    """

    def __init__(self, page: Path) -> None:
        self._path = page.with_suffix(".changes.json")
        self._read()

    def _read(self) -> list[_Change]:
        watched: _Watched = check(_Watched, read_json(self._path), before=f"{self._path}, ")
        return watched.changes

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the figures of the reference and of now, and which changed."""
        reference = GaugeMetricFamily("explearn_watch_reference", "Share of texts in the reference.", labels=NAMES)
        now = GaugeMetricFamily("explearn_watch_now", "The same now.", labels=NAMES)
        changed = GaugeMetricFamily("explearn_watch_changed", "1 if it changed beyond chance.", labels=NAMES)
        for change in self._read():
            labels = [getattr(change, name) for name in NAMES]
            reference.add_metric(labels, change.reference)
            now.add_metric(labels, change.now)
            changed.add_metric(labels, change.changed)
        yield from (reference, now, changed)
