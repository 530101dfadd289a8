"""The texts and the classifier of an audit: read, checked, and explained, here or by a job; and its working folder."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from explearn.comparison.texts import TextColumns, UserTexts, given_texts
from explearn.core.arguments import check_listed
from explearn.core.arrays import Array
from explearn.core.compute import ComputeOptions
from explearn.core.documents import file_digest, read_json, text_digest
from explearn.core.errors import DataError, ParamsError
from explearn.core.examples import Example
from explearn.core.file_facts import FileFacts
from explearn.core.parquet import open_parquet, read_group
from explearn.core.seeds import hash_order
from explearn.core.validation import Shape, check
from explearn.core.word_tables import WORD_SCHEMA
from explearn.core.writing import check_place, write_json
from explearn.methods.base.explainer import Explainer
from explearn.methods.finding import find_explainer
from explearn.predictors.batching import progress
from explearn.predictors.labelled import CLASSES, check_problem
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import as_predictor
from explearn.report.manifest import Origin
from explearn.text.elements import Pattern
from explearn.text.scored import ScoredText

FEWEST = 40
"""Fewest texts of an audit."""

MOST_SEARCHED = 10_000
"""Most texts that are searched for claims, and so explained."""

CHUNK_TEXTS = 500
"""Texts that are explained before their scores are kept."""

MOST_GROUPS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Further settings of `explearn.audit` and `explearn.diff`.

    Attributes:
        patterns: regular expressions whose matches are looked at, too.
        columns: what the columns of a file or table hold.
        work: folder that keeps finished parts, so that a later call with the same arguments goes on with them.
        seed: seed of all draws.
        compute: where and how to compute.
        show_progress: show bars.

    Example:
        >>> import explearn
        >>> explearn.AuditOptions(patterns=["[0-9]+ dollars"]).seed
        13
    """

    patterns: Sequence[str] = ()
    columns: TextColumns | None = None
    work: str | Path | None = None
    seed: int = 13
    compute: ComputeOptions | None = None
    show_progress: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class AuditText(ScoredText):
    """A text with what the classifier answers, and how much each word counts for the answer.

    Attributes:
        probabilities: of the classes, (C,).
        unread: number of words of an explained text that the classifier did not read.
        group: its group; empty if there are none.
    """

    probabilities: Array
    unread: int
    group: str

    @property
    def predicted(self) -> int:
        """Index of the most probable class."""
        return int(self.probabilities.argmax())


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A classifier and its texts, before anything is computed.

    Attributes:
        model: the classifier.
        method: name of the method.
        explainer: the method; None if a job's scores are read.
        scores: the job's scores.
        user_texts: the texts with their labels.
        groups: group of each text; empty without groups.
        patterns: the user's patterns.
        origin: where it comes from.
    """

    model: Predictor
    method: str
    explainer: Explainer | None
    scores: JobScores
    user_texts: UserTexts
    groups: Sequence[str]
    patterns: Sequence[Pattern]
    origin: Origin

    @property
    def has_labels(self) -> bool:
        """Whether the true labels are known."""
        return bool(self.user_texts.labels)

    def is_right(self, text: AuditText) -> bool | None:
        """Return whether the answer to a text is its label; None without labels."""
        if not self.has_labels:
            return None
        return text.example.label == self.model.labels[text.predicted]

    def accuracy(self, texts: Sequence[AuditText]) -> float | None:
        """Return the share of right answers; None without labels."""
        if not self.has_labels:
            return None
        return float(np.mean([self.is_right(text) for text in texts]))

    def rates(self, texts: Sequence[AuditText]) -> dict[str, float]:
        """Return class -> share of the texts with this answer."""
        counts = Counter(text.predicted for text in texts)
        return {label: counts[i] / len(texts) for i, label in enumerate(self.model.labels)}


def read_subject(
    classifier: Any,
    texts: Any,
    labels: Sequence[str | int] | None,
    groups: str | Sequence[str] | None,
    method: str | Explainer | None,
    options: AuditOptions,
    call: str = "explearn.audit",
    job: str | Path | None = None,
) -> Subject:
    """Read the texts and load the classifier; see `audit` for arguments and errors."""
    patterns = [Pattern(pattern) for pattern in dict.fromkeys(options.patterns)]
    column = None
    if isinstance(groups, str):
        column = groups
    user_texts = given_texts(texts, labels, options.columns, column)
    if column:
        groups = user_texts.groups
    count = len(user_texts.examples)
    if count < FEWEST:
        raise DataError(f"texts: got {count}; expected at least {FEWEST}, half to search and half to test")
    names = _groups(groups, count)
    compute = options.compute or ComputeOptions()
    model = as_predictor(classifier, compute)
    check_problem(model, CLASSES)
    user_texts = user_texts.of_classes(model.name, model.labels)
    explainer = None
    scores: JobScores = {}
    files = [texts]
    if job is None:
        explainer = find_explainer(method, classifier=model)
        explainer.check_explains(model)
        name = explainer.name
        made = explainer.settings()
    else:
        if isinstance(method, Explainer):
            raise ParamsError("method: got an explainer besides a job's scores; expected a name, or none")
        name, scores, job_files = read_job(Path(job), model, method, user_texts.examples)
        files += job_files
        made = {"job": file_digest(job_files[0])}
    request = {
        "call": call,
        "classifier": model.fingerprint,
        "texts": text_digest(repr((user_texts.examples, names))),
        "method": name,
        "settings": made,
        "patterns": list(options.patterns),
        "seed": options.seed,
    }
    origin = Origin(call, classifier, model, compute, files, request)
    return Subject(model, name, explainer, scores, user_texts, names, patterns, origin)


def _groups(groups: Sequence[str] | None, count: int) -> list[str]:
    """Return the group of each text."""
    if groups is None:
        return []
    check_listed("groups", groups)
    names = [str(group) for group in groups]
    if len(names) != count:
        raise ParamsError(f"groups: got {len(names)} for {count} texts; expected one for each")
    sizes = Counter(names)
    for name, size in sizes.items():
        if size == 1:
            raise DataError(f"groups: {name!r} has one text; expected at least 2 in each, so merge or leave it out")
    if not 2 <= len(sizes) <= MOST_GROUPS:
        raise DataError(f"groups: got {len(sizes)}; expected 2 to {MOST_GROUPS}")
    return names


def explain_texts(subject: Subject, explained: Collection[int], work: Work, show_progress: bool) -> list[AuditText]:
    """Return the texts with answers, and scores of those that are wanted (of a job: and that it has for this answer).

    Raises:
        DataError: the classifier answers all texts alike.
    """
    examples = subject.user_texts.examples
    wanted = set(explained)
    read: list[AuditText] = []
    with progress("explain" if show_progress else None, len(examples)) as bar:
        for start in range(0, len(examples), CHUNK_TEXTS):
            numbers = range(start, min(start + CHUNK_TEXTS, len(examples)))
            part = partial(_answers_and_scores, subject, numbers, wanted)
            answers, scores = work.part(f"{subject.model.fingerprint[:12]}-scores-{start}", part)
            for i, word_scores in zip(numbers, scores, strict=True):
                shares = None
                if word_scores is not None:
                    shares = np.nan_to_num(np.array(word_scores, dtype=np.float64))  # None becomes NaN, NaN 0
                    shares /= np.abs(shares).sum() or 1.0
                text = AuditText(
                    example=examples[i],
                    shares=shares,
                    probabilities=np.array(answers[i - start]),
                    unread=(word_scores or []).count(None),
                    group=subject.groups[i] if subject.groups else "",
                )
                read.append(text)
            bar.update(len(numbers))
    if len({text.predicted for text in read}) == 1:
        only = subject.model.labels[read[0].predicted]
        raise DataError(
            f"{subject.model.name}: answers {only!r} for all {len(read)} texts; expected texts with at least two "
            "answers"
        )
    return read


def _answers_and_scores(
    subject: Subject, numbers: Sequence[int], explained: Collection[int]
) -> tuple[list[list[float]], list[list[float | None] | None]]:
    """Return the probabilities of some texts; and their words' scores, None for texts that are not explained."""
    examples = subject.user_texts.examples
    answers = subject.model.predict_proba([examples[i] for i in numbers])
    chosen = [i for i in numbers if i in explained]
    targets = [subject.model.labels[answers[i - numbers[0]].argmax()] for i in chosen]
    scores = {}
    if subject.explainer is None:
        for i, target in zip(chosen, targets, strict=True):
            scores[i] = subject.scores.get((i, target))
    else:
        attributions = subject.explainer.explain(subject.model, [examples[i] for i in chosen], targets)
        for i, attribution in zip(chosen, attributions, strict=True):
            scores[i] = attribution.to_dict()["scores"]
    return answers.tolist(), [scores.get(i) for i in numbers]


