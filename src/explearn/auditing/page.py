"""The page of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from explearn.auditing.candidates import ATTRIBUTIONS, MOST_CANDIDATES, PREDICTION
from explearn.auditing.findings import AuditFigures, DiffFigures, Finding
from explearn.auditing.intervene import LEAST_EFFECT, MOST_TEXTS
from explearn.auditing.sentences import diff_sentences, percent, sentences
from explearn.report.figures.style import FAINT, INK, STYLES, say
from explearn.show.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Fold,
    Heading,
    Paragraph,
    Picture,
    Table,
    columns,
    figure,
    several,
)

DRAWN = 6
"""Findings of each class in the picture."""

MOST_CLASSES = 6
"""Classes in the picture."""

COLOUR = STYLES["learned"][0]


def audit_blocks(audit: AuditFigures, made: Mapping[str, str]) -> list[Block]:
    """Return the whole page.

    Args:
        audit: what was found.
        made: how the page was made.
    """
    blocks: list[Block] = [Heading("What this classifier leans on", level=1), Bullets(sentences(audit))]
    picture = effects_picture(audit.findings.confirmed, list(audit.rates))
    if picture is not None:
        blocks.append(picture)
    blocks.append(
        Paragraph(
            "A finding is a claim about the classifier that was tested: what it names was taken out of texts that have "
            "it and put into texts that do not, and the classifier was asked again. Confirmed says that the answers "
            "changed; it does not say that they are wrong, nor that a person would see it so.",
            style="note",
        )
    )
    if audit.unread:
        blocks.append(Paragraph(f"{several(audit.unread, 'word')} not read by the classifier.", style="note"))
    blocks.append(Heading("Confirmed findings"))
    blocks.append(_table("Confirmed findings", audit.findings.confirmed))
    blocks.append(_source_table(audit))
    if audit.examples:
        blocks += [Heading("Examples"), *audit.examples]
    if audit.errors:
        blocks += [Heading("Causes of errors"), _error_table(audit)]
    if audit.groups:
        blocks += [Heading("Groups"), _group_table(audit), *_difference_table(audit)]
    others = [finding for finding in audit.findings if not finding.confirmed]
    blocks += [Heading("Not confirmed"), Fold(several(len(others), "claim"), [_table("Not confirmed", others)])]
    blocks += [Heading("How this was done"), *_explanation(audit), Table(columns(["", ""]), list(made.items()))]
    return blocks


def effects_picture(findings: Sequence[Finding], labels: Sequence[str], title: str = "") -> Picture | None:
    """Return a picture of the strongest findings of each class; None without any."""
    rows: list[Finding] = []
    for label in labels[:MOST_CLASSES]:
        rows += [finding for finding in findings if finding.target == label][:DRAWN]
    if not rows:
        return None
    return Picture(
        "effects.svg",
        title or "Strongest findings: mean change of the probability of the answer, with its 95 % interval",
        "A row a finding: mean change of the probability",
        (7.0, 0.9 + 0.22 * (len(rows) + len({row.target for row in rows}))),
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
        names.append(finding.element)
        words = f"{finding.element}: {finding.effect:+.3f}"
        if finding.low is not None:
            axes.plot([finding.low, finding.high], [position, position], color=COLOUR, linewidth=1.6)
            words += f" ({finding.low:+.3f} to {finding.high:+.3f})"
        (point,) = axes.plot([finding.effect], [position], color=COLOUR, marker="o", markersize=5, clip_on=False)
        say(point, words)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), labels=[name if len(name) <= 40 else f"{name[:39]}…" for name in names])
    axes.tick_params(axis="y", length=0)
    for position in headings:
        axes.get_yticklabels()[position].set_fontweight("bold")


def _table(caption: str, findings: Sequence[Finding]) -> Table:
    rows: list[list[Cell | str]] = []
    for finding in findings:
        rows.append(
            [
                finding.element,
                finding.target,
                finding.kind,
                Cell(signed(finding.effect), finding.effect, note=interval(finding.low, finding.high)),
                Cell(signed(finding.taken_out), finding.taken_out),
                Cell(signed(finding.put_in), finding.put_in),
                Cell(f"{finding.changed}", finding.changed),
                Cell(f"{finding.texts:,}", finding.texts),
                Cell(signed(finding.score), finding.score, note=interval(finding.score_low, finding.score_high)),
                Cell(f"{finding.corrected:.2g}", finding.corrected),
                finding.source,
            ]
        )
    heads = columns(
        ["Element", "Counts for", "Kind"],
        ["Effect", "Taken out", "Put in", "Texts changed", "Texts with it", "Share of the explanation"],
    )
    heads += [Column("Corrected p-value", ascending=True), Column("Found by", numeric=False)]
    return Table(heads, rows, caption, methods=[finding.kind for finding in findings])


def _source_table(audit: AuditFigures) -> Table:
    rows: list[list[Cell | str]] = []
    for source in (ATTRIBUTIONS, PREDICTION):
        claims = [finding for finding in audit.findings if source in finding.source]
        confirmed = [finding for finding in claims if finding.confirmed]
        alone = [finding for finding in confirmed if finding.source == source]
        counts = [len(claims), len(confirmed), len(alone)]
        rows.append([source, *(Cell(f"{count}", count) for count in counts)])
    heads = columns(["Claims from"], ["Looked at", "Confirmed", "Confirmed, from here only"])
    return Table(heads, rows, "What explanations add")


def _error_table(audit: AuditFigures) -> Table:
    rows: list[list[Cell | str]] = []
    for cause in audit.errors:
        lost = Cell(f"{cause.right_lost} of {cause.right}", cause.right_lost)
        mended = Cell(f"{cause.mended} of {cause.wrong}", cause.mended)
        rows.append([cause.element, cause.target, cause.kind, mended, lost])
    heads = columns(["Element", "Wrong answer", "Kind"], ["Right without it", "Right answers lost without it"])
    return Table(
        heads, rows, "Wrong answers that become right without a finding", [cause.kind for cause in audit.errors]
    )


def _group_table(audit: AuditFigures) -> Table:
    rows: list[list[Cell | str]] = []
    for group in audit.groups:
        accuracy = Cell(figure(group.accuracy), group.accuracy)
        if group.accuracy_low is not None:
            note = f"{figure(group.accuracy_low)} to {figure(group.accuracy_high)}"
            accuracy = Cell(figure(group.accuracy), group.accuracy, note=note)
        rates = [Cell(percent(rate), rate) for rate in group.rates.values()]
        note = "fewer than 20 texts: says little" if group.small else ""
        rows.append([group.group, note, Cell(f"{group.texts:,}", group.texts), accuracy, *rates])
    heads = columns(["Group", "Note"], ["Texts", "Right answers", *(f"Answer {label}" for label in audit.rates)])
    return Table(heads, rows, "Answers by group")


def _difference_table(audit: AuditFigures) -> list[Block]:
    if not audit.differences:
        return [Paragraph("No confirmed finding occurs often enough in a group to compare its effect.", style="note")]
    rows: list[list[Cell | str]] = []
    for row in audit.differences:
        difference = Cell(signed(row.inside - row.outside), row.inside - row.outside)
        values = [Cell(signed(row.inside), row.inside), Cell(signed(row.outside), row.outside), difference]
        p_value = Cell(f"{row.corrected:.2g}", row.corrected)
        rows.append([row.group, row.element, row.target, "differs" if row.differs else "", *values, p_value])
    heads = columns(["Group", "Element", "Counts for", ""], ["In the group", "Elsewhere", "Difference"])
    heads.append(Column("Corrected p-value", ascending=True))
    kinds = [row.kind for row in audit.differences]
    return [Table(heads, rows, "Effects of taking out, in a group and elsewhere", kinds)]


def _explanation(audit: AuditFigures) -> list[Block]:
    return [
        Paragraph(
            f"One half of the texts was explained by {audit.method}. For each answer, the words, phrases, "
            "pairs, places and marks with the largest sum of scores beyond those of average words became claims (about "
            f"{MOST_CANDIDATES} in all), besides classes of words, lengths and given patterns; and, as the row without "
            "explanations, the words that go with the answer (log-odds with a prior, Monroe et al. 2008)."
        ),
        Paragraph(
            f"Each claim was tested on at most {MOST_TEXTS} texts of the other half that have it and {MOST_TEXTS} "
            "that do not. The effect of a phrase is that beyond its highest-scoring word; of two words together, that "
            "beyond the sum of both; of an order, that against the other order; of a place, that against the other "
            "end; of a length, that of the half of the words that score least. Confirmed: p at most 0.05 in "
            "Wilcoxon's signed-rank test after Benjamini and Hochberg's correction over all claims, a mean effect of "
            f"at least {LEAST_EFFECT:g}, and neither taking out nor putting in contradicts."
        ),
    ]


def diff_blocks(diff: DiffFigures, made: Mapping[str, str]) -> list[Block]:
    """Return the whole page of a difference.

    Args:
        diff: what changed.
        made: how the page was made.
    """
    findings: list[list[Cell | str]] = []
    for change in diff.findings:
        p_value = Cell(f"{change.corrected:.2g}", change.corrected)
        difference = Cell(signed(change.difference), change.difference, note=interval(change.low, change.high))
        effects = [Cell(signed(change.before), change.before), Cell(signed(change.after), change.after), difference]
        findings.append([change.element, change.target, change.status, change.kind, *effects, p_value])
    heads = columns(["Element", "Counts for", "Change", "Kind"], ["Effect before", "Effect now", "Difference"])
    heads.append(Column("Corrected p-value", ascending=True))
    answers: list[list[Cell | str]] = []
    for answer in diff.answers:
        probabilities = [answer.probability_before, answer.probability]
        cells = [Cell(figure(value), value) for value in probabilities]
        answers.append([answer.text, answer.before, answer.after, *cells])
    reasons: list[list[Cell | str]] = []
    for text in diff.reasons:
        correlation = Cell(signed(text.correlation), text.correlation)
        reasons.append([text.text, text.answer, text.before, text.after, correlation])
    of_answers = columns(["Text", "Answer before", "Answer now"], ["Its probability before", "Its probability now"])
    of_reasons = columns(["Text", "Answer", "Strongest words before", "Strongest words now"])
    of_reasons.append(Column("Rank correlation", ascending=True))
    kinds = [change.kind for change in diff.findings]
    return [
        Heading("What changed between two classifiers", level=1),
        Bullets(diff_sentences(diff)),
        Heading("Findings"),
        Table(heads, findings, "Findings confirmed for either classifier", kinds),
        Heading("Changed answers"),
        Table(of_answers, answers, "Texts with another answer"),
        Heading("Changed reasons"),
        Table(of_reasons, reasons, "Texts with the same answer whose scores changed most"),
        Heading("How this was done"),
        Paragraph(
            f"Both classifiers were audited on the same texts, explained by {diff.method}; the claims of both were "
            "tested on both, by the same changes of the same texts. A change counts if p is at most 0.05 in Wilcoxon's "
            "signed-rank test of the two effects over the changed texts, after Benjamini and Hochberg's correction, "
            f"and the difference is at least {LEAST_EFFECT:g}."
        ),
        Table(columns(["", ""]), list(made.items())),
    ]


def signed(value: float | None) -> str:
    """Format a change with its sign; a dash for None."""
    return "–" if value is None else f"{value:+.3f}"


def interval(low: float | None, high: float | None) -> str:
    """Format an interval; empty if there is none."""
    return "" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
