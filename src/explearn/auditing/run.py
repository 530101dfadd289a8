"""A whole audit: what a classifier leans on over many texts, each claim tested by changing texts; and its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from explearn.auditing.claims import ATTRIBUTIONS, MOST_CLAIMS, PREDICTION, find_claims
from explearn.auditing.findings import (
    FEWEST_VALUES,
    NO_GROUP,
    ErrorCause,
    FalseAlarms,
    Finding,
    FindingList,
    GroupDifference,
    GroupFigures,
)
from explearn.auditing.reading import (
    FEWEST,
    MOST_SEARCHED,
    AuditOptions,
    AuditText,
    FinishedJob,
    accuracy,
    audited_texts,
    explain_texts,
    halves,
    rates,
    scored_texts,
)
from explearn.auditing.tables import EFFECT, MOST_NAMED, cell, percent, records_table, shortened
from explearn.auditing.tested import CONFIDENCE, LEAST_EFFECT, LEVEL, MOST_TEXTS, Tested, accuracy_test, group_figures
from explearn.core.arguments import inputs_left_as_they_came, options_of
from explearn.core.documents import checked_path, file_digest, text_digest
from explearn.core.errors import DataError, ParamsError, listed
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.methods.finding import find_explainer
from explearn.metrics.significance import mean_interval
from explearn.report.figures.style import INK, STYLES, draw_value, set_rows
from explearn.report.result import Result
from explearn.show.blocks import (
    Block,
    Bullets,
    Cell,
    ExampleText,
    Fold,
    Heading,
    Paragraph,
    Picture,
    Table,
    bold,
    columns,
    several,
)
from explearn.subject.subject import Subject, make_subject
from explearn.subject.texts import TextColumns, UserTexts, given_texts
from explearn.text.elements import Pattern
from explearn.text.scored import Vocabulary

DRAWN = 6
"""Findings of each class in the picture."""

MOST_CLASSES = 6
"""Classes in the picture."""

LONGEST_NAME = 40
"""Characters of a finding's name in the picture."""

STYLE = STYLES["learned"][0], "o"


