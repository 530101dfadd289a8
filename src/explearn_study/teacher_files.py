"""Word scores of a method for a task's texts, kept shard by shard for students to learn from.

A folder holds SPLIT-NUMBER.parquet, the shards in their order, and teacher.json. It appears once all of them are
written. The metadata of a shard say what it was made from, so that a run that was ended goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from explearn.core.errors import DataError, first_line
from explearn.core.parquet import read_metadata
from explearn.core.records import Attribution, Example
from explearn.core.storage import read_attributions, write_attributions
from explearn.core.validation import read_document
from explearn.core.writing import atomic_path, resumable_folder, write_json
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import judged_targets
from explearn.methods.base.task import Lessons
from explearn.methods.base.teachers import combine_lessons, lesson_of
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
    method with the same options from the same texts and the same classifier, and without a failure. The folder stays
    as it is until the last shard is written. A text that the teacher fails on is left out and noted with the reason.

    Args:
        folder: of this teacher and task.
        teacher: any method that is ready to explain. options: of its constructor, for the record.
        splits: by name.
        shard_texts: texts a shard, as many as are lost when a run is ended.
        description: text of a progress bar (default: no bar).

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
    with (
        resumable_folder(folder) as unfinished,
        tqdm(total=total, desc=description, unit="text", disable=None if description else True) as bar,
    ):
        shards_of = ((s, of[n : n + shard_texts]) for s, of in splits.items() for n in range(0, len(of), shard_texts))
        for split, texts in shards_of:
            name = f"{split}-{len(shards[split]):05d}.parquet"
            shards[split].append(name)
            words = "".join(repr((example.id, example.words, example.pair)) for example in texts)
            made_from = {**origin, "texts": hashlib.sha256(words.encode()).hexdigest()}
            if not _is_whole(unfinished / name, made_from):
                if _is_whole(folder / name, made_from):
                    with atomic_path(unfinished / name) as partial:
                        shutil.copyfile(folder / name, partial)
                else:
                    attributions, failed = _explain(teacher, classifier, texts)
                    metadata = {**made_from, "failures": [asdict(failure) for failure in failed]}
                    write_attributions(unfinished / name, attributions, metadata)
                    failures += failed
            bar.update(len(texts))
            if len(failures) > MOST_FAILED * total:
                listed = "; ".join(f"{failure.example_id}: {failure.reason}" for failure in failures[:3])
                raise TooManyFailures(
                    f"{folder}: {teacher.name} failed on {len(failures)} of {total} texts ({listed}); "
                    f"expected at most {MOST_FAILED:.0%}"
                )
        # An unfinished run of other texts may have written more shards.
        for path in unfinished.iterdir():
            if not any(path.name in names for names in shards.values()):
                path.unlink()
        write_json(
            unfinished / MANIFEST,
            {
                **origin,
                "signed": teacher.signed,
                "shards": shards,
                "texts": {split: len(examples) for split, examples in splits.items()},
                "failures": [asdict(failure) for failure in failures],
            },
        )
    return failures


def _is_whole(shard: Path, made_from: Mapping[str, Any]) -> bool:
    """Check whether a shard can be read and was made from this without a failure, which may have been of the moment."""
    try:
        read_attributions(shard)
        return read_metadata(shard) == {**made_from, "failures": []}
    except DataError:
        return False


def _explain(
    teacher: Explainer, classifier: Classifier, examples: Sequence[Example]
) -> tuple[list[Attribution], list[Failure]]:
    try:
        return list(teacher.explain(classifier, examples, judged_targets(classifier, examples))), []
    except Exception as error:
        # Whatever it was (an odd text, memory), one text's trouble must not cost the others: find out whose it is.
        logger.warning("%s: %s; going on text by text", teacher.name, first_line(error))
    attributions, failures = [], []
    for example in examples:
        try:
            attributions += list(teacher.explain(classifier, [example], judged_targets(classifier, [example])))
        except Exception as error:
            failures.append(Failure(example.id, first_line(error)))
            logger.warning("%s failed on %s: %s", teacher.name, example.id, failures[-1].reason)
    return attributions, failures


def read_lessons(folders: Sequence[Path], fingerprint: str) -> Lessons:
    """Read the word scores of a teacher, or of an ensemble of them (`combine_lessons`), for a task's texts.

    Args:
        folders: of the members, as `teach` wrote them.
        fingerprint: of the classifier that is to be explained.

    Raises DataError where files are missing or damaged, or were made with another classifier.
    """
    return combine_lessons([_read_one(folder, fingerprint) for folder in folders])


def _read_one(folder: Path, fingerprint: str) -> Lessons:
    if not (folder / MANIFEST).exists():
        raise DataError(f"{folder}: no whole teacher's file ({MANIFEST} is missing); run the stage teach again")
    manifest = read_document(folder / MANIFEST, dict[str, Any], "teach")
    origin = {key: manifest[key] for key in ("teacher", "options", "classifier")}
    if origin["classifier"] != fingerprint:
        raise DataError(f"{folder}: explains another classifier than the one given; run the stage teach again")
    lessons = Lessons({split: [] for split in manifest["shards"]}, manifest["signed"])
    for split, names in manifest["shards"].items():
        for path in (folder / name for name in names):
            metadata = read_metadata(path)
            if any(metadata.get(key) != value for key, value in origin.items()):
                raise DataError(f"{path}: not of the run that {MANIFEST} records; run the stage teach again")
            lessons.by_split[split] += map(lesson_of, read_attributions(path))
    return lessons
