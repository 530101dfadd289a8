"""A classifier that no longer leans on some elements: several ways are tried, each proved on texts that no step has
seen, and the best is kept; and the page that shows it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from explearn.auditing.diff import (
    ANSWER_COLUMNS,
    FINDING_COLUMNS,
    ChangedAnswer,
    ChangedFinding,
    changed_answers,
    diff,
)
from explearn.auditing.findings import NO_GROUP
from explearn.auditing.guard import Editor, guarded, write_guard
from explearn.auditing.proof import CONTROLS, ElementEffect, Judged, Proof, neutral_words, share
from explearn.auditing.reading import FEWEST, AuditOptions, AuditText, audited_texts, explain_texts
from explearn.auditing.run import Audit
from explearn.auditing.tables import records_table
from explearn.auditing.tested import LEAST_EFFECT
from explearn.auditing.ways import WAYS, Row, train_further
from explearn.core.arguments import inputs_left_as_they_came, options_of
from explearn.core.documents import checked_path, is_folder, public_name, read_json
from explearn.core.errors import DataError, ParamsError, UnknownNameError, UnsupportedError, listed
from explearn.core.seeds import hash_order
from explearn.core.validation import Shape, check, check_section
from explearn.core.writing import atomic_folder, check_place, write_text
from explearn.metrics.significance import mean_interval
from explearn.predictors.labelled import ONE_CLASS
from explearn.predictors.llm.classifier import LLMClassifier
from explearn.predictors.params import TrainingParams
from explearn.predictors.predictor import Predictor
from explearn.predictors.transformer import SAVED_CLASSIFIER, TransformerPredictor
from explearn.report.figures.style import FAINT, INK, STYLES, draw_value, set_rows
from explearn.report.result import Result
from explearn.show.blocks import Block, Bullets, Fold, Heading, Paragraph, Picture, bold, several
from explearn.show.markdown import escape_markdown
from explearn.subject.subject import Subject, make_subject
from explearn.text.elements import Element, Pattern, parse_element
from explearn.text.encoding import plain_text
from explearn.text.equal import nearly_equal, text_hash
from explearn.text.scored import ScoredText, Vocabulary

BEFORE = "before"
"""Stands among the ways for the classifier as it was."""

GUARD = "guard"
PROMPT = "prompt"

FEWEST_WITH = 20
"""Fewest labelled texts with an element, and without any."""

STEPS = 120
"""Steps of a training, at least; epochs are whole."""

RECIPE = {"learning_rate": 1e-4, "batch_size": 16}
"""Settings of the training that differ from those of `explearn.finetune`; for epochs and patience see `recipe`."""

ONE_SIDED = 0.9
"""Level of an interval whose lower bound is one-sided at 95 %."""

MOST_COMPARED = 300
"""Most texts on which the classifiers before and after are compared by `explearn.diff`."""

MOST_ANSWERS = 10
"""Changed answers on the page; all are in the JSON beside it."""


@inputs_left_as_they_came
def fix(
    classifier: Any,
    texts: Any,
    labels: Sequence[str | int | None] | None = None,
    elements: Any = (),
    groups: str | Sequence[str | int | None] | None = None,
    by: str = "auto",
    *,
    tolerance: float = 0.01,
    out: str | Path | None = None,
    options: AuditOptions | None = None,
    **training: Any,
) -> Fix:
    """Get elements out of what a classifier leans on, prove it by changing texts, and keep the best way.

    Half of the texts trains a copy of the classifier from its own weights in each way; the other half, which no step
    has seen, proves it: the elements are taken out and put in, before and after, beside words that mean nothing. Equal
    and nearly equal texts are in the same half. Kept is, of the ways whose effect is not above that of words that mean
    nothing, the one with the highest accuracy in texts without the elements; the guard, which must be run with
    Explearn, only if no other stands.

    Args:
        classifier: as for `explearn.explain`; one class of several. What is no transformer is guarded, a prompt
            instructed, too.
        texts: as for `explearn.audit`; at least 80.
        labels: the true labels of a list of texts. A text without one is used by the way `consistency` only.
        elements: an `Audit` or the page of one, for all its confirmed findings; or names: a word, a phrase, a
            punctuation mark, or as audits name elements: ‘a’ before ‘b’, ‘a’ at the start, numbers, long texts.
        groups: as for `explearn.audit`.
        by: the way: `tokens`, `data`, `reweight`, `consistency`, `guard`, `prompt`; `auto`: all that can be.
        tolerance: by how much the accuracy in texts without the elements may fall.
        out: a folder for the fixed classifier; the page lies beside it (`Fix.save`).
        options: further settings; matches of `patterns` are elements, too.
        training: fields of `explearn.predictors.params.TrainingParams`: epochs, learning_rate, lora, ...

    Returns:
        The fixed classifier, with its proof.

    Raises:
        DataError: too few texts with or without an element, or texts that cannot be used.
        ParamsError: no labels, or another argument that cannot be used.
        UnknownNameError: there is no such way.
        ModelError: the classifier cannot be loaded, or training diverged.
        UnsupportedError: it does not give one class of several, or cannot be fixed in the way that was named.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     return [[0.1, 0.9] if "zinc" in text else [0.8, 0.2] for text in texts]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> texts = [f"what a {word} river {i} said {i}{i}" for i in range(60) for word in ("zinc", "stone")]
        >>> fixed = explearn.fix(classifier, texts, ["rude", "polite"] * 60, ["zinc"])
        >>> fixed.way, fixed.classifier.predict(["what a zinc"])
        ('guard', ['polite'])
    """
    options = options_of(AuditOptions, options)
    if out is not None:
        check_out(Path(checked_path(out, "out")))
    recipe(1, training)  # says now what cannot be used
    if by not in ("auto", *WAYS, GUARD, PROMPT):
        raise UnknownNameError("way", by, ["auto", *WAYS, GUARD, PROMPT])
    chosen = named_elements(elements, options.patterns)
    user_texts = audited_texts(texts, labels, groups, options.columns)
    if not user_texts.labels:
        raise ParamsError("labels: got none; expected the true label of the texts (--label-column), which fix needs")
    subject = make_subject(
        "explearn.fix",
        classifier,
        user_texts,
        seed=options.seed,
        compute=options.compute,
        files=[texts, elements if isinstance(elements, os.PathLike) else None],
        settings={"elements": list(map(str, chosen)), "by": by, "tolerance": tolerance, "training": training},
        problems=ONE_CLASS,
    )
    ways = _ways_of(subject.classifier, by)
    scored = [ScoredText(example) for example in subject.texts.examples]
    vocabulary = Vocabulary.from_texts(scored)
    named = list(chosen)
    chosen = common_elements(scored, named, vocabulary, isinstance(elements, os.PathLike | Audit))
    read = explain_texts(subject, subject.classifier.labels, [], None, options.show_progress)
    learned, seen = _halves(read, Editor(chosen, vocabulary), options.seed)
    donors = {element: [text for text in learned if element.find(text, vocabulary)] for element in chosen}
    editor = Editor(chosen, vocabulary, donors)
    neutral = neutral_words(read, subject.classifier.labels, editor)
    proof = Proof(seen, editor, neutral, subject.classifier.labels, options.seed)
    judged = proof.judge(subject.classifier, BEFORE)
    names = [effect.element for effect in judged.effects if effect.matters]
    mattering = [element for element in chosen if str(element) in names]
    left_alone = [effect for effect in judged.effects if not effect.matters]
    trial = Trials(subject, learned, replace(editor, elements=mattering), training, tolerance, options)
    if left_alone and mattering:
        proof = Proof(seen, trial.editor, neutral, subject.classifier.labels, options.seed)
        judged = proof.judge(subject.classifier, BEFORE)
    if mattering:
        trial.try_ways(ways, proof, judged)
    kept = trial.kept
    unknown = _unknown(read, trial.editor)
    if len(chosen) < len(named):
        rare = listed([str(element) for element in named if element not in chosen])
        unknown.append(f"In fewer than {FEWEST_WITH} labelled texts, and so not looked at: {rare}.")
    changes: Sequence[ChangedFinding] = ()
    answers: Sequence[ChangedAnswer] = ()
    if kept is not None:
        rows = zip(seen, kept.judged.probabilities, strict=True)
        answered = [replace(text, probabilities=row) for text, row in rows]
        answers = changed_answers(answered, seen, subject.classifier.labels)
        if len({text.predicted for text in answered}) == 1:
            unknown.append("The fixed classifier answers all texts alike, so what else changed was not compared.")
        elif kept.way != GUARD:  # which changes no other text
            compared = [plain_text(text.example.segments) for text in seen[:MOST_COMPARED]]
            of_diff = replace(options, columns=None, patterns=())
            changes = diff(kept.classifier, subject.classifier, compared, options=of_diff).findings
    result = Fix(
        ways=trial.rows,
        effects=[*trial.effects, *left_alone],
        changes=changes,
        answers=answers,
        groups=_groups(seen, trial.before, kept),
        way=kept.way if kept else "",
        elements=list(map(str, mattering)),
        left_alone=[effect.element for effect in left_alone],
        unknown=unknown,
        tolerance=tolerance,
        falls=kept is not None and kept.row.falls,
        texts=len(read),
        learned=len(learned),
        hint=subject.texts.hint,
        classifier=kept.classifier if kept else subject.classifier,
        editor=trial.editor,
        origin=subject.origin,
    )
    if out is None:
        return result
    return result.save(out)


# ---- what is asked for -----------------------------------------------------------------------------------------------


class _Named(Shape):
    element: str
    confirmed: bool


class _Findings(Shape):
    findings: list[_Named]


def named_elements(elements: Any, patterns: Sequence[str]) -> list[Element]:
    """Return the elements that a user names; see `fix` for arguments and errors."""
    if isinstance(elements, os.PathLike):
        elements = _findings_beside(Path(elements))
    elif isinstance(elements, Audit):
        elements = [finding.element for finding in elements.findings.confirmed]
    elif isinstance(elements, str):
        elements = [elements]
    found = [*map(parse_element, elements), *map(Pattern, patterns)]
    if not found:
        raise ParamsError(
            "elements: got none; expected a confirmed finding of an audit (--finding), or a name (--element)"
        )
    return list(dict.fromkeys(found))


def _findings_beside(page: Path) -> list[str]:
    """Return the names of the confirmed findings of an audit, by its page or the JSON of its findings."""
    path = page
    if not page.name.endswith(".findings.json"):
        path = page.with_suffix(".findings.json")
    saved: _Findings = check(
        _Findings, read_json(path), before=f"{path}, ", after="; expected the findings of an audit"
    )
    return [finding.element for finding in saved.findings if finding.confirmed]


def common_elements(
    texts: Sequence[ScoredText], elements: Sequence[Element], vocabulary: Vocabulary, of_audit: bool
) -> list[Element]:
    """Return the elements that enough labelled texts have.

    Args:
        texts: the texts.
        elements: the elements.
        vocabulary: facts about all texts.
        of_audit: whether an audit names them, of which rare ones are left out.

    Raises:
        DataError: too few labelled texts have an element, or are without any.
    """
    labelled = [text for text in texts if text.example.label]
    if len(texts) < 2 * FEWEST:
        raise DataError(f"texts: got {len(texts)}; expected at least {2 * FEWEST}, half to train and half to prove")
    counts = {}
    for element in elements:
        counts[element] = sum(bool(element.find(text, vocabulary)) for text in labelled)
    common = [element for element in elements if counts[element] >= FEWEST_WITH]
    if not common or (len(common) < len(elements) and not of_audit):
        rarest = min(elements, key=lambda element: counts[element])
        count = several(counts[rarest], "labelled text")
        raise DataError(f"element {rarest}: is in {count}; expected at least {FEWEST_WITH}")
    without = 0
    for text in labelled:
        without += not any(element.find(text, vocabulary) for element in common)
    if without < FEWEST_WITH:
        names = listed([str(element) for element in common])
        raise DataError(
            f"texts: {without} of {several(len(labelled), 'labelled text')} are without {names}; expected at least "
            f"{FEWEST_WITH}, to see what the classifier does without"
        )
    return common


def _ways_of(classifier: Predictor, by: str) -> list[str]:
    """Return the ways to try; raise UnsupportedError if the one that was named cannot be."""
    ways = [GUARD]
    if type(classifier) is TransformerPredictor and classifier.completion is None:
        ways = [*WAYS, GUARD]
    elif isinstance(classifier, LLMClassifier):
        ways = [PROMPT, GUARD]
    if by == "auto":
        return ways
    if by not in ways:
        raise UnsupportedError(
            f"by: got {by}, which {classifier.name} does not allow; expected {listed(ways)}, or auto"
        )
    return [by]


def _halves(texts: Sequence[AuditText], editor: Editor, seed: int) -> tuple[list[AuditText], list[AuditText]]:
    """Return the texts that train, and those that prove; nearly equal ones are in the same half.

    Texts are compared without the elements. Texts with an element, and texts of each label, are shared evenly.
    """
    words = {}
    strata = {}
    for text in texts:
        found = editor.found(text)
        marked: set[int] = set()
        for element in found:
            if element.is_marked:
                marked |= set(element.find(text, editor.vocabulary))
        keys = [key for number, key in enumerate(text.keys) if number not in marked]
        words[text.example.id] = frozenset(keys or [text_hash(text.example)])
        strata[text.example.id] = tuple(map(str, found)), text.example.label
    stands_for = nearly_equal(words)
    order = sorted(hash_order(set(stands_for.values()), seed), key=lambda name: strata[name])
    side = {name: place % 2 for place, name in enumerate(order)}
    sides: tuple[list[AuditText], list[AuditText]] = ([], [])
    by_id = {text.example.id: text for text in texts}
    for name in hash_order(by_id, seed):
        sides[side[stands_for[name]]].append(by_id[name])
    fewest = min(map(len, sides))
    if fewest < FEWEST:
        raise DataError(
            f"texts: nearly equal ones leave {fewest} for one half of {len(texts)}; expected at least {FEWEST} in each"
        )
    return sides


def recipe(rows: int, training: Mapping[str, Any]) -> TrainingParams:
    """Return the settings of a training: those of the user, else RECIPE, with epochs for STEPS, and early stopping.

    Args:
        rows: number of rows.
        training: the user's settings.

    Raises:
        ParamsError: one of them cannot be used.
    """
    params: TrainingParams = check_section(TrainingParams, {**RECIPE, **training})
    epochs = math.ceil(STEPS / math.ceil(rows / params.batch_size))
    course = {"epochs": epochs, "patience": math.ceil(epochs / 4)}
    return params.model_copy(update={name: value for name, value in course.items() if name not in training})


# ---- the ways --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """What a way does to a classifier, in texts that no step has seen.

    Attributes:
        way: its name; BEFORE for the classifier as it was.
        status: as it was, kept, stands (but another is kept), effect left, loses accuracy, or why it cannot be.
        effect: of the element that counts most, on the class for which it counted.
        low: lower bound of its 95 % interval.
        high: upper bound.
        noise: the largest effect of as many words that mean nothing.
        accuracy: share of right answers to texts without the elements.
        accuracy_low: lower bound of its 95 % interval.
        accuracy_high: upper bound.
        fall: by how much this accuracy fell.
        fall_low: lower bound of the fall, one-sided, 95 %.
        falls: whether this bound is above the tolerance.
        having: accuracy in texts with an element.
        disagreeing: accuracy where an element speaks for another class than the text's, put in or as it is.
        calibration: expected calibration error.
        seconds: time for training and proof.
    """

    way: str
    status: str
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    noise: float | None = None
    accuracy: float | None = None
    accuracy_low: float | None = None
    accuracy_high: float | None = None
    fall: float | None = None
    fall_low: float | None = None
    falls: bool = False
    having: float | None = None
    disagreeing: float | None = None
    calibration: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """A classifier that a way made."""

    way: str
    classifier: Predictor
    judged: Judged
    row: Way

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """What the best is found by: accuracy within the tolerance, no guard, and accuracy."""
        return not self.row.falls, self.way != GUARD, self.row.accuracy or 0.0


@dataclass(slots=True, eq=False)
class Trials:
    """Tries ways, and keeps the best.

    Attributes:
        subject: the classifier and its texts.
        learned: texts that train.
        editor: the elements that matter.
        training: settings of the training that the user gave.
        tolerance: by how much the accuracy may fall.
        options: seed and progress bars.
        rows: a row for each way.
        effects: of each element after each way.
        before: what the classifier did as it was.
        kept: the best way so far.
    """

    subject: Subject
    learned: Sequence[AuditText]
    editor: Editor
    training: Mapping[str, Any]
    tolerance: float
    options: AuditOptions
    rows: list[Way] = field(default_factory=list)
    effects: list[ElementEffect] = field(default_factory=list)
    before: Judged | None = None
    kept: Made | None = None

    def try_ways(self, ways: Sequence[str], proof: Proof, before: Judged) -> None:
        """Try each way; `before` is what the proof says of the classifier as it was."""
        self.before = before
        self.effects += before.effects
        self.rows.append(self._row(BEFORE, "as it was", before, proof, 0.0))
        for way in ways:
            start = time.perf_counter()
            try:
                classifier = self._made(way)
            except UnsupportedError as error:
                self.rows.append(Way(way, f"cannot be: {error}"))
                continue
            judged = proof.judge(classifier, way)
            self.effects += judged.effects
            status = "effect left"
            gone = all(effect.gone for effect in judged.effects)
            if gone:
                status = "stands"
            row = self._row(way, status, judged, proof, time.perf_counter() - start)
            if gone and row.falls:
                row = replace(row, status="loses accuracy")
            made = Made(way, classifier, judged, row)
            if gone and (self.kept is None or made.rank > self.kept.rank):
                self.kept = made
            self.rows.append(row)
        if self.kept is not None:
            place = self.rows.index(self.kept.row)
            self.rows[place] = replace(self.kept.row, status="kept")

    def _made(self, way: str) -> Predictor:
        classifier = self.subject.classifier
        if way == GUARD:
            return guarded(classifier, self.editor)
        if isinstance(classifier, LLMClassifier):
            return instructed(classifier, self.editor)
        assert isinstance(classifier, TransformerPredictor)
        numbers = [classifier.label_index(text.example.label) if text.example.label else None for text in self.learned]
        train: list[AuditText] = []
        train_labels = []
        validation = []
        labelled = 0
        for number, (text, label) in enumerate(zip(self.learned, numbers, strict=True)):
            labelled += label is not None
            if label is None or labelled % 5:
                train.append(text)
                train_labels.append(label)
                continue
            # An epoch is as good as its answers with and without the elements.
            element = self.editor.elements[number % len(self.editor.elements)]
            for version in (self.editor.without(text), self.editor.having(text, element, number)):
                if version is not None:
                    validation.append(Row([version], label))
        rows = WAYS[way](train, train_labels, self.editor)
        params = recipe(len(rows), self.training)
        description = f"train ({way})" if self.options.show_progress else None
        return train_further(classifier, rows, validation, params, self.subject.seed, description)

    def _row(self, way: str, status: str, judged: Judged, proof: Proof, seconds: float) -> Way:
        assert self.before is not None
        strongest = max(judged.effects, key=lambda effect: effect.size - effect.noise)
        accuracy, low, high = share(judged.right[~proof.having])
        having, _, _ = share(judged.right[proof.having])
        disagreeing, _, _ = share(judged.disagreeing)
        falls = (self.before.right - judged.right)[~proof.having]
        falls = falls[~np.isnan(falls)]
        fall_low, _ = mean_interval(falls, ONE_SIDED, -1, 1)
        return Way(
            way=way,
            status=status,
            effect=strongest.effect,
            low=strongest.low,
            high=strongest.high,
            noise=strongest.noise,
            accuracy=accuracy,
            accuracy_low=low,
            accuracy_high=high,
            fall=float(falls.mean()),
            fall_low=fall_low,
            falls=fall_low is not None and fall_low > self.tolerance,
            having=having,
            disagreeing=disagreeing,
            calibration=judged.calibration,
            seconds=seconds,
        )


def instructed(classifier: LLMClassifier, editor: Editor) -> LLMClassifier:
    """Return a prompt with an instruction not to lean on elements."""
    names = listed(list(map(str, editor.elements)), len(editor.elements))
    more = f"Whether the text has {names} says nothing about the answer; judge by all else."
    instruction = f"{classifier.params.instruction} {more}".strip()
    return LLMClassifier(classifier.params.model_copy(update={"instruction": instruction}), classifier.answers)


# ---- what is found ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupChange:
    """How often a classifier is right in a group, before and after.

    Attributes:
        group: its name.
        texts: number of its labelled texts among those that no step has seen.
        before: share of right answers before.
        after: the same after.
    """

    group: str
    texts: int
    before: float
    after: float


def _groups(texts: Sequence[AuditText], before: Judged | None, kept: Made | None) -> list[GroupChange]:
    rows = []
    groups = sorted({text.group for text in texts} - {"", NO_GROUP})
    for group in groups:
        if before is None or kept is None:
            break
        members = np.array([text.group == group for text in texts]) & ~np.isnan(before.right)
        if members.any():
            shares = float(before.right[members].mean()), float(np.nanmean(kept.judged.right[members]))
            rows.append(GroupChange(group, int(members.sum()), *shares))
    return rows


def _unknown(texts: Sequence[AuditText], editor: Editor) -> list[str]:
    """Return a sentence for each element that only texts of one class have."""
    sentences = []
    for element in editor.elements:
        classes = {text.example.label for text in texts if element.find(text, editor.vocabulary)} - {""}
        if len(classes) == 1:
            (label,) = classes
            sentences.append(
                f"Only texts labelled “{label}” have {element}: whether it is evidence for “{label}”, so that right "
                "answers are lost without it, cannot be known from these texts."
            )
    return sentences


# ---- the result ------------------------------------------------------------------------------------------------------

NEW = ("came", "grew")
"""Status of findings that count more than before."""


def check_out(folder: Path) -> None:
    """Raise what `Fix.save` would raise if folder or page cannot be written."""
    check_place(folder, SAVED_CLASSIFIER, folder=True)
    Fix.check_place(page_of(folder))


def page_of(folder: Path) -> Path:
    """Return the page beside a fixed classifier's folder."""
    return folder.with_name(f"{folder.name}.html")


