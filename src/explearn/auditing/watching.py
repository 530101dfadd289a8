"""A classifier watched over time: what changed in what it leans on, in its texts and in its answers, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from explearn.auditing.changes import (
    ABOUT,
    CLASSIFIER,
    HORIZON,
    LEAST_CHANGE,
    RELATION,
    TEXTS,
    UNKNOWN,
    ChangedFigure,
    Figure,
    changes,
    judge,
)
from explearn.auditing.claims import Claim
from explearn.auditing.history import WHAT, History
from explearn.auditing.reading import AuditText, FinishedJob
from explearn.auditing.tables import MOST_NAMED, percent, records_table, shortened
from explearn.auditing.tallies import COLUMNS, Lexicon, Tally, shares_of
from explearn.auditing.tested import LEVEL, Tested
from explearn.core.arguments import inputs_left_as_they_came, options_of
from explearn.core.compute import ComputeOptions
from explearn.core.documents import checked_path, file_digest, text_digest
from explearn.core.errors import DataError, ParamsError, listed
from explearn.core.examples import Example
from explearn.core.word_tables import to_arrow
from explearn.core.writing import check_place
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.methods.finding import find_explainer
from explearn.metrics.betting import means
from explearn.predictors.answers import Answers
from explearn.predictors.batching import progress
from explearn.predictors.predictor import Predictor
from explearn.predictors.pretrained import as_predictor
from explearn.report.figures.style import FAINT, STYLES
from explearn.report.result import Result
from explearn.show.blocks import Block, Bullets, Fold, Heading, Paragraph, Picture, bold, several
from explearn.subject.manifest import JobClassifier, Origin
from explearn.subject.subject import make_subject
from explearn.subject.texts import TextColumns, UserTexts, given_texts
from explearn.text.elements import Pattern
from explearn.text.scored import Vocabulary

CHUNK_TEXTS = 500
"""Texts that are explained at a time."""

EXPLAINED_AGAIN = 100
"""Texts of the reference that a classifier explains again."""

FEWEST_COMPARED = 20
"""Texts with scores of both sides below which they do not say whether the classifier is the same."""

MOST_MOVED = 0.05
"""Share of such texts that may have other scores though the classifier is the same."""

MOST_TESTED = 12
"""Changed elements whose effect is measured, the largest changes."""

LINES = 6
"""Reasons in the picture."""

BECAUSE = {
    TEXTS: "because the texts are others",
    CLASSIFIER: "because it is another classifier",
    RELATION: "though texts and classifier are the same: its reasons go with other answers",
    UNKNOWN: "because the classifier is another one, or because of texts with words that the reference does not have",
}
"""Cause -> how the verdict says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Further settings of `explearn.watch`.

    Attributes:
        group: column with the group of each text; of jobs it is `id` (`explearn job --id-column`).
        least: smallest change that matters, in shares of texts.
        day: name of today in the history. None: name of the folder or file of `now`.
        patterns: regular expressions that are looked for within words, too.
        columns: what the columns of a file or table hold.
        seed: seed of all draws.
        compute: where and how to compute.
        show_progress: show bars.

    Example:
        >>> import explearn
        >>> explearn.WatchOptions(group="source").least
        0.01
    """

    group: str | None = None
    least: float = LEAST_CHANGE
    day: str | None = None
    patterns: Sequence[str] = ()
    columns: TextColumns | None = None
    seed: int = 13
    compute: ComputeOptions | None = None
    show_progress: bool = False


@inputs_left_as_they_came
def watch(
    reference: Any,
    now: Any,
    classifier: Any = None,
    method: str | Explainer | None = None,
    *,
    history: str | Path | None = None,
    out: str | Path | None = None,
    options: WatchOptions | None = None,
) -> Watch:
    """Say what changed since a reference in what a classifier leans on, in its texts and in its answers, and why.

    Three causes are told apart: other texts, another classifier, and texts and classifier that are the same while
    reasons go with other answers. Tests and intervals hold on whatever day one looks.

    Args:
        reference: the folder of a finished `explearn job`; or texts, as for `explearn.audit`, which are then explained.
        now: the same of today, or of all texts since.
        classifier: as for `explearn.explain`; needed for texts. With jobs, it must be that of `now`: it explains some
            texts of the reference again, and the effects of what changed are measured.
        method: a method's name, or an explainer. None: the jobs', or as `explearn.explain`.
        history: a Parquet file of the days so far, to which today is added. With it, changes are looked for over the
            last 14 days together; without it, today alone counts.
        out: a page to write (`Watch.save`).
        options: further settings.

    Returns:
        The changes.

    Raises:
        DataError: a folder has no finished job, or texts cannot be used.
        ParamsError: the two sides were explained in other ways, or another argument cannot be used.
        ModelError: the classifier cannot be loaded.
        UnsupportedError: the method cannot explain it.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     return [[0.1, 0.9] if "moron" in text else [0.8, 0.2] for text in texts]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> before = [f"what a {word} said {i}" for i in range(99) for word in ("moron", "friend")]
        >>> after = [f"that {word} left {i}" for i in range(99) for word in ("oxymoron", "friend")]
        >>> explearn.watch(before, after, classifier).changes[0].element
        '‘oxymoron’'
    """
    options = options_of(WatchOptions, options)
    if not 0 <= options.least < 1:
        raise ParamsError(f"least: got {options.least}; expected a share of texts, from 0 to below 1")
    if out is not None:
        Watch.check_place(Path(checked_path(out, "out")))
    if history is not None:
        history = Path(checked_path(history, "history"))
        check_place(history, WHAT)
    lexicon = Lexicon([Pattern(pattern) for pattern in dict.fromkeys(options.patterns)])
    model = None
    if classifier is not None:
        model = as_predictor(classifier, options.compute)
    with unread_words_known():
        first = _read_side("reference", reference, model, method, options, lexicon)
        second = _read_side("now", now, model, method, options, lexicon)
        _check_alike(first, second)
        if model is not None and model.fingerprint != second.classifier:
            raise ParamsError(f"classifier: {model.name} is not the one that explained `now`; expected that one")
        sample = _sample(first, second, model, method)
    settings = {"reference": first.digest, "least": options.least, "patterns": list(options.patterns)}
    settings["group"] = options.group
    past = History(history, settings, options.day or second.name)
    tallies = [first.tally, *past.tallies(lexicon), second.tally]
    judged = judge(tallies, options.least, HORIZON if history else 1)
    other_fingerprint = first.classifier != second.classifier
    other_classifier = other_fingerprint or (sample is not None and sample.is_other)
    found = changes(judged, past.days, other_classifier)
    if model is not None:
        found = _with_effects(found, first, second, model, options)
    reasons = [change for change in found if change.about == "reasons"]
    drawn = [_figure(change) for change in reasons if change.changed] or [_figure(change) for change in reasons]
    by_day = past.values(drawn[:LINES])
    today = means(judged.today)
    for row, figure in enumerate(judged.figures):
        if figure in by_day:
            by_day[figure].append(float(today[row]))
    request = {**settings, "call": "explearn.watch", "method": second.method, "seed": options.seed}
    request |= {"texts": text_digest(first.digest + second.digest), "classifier": second.classifier}
    recorded = model or JobClassifier("the jobs' classifier", second.classifier)
    files = [*first.files, *second.files]
    result = Watch(
        changes=found,
        texts=second.tally.total,
        reference_texts=first.tally.total,
        looked_at=Counter(figure.about for figure in judged.figures),
        days=past.days,
        other_fingerprint=other_fingerprint,
        sample=sample,
        method=second.method,
        least=options.least,
        hint=" ".join(filter(None, (first.hint, second.hint))),
        by_day=by_day,
        origin=Origin("explearn.watch", classifier, recorded, options.compute or ComputeOptions(), files, request),
    )
    if out is not None:
        result = result.save(out)
    past.add(judged, second.tally)
    return result


# ---- the two sides ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Texts that were explained, as counts.

    Attributes:
        name: name of its folder or file.
        tally: the counts.
        classifier: fingerprint of the classifier.
        labels: its classes.
        method: name of the method.
        explained: how it explained, which both sides must share.
        files: the files that were read.
        digest: hash of the scores, or of texts, method and classifier.
        is_job: whether it is a job, rather than texts that were explained here.
        hint: sentences on texts that were left out, and columns that were not used.
    """

    name: str
    tally: Tally
    classifier: str
    labels: Sequence[str]
    method: str
    explained: Mapping[str, Any]
    files: Sequence[Any]
    digest: str
    is_job: bool
    hint: str = ""