@inputs_left_as_they_came
def audit(
    classifier: Any,
    texts: Any,
    labels: Sequence[str | int | None] | None = None,
    groups: str | Sequence[str | int | None] | None = None,
    method: str | Explainer | None = None,
    *,
    scores: str | Path | None = None,
    benign: Any = None,
    passes: str | None = None,
    out: str | Path | None = None,
    options: AuditOptions | None = None,
) -> Audit:
    """Find what a classifier leans on over many texts: claims from attributions, each tested by changing texts.

    Words, phrases, pairs and their order, places, classes of words, punctuation, patterns and lengths that score high
    in one half of the texts are claims. In texts of the other half, each is taken out where it occurs, and put in where
    it does not. A claim is confirmed if the 95 % interval of the change of its class's probability lies above 0.01,
    Wilcoxon's test, corrected over all claims (Benjamini and Hochberg), does not hold the change for chance, and
    neither taking out nor putting in contradicts. The words that go with the prediction, without any explanation, are
    tested in the same way.

    Args:
        classifier: as for `explearn.explain`; it must have classes.
        texts: a .csv, .jsonl, .parquet or .txt file, a list of texts (or pairs of texts), or a table; at least 40.
        labels: the true labels of a list of texts; of a file or table, `options.columns.label` names their column. A
            text may lack one (None, NaN or blank).
        groups: the group of each text, or the column that names it. A text may lack one, and is then only counted.
        method: a method's name, or an explainer. None: as `explearn.explain`, or the job's.
        scores: folder of a finished `explearn job` on these texts, whose scores are read; none is computed.
        benign: texts that should pass, as a file, list or table: which do not, and the words that cause these false
            alarms, come first. They are searched, too; no claim is tested on them.
        passes: the answer that they should get.
        out: a page to write (`Audit.save`).
        options: further settings.

    Returns:
        The findings, with causes of errors if there are labels, and groups.

    Raises:
        DataError: too few texts, texts with one answer only, a group of one text, or texts that cannot be used.
        ParamsError: another argument cannot be used.
        ModelError: the classifier cannot be loaded, or a label is none of its classes.
        UnsupportedError: it is a regression, or the method cannot explain it.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     rude = [0.9 if "moron" in text else 0.2 for text in texts]
        ...     return [[1 - p, p] for p in rude]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> texts = [f"what a {word} said {i}" for i in range(40) for word in ("moron", "friend")]
        >>> explearn.audit(classifier, texts).findings[0].element
        '‘moron’'
    """
    options = options_of(AuditOptions, options)
    if out is not None:
        Audit.check_place(Path(checked_path(out, "out")))
    patterns = [Pattern(pattern) for pattern in dict.fromkeys(options.patterns)]
    user_texts = audited_texts(texts, labels, groups, options.columns)
    explainers: list[Any] = [method]
    settings: dict[str, Any] = {"patterns": list(options.patterns)}
    files = [texts, benign]
    if benign is not None:
        benign = _benign_texts(benign, passes, options)
        settings["benign"] = text_digest(repr(benign.examples))
    job = None
    if scores is not None:
        job = FinishedJob(Path(scores), method)
        explainers = []
        settings |= {"job": file_digest(job.files[0]), "method": job.method}
        files += job.files
    subject = make_subject(
        "explearn.audit",
        classifier,
        user_texts,
        explainers,
        seed=options.seed,
        compute=options.compute,
        work=options.work,
        files=files,
        settings=settings,
    )
    job_scores = None
    if job is not None:
        job_scores = job.scores(subject.classifier, subject.texts.examples)
    classes = subject.classifier.labels
    searched, held_out = halves(subject.texts.examples, options.seed)
    with unread_words_known():
        read = explain_texts(subject, classes, searched, job_scores, options.show_progress)
        passing = []
        if benign is not None:
            if job is not None:
                explainers = [find_explainer(job.method, job.settings.options[job.method])]
            passing = _passing_texts(subject, benign, explainers, options)
    explained = [i for i in searched if read[i].shares is not None]
    if scores is not None and len(explained) < FEWEST / 2:
        raise DataError(
            f"{scores}: has scores of the answers to {len(explained)} of {len(searched)} searched texts; expected "
            "a job without --target"
        )
    every = [*read, *passing]
    should_pass = range(len(read), len(every))
    explained += [i for i in should_pass if every[i].shares is not None]
    vocabulary = Vocabulary.from_texts(every)
    claims = find_claims([every[i] for i in explained], vocabulary, patterns)
    tested = Tested(subject, classes, every, vocabulary, explained, held_out, claims)
    findings = list(zip(tested.run(options.show_progress), claims, strict=True))
    # Confirmed ones first, the largest effects first.
    findings.sort(key=lambda pair: (not pair[0].confirmed, -(pair[0].effect or 0.0), pair[0].target, pair[0].element))
    confirmed = [claim for finding, claim in findings if finding.confirmed]
    result = Audit(
        findings=FindingList(finding for finding, _ in findings),
        errors=tested.errors(confirmed, range(len(read))),
        false_alarms=_false_alarms(passing, passes, tested.errors(confirmed, should_pass)),
        groups=group_figures(read, classes),
        groups_p_value=accuracy_test(read),
        differences=tested.differences(confirmed),
        texts=len(read),
        rates=rates(read, classes),
        accuracy=accuracy(read),
        labelled=sum(text.right is not None for text in read),
        method=job.method if job else next(iter(subject.explainers)),
        unread=sum(text.unread for text in read),
        unexplained=sum(read[i].shares is None for i in searched),
        hint=subject.texts.hint,
        examples=tested.examples(confirmed),
        origin=subject.origin,
    )
    if out is None:
        return result
    return result.save(out)


def _benign_texts(benign: Any, passes: str | None, options: AuditOptions) -> UserTexts:
    """Read the texts that should pass, with the answer that they should get as their label."""
    if passes is None:
        raise ParamsError("passes: got none; expected the class that benign texts should get (--passes)")
    columns = options.columns
    if columns is not None:
        columns = TextColumns(text=columns.text, pair=columns.pair)
    texts = given_texts(benign, None, columns)
    examples = [replace(example, label=passes) for example in texts.examples]
    return replace(texts, examples=examples, labels=[passes])