def halves(texts: Sequence[Example], seed: int) -> tuple[list[int], list[int]]:
    """Return the numbers of the texts that are searched and of those that are changed, in random order.

    The same texts are in the same half, so that none is in both.
    """
    numbers: dict[str, list[int]] = {}
    for i, text in enumerate(texts):
        numbers.setdefault(repr(text.all_words), []).append(i)
    order = [numbers[words] for words in hash_order(numbers, seed)]
    searched = list(chain.from_iterable(order[::2]))
    held_out = list(chain.from_iterable(order[1::2]))
    return searched[:MOST_SEARCHED], held_out


# ---- the scores of a job ---------------------------------------------------------------------------------------------


COLUMNS = pa.schema([WORD_SCHEMA.field(name) for name in ("text", "target", "method", "word", "score")])

JobScores = dict[tuple[int, str], list[float | None]]
"""Number of a text from 0, class -> a score for each word; None for a word that was not read."""


class _Part(FileFacts):
    file: str


class _Method(Shape):
    name: str


class _Settings(Shape):
    classifier: str
    labels: list[str]
    methods: list[_Method]


class _Job(Shape):
    """The fields of a job's manifest that an audit reads."""

    settings: _Settings
    parts: dict[str, _Part]


def read_job(
    folder: Path, classifier: Predictor, method: str | None, texts: Sequence[Example]
) -> tuple[str, JobScores, list[Path]]:
    """Read the scores of a finished job.

    Args:
        folder: the job's folder.
        classifier: the classifier.
        method: the method. None: the job's only one.
        texts: the texts, in the job's order.

    Returns:
        The method, its scores, and the files that were read, of which the first is the manifest.

    Raises:
        DataError: there is no finished job, a part has changed, or classifier or texts are others.
        ParamsError: the method is not one of the job's, or it has several and none is named.
    """
    manifest = folder / "_manifest.json"
    if not (folder / "_SUCCESS").is_file():
        raise DataError(f"{folder}: holds no finished job; expected the folder of one that explearn job has ended")
    job: _Job = check(_Job, read_json(manifest), before=f"{manifest}, ")
    if job.settings.classifier != classifier.fingerprint or job.settings.labels != list(classifier.labels):
        raise DataError(f"{folder}: is a job of another classifier, or of classes with other names")
    names = [made.name for made in job.settings.methods]
    if method is None and len(names) == 1:
        method = names[0]
    if method not in names:
        raise ParamsError(f"method: got {method}; expected one of those in {folder}: {', '.join(names)}")
    scores: JobScores = {}
    files = [manifest]
    for part in job.parts.values():
        path = folder / part.file
        if not part.match(path):
            raise DataError(f"{path}: has changed since the job wrote it; run the job again")
        files.append(path)
        _read_part(path, method, texts, scores)
    return method, scores, files