def _read_side(
    what: str, source: Any, model: Predictor | None, method: Any, options: WatchOptions, lexicon: Lexicon
) -> Side:
    tally = Tally(lexicon, grouped=options.group is not None)
    if isinstance(source, str | Path) and Path(source).is_dir():
        return _read_job(what, Path(source), tally, method, options)
    if model is None:
        raise ParamsError(f"{what}: got texts and no classifier; expected the folder of a finished job, or both")
    texts = given_texts(source, None, options.columns, options.group)
    subject = make_subject(
        "explearn.watch", model, texts, [method], seed=options.seed, compute=options.compute, files=[source]
    )
    (explainer,) = subject.explainers.values()
    examples = subject.texts.examples
    groups = dict(zip([example.id for example in examples], subject.texts.groups, strict=False))
    with progress(f"explain {what}" if options.show_progress else None, len(examples)) as bar:
        for start in range(0, len(examples), CHUNK_TEXTS):
            chunk = examples[start : start + CHUNK_TEXTS]
            table = to_arrow(explainer.explain(model, chunk)).select(COLUMNS.names)
            if groups:
                of_words = [groups[identifier] for identifier in table["id"].to_pylist()]
                table = table.set_column(COLUMNS.names.index("id"), COLUMNS.field("id"), [of_words])
            tally.add(table)
            bar.update(len(chunk))
    settings = explainer.options.model_dump(exclude_defaults=True)
    return Side(
        name=Path(source).name if isinstance(source, str | Path) else what,
        tally=tally,
        classifier=model.fingerprint,
        labels=model.labels,
        method=explainer.name,
        explained=_explained(explainer.name, settings, explainer.settings().get("weights"), None),
        files=[source],
        digest=text_digest(repr(subject.origin.request)),
        is_job=False,
        hint=subject.texts.hint,
    )


