"""What explains the parts of a large job: this process, or the workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Protocol

from explearn_apps.jobs.explaining import Worker
from explearn_apps.jobs.job import Job
from explearn_apps.jobs.manifest import Part

Advance = Callable[[int], None]


class Engine(Protocol):
    """Explains the parts of one job."""

    def settings(self, job: Job, stamp: tuple[int, int], begun: Mapping[str, Any]) -> dict[str, Any]:
        """Load the classifier, and say what the results depend on besides the job.

        Args:
            stamp: of the input (`Input.stamp`).
            begun: settings that the job was begun with; of them `threads` and `max_tokens` are taken over. Empty for a
                new job.

        Returns `explaining.model_settings` and `threads`, CPU threads of a worker.
        """

    def parts(self, numbers: Sequence[int], texts: int, advance: Advance) -> Iterator[tuple[int, Part]]:
        """Write parts; each with its number, in any order, once its file is in place.

        Args:
            numbers: ascending. texts: number of texts of the input. advance: told how many texts more are explained.
        """


class LocalEngine:
    """All parts in this process, one after the other."""

    def settings(self, job: Job, stamp: tuple[int, int], begun: Mapping[str, Any]) -> dict[str, Any]:
        import torch

        if "threads" in begun:
            # More threads may add up in another order.
            torch.set_num_threads(begun["threads"])
        self._worker = Worker(job, stamp, begun.get("max_tokens"), tells=True)
        return {**self._worker.settings, "threads": torch.get_num_threads()}

    def parts(self, numbers: Sequence[int], texts: int, advance: Advance) -> Iterator[tuple[int, Part]]:
        for run in consecutive(numbers):
            yield from self._worker.parts(run, texts, advance)


def consecutive(numbers: Sequence[int]) -> list[list[int]]:
    """Runs of ascending numbers that follow each other."""
    return [[n for _, n in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