def _passing_texts(
    subject: Subject, benign: UserTexts, explainers: Sequence[Any], options: AuditOptions
) -> list[AuditText]:
    """Return the texts that should pass, with answers and scores."""
    work = options.work and Path(options.work) / "benign"
    beside = make_subject(
        "explearn.audit", subject.classifier, benign, explainers, seed=options.seed, compute=options.compute, work=work
    )
    every = range(len(beside.texts.examples))
    return scored_texts(beside, subject.classifier.labels, every, None, options.show_progress)


def _false_alarms(passing: Sequence[AuditText], passes: str | None, causes: Sequence[ErrorCause]) -> FalseAlarms | None:
    if not passing or passes is None:
        return None
    alarms = [not text.right for text in passing]
    low, high = mean_interval(alarms, CONFIDENCE, 0, 1)
    return FalseAlarms(passes, len(passing), sum(alarms), sum(alarms) / len(alarms), low, high, causes)


# ---- the result ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Audit(Result):
    """What a classifier leans on over many texts.

    Attributes:
        findings: all claims that were looked at.
        false_alarms: the answers to texts that should pass; None without such texts.
        errors: confirmed findings that count on the wrong side, those that mend most first; empty without labels.
        groups: figures of each group; empty without groups.
        groups_p_value: of the test whether all groups get as many right answers (`shares_test`); None without groups
            and labels.
        differences: confirmed findings compared between each group and the other texts.
        texts: number of texts.
        rates: class -> share of the texts with this answer.
        accuracy: share of right answers to texts with a label; None without labels.
        labelled: number of texts with a label.
        method: the method of the attributions.
        unread: number of words that the classifier did not read.
        unexplained: number of texts without scores for their answer, from a job or because the classifier does not
            answer them without some words; they were not searched.
        hint: sentences on texts that were left out, and columns that were not used.
        examples: texts with the words of strong findings marked.
        origin: where it comes from.
        page: path of the page; None if none was written.

    Example:
        >>> import explearn
        >>> def predict_proba(texts):
        ...     return [[0.1, 0.9] if "moron" in text else [0.8, 0.2] for text in texts]
        >>> classifier = explearn.FunctionPredictor(predict_proba, ["polite", "rude"])
        >>> texts = [f"what a {word} said {i}" for i in range(40) for word in ("moron", "friend")]
        >>> audit = explearn.audit(classifier, texts)
        >>> audit.findings.confirmed[0].target
        'rude'
    """

    name = "audit"
    saved = (
        "false_alarms",
        "findings",
        "errors",
        "groups",
        "groups_p_value",
        "differences",
        "texts",
        "rates",
        "accuracy",
        "labelled",
        "method",
        "unread",
        "unexplained",
        "hint",
    )
    table = "findings"
    row = Finding

    findings: FindingList
    errors: Sequence[ErrorCause]
    false_alarms: FalseAlarms | None
    groups: Sequence[GroupFigures]
    groups_p_value: float | None
    differences: Sequence[GroupDifference]
    texts: int
    rates: Mapping[str, float]
    accuracy: float | None
    labelled: int
    method: str
    unread: int
    unexplained: int
    hint: str
    examples: Sequence[ExampleText]

    def bold_sentences(self) -> list[str]:
        """Return sentences: false alarms if asked, answers, what was confirmed, what counts most, errors, groups."""
        sentences = [_answers(self), _confirmed(self), _strongest(self), _errors(self), _groups(self)]
        if self.false_alarms is not None:
            return [_alarms(self.false_alarms), *sentences]
        return sentences

    def blocks(self) -> list[Block]:
        """Return the page of an audit, but for how it was made."""
        blocks: list[Block] = [Heading("What this classifier leans on", level=1), Bullets(self.bold_sentences())]
        if self.false_alarms is not None and self.false_alarms.causes:
            blocks.append(_error_table("What causes false alarms", self.false_alarms.causes))
        picture = effects_picture(self.findings.confirmed, list(self.rates))
        if picture is not None:
            blocks.append(picture)
        blocks.append(
            Paragraph(
                "A finding is a claim about the classifier that was tested: what it names was taken out of texts that "
                "have it and put into texts that do not, and the classifier was asked again. Confirmed says that the "
                "answers changed; it does not say that they are wrong, nor that a person would see it so.",
                style="note",
            )
        )
        if self.hint:
            blocks.append(Paragraph(self.hint, style="note"))
        if self.unread:
            blocks.append(Paragraph(f"{several(self.unread, 'word')} not read by the classifier.", style="note"))
        if self.unexplained:
            missing = several(self.unexplained, "text")
            blocks.append(Paragraph(f"There are no scores for the answer to {missing}; not searched.", style="note"))
        blocks.append(Heading("Confirmed findings"))
        blocks.append(_findings_table("Confirmed findings", self.findings.confirmed))
        blocks.append(_source_table(self))
        if self.examples:
            blocks += [Heading("Examples"), *self.examples]
        if self.errors:
            caption = "Wrong answers that become right without a finding"
            blocks += [Heading("Causes of errors"), _error_table(caption, self.errors)]
        if self.groups:
            blocks += [Heading("Groups"), _group_table(self), _difference_block(self)]
        untested = self.findings.untested
        others = [finding for finding in self.findings if not finding.confirmed and finding not in untested]
        blocks += [
            Heading("Not confirmed"),
            Fold(several(len(others), "claim"), [_findings_table("Not confirmed", others)]),
        ]
        if untested:
            counts = [
                f"{finding.element} for {finding.target} ({several(finding.changed, 'text')})" for finding in untested
            ]
            blocks += [
                Heading("Not tested"),
                Paragraph(
                    f"Fewer than {FEWEST_VALUES} texts could be changed for {several(len(untested), 'claim')}, which "
                    f"says nothing for or against: {listed(counts, len(counts))}."
                ),
            ]
        return [
            *blocks,
            Heading("How this was done"),
            Paragraph(
                f"One half of the texts, at most {MOST_SEARCHED:,}, was explained by {self.method}. For each answer, "
                "the words, phrases, pairs, places and marks with the largest sum of scores beyond those of average "
                f"words became claims (about {MOST_CLAIMS} in all), besides classes of words, lengths and given "
                "patterns; and, as the row without explanations, the words that go with the answer (log-odds with a "
                "prior, Monroe et al. 2008)."
            ),
            Paragraph(
                f"Each claim was tested on at most {MOST_TEXTS} texts of the other half that have it and {MOST_TEXTS} "
                "that do not. The effect of a phrase is that beyond its highest-scoring word; of two words together, "
                "that beyond the sum of both; of an order, that against the other order; of a place, that against the "
                "other end; of a length, that of the half of the words that score least. Confirmed: p at most "
                f"{LEVEL:g} in Wilcoxon's signed-rank test after Benjamini and Hochberg's correction over all claims, "
                f"the whole interval of the effect above {LEAST_EFFECT:g}, and neither taking out nor putting in "
                "contradicts. Effects in a group and elsewhere are compared by Mann and Whitney's test, exact or over "
                "random orders; the groups' shares of right answers by Pearson's, over random assignments."
            ),
        ]