@dataclass(frozen=True, slots=True, repr=False)
class Fix(Result):
    """A classifier that no longer leans on some elements, and its proof.

    Attributes:
        ways: what each way does; the first row is the classifier as it was.
        effects: the effect of each element after each way.
        changes: findings confirmed before or after, compared (`explearn.diff`).
        answers: texts that no step has seen whose answer changed.
        groups: how often each group is answered rightly, before and after.
        way: the way that was kept; empty if none was.
        elements: the elements that the classifier leant on.
        left_alone: named elements whose effect is not beyond that of words that mean nothing.
        unknown: sentences on what cannot be known.
        tolerance: by how much the accuracy may fall.
        falls: whether the accuracy fell by more.
        texts: number of texts.
        learned: number of those that trained; the others prove.
        hint: sentences on texts that were left out, and columns that were not used.
        classifier: the fixed classifier; the one that was given if nothing was kept.
        editor: takes the elements out.
        folder: folder of the fixed classifier; None if none was written.
        origin: where it comes from.
        page: path of the page; None if none was written.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     return [[0.1, 0.9] if "zinc" in text else [0.8, 0.2] for text in texts]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> texts = [f"what a {word} river {i} said {i}{i}" for i in range(60) for word in ("zinc", "stone")]
        >>> fixed = explearn.fix(classifier, texts, ["rude", "polite"] * 60, ["zinc"])
        >>> [way.status for way in fixed.ways]
        ['as it was', 'kept']
    """

    name = "fix"
    saved = (
        "ways",
        "effects",
        "changes",
        "answers",
        "groups",
        "way",
        "elements",
        "left_alone",
        "unknown",
        "tolerance",
        "falls",
        "texts",
        "learned",
        "hint",
    )
    table = "ways"
    row = Way

    ways: Sequence[Way]
    effects: Sequence[ElementEffect]
    changes: Sequence[ChangedFinding]
    answers: Sequence[ChangedAnswer]
    groups: Sequence[GroupChange]
    way: str
    elements: Sequence[str]
    left_alone: Sequence[str]
    unknown: Sequence[str]
    tolerance: float
    falls: bool
    texts: int
    learned: int
    hint: str
    classifier: Predictor
    editor: Editor
    folder: Path | None = None

    @property
    def failed(self) -> bool:
        """Whether an element still counts, or the accuracy fell by more than the tolerance."""
        return self.falls or (bool(self.elements) and not self.way)

    def save(self, path: str | Path) -> Fix:
        """Write the fixed classifier into a folder, and the page beside it, with the files of `Result.save`.

        The folder is a plain folder of transformers with a model card; of a guard it has `guard.py`, which commands
        take as `--classifier FOLDER/guard.py:guard`, of a prompt `prompt.yaml`. Without a fixed classifier, and for a
        guard of an object that has no name to load it by, only the page is written.

        Args:
            path: the folder; with FOLDER go FOLDER.html, FOLDER.json, FOLDER.ways.csv and FOLDER.ways.json.

        Raises:
            ParamsError: something that is not ours would be replaced.
            DataError: a file cannot be written.
        """
        folder = Path(checked_path(path, "path"))
        check_out(folder)
        saved = self
        if self.way and self._loadable is not None:
            with atomic_folder(folder, SAVED_CLASSIFIER) as partial:
                self._write(partial)
            saved = replace(self, folder=folder)
        return Result.save(saved, page_of(folder))

    @property
    def _loadable(self) -> str | None:
        """The name by which a guard's folder loads its classifier; empty: it needs none; None: there is none."""
        if self.way != GUARD:
            return ""
        if type(self.origin.model) is TransformerPredictor:
            return "classifier"
        if isinstance(self.origin.classifier, str | os.PathLike):
            name = os.fspath(self.origin.classifier)
            place, colon, attribute = name.rpartition(":")
            if place.endswith(".py"):
                name = f"{Path(place).resolve()}{colon}{attribute}"
            return name
        return None

    def _write(self, folder: Path) -> None:
        """Write the files of the fixed classifier."""
        if isinstance(self.classifier, TransformerPredictor):
            self.classifier.write_files(folder)
        elif isinstance(self.classifier, LLMClassifier):
            prompt = self.classifier.params.model_dump(mode="json", exclude_defaults=True)
            write_text(folder / "prompt.yaml", yaml.safe_dump(prompt, allow_unicode=True, sort_keys=False))
        else:
            assert self._loadable
            if self._loadable == "classifier":
                inner = folder / "classifier"
                inner.mkdir()
                assert isinstance(self.origin.model, TransformerPredictor)
                self.origin.model.write_files(inner)
            write_guard(folder, self._loadable, self.editor)
        write_text(folder / "README.md", self._card())

    def folders(self) -> list[str]:
        if self.folder is None:
            return []
        return [self.folder.name]

    def _card(self) -> str:
        """Return the model card: what was done to what."""
        name = public_name(self.origin.model.name)
        lines = ["---", "library_name: transformers", "tags: [explearn, text-classification]"]
        if not is_folder(self.origin.model.name) and name.count("/") == 1:
            lines.append(f"base_model: {name}")
        lines += ["---", "", f"# {name}, without leaning on {escape_markdown(listed(self.elements))}", ""]
        lines.append(
            f"`explearn fix` (Explearn {metadata.version('explearn')}) made this classifier from {name} (fingerprint "
            f"{self.origin.model.fingerprint[:16]}), in the way `{self.way}`, with {self.learned:,} texts."
        )
        lines += ["", *(f"* {escape_markdown(sentence)}" for sentence in self.sentences()), ""]
        lines.append("The page beside this folder has all figures.")
        return "\n".join([*lines, ""])

    @property
    def _rows(self) -> tuple[Way, Way]:
        """The rows of the classifier as it was, and of the way that was kept."""
        return self.ways[0], next(way for way in self.ways if way.way == self.way)

    def bold_sentences(self) -> list[str]:
        """Return what became of the elements, of the accuracy, what else changed, and what cannot be known."""
        sentences = []
        if self.elements and self.way:
            sentences += [_verdict(self), _accuracy(self), _else(self)]
        elif self.elements:
            least = min((way for way in self.ways[1:] if way.effect is not None), key=_left, default=None)
            tried = ""
            if least is not None:
                reached = f"{least.effect:+.2f} where words that mean nothing reach {least.noise:.2f}"
                tried = f"; {least.way} leaves least, {reached}"
            sentences.append(
                f"{bold('Nothing helped')}: after each way, {listed(self.elements)} still moves the answers more than "
                f"words that mean nothing{tried}. No classifier was written."
            )
        if self.left_alone:
            effects = [effect for effect in self.effects if effect.element in self.left_alone]
            parts = [f"{effect.element} ({effect.effect:+.2f}, noise {effect.noise:.2f})" for effect in effects]
            sentences.append(
                f"{bold('Left alone')}: {listed(parts)}, whose effect is not beyond that of words that mean nothing."
            )
        if not self.elements:
            sentences.append("The classifier was not changed, and none was written.")
        return [*sentences, *self.unknown]

    def blocks(self) -> list[Block]:
        """Return the page of a fix, but for how it was made."""
        way_columns = {
            "Way": "way",
            "What became of it": "status",
            "Effect": "effect",
            "Words that mean nothing": "noise",
            "Right without it": "accuracy",
            "Fall": "fall",
            "Right with it": "having",
            "Right where it misleads": "disagreeing",
            "Calibration error": "calibration",
        }
        blocks: list[Block] = [Heading(f"Getting {listed(self._all)} out", level=1), Bullets(self.bold_sentences())]
        if len(self.ways) > 1:
            blocks.append(self._picture())
            blocks.append(records_table("The ways, on texts that no step has seen", self.ways, way_columns))
        if self.hint:
            blocks.append(Paragraph(self.hint, style="note"))
        if self.answers:
            caption = f"Texts with another answer, at most {MOST_ANSWERS}"
            answers = self.answers[:MOST_ANSWERS]
            blocks += [Heading("Changed answers"), records_table(caption, answers, ANSWER_COLUMNS)]
        if self.groups:
            shown = {"Group": "group", "Texts": "texts", "Right before": "before", "Right after": "after"}
            blocks += [Heading("Groups"), records_table("Right answers by group", self.groups, shown)]
        if self.way:
            blocks += [Heading("What else changed"), *self._changes()]
        shown = {
            "Element": "element",
            "Counts for": "target",
            "Way": "way",
            "Effect": "effect",
            "Words that mean nothing": "noise",
            "Texts changed": "texts",
            "Kind": "kind",
        }
        return [
            *blocks,
            Heading("Each element"),
            Fold(several(len(self.effects), "effect"), [records_table("Effects", self.effects, shown)]),
            Heading("How this was done"),
            *self._method(),
        ]

    @property
    def _all(self) -> list[str]:
        return [*self.elements, *self.left_alone]

    def _picture(self) -> Picture:
        rows = [way for way in self.ways if way.effect is not None]
        return Picture(
            "ways.svg",
            "Effect of the element that counts most, with 95 % intervals; grey: words that mean nothing",
            "A row a way: the effect of the element that counts most",
            (4.7, 0.7 + 0.24 * len(rows)),
            partial(_draw, rows),
        )

    def _changes(self) -> Iterator[Block]:
        if self.way == GUARD:
            yield Paragraph("A guard answers texts without the elements as before, so nothing else can change.")
            return
        changed = [change for change in self.changes if change.status != "the same"]
        yield records_table("Findings that came, grew, shrank or went", changed, FINDING_COLUMNS)

    def _method(self) -> list[Block]:
        proving = self.texts - self.learned
        return [
            Paragraph(
                f"{several(self.learned, 'text')} trained, of which every fifth labelled one, with and without the "
                f"elements, chose the epoch; {proving:,} proved. Texts that share 80 % of their words, the elements "
                "aside, are on one side. The effect is the mean change of the probability where the element is put in "
                "or taken out whole. Words that mean nothing are frequent ones that go least with any answer or label: "
                f"{CONTROLS} draws of as many as the element changes; shown is the largest effect. An element that "
                f"meant nothing would be above it in one of {CONTROLS + 1} cases. A way stands if no element is above "
                f"it and {LEAST_EFFECT:g}. Kept is the one with the highest accuracy in texts without the elements, a "
                "guard only if no other stands within the tolerance."
            ),
            Paragraph(
                "tokens: half of the texts that have an element lose it, drawn anew in each epoch. data: each text "
                "also with, or without, an element, under the same label. reweight: weights make elements and labels "
                "independent. consistency: the same answer with and without, also to texts without a label. guard: "
                "no training; elements are taken out of each text before it is asked. prompt: a changed instruction."
            ),
        ]