def _read_part(path: Path, method: str, texts: Sequence[Example], scores: JobScores) -> None:
    """Add the scores of a part, whose row groups hold whole texts."""
    with open_parquet(path, COLUMNS) as file:
        for group in range(file.num_row_groups):
            table = read_group(file, group, COLUMNS, path)
            rows = zip(*(table[name].to_pylist() for name in COLUMNS.names), strict=True)
            for (number, target, name), words in groupby(rows, key=itemgetter(0, 1, 2)):
                if name != method:
                    continue
                *_, read, word_scores = zip(*words, strict=True)
                if number >= len(texts) or texts[number].all_words != read:
                    raise DataError(
                        f"{path}: text {number + 1} has other words than here; expected a job on these texts"
                    )
                scores[number, target] = list(word_scores)


# ---- the working folder ----------------------------------------------------------------------------------------------


class Work:
    """Finished parts, each a JSON file.

    Args:
        folder: the folder. None: nothing is kept.
        request: everything that the parts depend on; each request has a folder of its own within `folder`.

    Raises:
        DataError: the folder cannot be written.
    """

    def __init__(self, folder: str | Path | None, request: Mapping[str, Any]) -> None:
        self._folder = None
        if folder is not None:
            digest = text_digest(json.dumps(request, sort_keys=True))
            self._folder = Path(folder) / f"audit-{digest[:16]}"
            check_place(self._folder / "request.json")
            write_json(self._folder / "request.json", dict(request))

    def part(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return a part as JSON values: that of an earlier call, or else what `compute` returns."""
        if self._folder is None:
            return compute()
        path = self._folder / f"{name}.json"
        if path.is_file():
            return read_json(path)
        value = compute()
        write_json(path, value)
        return value