def _answers(audit: Audit) -> str:
    common = sorted(audit.rates, key=lambda label: -audit.rates[label])
    named = [f"{bold(label)} for {percent(audit.rates[label])}" for label in common[: MOST_NAMED + 1]]
    others = ""
    if len(common) > len(named):
        others = f", and {several(len(common) - len(named), 'more answer')}"
    right = "; how often it is right is not known, since no labels were given"
    if audit.accuracy is not None:
        which = ""
        if audit.labelled < audit.texts:
            which = f" to the {several(audit.labelled, 'text')} with a label"
        right = f"; {percent(audit.accuracy)} of its answers{which} are right"
    return f"The classifier answers {listed(named)} of {several(audit.texts, 'text')}{others}{right}."


def _confirmed(audit: Audit) -> str:
    confirmed = audit.findings.confirmed
    explained = [finding for finding in confirmed if ATTRIBUTIONS in finding.source]
    new = [finding for finding in explained if finding.source == ATTRIBUTIONS]
    verb = "was" if len(confirmed) == 1 else "were"
    count = bold(f"{len(confirmed)} {verb} confirmed")
    untested = len(audit.findings.untested)
    too_few = ""
    if untested:
        too_few = f"; {several(untested, 'claim')} had too few texts to be tested"
    return (
        f"Of {several(len(audit.findings), 'claim')} about what it leans on, {count} "
        "by changing texts and asking again; "
        f"{len(new)} of these would not have been looked at without explanations, from the words that go with its "
        f"answers alone{too_few}."
    )


