"""What a teacher says of a task's texts: word scores of a method, kept shard by shard for students to learn from.

A folder holds SPLIT-NUMBER.parquet, the shards in their order, and teacher.json. It appears once all of them are
written. A shard says in its own metadata what made it, so that a run that was ended is taken up where it stopped.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from explearn.core.errors import DataError, UnknownNameError, first_line
from explearn.core.records import Attribution, Example
from explearn.core.shapes import Shape, check_shape
from explearn.core.storage import (
    ATTRIBUTION_SCHEMA,
    atomic_path,
    attribution_row,
    read_attributions,
    read_json,
    read_metadata,
    resumable_folder,
    write_json,
    write_table,
)
from explearn.methods.base.asking import judged_targets
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.registry import accepted_options, get_explainer
from explearn.methods.base.task_data import Lesson, Lessons
from explearn.methods.base.teachers import members

if TYPE_CHECKING:
    from explearn.model.classifier import Classifier

logger = logging.getLogger(__name__)

MANIFEST = "teacher.json"
MOST_FAILED = 0.01
"""Share of the texts that a teacher may fail on."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A text that a teacher could not explain, and why."""

    example_id: str
    reason: str


class TooManyFailures(DataError):
    """A teacher failed on more than MOST_FAILED of the texts."""


def teacher_options(name: str, teachers: Mapping[str, Mapping[str, Any]], seed: int) -> dict[str, Any]:
    """Options of a method under `teachers`; methods that draw at random take `seed` where theirs name none."""
    return {**({"seed": seed} if "seed" in accepted_options(name) else {}), **teachers[name]}


def make_teacher(teacher: str, teachers: Mapping[str, Mapping[str, Any]], seed: int) -> dict[str, Explainer]:
    """The members of a teacher by name, ready to explain.

    Raises UnknownNameError for one that is not under `teachers`, and as `get_explainer` does.
    """
    for name in members(teacher):
        if name not in teachers:
            raise UnknownNameError("teacher", name, teachers)
    return {name: get_explainer(name, **teacher_options(name, teachers, seed)) for name in members(teacher)}


def teach(
    folder: Path,
    teacher: Explainer,
    options: Mapping[str, Any],
    classifier: Classifier,
    splits: Mapping[str, Sequence[Example]],
    shard_texts: int = 128,
    description: str | None = None,
) -> list[Failure]:
    """Explain the predicted class of every text of some splits; write attributions shard by shard.

    Shards of an unfinished run, and of the finished one that stands in `folder`, are kept if they were made by the same
    method with the same options from the same texts and the same classifier, and without a failure. What stands there
    stays until the last shard is written. A text that the teacher fails on is left out and noted with the reason.

    Args:
        folder: of this teacher and task.
        teacher: any method that is ready to explain. options: what it was made with, for the record.
        splits: by name.
        shard_texts: texts a shard; what is lost when a run is ended.
        description: what the progress bar should say (default: no bar).

    Returns the failures of all splits.

    Raises:
        UnsupportedError: the method cannot explain this classifier.
        DataError: there is no text.
        TooManyFailures: the teacher failed on more than MOST_FAILED of all texts. Shards stay for the next run.
    """
    total = sum(map(len, splits.values()))
    if not total:
        raise DataError(f"{folder}: there is no text to explain; expected at least one")
    teacher.check_explains(classifier)
    origin = {"teacher": teacher.name, "options": dict(options), "classifier": classifier.fingerprint}
    shards: dict[str, list[str]] = {split: [] for split in splits}
    failures: list[Failure] = []
    to_do = total
    with (
        resumable_folder(folder) as unfinished,
        tqdm(total=total, desc=description, unit="text", disable=None if description else True) as bar,
    ):
        for split, examples in splits.items():
            for start in range(0, len(examples), shard_texts):
                part = examples[start : start + shard_texts]
                name = f"{split}-{len(shards[split]):05d}.parquet"
                shards[split].append(name)
                made_by = {**origin, "texts": _digest(part)}
                if _taken_over(unfinished / name, folder / name, made_by):
                    # So that the time left is not reckoned from texts that took none.
                    to_do -= len(part)
                    bar.total = to_do
                    bar.refresh()
                    continue
                failures += _write_shard(unfinished / name, teacher, classifier, part, made_by)
                bar.update(len(part))
                if len(failures) > MOST_FAILED * total:
                    listed = "; ".join(f"{f.example_id}: {f.reason}" for f in failures[:3])
                    raise TooManyFailures(
                        f"{folder}: {teacher.name} failed on {len(failures)} of {total} texts ({listed}); "
                        f"expected at most {MOST_FAILED:.0%}"
                    )
        manifest = {
            **origin,
            "signed": teacher.signed,
            "shards": shards,
            "texts": {split: len(examples) for split, examples in splits.items()},
            "failures": [asdict(failure) for failure in failures],
        }
        _finish(unfinished, manifest)
    return failures


