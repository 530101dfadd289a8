"""Word scores of a method for a task's texts, kept shard by shard for students to learn from.

A folder holds SPLIT-NUMBER.parquet, the shards in their order, and teacher.json. It appears once all of them are
written. The metadata of a shard say what it was made from, so that a run that was ended goes on where it stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from explearn.predictors.transformer import TransformerPredictor
from tqdm.auto import tqdm

from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.core.parquet import read_metadata
from explearn.core.storage import read_attributions, write_attributions
from explearn.core.writing import atomic_folder, write_json
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import judged_targets
from explearn.methods.base.task import Lessons
from explearn.methods.base.teachers import combine_lessons, lesson_of
from explearn_study.workspace import read_document

MANIFEST = "teacher.json"


def teach(
    folder: Path,
    teacher: Explainer,
    options: Mapping[str, Any],
    classifier: TransformerPredictor,
    splits: Mapping[str, Sequence[Example]],
    shard_texts: int = 128,
    description: str | None = None,
) -> None:
    """Explain the predicted class of every text of some splits; write attributions shard by shard.

    Shards of an unfinished run are kept if they were made by the same method with the same options from the same texts
    and the same classifier. The folder stays as it is until the last shard is written.

    Args:
        folder: of this teacher and task.
        teacher: any method that is ready to explain. options: of its constructor, for the record.
        splits: by name.
        shard_texts: texts a shard, as many as are lost when a run is ended.
        description: text of a progress bar (default: no bar).

    Raises UnsupportedError where the method cannot explain this classifier, DataError where there is no text.
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
        shards_of = ((s, of[n : n + shard_texts]) for s, of in splits.items() for n in range(0, len(of), shard_texts))
        for split, texts in shards_of:
            name = f"{split}-{len(shards[split]):05d}.parquet"
            shards[split].append(name)
            words = "".join(repr((example.id, example.words, example.pair)) for example in texts)
            made_from = {**origin, "texts": hashlib.sha256(words.encode()).hexdigest()}
            if not _is_whole(unfinished / name, made_from):
                attributions = teacher.explain(classifier, texts, judged_targets(classifier, texts))
                write_attributions(unfinished / name, list(attributions), made_from)
            bar.update(len(texts))
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
        folders: of the members, as `teach` wrote them.
        fingerprint: of the classifier that is to be explained.

    Raises DataError where files are missing or damaged, or were made with another classifier.
    """
    of_members = []
    for folder in folders:
        if not (folder / MANIFEST).exists():
            raise DataError(f"{folder}: no whole teacher's file ({MANIFEST} is missing); run the stage teach again")
        manifest = read_document(folder / MANIFEST, dict[str, Any], "teach")
        if manifest["classifier"] != fingerprint:
            raise DataError(f"{folder}: explains another classifier than the one given; run the stage teach again")
        by_split = {
            split: [lesson_of(attribution) for name in names for attribution in read_attributions(folder / name)]
            for split, names in manifest["shards"].items()
        }
        of_members.append(Lessons(by_split, manifest["signed"]))
    return combine_lessons(of_members)