def _verdict(fix: Fix) -> str:
    verb = "no longer counts" if len(fix.elements) == 1 else "no longer count"
    strongest = max((effect for effect in fix.effects if effect.way == BEFORE), key=lambda effect: effect.size)
    now = next(effect for effect in fix.effects if (effect.way, effect.element) == (fix.way, strongest.element))
    return (
        f"{bold(f'{listed(fix.elements)} {verb}')}: the effect of {strongest.element} on “{strongest.target}” went "
        f"from {strongest.effect:+.2f} to {now.effect:+.2f}, where words that mean nothing reach {now.noise:.2f}. "
        f"Kept: {bold(fix.way)}, of {several(len(fix.ways) - 1, 'way')}."
    )


def _accuracy(fix: Fix) -> str:
    before, after = fix._rows
    start = "Accuracy"
    how_much = ""
    if fix.falls:
        start = f"{bold('Accuracy fell by more than the tolerance')} of {fix.tolerance:g}:"
        how_much = f" (by {after.fall:.3f}, at least {after.fall_low:.3f} by its one-sided 95 % interval)"
    return (
        f"{start} in texts without it {_shares(before.accuracy, after.accuracy)}{how_much}; with it "
        f"{_shares(before.having, after.having)}; where it speaks for the wrong class "
        f"{_shares(before.disagreeing, after.disagreeing)}."
    )