def _taken_over(shard: Path, earlier: Path, made_by: Mapping[str, Any]) -> bool:
    """Whether a shard need not be made: it is there already, or a copy of the finished run's serves."""
    if _made_by(shard, made_by):
        return True
    if not _made_by(earlier, made_by):
        return False
    with atomic_path(shard) as partial:
        shutil.copyfile(earlier, partial)
    return True


def _write_shard(
    path: Path, teacher: Explainer, classifier: Classifier, examples: Sequence[Example], made_by: Mapping[str, Any]
) -> list[Failure]:
    """Explain the texts of a shard, write it, and return the texts that failed."""
    found, failed = _explain(teacher, classifier, examples)
    rows = [attribution_row(attribution) for attribution in found]
    write_table(path, rows, ATTRIBUTION_SCHEMA, {**made_by, "failures": [asdict(failure) for failure in failed]})
    return failed


def _finish(unfinished: Path, manifest: Mapping[str, Any]) -> None:
    """Remove what is none of the shards, as an unfinished run of other texts leaves it, and write the manifest."""
    kept = {name for names in manifest["shards"].values() for name in names}
    for stale in unfinished.iterdir():
        if stale.name not in kept:
            stale.unlink()
    write_json(unfinished / MANIFEST, manifest)


def _digest(examples: Iterable[Example]) -> str:
    """SHA-256 over ids and words, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr((example.id, example.words, example.pair)).encode())
    return digest.hexdigest()


def _made_by(path: Path, made_by: Mapping[str, Any]) -> bool:
    """Whether a shard is there, whole, made by this, and without a failure (which may have been of the moment)."""
    if not path.exists():
        return False
    try:
        metadata = read_metadata(path)
        read_attributions(path)
    except DataError:
        return False
    return metadata == {**made_by, "failures": []}


def _explain(
    teacher: Explainer, classifier: Classifier, examples: Sequence[Example]
) -> tuple[list[Attribution], list[Failure]]:
    try:
        return list(teacher.explain(classifier, examples, judged_targets(classifier, examples))), []
    except Exception as error:
        # Whatever it was (an odd text, memory), one text's trouble must not cost the others: find out whose it is.
        logger.warning("%s: %s; going on text by text", teacher.name, first_line(error))
    found, failed = [], []
    for example in examples:
        try:
            found += list(teacher.explain(classifier, [example], judged_targets(classifier, [example])))
        except Exception as error:
            failed.append(Failure(example.id, f"{type(error).__name__}: {first_line(error)}"))
            logger.warning("%s failed on %s: %s", teacher.name, example.id, failed[-1].reason)
    return found, failed


# ---- reading -----------------------------------------------------------------------------------------------------


def lessons_of(
    methods: Mapping[str, Explainer], classifier: Classifier, splits: Mapping[str, Sequence[Example]]
) -> Lessons:
    """Let methods explain the predicted class of some texts now, and put together what they say.

    Args:
        methods: the members of a teacher by name; see `make_teacher`.
        splits: texts by the name of their split.
    """
    found = []
    for method in methods.values():
        by_split = {
            split: [
                _lesson(attribution)
                for attribution in method.explain(classifier, examples, judged_targets(classifier, examples))
            ]
            for split, examples in splits.items()
        }
        found.append(Lessons(by_split, method.signed))
    return _together(found)


def read_lessons(folders: Sequence[Path], fingerprint: str) -> Lessons:
    """Read what a teacher, or an ensemble of them, said of a task's texts.

    An ensemble's weight of a word is the mean over its members of the word's rank, scaled to (0, 1]: of |w| with the
    sign of w where all members are signed, else of w. Only texts that every member explained are kept.

    Args:
        folders: of the members, as `teach` wrote them.
        fingerprint: of the classifier that is to be explained.

    Raises DataError where files are missing or damaged, or were made with another classifier.
    """
    return _together([_read_one(folder, fingerprint) for folder in folders])


def _together(found: Sequence[Lessons]) -> Lessons:
    if len(found) == 1:
        return found[0]
    signed = all(lessons.signed for lessons in found)
    by_split: dict[str, list[Lesson]] = {}
    for split in found[0].by_split:
        texts = [{lesson.example_id: lesson for lesson in lessons.by_split.get(split, ())} for lessons in found]
        by_split[split] = [
            Lesson(
                lesson.example_id,
                lesson.target,
                combined([of_text[lesson.example_id].weights for of_text in texts], signed),
            )
            for lesson in found[0].by_split[split]
            if all(lesson.example_id in of_text for of_text in texts)
        ]
    return Lessons(by_split, signed)


def combined(weights: Sequence[NDArray[Any]], signed: bool) -> NDArray[np.float64]:
    """An ensemble's weights of a text's words: the mean of its members' `scaled_ranks`; of one member, its own."""
    if len(weights) == 1:
        return np.asarray(weights[0], dtype=np.float64)
    return np.asarray(np.mean([scaled_ranks(np.asarray(w, dtype=np.float64), signed) for w in weights], axis=0))