def _strongest(audit: Audit) -> str:
    parts = []
    for label in sorted(audit.rates, key=lambda label: -audit.rates[label])[:MOST_NAMED]:
        strongest = audit.findings.confirmed.of_class(label)[:MOST_NAMED]
        if strongest:
            effects = [f"{finding.element} ({finding.effect:+.2f})" for finding in strongest]
            parts.append(f"for {bold(label)} {listed(effects)}")
    if not parts:
        return "Nothing that was looked at changes its answers by more than chance."
    return f"Most counts {'; '.join(parts)} ({EFFECT})."


def _errors(audit: Audit) -> str:
    if audit.accuracy is None:
        return "Which words cause its errors can be said only with labels."
    if not audit.errors:
        return "No confirmed finding was found whose removal turns a wrong answer into the right one."
    causes = _causes(audit.errors)
    return f"{causes[0].upper()}{causes[1:]}."


def _causes(causes: Sequence[ErrorCause]) -> str:
    parts = []
    for cause in causes[:MOST_NAMED]:
        wrong = several(cause.wrong, "wrong answer")
        parts.append(f"without {bold(cause.element)}, {cause.mended} of {wrong} “{cause.target}” would be right")
    return "; ".join(parts)


def _alarms(found: FalseAlarms) -> str:
    count = bold(f"{several(found.alarms, 'false alarm')} on {several(found.texts, 'text')}")
    share = percent(found.share)
    if found.low is not None and found.high is not None:
        share += f", interval {percent(found.low)} to {percent(found.high)}"
    why = "no confirmed finding causes them"
    if found.causes:
        why = _causes(found.causes)
    return f"{count} that should be {found.passes} ({share}); {why}."


TOO_RARE = "no confirmed finding occurs often enough in a group to compare its effect"


def _groups(audit: Audit) -> str:
    if not audit.groups:
        return "Whether groups are treated differently was not asked (a column of groups is needed)."
    groups = [group for group in audit.groups if group.group != NO_GROUP]
    large = [group for group in groups if not group.small]
    small = len(groups) - len(large)
    compared = TOO_RARE
    if audit.differences:
        differing = sum(difference.differs for difference in audit.differences) or "none"
        count = several(len(audit.differences), "comparison")
        compared = f"{count} of a finding in a group and in the other texts, {differing} with a difference"
    right = _right_by_group(large, audit.groups_p_value)
    note = ""
    if small:
        note = f"; figures of {several(small, 'group')} of fewer than 20 texts say little"
    without = audit.groups[len(groups) :]
    if without:
        note += f"; {several(without[0].texts, 'text')} without a group not compared"
    return f"Of {several(len(groups), 'group')}: {right}{compared}{note}."


def _right_by_group(groups: Sequence[GroupFigures], p_value: float | None) -> str:
    """Return how often the classifier is right; for which groups only where these differ beyond chance."""
    known = [group for group in groups if group.accuracy is not None]
    if p_value is None or len(known) < 2:
        return ""
    known.sort(key=lambda group: group.accuracy or 0.0)
    least, most = (cell(known[i], "accuracy") for i in (0, -1))
    low = f"{least.text} (interval {least.note})"
    high = f"{most.text} (interval {most.note})"
    if p_value > LEVEL:
        return f"how often it is right does not differ beyond chance (p = {p_value:.2g}), from {low} to {high}; "
    named = f"most often for {known[-1].group}, {high}, and least for {known[0].group}, {low}"
    return f"it is right {named}, beyond chance (p = {p_value:.2g}); "