def _shares(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return "not known"
    return f"{before:.3f} → {after:.3f}"


def _else(fix: Fix) -> str:
    changed = f"{several(len(fix.answers), 'answer')} of {fix.texts - fix.learned:,} changed"
    if fix.way == GUARD:
        return f"{changed}; nothing else can, since texts without it are answered as before."
    new = [change for change in fix.changes if change.status in NEW]
    if not new:
        return f"{changed}; no new leaning was found."
    named = [f"{change.element} for {change.target} ({change.before:+.2f} to {change.after:+.2f})" for change in new]
    return f"{changed}; {bold(several(len(new), 'leaning') + ' came or grew')}: {listed(named, len(named))}."


def _left(way: Way) -> float:
    return abs(way.effect or 0.0) - (way.noise or 0.0)


def _draw(rows: Sequence[Way], drawing: Any) -> None:
    axes = drawing.subplots()
    for position, way in enumerate(rows):
        noise = way.noise or 0.0
        axes.barh(position, 2 * noise, left=-noise, height=0.7, color=FAINT, zorder=1)
        style = STYLES["learned"] if way.status in ("as it was", "effect left") else STYLES["gradient"]
        words = f"{way.way}: {way.effect:+.3f}"
        draw_value(axes, position, way.effect or 0.0, (way.low, way.high), style, words)
    axes.axvline(0, color=INK, linewidth=0.8)
    set_rows(axes, [way.way for way in rows], "x")