def scaled_ranks(weights: NDArray[np.float64], signed: bool) -> NDArray[np.float64]:
    """Ranks of a text's weights in (0, 1], equal ones sharing their mean; signed: of |w|, with the sign of w."""
    from scipy.stats import rankdata  # takes half a second to import

    if not signed:
        return np.asarray(rankdata(weights) / len(weights))
    return np.asarray(np.sign(weights) * rankdata(np.abs(weights)) / len(weights))


class _Manifest(Shape):
    teacher: str
    options: dict[str, Any]
    classifier: str
    shards: dict[str, list[str]]
    signed: bool


def _read_one(folder: Path, fingerprint: str) -> Lessons:
    manifest = read_json(folder / MANIFEST) if (folder / MANIFEST).exists() else None
    if manifest is None:
        raise DataError(f"{folder}: no whole teacher's file ({MANIFEST} is missing); run the stage teach again")
    check_shape(manifest, _Manifest, folder / MANIFEST, "run the stage teach again")
    origin = {key: manifest[key] for key in ("teacher", "options", "classifier")}
    shards, signed = manifest["shards"], bool(manifest["signed"])
    if origin["classifier"] != fingerprint:
        raise DataError(f"{folder}: explains another classifier than the one given; run the stage teach again")
    by_split: dict[str, list[Lesson]] = {}
    for split, names in shards.items():
        by_split[split] = []
        for name in names:
            metadata = read_metadata(folder / name)
            if any(metadata.get(key) != value for key, value in origin.items()):
                raise DataError(f"{folder / name}: not of the run that {MANIFEST} records; run the stage teach again")
            by_split[split] += [_lesson(attribution) for attribution in read_attributions(folder / name)]
    return Lessons(by_split, signed)


def _lesson(attribution: Attribution) -> Lesson:
    return Lesson(attribution.example_id, attribution.target, np.asarray(attribution.filled(), dtype=np.float64))
