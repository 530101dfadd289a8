"""Executors of a large job, and running or resuming a job with one of them."""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import groupby
from typing import Any, Protocol

from tqdm.auto import tqdm

from explearn.core.documents import file_digest
from explearn.core.errors import DataError
from explearn.core.escape import printable
from explearn.core.writing import locked, write_text
from explearn_apps.jobs.explaining import Job, Worker
from explearn_apps.jobs.manifest import (
    MANIFEST,
    SUCCESS,
    JobManifest,
    Part,
    folder_digest,
    part_name,
    read_manifest,
)

_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "pyarrow", "captum", "lime", "shap")
"""Packages whose versions may affect the results, where they are installed."""


Advance = Callable[[int], object]


class Executor(Protocol):
    """Explains the parts of one job."""

    def settings(self, job: Job, stamp: tuple[int, int], begun: Mapping[str, Any]) -> dict[str, Any]:
        """Load the classifier, and return the settings, other than the job's, that affect the results.

        Args:
            job: the job.
            stamp: the input's stamp (`Input.stamp`).
            begun: settings of an earlier run of the job, of which `threads` and `max_tokens` are kept; empty for a new
                job.

        Returns:
            `explaining.model_settings`, and `threads`, the CPU threads of a worker.
        """

    def parts(self, numbers: Sequence[int], texts: int, advance: Advance) -> Iterator[tuple[int, Part]]:
        """Write parts, in any order; yield each with its number once its file is in place.

        Args:
            numbers: numbers of the parts, ascending.
            texts: number of texts in the input.
            advance: called with numbers of finished texts.
        """


class LocalExecutor:
    """An executor that explains all parts in this process, one after the other."""

    def settings(self, job: Job, stamp: tuple[int, int], begun: Mapping[str, Any]) -> dict[str, Any]:
        import torch

        if "threads" in begun:
            # More threads may add numbers in another order.
            torch.set_num_threads(begun["threads"])
        self._worker = Worker(job, stamp, begun.get("max_tokens"))
        return {**self._worker.settings, "threads": torch.get_num_threads()}

    def parts(self, numbers: Sequence[int], texts: int, advance: Advance) -> Iterator[tuple[int, Part]]:
        # Runs of consecutive numbers: a block that overlaps two parts is computed once.
        for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
            yield from self._worker.parts([number for _, number in run], texts, advance)


def run(job: Job, executor: Executor) -> JobManifest:
    """Run or resume a job, and return the manifest of all its parts.

    Raises what reading, loading and explaining raise (DataError names file and row), and ParamsError if the folder has
    other content, or a job with other settings. Finished parts always stay.
    """
    with locked(job.folder, what=f"job {job.folder}"):
        stamp = job.input.stamp()
        manifest = read_manifest(job.folder)
        settings = _settings(job)
        if manifest is not None:
            manifest.check(job.folder, settings)
        # All rows of a finished job have been checked.
        done = manifest is not None and sum(part.texts for part in manifest.parts.values()) == manifest.texts
        texts = manifest.texts if manifest is not None and done else job.input.count()
        if manifest is not None and manifest.texts != texts:
            raise DataError(
                f"{job.folder / MANIFEST}: says {manifest.texts:,} texts, but {job.input.path} has {texts:,}; use "
                "another folder, or remove this one"
            )
        settings |= executor.settings(job, stamp, {} if manifest is None else manifest.settings)
        if manifest is None:
            manifest = JobManifest(settings=settings, texts=texts)
            manifest.write(job.folder)
        else:
            manifest.check(job.folder, settings)
        _finish(job, manifest, executor)
    return manifest


def _settings(job: Job) -> dict[str, Any]:
    """Return the settings that affect the results and are known without loading the classifier."""
    methods = [
        {
            "name": c.info.name,
            "explainer": None if c.folder is None else folder_digest(c.folder),
            # Those of a bundle.
            "options": json.loads(json.dumps(dict(c.options), default=str)),
        }
        for c in job.choices
    ]
    return {
        "input": file_digest(job.input.path),
        "columns": {"text": job.input.text, "pair": job.input.pair, "id": job.input.id},
        "methods": methods,
        # As read back from a manifest: JSON has only string keys.
        "options": json.loads(json.dumps(job.options, default=str)),
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


def _finish(job: Job, manifest: JobManifest, executor: Executor) -> None:
    """Write missing and damaged parts, and after each its entry in the manifest.

    Progress is a bar on a terminal, elsewhere one line per part on standard error.
    """
    from explearn.methods.base.explainer import CHUNK_LONG_TEXTS, CHUNK_TEXTS

    chunk = CHUNK_TEXTS if job.windows is None else CHUNK_LONG_TEXTS
    count = -(-manifest.texts // job.part_texts)
    names = {number: part_name(number, count) for number in range(count)}
    for number, part in list(manifest.parts.items()):
        first = number * job.part_texts
        place = names.get(number), first, min(job.part_texts, manifest.texts - first)
        if (part.file, part.first, part.texts) != place or not part.match(job.folder / part.file):
            name = printable(str(job.folder / part.file))
            print(f"{name}: has changed; it is written again", file=sys.stderr)
            del manifest.parts[number]
    if missing := [number for number in names if number not in manifest.parts]:
        (job.folder / SUCCESS).unlink(missing_ok=True)
        done = before = sum(part.texts for part in manifest.parts.values())
        start = time.perf_counter()
        with tqdm(total=manifest.texts, initial=before, desc="explain", unit="text", disable=None) as bar:
            for number, part in executor.parts(missing, manifest.texts, bar.update):
                manifest.parts[number] = part
                manifest.write(job.folder)
                done += part.texts
                if bar.disable:
                    # Texts are explained in chunks; those after this part in its last chunk are explained already.
                    explained = min(-(-done // chunk) * chunk, manifest.texts)
                    rate = (explained - before) / (time.perf_counter() - start)
                    rest = tqdm.format_interval((manifest.texts - explained) / rate)
                    line = f"{done:,} of {manifest.texts:,} texts, {rate:,.0f} texts/s, {rest} left"
                    print(f"{part.file}: {line}", file=sys.stderr, flush=True)
    if not (job.folder / SUCCESS).exists():
        write_text(job.folder / SUCCESS, "")