def _read_job(what: str, folder: Path, tally: Tally, method: Any, options: WatchOptions) -> Side:
    if options.group not in (None, "id"):
        raise ParamsError(f"group: got {options.group!r} with a job; expected `id`, its --id-column")
    job = FinishedJob(folder, method.name if isinstance(method, Explainer) else method)
    settings = job.settings
    if settings.unit != "word":
        raise DataError(f"{folder}: has scores of {settings.unit}s; expected a job with --unit word")
    with progress(f"read {what}" if options.show_progress else None) as bar:
        for table in job.tables(COLUMNS):
            before = tally.total
            tally.add(table)
            bar.update(tally.total - before)
    if not tally.total:
        raise DataError(f"{folder}: has no scores of the answers; expected a job without --target")
    weights = settings.weights.get(job.method)
    return Side(
        name=folder.name,
        tally=tally,
        classifier=settings.classifier,
        labels=settings.labels,
        method=job.method,
        explained=_explained(job.method, settings.options[job.method], weights, settings.windows),
        files=job.files,
        digest=file_digest(job.files[0]),
        is_job=True,
    )


def _explained(method: str, options: Mapping[str, Any], weights: Any, windows: int | None) -> dict[str, Any]:
    return {"method": method, "options": options, "weights": weights, "windows": windows}


def _check_alike(first: Side, second: Side) -> None:
    if sorted(first.labels) != sorted(second.labels):
        raise ParamsError(
            f"now: has the classes {', '.join(second.labels)}; expected those of the reference, "
            f"{', '.join(first.labels)}"
        )
    for name, value in first.explained.items():
        if second.explained[name] != value:
            raise ParamsError(
                f"now: was explained with another {name.rstrip('s')} ({second.explained[name]}) than the reference "
                f"({value}); expected the same, or differences would come from it"
            )


