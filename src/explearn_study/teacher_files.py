"""Word scores of a method for a task's texts, kept shard by shard for students to learn from.

A folder holds SPLIT-NUMBER.parquet, the shards in their order, and teacher.json. It appears once all of them are
written. The metadata of a shard say what it was made from, so that an interrupted run resumes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.core.parquet import read_metadata
from explearn.core.storage import read_attributions, write_attributions
from explearn.core.writing import atomic_folder, write_json
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import judged_targets
from explearn.methods.base.task import Lesson, Lessons
from explearn.methods.base.teachers import combine_lessons, lesson_of
from explearn.predictors.classifier import Classifier
from explearn_study.workspace import read_document

MANIFEST = "teacher.json"


def teach(
    folder: Path,
    teacher: Explainer,
    options: Mapping[str, Any],
    classifier: Classifier,
    splits: Mapping[str, Sequence[Example]],
    shard_texts: int = 128,
    description: str | None = None,
) -> None:
    """Explain the predicted class of every text of some splits; write attributions shard by shard.

    Shards of an unfinished run are kept if they were made by the same method with the same options from the same texts
    and the same classifier. The folder stays as it is until the last shard is written.

    Args:
        folder: where to write; one for each teacher and task.
        teacher: any method that is ready to explain.
        options: options of its constructor, for the record.
        classifier: the classifier to explain.
        splits: split -> its texts.
        shard_texts: texts in a shard; as many are lost if a run is interrupted.
        description: text of a progress bar. None: no bar.

    Raises:
        UnsupportedError: the method cannot explain this classifier.
        DataError: there is no text.
    """
    total = sum(map(len, splits.values()))
    if not total:
        raise DataError(f"{folder}: there is no text to explain; expected at least one")
    teacher.check_explains(classifier)
    origin = {"teacher": teacher.name, "options": dict(options), "classifier": classifier.fingerprint}
    shards: dict[str, list[str]] = {split: [] for split in splits}
    with (
        atomic_folder(folder, resume=True) as unfinished,
        tqdm(total=total, desc=description, unit="text", disable=None if description else True) as bar,
    ):
        for split, examples in splits.items():
            for number, start in enumerate(range(0, len(examples), shard_texts)):
                texts = examples[start : start + shard_texts]
                name = f"{split}-{number:05d}.parquet"
                shards[split].append(name)
                words = "".join(repr((example.id, example.words, example.pair)) for example in texts)
                made_from = {**origin, "texts": hashlib.sha256(words.encode()).hexdigest()}
                if not _is_whole(unfinished / name, made_from):
                    attributions = teacher.explain(classifier, texts, judged_targets(classifier, texts))
                    write_attributions(unfinished / name, list(attributions), made_from)
                bar.update(len(texts))
        # An unfinished run of other texts may have written more shards.
        written = set(chain.from_iterable(shards.values()))
        for path in unfinished.iterdir():
            if path.name not in written:
                path.unlink()
        write_json(
            unfinished / MANIFEST,
            {
                **origin,
                "signed": teacher.signed,
                "shards": shards,
                "texts": {split: len(examples) for split, examples in splits.items()},
            },
        )


def _is_whole(shard: Path, made_from: Mapping[str, Any]) -> bool:
    """Check whether a shard can be read and was made from this."""
    try:
        read_attributions(shard)
        return read_metadata(shard) == made_from
    except DataError:
        return False


def read_lessons(folders: Sequence[Path], fingerprint: str) -> Lessons:
    """Read the word scores of a teacher, or of an ensemble of them (`combine_lessons`), for a task's texts.

    Args:
        folders: folders of the members, as `teach` wrote them.
        fingerprint: fingerprint of the classifier that is to be explained.

    Raises:
        DataError: files are missing or damaged, or were made with another classifier.
    """
    lessons = []
    for folder in folders:
        if not (folder / MANIFEST).exists():
            raise DataError(f"{folder}: {MANIFEST} is missing; run the stage teach again")
        manifest = read_document(folder / MANIFEST, dict[str, Any], "teach")
        if manifest["classifier"] != fingerprint:
            raise DataError(f"{folder}: explains another classifier than the one given; run the stage teach again")
        by_split: dict[str, list[Lesson]] = {split: [] for split in manifest["shards"]}
        for split, names in manifest["shards"].items():
            for name in names:
                by_split[split] += map(lesson_of, read_attributions(folder / name))
        lessons.append(Lessons(by_split, manifest["signed"]))
    return combine_lessons(lessons)
