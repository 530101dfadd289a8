"""The texts and the classifier of an audit: read, checked, and explained."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from explearn.api import explainer_of
from explearn.auditing.origin import Origin
from explearn.auditing.scores import JobScores, read_job
from explearn.auditing.texts import AuditText, bare, compiled, pattern_matches
from explearn.auditing.work import Work
from explearn.comparison.plan import settings_of
from explearn.comparison.texts import TextColumns, UserTexts, given_texts
from explearn.core.arguments import check_listed, each_text
from explearn.core.compute import ComputeOptions
from explearn.core.documents import file_digest
from explearn.core.errors import DataError, ParamsError, UnsupportedError
from explearn.core.examples import Example
from explearn.core.seeds import hash_order
from explearn.methods.base.explainer import Explainer
from explearn.predictors.batching import progress
from explearn.predictors.labelled import CLASSES, Problem
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import as_predictor
from explearn.text.rows import read_file

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
        programs: the compiled patterns.
        origin: where it comes from.
    """

    model: Predictor
    method: str
    explainer: Explainer | None
    scores: JobScores
    user_texts: UserTexts
    groups: Sequence[str]
    programs: Mapping[str, Any]
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
    programs = compiled(options.patterns)
    table = hasattr(texts, "columns") or hasattr(texts, "features")
    if not isinstance(texts, str | Path) and not table:
        texts = list(each_text(texts))
    user_texts = given_texts(texts, labels, options.columns)
    count = len(user_texts.examples)
    if count < FEWEST:
        raise DataError(f"texts: got {count}; expected at least {FEWEST}, half to search and half to test")
    of_texts = _groups(texts, groups, count)
    columns = options.columns or TextColumns()
    compute = options.compute or ComputeOptions()
    model = columns.renamed(as_predictor(classifier, compute))
    if model.problem is Problem.REGRESSION:
        raise UnsupportedError(model.why_not(CLASSES))
    user_texts = user_texts.of_classes(model.name, model.labels)
    explainer = None
    scores: JobScores = {}
    files = [texts]
    if job is None:
        explainer = explainer_of(method, model)
        explainer.check_explains(model)
        name = explainer.name
        made = settings_of(explainer)
    else:
        if isinstance(method, Explainer):
            raise ParamsError("method: got an explainer besides a job's scores; expected a name, or none")
        name, scores, job_files = read_job(Path(job), model, method, user_texts.examples)
        files += job_files
        made = {"job": file_digest(job_files[0])}
    request = {
        "call": call,
        "classifier": model.fingerprint,
        "texts": hashlib.sha256(repr((user_texts.examples, of_texts)).encode()).hexdigest(),
        "method": name,
        "settings": made,
        "patterns": list(options.patterns),
        "seed": options.seed,
    }
    origin = Origin(call, classifier, model, compute, files, request)
    return Subject(model, name, explainer, scores, user_texts, of_texts, programs, origin)


def _groups(texts: Any, groups: str | Sequence[str] | None, count: int) -> list[str]:
    """Return the group of each text."""
    if groups is None:
        return []
    if isinstance(groups, str):
        names = _column(texts, groups)
    else:
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


def _column(texts: Any, name: str) -> list[str]:
    """Return the values in a column of a file or table."""
    if isinstance(texts, str | Path):
        return [str(row.value(name)[1]) for row in read_file(texts)]
    values = []
    for row in each_text(texts):
        if not isinstance(row, Mapping) or name not in row:
            raise DataError(f"groups: got {name!r}; expected a column of the table, or a group for each text")
        values.append(str(row[name]))
    return values


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
            for i, of_text in zip(numbers, scores, strict=True):
                read.append(_audit_text(subject, i, answers[i - start], of_text))
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


def _audit_text(subject: Subject, number: int, answer: list[float], scores: list[float | None] | None) -> AuditText:
    example = subject.user_texts.examples[number]
    shares = None
    if scores is not None:
        shares = np.nan_to_num(np.array(scores, dtype=np.float64))  # None becomes NaN, NaN 0
        shares /= np.abs(shares).sum() or 1.0
    group = ""
    if subject.groups:
        group = subject.groups[number]
    words = example.all_words
    return AuditText(
        example=example,
        words=words,
        keys=tuple(sys.intern(bare(word).casefold()) for word in words),
        matches=pattern_matches(example, subject.programs),
        probabilities=np.array(answer),
        shares=shares,
        unread=(scores or []).count(None),
        group=group,
    )


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
