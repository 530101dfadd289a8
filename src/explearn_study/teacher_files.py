"""Word scores of a method for a task's texts, saved shard by shard for students to learn from.

A folder contains SPLIT-NUMBER.parquet, the shards in their order. It appears once all of them are written. The metadata
of a shard say what it was made from, so that an interrupted run resumes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tqdm.auto import tqdm

from explearn.core.documents import text_digest
from explearn.core.errors import DataError
from explearn.core.examples import Example
from explearn.core.writing import atomic_folder
from explearn.methods.base.explainer import Explainer
from explearn.methods.base.targets import judged_targets
from explearn.methods.base.teachers import Lesson, Lessons, combine_lessons, lesson_of
from explearn.metrics.runs import MethodRun, kept_run, read_run, write_run
from explearn.predictors.predictor import Predictor


def teach(
    folder: Path,
    teacher: Explainer,
    classifier: Predictor,
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
    fingerprint = classifier.fingerprint
    options = teacher.settings()
    written: set[str] = set()
    with (
        atomic_folder(folder, resume=True) as unfinished,
        tqdm(total=total, desc=description, unit="text", disable=None if description else True) as bar,
    ):
        for split, examples in splits.items():
            for number, start in enumerate(range(0, len(examples), shard_texts)):
                texts = examples[start : start + shard_texts]
                name = f"{split}-{number:05d}.parquet"
                written.add(name)
                words = [(example.id, example.words, example.pair) for example in texts]
                source = text_digest(repr((teacher.name, options, fingerprint, words)))
                if not kept_run(unfinished / name, source):
                    attributions = teacher.explain(classifier, texts, judged_targets(classifier, texts))
                    run = MethodRun(teacher.name, attributions, fingerprint, options, source=source)
                    write_run(unfinished / name, run)
                bar.update(len(texts))
        # An unfinished run of other texts may have written more shards.
        for path in unfinished.iterdir():
            if path.name not in written:
                path.unlink()


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
        shards = sorted(folder.glob("*.parquet"))
        if not shards:
            raise DataError(f"{folder}: there are no word scores of this teacher; run the stage teach again")
        by_split: dict[str, list[Lesson]] = defaultdict(list)
        for path in shards:
            run = read_run(path)
            if run.classifier != fingerprint:
                raise DataError(f"{folder}: explains another classifier than the one given; run the stage teach again")
            by_split[path.stem.rpartition("-")[0]] += map(lesson_of, run.attributions)
        lessons.append(Lessons(by_split, run.attributions[0].signed))
    return combine_lessons(lessons)