# ---- is it another classifier ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """Texts of which both sides have scores.

    Attributes:
        texts: their number.
        moved: number of those with another answer, or a probability or a word's share of the scores that differs by
            more than 0.01.
        again: whether they are texts of the reference that the classifier explained again, rather than texts that are
            in both.
    """

    texts: int
    moved: int
    again: bool

    @property
    def is_other(self) -> bool:
        """Whether they show that the classifier is another one."""
        return self.texts >= FEWEST_COMPARED and self.moved > MOST_MOVED * self.texts


def _sample(first: Side, second: Side, model: Predictor | None, method: Any) -> Sample | None:
    if not first.is_job and not second.is_job:
        return None
    if model is not None and first.is_job:
        options = None
        if not isinstance(method, Explainer):
            options = first.explained["options"]
        explainer = find_explainer(method or first.method, options, classifier=model)
        kept = dict(zip(map(str, range(EXPLAINED_AGAIN)), first.tally.kept_texts, strict=False))
        examples = [replace(text.example, id=name) for name, text in kept.items()]
        again = explainer.explain(model, examples)
        moved = 0
        for attribution in again:
            shares = shares_of(attribution.scores, np.zeros(1, dtype=np.int64))
            moved += kept[attribution.example_id].differs(attribution.predicted, attribution.probability, shares)
        return Sample(len(again), moved, again=True)
    both = sorted(first.tally.kept.keys() & second.tally.kept.keys())
    moved = 0
    for digest in both:
        text = second.tally.kept[digest]
        moved += first.tally.kept[digest].differs(text.predicted, text.probability, text.shares)
    return Sample(len(both), moved, again=False)


# ---- effects ---------------------------------------------------------------------------------------------------------


def _with_effects(
    found: Sequence[ChangedFigure], first: Side, second: Side, model: Predictor, options: WatchOptions
) -> list[ChangedFigure]:
    """Measure the effect of reasons that changed, in kept texts of both sides (`Tested`)."""
    lexicon = first.tally.lexicon
    chosen = [change for change in found if change.about == "reasons" and change.changed and not change.group]
    claims = {}
    for change in chosen[:MOST_TESTED]:
        element = lexicon.elements.get(lexicon.numbers[change.kind, change.element])
        if element is not None:  # of an earlier day only
            claims[change] = Claim(element, model.labels.index(change.target), ())
    if not claims:
        return list(found)
    examples: list[Example] = []
    of_sides = []
    for side in (first, second):
        start = len(examples)
        examples += [text.example for text in side.tally.kept_texts]
        of_sides.append(range(start, len(examples)))
    user_texts = UserTexts("watch", examples, (), [])
    subject = make_subject("explearn.watch", model, user_texts, seed=options.seed, compute=options.compute)
    texts = []
    for example, row in zip(examples, Answers(model).ask(examples, gaps=True), strict=True):
        texts.append(AuditText(example=example, probabilities=row, right=None, unread=0, group=""))
    vocabulary = Vocabulary.from_texts(texts)
    effects = []
    for numbers in of_sides:
        tested = Tested(subject, model.labels, texts, vocabulary, [], numbers, list(claims.values()))
        effects.append([finding.effect for finding in tested.run(options.show_progress)])
    by_change = dict(zip(claims, zip(*effects, strict=True), strict=True))
    measured = []
    for change in found:
        before, after = by_change.get(change, (None, None))
        measured.append(replace(change, effect_reference=before, effect_now=after))
    return measured


# ---- the result ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Watch(Result):
    """What changed since a reference in what a classifier leans on, in its texts and in its answers.

    Attributes:
        changes: reasons, inputs and answers; of each those that rose first, then those that fell, and those that did
            not change, the largest differences first, at most 200.
        texts: number of texts of today.
        reference_texts: number of texts of the reference.
        looked_at: reasons, inputs, answers -> how many figures were tested.
        days: names of the days since the reference, today last.
        other_fingerprint: whether the classifier's fingerprint is another one.
        sample: the texts that say whether the classifier is the same; None if it explained both sides here.
        method: the method of the attributions.
        least: smallest change that matters, in shares of texts.
        hint: sentences on texts that were left out, and columns that were not used.
        by_day: what the first reasons were on each day.
        origin: where it comes from.
        page: path of the page; None if none was written.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     return [[0.1, 0.9] if "moron" in text else [0.8, 0.2] for text in texts]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> texts = [f"what a {word} said {i}" for i in range(40) for word in ("moron", "friend")]
        >>> watch = explearn.watch(texts, texts, classifier)
        >>> watch.changed("reasons"), watch.largest
        ([], 0.0)
    """

    name = "watch"
    saved = (
        "changes",
        "texts",
        "reference_texts",
        "looked_at",
        "days",
        "other_fingerprint",
        "sample",
        "method",
        "least",
        "hint",
    )
    table = "changes"
    row = ChangedFigure

    changes: Sequence[ChangedFigure]
    texts: int
    reference_texts: int
    looked_at: Mapping[str, int]
    days: Sequence[str]
    other_fingerprint: bool
    sample: Sample | None
    method: str
    least: float
    hint: str
    by_day: Mapping[Figure, Sequence[float]]

    def changed(self, about: str) -> list[ChangedFigure]:
        """Return the changes by more than what matters, beyond chance.

        Args:
            about: of what: `reasons`, `inputs` or `answers`.
        """
        return [change for change in self.changes if change.about == about and change.changed]

    @property
    def largest(self) -> float:
        """The largest change of a reason beyond chance, in shares of texts; 0 if none changed."""
        return max((abs(change.difference) for change in self.changed("reasons")), default=0.0)

    @property
    def verdict(self) -> str:
        """One sentence: whether what the classifier leans on changed, and why."""
        return self.sentences()[0]

    def _verdict(self) -> str:
        reasons = self.changed("reasons")
        if not reasons:
            return (
                f"{bold('What the classifier leans on has not changed')}: no element counts in "
                f"{percent(self.least)} more or less of the texts, beyond chance."
            )
        sizes = {cause: 0.0 for cause in BECAUSE}
        for change in reasons:
            sizes[change.cause] += abs(change.difference)
        causes = sorted((cause for cause in sizes if sizes[cause]), key=lambda cause: -sizes[cause])
        why = BECAUSE[causes[0]]
        if len(causes) > 1:
            why += f" (also {listed(causes[1:])})"
        named = [_in_words(change) for change in reasons[:MOST_NAMED]]
        return f"{bold(f'The classifier leans on other things, {why}')}: {listed(named)}."

    def bold_sentences(self) -> list[str]:
        """Return the verdict, and what is known of the classifier, the texts and the answers."""
        return [self._verdict(), self._classifier(), self._inputs(), self._answers()]

    def _classifier(self) -> str:
        sample = self.sample
        if sample is None:
            return "Classifier: the same one explained both."
        fingerprint = "has another fingerprint" if self.other_fingerprint else "has the same fingerprint"
        which = "that are in both"
        if sample.again:
            which = "of the reference that were explained again"
        scores = f"{sample.moved} of {several(sample.texts, 'text')} {which} have other scores"
        if sample.texts < FEWEST_COMPARED:
            scores = f"too few texts are in both ({sample.texts}) to compare scores of the same text"
        return f"Classifier: it {fingerprint}; {scores}."

    def _inputs(self) -> str:
        changed = self.changed("inputs")
        count = bold(f"{len(changed)} of {several(self.looked_at['inputs'], 'element')}")
        named = ""
        if changed:
            named = f": {listed([_in_words(change) for change in changed[:MOST_NAMED]], MOST_NAMED)}"
        return f"Texts: {count} are in more or fewer of the texts{named}."

    def _answers(self) -> str:
        changed = self.changed("answers")
        if not changed:
            return "Answers: no class is answered more or less often, beyond chance."
        return f"Answers: {listed([_in_words(change) for change in changed])}."

    def blocks(self) -> list[Block]:
        """Return the page of a watch, but for how it was made."""
        blocks: list[Block] = [Heading("What changed in what this classifier leans on", level=1)]
        blocks.append(Bullets(self.bold_sentences()))
        if self.hint:
            blocks.append(Paragraph(self.hint, style="note"))
        if self.by_day:
            blocks.append(self._history_picture())
        for about, title in zip(ABOUT, ("Changed reasons", "Changed texts", "Changed answers"), strict=True):
            if self.changed(about):
                blocks += [Heading(title), _changes_table(title, self.changed(about))]
        blocks.append(Heading("Not changed"))
        for about in ABOUT:
            others = [change for change in self.changes if change.about == about and not change.changed]
            title = f"{about.capitalize()}: the largest differences of {self.looked_at.get(about, 0):,}"
            blocks.append(Fold(title, [_changes_table(title, others)]))
        return [
            *blocks,
            Heading("How this was done"),
            Paragraph(
                f"{several(self.reference_texts, 'text')} of the reference and {self.texts:,} of {self.days[-1]} were "
                f"explained by {self.method}. The weight of a word, a mark, a number or a negation in a text is its "
                "share of the scores for the answer, a quarter or more counting as 1; a figure is its mean over the "
                "texts with this answer. Inputs are the shares of texts that have an element, answers those with an "
                f"answer. A change counts if it exceeds {self.least:g} beyond chance: the evidence is an e-value of "
                "bets against it, valid on whatever day one looks (Waudby-Smith and Ramdas 2024), corrected over all "
                f"elements (e-BH, level {LEVEL:g}), for reasons, inputs and answers apart."
            ),
            Paragraph(
                "Other texts: most of a difference comes from how often texts have the element. The rest comes from "
                "the classifier if it is another one, by its fingerprint, or since more than "
                f"{percent(MOST_MOVED)} of at least {FEWEST_COMPARED} texts that both sides have got other scores; "
                "and else from texts in which the element goes with other answers."
            ),
        ]

    def _history_picture(self) -> Picture:
        found = [change for change in self.changes if _figure(change) in self.by_day]
        return Picture(
            "history.svg",
            "In what share of the texts it is a main reason (its mean weight), day by day",
            "A line an element: its mean weight in the reference and on each day",
            (4.1, 2.4 + 0.1 * len(found)),
            partial(_draw_history, found, self.by_day, self.days),
        )


def _figure(change: ChangedFigure) -> Figure:
    return Figure(change.about, change.element, change.kind, change.target, change.group)


def _in_words(change: ChangedFigure) -> str:
    """Return a change in words, such as "‘zinc’ for world (main reason of 0 % of these answers, now 9 %)"."""
    of_what = {"reasons": "main reason of {} of these answers", "inputs": "in {} of the texts", "answers": "{} of all"}
    what = bold(change.element or change.target)
    if change.about == "reasons":
        what += f" for {change.target}"
    if change.group:
        what += f" in {change.group}"
    return f"{what} ({of_what[change.about].format(percent(change.reference))}, now {percent(change.now)})"


def _changes_table(caption: str, found: Sequence[ChangedFigure]) -> Block:
    shown = {"Element": "element", "Answer": "target", "Group": "group", "Reference": "reference", "Now": "now"}
    shown |= {"Difference": "difference", "Corrected p-value": "corrected", "Since": "since", "Cause": "cause"}
    shown |= {"Through other texts": "through_texts", "Effect, reference": "effect_reference"}
    shown |= {"Effect, now": "effect_now", "Texts": "texts", "Kind": "kind"}
    kept = {}
    for head, name in shown.items():
        values = {getattr(change, name) for change in found}
        if values - {None, ""}:  # what no row has is left out
            kept[head] = name
    return records_table(caption, found, kept)


def _draw_history(
    found: Sequence[ChangedFigure], by_day: Mapping[Figure, Sequence[float]], days: Sequence[str], drawing: Any
) -> None:
    axes = drawing.subplots()
    for change, (colour, marker) in zip(found, STYLES.values(), strict=False):
        values = [change.reference, *by_day[_figure(change)]]
        name = shortened(f"{change.element} for {change.target} {change.group}".strip(), 30)
        axes.plot(values, color=colour, marker=marker, markersize=3, linewidth=1, label=name)
    axes.grid(axis="y", color=FAINT, linewidth=0.5)
    names = ["reference", *days]
    places = sorted({0, len(days) // 2, len(days)})
    axes.set_xticks(places, labels=[shortened(names[place], 12) for place in places])
    drawing.legend(fontsize=8, frameon=False, loc="outside upper left", ncols=2)
