"""Explaining a file of any length, in parts that a killed run need not compute again.

The batch in which a text is read decides the last digits of its scores. So batches are put together within blocks of
CHUNK_TEXTS texts, counted from the start of the input. They depend on the input and the settings alone, neither on
where a part begins nor on where a run was killed. A run that goes on inside a block computes all of it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, groupby, islice, repeat, tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from explearn.cli.jobs.manifest import MANIFEST, SUCCESS, Manifest, Part, folder_digest, is_whole, read_manifest
from explearn.cli.jobs.parts import Explained, write_part
from explearn.cli.jobs.reading import Input
from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError
from explearn.core.locks import locked
from explearn.core.visible import visible
from explearn.core.writing import write_text

if TYPE_CHECKING:
    from explearn.cli.choosing import Choice
    from explearn.methods.base.explainer import Explainer
    from explearn.models.classifier import Classifier

_LIBRARIES = ("explearn", "torch", "transformers", "tokenizers", "numpy", "pyarrow", "captum", "lime", "shap")
"""Whose versions the results may depend on."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be explained, how, and where the results go.

    Attributes:
        input: the texts. folder: for the parts. part_texts: texts a part.
        classifier: folder or hub name. choices: the methods. options: as `cli.choosing.make` takes them.
        targets: classes to explain of every text; none: the predicted one.
        windows: see `Explainer.explain`. seed: None: the methods' own. compute: where and in which precision.
    """

    input: Input
    folder: Path
    part_texts: int
    classifier: str
    choices: Sequence[Choice]
    options: dict[str, Any]
    targets: Sequence[str]
    windows: int | None
    seed: int | None
    compute: ComputeOptions


def run(job: Job) -> Manifest:
    """Do what is left of a job; the manifest of all its parts.

    Raises what reading, loading and explaining raise (DataError names file and row), and ParamsError where the folder
    holds something else, or a job with other settings. Finished parts stay in any case.
    """
    import torch

    from explearn.methods.base.asking import check_request

    with locked(job.folder, what=f"job {job.folder}"):
        stamp = job.input.stamp()
        manifest = read_manifest(job.folder)
        settings = _settings(job)
        if manifest is not None:
            manifest.check(job.folder, settings)
        # The rows of a finished job have all been looked at.
        texts = job.input.count() if manifest is None or not _is_done(job, manifest) else manifest.texts
        if manifest is not None and manifest.texts != texts:
            raise DataError(
                f"{job.folder / MANIFEST}: says {manifest.texts:,} texts, and {job.input.path} has {texts:,}; give "
                "another folder, or remove this one"
            )
        classifier, explainers = _loaded(job, manifest)
        # Before anything is written.
        check_request(classifier, job.targets, job.windows)
        settings |= _model_settings(classifier)
        if manifest is None:
            manifest = Manifest({**settings, "threads": torch.get_num_threads()}, texts)
            manifest.write(job.folder)
        else:
            manifest.check(job.folder, settings)
        # More threads may add up in another order.
        torch.set_num_threads(manifest.settings["threads"])
        _finish(job, manifest, classifier, explainers, stamp)
    return manifest


def _is_done(job: Job, manifest: Manifest) -> bool:
    return sum(part.texts for part in manifest.parts.values()) == manifest.texts


def part_name(number: int, parts: int) -> str:
    """Names sort as the parts do."""
    return f"part-{number:0{max(5, len(str(parts - 1)))}d}.parquet"


# ---- settings ----------------------------------------------------------------------------------------------------


def _settings(job: Job) -> dict[str, Any]:
    """What the results depend on and can be known without loading the classifier."""
    methods = [
        {"name": c.info.name, "explainer": None if c.folder is None else folder_digest(c.folder)} for c in job.choices
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


def _loaded(job: Job, manifest: Manifest | None) -> tuple[Classifier, list[Explainer]]:
    """The classifier and the methods.

    A batch's size that was found by the free memory of a GPU stays what it was when the job began.
    """
    from explearn.cli.choosing import make
    from explearn.core.seeds import seed_everything
    from explearn.models.classifier import Classifier

    explainers = make(job.choices, job.options, job.seed)
    if job.seed is not None:
        seed_everything(job.seed)
    compute = job.compute
    if manifest is not None and compute.max_tokens == "auto":
        compute = replace(compute, max_tokens=manifest.settings["max_tokens"])
    return Classifier.from_pretrained(job.classifier, compute), explainers


def _model_settings(classifier: Classifier) -> dict[str, Any]:
    import torch

    device = classifier.device
    name = torch.backends.cpu.get_cpu_capability()
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {
        "classifier": classifier.fingerprint,
        "tokenizer": _text_digest(classifier.tokenizer.backend_tokenizer.to_str()),
        "max_length": classifier.max_length,
        "problem": str(classifier.problem),
        "device": f"{device.type} {name}",
        "max_tokens": classifier.max_tokens,
    }


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# ---- parts -------------------------------------------------------------------------------------------------------


def _finish(
    job: Job, manifest: Manifest, classifier: Classifier, explainers: Sequence[Explainer], stamp: tuple[int, int]
) -> None:
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
    left = [number for number in names if number not in manifest.parts]
    if not left:
        _end(job, manifest)
        return
    (job.folder / SUCCESS).unlink(missing_ok=True)
    with _Progress(manifest) as progress:
        # Parts that follow each other are explained in one go: a block that reaches into two is computed once.
        for _, run_of in groupby(enumerate(left), key=lambda pair: pair[1] - pair[0]):
            numbers = [number for _, number in run_of]
            first, end = numbers[0] * job.part_texts, min((numbers[-1] + 1) * job.part_texts, manifest.texts)
            found = progress.counted(_explained(job, manifest.texts, classifier, explainers, first, end))
            for number in numbers:
                start = number * job.part_texts
                part = write_part(job.folder, names[number], start, islice(found, job.part_texts))
                if job.input.stamp() != stamp or part.texts != min(job.part_texts, manifest.texts - start):
                    raise DataError(
                        f"{job.input.path}: was changed while it was read; parts before {part.file} are as they were"
                    )
                manifest.parts[number] = part
                manifest.write(job.folder)
                progress.finished(part)
            # To its end: a method then says how many words were not read.
            next(found, None)
    _end(job, manifest)


def _end(job: Job, manifest: Manifest) -> None:
    if not (job.folder / SUCCESS).exists():
        write_text(job.folder / SUCCESS, "")


def _explained(
    job: Job, texts: int, classifier: Classifier, explainers: Sequence[Explainer], first: int, end: int
) -> Iterator[Explained]:
    """Texts [first, end) with their attributions: of each text method by method, of a method class by class.

    Computed from the start of the block that `first` is in to the end of the one that the last text is in.
    """
    from explearn.methods.base.explainer import CHUNK_TEXTS

    number = first - first % CHUNK_TEXTS
    stop = min(-(-end // CHUNK_TEXTS) * CHUNK_TEXTS, texts)
    rows = islice(job.input.texts(number), stop - number)
    # None of these iterators runs ahead of another by more than a block.
    own, *streams = tee(rows, 1 + len(explainers))
    found = [
        explainer.explain_each(
            classifier,
            (row.text for row in stream),
            repeat(list(job.targets), stop - number) if job.targets else None,
            windows=job.windows,
        )
        for explainer, stream in zip(explainers, streams, strict=True)
    ]
    try:
        for row, *of_methods in zip(own, *found, strict=True):
            if number >= end:
                return
            if number >= first:
                yield number, row.id, list(chain.from_iterable(of_methods))
            number += 1
    except DataError as error:
        raise _located(job, classifier, number, CHUNK_TEXTS) or error from error


def _located(job: Job, classifier: Classifier, start: int, count: int) -> DataError | None:
    """The complaint about the first text of a block that cannot be read, with its file and row."""
    from explearn.methods.base.asking import read_texts

    for row in islice(job.input.texts(start), count):
        try:
            read_texts(classifier, [row.text], 1, job.windows)
        except DataError as error:
            return DataError(f"{row.where}, field {job.input.text!r}: {str(error).removeprefix('text 1: ')}")
    return None


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

    def counted(self, found: Iterator[Explained]) -> Iterator[Explained]:
        for explained in found:
            yield explained
            self._bar.update(1)

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
