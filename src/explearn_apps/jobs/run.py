"""Doing what is left of a large job, and keeping its manifest."""

from __future__ import annotations

import json
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tqdm.auto import tqdm

from explearn.core.errors import DataError
from explearn.core.locks import locked
from explearn.core.visible import visible
from explearn.core.writing import write_text
from explearn_apps.jobs.engines import Engine
from explearn_apps.jobs.job import Job
from explearn_apps.jobs.manifest import (
    MANIFEST,
    SUCCESS,
    Manifest,
    Part,
    folder_digest,
    is_whole,
    part_name,
    read_manifest,
)

_LIBRARIES = ("explearn", "torch", "transformers", "tokenizers", "numpy", "pyarrow", "captum", "lime", "shap")
"""Whose versions the results may depend on."""


def run(job: Job, engine: Engine) -> Manifest:
    """Do what is left of a job; the manifest of all its parts.

    Raises what reading, loading and explaining raise (DataError names file and row), and ParamsError where the folder
    holds something else, or a job with other settings. Finished parts stay in any case.
    """
    with locked(job.folder, what=f"job {job.folder}"):
        stamp = job.input.stamp()
        manifest = read_manifest(job.folder)
        settings = _settings(job)
        if manifest is not None:
            manifest.check(job.folder, settings)
        # The rows of a finished job have all been looked at.
        texts = job.input.count() if manifest is None or not _is_done(manifest) else manifest.texts
        if manifest is not None and manifest.texts != texts:
            raise DataError(
                f"{job.folder / MANIFEST}: says {manifest.texts:,} texts, and {job.input.path} has {texts:,}; give "
                "another folder, or remove this one"
            )
        settings |= engine.settings(job, stamp, {} if manifest is None else manifest.settings)
        if manifest is None:
            manifest = Manifest(settings, texts)
            manifest.write(job.folder)
        else:
            manifest.check(job.folder, settings)
        _finish(job, manifest, engine)
    return manifest


def _is_done(manifest: Manifest) -> bool:
    return sum(part.texts for part in manifest.parts.values()) == manifest.texts


def _settings(job: Job) -> dict[str, Any]:
    """What the results depend on and can be known without loading the classifier."""
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
        "input": job.input.fingerprint(),
        "columns": job.input.columns,
        "methods": methods,
        # As a manifest gives them back: JSON knows no keys but strings.
        "options": json.loads(json.dumps(job.options, default=str)),
        "targets": list(job.targets),
        "windows": job.windows,
        "seed": job.seed,
        "precision": job.compute.precision,
        "compile": job.compute.compile,
        "shard_texts": job.part_texts,
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _LIBRARIES}},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _finish(job: Job, manifest: Manifest, engine: Engine) -> None:
    """Write the parts that are missing or damaged, each one's entry in the manifest after it."""
    count = -(-manifest.texts // job.part_texts)
    names = {number: part_name(number, count) for number in range(count)}
    for number, part in list(manifest.parts.items()):
        first = number * job.part_texts
        place = names.get(number), first, min(job.part_texts, manifest.texts - first)
        if (part.file, part.first, part.texts) != place or not is_whole(job.folder, part):
            name = visible(str(job.folder / part.file))
            print(f"{name}: is not as it was written; it is written again", file=sys.stderr)
            del manifest.parts[number]
    if left := [number for number in names if number not in manifest.parts]:
        (job.folder / SUCCESS).unlink(missing_ok=True)
        with _Progress(manifest) as progress:
            for number, part in engine.parts(left, manifest.texts, progress.advance):
                manifest.parts[number] = part
                manifest.write(job.folder)
                progress.finished(part)
    if not (job.folder / SUCCESS).exists():
        write_text(job.folder / SUCCESS, "")


class _Progress:
    """How far a job is: a bar with rate and time left on a terminal, elsewhere a line a part on standard error."""

    def __init__(self, manifest: Manifest) -> None:
        self._texts, self._parts = manifest.texts, manifest.parts
        self._start = time.perf_counter()
        self._done = self._before = sum(part.texts for part in manifest.parts.values())

    def __enter__(self) -> _Progress:
        self._bar = tqdm(total=self._texts, initial=self._before, desc="explain", unit="text", disable=None)
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def advance(self, texts: int) -> None:
        self._bar.update(texts)

    def finished(self, part: Part) -> None:
        self._done += part.texts
        if not self._bar.disable:
            return
        rate = (self._done - self._before) / (time.perf_counter() - self._start)
        left = tqdm.format_interval((self._texts - self._done) / rate)
        print(
            f"{part.file}: {self._done:,} of {self._texts:,} texts, {rate:,.0f} texts/s, {left} left",
            file=sys.stderr,
            flush=True,
        )