def effects_picture(findings: Sequence[Finding], labels: Sequence[str]) -> Picture | None:
    """Return a picture of the strongest findings of each class; None without any."""
    rows: list[Finding] = []
    for label in labels[:MOST_CLASSES]:
        rows += [finding for finding in findings if finding.target == label][:DRAWN]
    if not rows:
        return None
    return Picture(
        "effects.svg",
        f"Strongest findings, with 95 % intervals: {EFFECT}",
        f"A row a finding: {EFFECT}",
        (4.7, 0.9 + 0.22 * (len(rows) + len({row.target for row in rows}))),
        partial(_draw, rows),
    )


def _draw(rows: Sequence[Finding], drawing: Any) -> None:
    axes = drawing.subplots()
    names: list[str] = []
    headings = []
    target = None
    for finding in rows:
        if finding.target != target:
            target = finding.target
            headings.append(len(names))
            names.append(finding.target)
        position = len(names)
        names.append(shortened(finding.element, LONGEST_NAME))
        words = f"{finding.element}: {finding.effect:+.3f}"
        draw_value(axes, position, finding.effect or 0.0, (finding.low, finding.high), STYLE, words)
    axes.axvline(0, color=INK, linewidth=0.8)
    set_rows(axes, names, "x")
    for position in headings:
        axes.get_yticklabels()[position].set_fontweight("bold")


def _findings_table(caption: str, findings: Sequence[Finding]) -> Table:
    shown = {
        "Element": "element",
        "Counts for": "target",
        "Effect": "effect",
        "Taken out": "taken_out",
        "Put in": "put_in",
        "Texts changed": "changed",
        "Texts with it": "texts",
        "Share of the explanation": "score",
        "Corrected p-value": "corrected",
        "Kind": "kind",
    }
    return records_table(caption, findings, shown)


def _source_table(audit: Audit) -> Table:
    rows: list[list[Cell | str]] = []
    for source in (ATTRIBUTIONS, PREDICTION):
        claims = [finding for finding in audit.findings if source in finding.source]
        confirmed = [finding for finding in claims if finding.confirmed]
        alone = [finding for finding in confirmed if finding.source == source]
        counts = [len(claims), len(confirmed), len(alone)]
        rows.append([source, *(Cell(f"{count}", count) for count in counts)])
    heads = columns(["Claims from"], ["Looked at", "Confirmed", "Confirmed, from here only"])
    return Table(heads, rows, "What explanations add")


def _error_table(caption: str, causes: Sequence[ErrorCause]) -> Table:
    shown = {
        "Element": "element",
        "Wrong answer": "target",
        "Wrong answers with it": "wrong",
        "Right without it": "mended",
        "Right answers with it": "right",
        "Wrong without it": "right_lost",
        "Kind": "kind",
    }
    return records_table(caption, causes, shown)


def _group_table(audit: Audit) -> Table:
    rows: list[list[Cell | str]] = []
    for group in audit.groups:
        note = ""
        if group.small:
            note = "fewer than 20 texts: says little"
        rates = [Cell("–")] * len(audit.rates)
        if group.rates:
            rates = [Cell(percent(rate), rate) for rate in group.rates.values()]
        rows.append([group.group, note, cell(group, "texts"), cell(group, "accuracy"), *rates])
    heads = columns(["Group", "Note"], ["Texts", "Right answers", *(f"Answer {label}" for label in audit.rates)])
    return Table(heads, rows, "Answers by group")


def _difference_block(audit: Audit) -> Block:
    if not audit.differences:
        return Paragraph(f"{TOO_RARE.capitalize()}.", style="note")
    shown = {
        "Group": "group",
        "Element": "element",
        "Counts for": "target",
        "In the group": "inside",
        "Elsewhere": "outside",
        "Corrected p-value": "corrected",
    }
    return records_table("Effects of taking out, in a group and elsewhere", audit.differences, shown)
