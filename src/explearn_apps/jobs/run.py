"""Executors of a large job, and running or resuming a job with one of them."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import groupby
from typing import Any

from tqdm.auto import tqdm

from explearn.core.documents import file_digest
from explearn.core.errors import DataError, shown
from explearn.core.escape import printable
from explearn.core.writing import check_place, locked, write_text
from explearn_apps.jobs.explaining import (
    MANIFEST,
    SUCCESS,
    WHAT,
    Job,
    JobManifest,
    Part,
    Worker,
    part_name,
    read_manifest,
)

_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "pyarrow", "captum", "lime", "shap")
"""Packages whose versions may affect the results, where they are installed."""


Advance = Callable[[int], object]


class LocalExecutor:
    """Explains all parts of a job in this process, one after the other; others derive from it."""

    def settings(self, job: Job, stamp: tuple[int, int], begun: Mapping[str, Any]) -> dict[str, Any]:
        """Load the classifier, and return the settings, other than the job's, that affect the results.

        Args:
            job: the job.
            stamp: the input's stamp (`Input.stamp`).
            begun: settings of an earlier run of the job, of which `threads` and `max_tokens` stay. Empty: a new job.

        Returns:
            The settings of `explaining.Worker`, and `threads`, the CPU threads of a worker.
        """
        import torch

        if "threads" in begun:
            # More threads may add numbers in another order.
            torch.set_num_threads(begun["threads"])
        self._worker = Worker(job, stamp, begun.get("max_tokens"))
        return {**self._worker.settings, "threads": torch.get_num_threads()}

    def parts(self, numbers: Sequence[int], texts: int, advance: Advance) -> Iterator[tuple[int, Part]]:
        """Write parts, in any order; yield each with its number once its file is in place.

        Args:
            numbers: numbers of the parts, ascending.
            texts: number of texts in the input.
            advance: called with numbers of finished texts.
        """
        # Runs of consecutive numbers, for each of which the input is read once.
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
            yield from self._worker.parts([number for _, number in run], texts, advance)


def run(job: Job, executor: LocalExecutor) -> JobManifest:
    """Run or resume a job, and return the manifest of all its parts.

    Finished parts always stay. Errors of reading, loading and explaining pass through; DataError names file and row.

    Args:
        job: the job.
        executor: explains its parts.

    Raises:
        ParamsError: the folder has other content, or a job with other settings.
        DataError: its manifest is damaged.
    """
    with locked(job.folder, what=f"job {job.folder}"):
        stamp = job.input.stamp()
        settings = _settings(job)
        manifest = read_manifest(job.folder)
        begun: Mapping[str, Any] = {}
        if manifest is not None:
            manifest.check(job.folder, settings)
            begun = manifest.settings
        texts = job.input.count()
        if manifest is not None and manifest.texts != texts:
            raise DataError(
                f"{job.folder / MANIFEST}, field 'texts': got {shown(manifest.texts)}; expected {texts}, as in "
                f"{job.input.path}; the manifest is damaged: use another folder, or remove this one"
            )
        settings |= executor.settings(job, stamp, begun)
        if manifest is None:
            manifest = JobManifest(settings=settings, texts=texts)
            manifest.write(job.folder)
        manifest.check(job.folder, settings)
        _finish(job, manifest, executor)
    return manifest


def _settings(job: Job) -> dict[str, Any]:
    """Return the settings that affect the results and need no classifier."""
    return {
        "input": file_digest(job.input.path),
        "columns": {"text": job.input.text, "pair": job.input.pair, "id": job.input.id},
        "targets": list(job.targets),
        "windows": job.windows,
        "unit": job.unit,
        "precision": job.compute.precision,
        "shard_texts": job.part_texts,
        "versions": {
            "python": platform.python_version(),
            "explearn": version("explearn"),
            **{name: version(name) for name in _LIBRARIES if find_spec(name)},
        },
    }


def _finish(job: Job, manifest: JobManifest, executor: LocalExecutor) -> None:
    """Write missing and damaged parts, and after each its entry in the manifest.

    Progress is a bar on a terminal, elsewhere one line per part on standard error.
    """
    count = -(-manifest.texts // job.part_texts)
    missing = []
    for number in range(count):
        part = manifest.parts.get(number)
        if part is None:
            missing.append(number)
            continue
        first = number * job.part_texts
        expected = part_name(number, count), first, min(job.part_texts, manifest.texts - first)
        if (part.file, part.first, part.texts) != expected or not part.match(job.folder / part.file):
            check_place(job.folder / part.file, WHAT)
            name = printable(str(job.folder / part.file))
            print(f"{name}: has changed; it is written again", file=sys.stderr)
            del manifest.parts[number]
            missing.append(number)
    success = job.folder / SUCCESS
    if missing:
        files = [success, *(job.folder / part_name(number, count) for number in missing)]
        for path in (job.folder / MANIFEST, *files):
            check_place(path, WHAT)
        for path in files:
            path.unlink(missing_ok=True)
        before = sum(part.texts for part in manifest.parts.values())
        done = before
        start = time.perf_counter()
        with tqdm(total=manifest.texts, initial=before, desc="explain", unit="text", disable=None) as bar:
            for number, part in executor.parts(missing, manifest.texts, bar.update):
                manifest.parts[number] = part
                manifest.write(job.folder)
                done += part.texts
                if bar.disable:
                    rate = (done - before) / (time.perf_counter() - start)
                    rest = tqdm.format_interval((manifest.texts - done) / rate)
                    line = f"{done:,} of {manifest.texts:,} texts, {rate:,.0f} texts/s, {rest} left"
                    print(f"{part.file}: {line}", file=sys.stderr, flush=True)
    if not success.exists():
        write_text(success, "", WHAT)
