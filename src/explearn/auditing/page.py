"""The page of an audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from explearn.auditing.candidates import ATTRIBUTIONS, MOST_CANDIDATES, PREDICTION
from explearn.auditing.findings import Audit, Diff, Finding
from explearn.auditing.intervene import FEWEST_VALUES, LEAST_EFFECT, LEVEL, MOST_TEXTS
from explearn.auditing.reading import MOST_SEARCHED
from explearn.auditing.sentences import diff_sentences, listed, percent, sentences
from explearn.report.figures.style import FAINT, INK, STYLES, draw_value
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
    several,
)

DRAWN = 6
"""Findings of each class in the picture."""

MOST_CLASSES = 6
"""Classes in the picture."""

LONGEST_NAME = 40
"""Characters of a finding's name in the picture."""

LONGEST_TEXT = 160
"""Characters of a text in a table."""

MOST_ANSWERS = 100
"""Changed answers on the page; all are in the JSON beside it."""

STYLE = STYLES["learned"][0], "o"

BOUNDS = {
    "effect": ("low", "high"),
    "difference": ("low", "high"),
    "score": ("score_low", "score_high"),
    "accuracy": ("accuracy_low", "accuracy_high"),
}
"""Figure -> attributes that hold its interval."""

FORMATS = dict.fromkeys(("texts", "changed", "wrong", "mended", "right", "right_lost"), ",")
FORMATS |= dict.fromkeys(("accuracy", "probability", "probability_before"), ".3f")
FORMATS["corrected"] = ".2g"
"""Figure -> its format; others are shown with their sign."""

ASCENDING = ("corrected", "correlation")
"""Figures of which the smallest comes first."""


def audit_blocks(audit: Audit, made: Mapping[str, str]) -> list[Block]:
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
    if audit.unexplained:
        missing = several(audit.unexplained, "text")
        blocks.append(Paragraph(f"The job has no scores for the answer to {missing}; not searched.", style="note"))
    blocks.append(Heading("Confirmed findings"))
    blocks.append(_findings_table("Confirmed findings", audit.findings.confirmed))
    blocks.append(_source_table(audit))
    if audit.examples:
        blocks += [Heading("Examples"), *audit.examples]
    if audit.errors:
        blocks += [Heading("Causes of errors"), _error_table(audit)]
    if audit.groups:
        blocks += [Heading("Groups"), _group_table(audit), _difference_block(audit)]
    untested = audit.findings.untested
    others = [finding for finding in audit.findings if not finding.confirmed and finding not in untested]
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
                f"Fewer than {FEWEST_VALUES} texts could be changed for {several(len(untested), 'claim')}, which says "
                f"nothing for or against: {listed(counts)}."
            ),
        ]
    blocks += [Heading("How this was done"), *_explanation(audit), Table(columns(["", ""]), list(made.items()))]
    return blocks


def effects_picture(findings: Sequence[Finding], labels: Sequence[str]) -> Picture | None:
    """Return a picture of the strongest findings of each class; None without any."""
    rows: list[Finding] = []
    for label in labels[:MOST_CLASSES]:
        rows += [finding for finding in findings if finding.target == label][:DRAWN]
    if not rows:
        return None
    return Picture(
        "effects.svg",
        "Strongest findings: mean change of the probability of the answer, with its 95 % interval",
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
        names.append(shortened(finding.element, LONGEST_NAME))
        words = f"{finding.element}: {finding.effect:+.3f}"
        draw_value(axes, position, finding.effect or 0.0, (finding.low, finding.high), STYLE, words)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)), labels=names)
    axes.tick_params(axis="y", length=0)
    for position in headings:
        axes.get_yticklabels()[position].set_fontweight("bold")


def _records_table(caption: str, records: Sequence[Any], shown: Mapping[str, str]) -> Table:
    """Return a table with a row for each record.

    Args:
        caption: its title.
        records: the records.
        shown: heading -> attribute.
    """
    heads = []
    for heading, name in shown.items():
        words = any(isinstance(getattr(record, name), str) for record in records)
        heads.append(Column(heading, numeric=not words, ascending=name in ASCENDING))
    rows = []
    for record in records:
        rows.append([_cell(record, name) for name in shown.values()])
    kinds = [record.kind for record in records if hasattr(record, "kind")]
    return Table(heads, rows, caption, kinds)


def _cell(record: Any, name: str) -> Cell:
    """Return words of a record, shortened; or a figure, with its interval if it has one."""
    value = getattr(record, name)
    if value is None:
        return Cell("–")
    if isinstance(value, str):
        return Cell(shortened(value, LONGEST_TEXT))
    form = FORMATS.get(name, "+.3f")
    note = ""
    if name in BOUNDS:
        low, high = (getattr(record, bound) for bound in BOUNDS[name])
        if low is not None:
            note = f"{low:{form}} to {high:{form}}"
    return Cell(f"{value:{form}}", value, note=note)


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
    return _records_table(caption, findings, shown)


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


def _error_table(audit: Audit) -> Table:
    shown = {
        "Element": "element",
        "Wrong answer": "target",
        "Wrong answers with it": "wrong",
        "Right without it": "mended",
        "Right answers with it": "right",
        "Wrong without it": "right_lost",
        "Kind": "kind",
    }
    return _records_table("Wrong answers that become right without a finding", audit.errors, shown)


def _group_table(audit: Audit) -> Table:
    rows: list[list[Cell | str]] = []
    for group in audit.groups:
        note = ""
        if group.small:
            note = "fewer than 20 texts: says little"
        rates = [Cell(percent(rate), rate) for rate in group.rates.values()]
        rows.append([group.group, note, _cell(group, "texts"), _cell(group, "accuracy"), *rates])
    heads = columns(["Group", "Note"], ["Texts", "Right answers", *(f"Answer {label}" for label in audit.rates)])
    return Table(heads, rows, "Answers by group")


def _difference_block(audit: Audit) -> Block:
    if not audit.differences:
        return Paragraph("No confirmed finding occurs often enough in a group to compare its effect.", style="note")
    shown = {"Group": "group", "Element": "element", "Counts for": "target"}
    shown |= {"In the group": "inside", "Elsewhere": "outside", "Corrected p-value": "corrected"}
    return _records_table("Effects of taking out, in a group and elsewhere", audit.differences, shown)


def _explanation(audit: Audit) -> list[Block]:
    return [
        Paragraph(
            f"One half of the texts, at most {MOST_SEARCHED:,}, was explained by {audit.method}. For each answer, the "
            "words, phrases, pairs, places and marks with the largest sum of scores beyond those of average words "
            f"became claims (about {MOST_CANDIDATES} in all), besides classes of words, lengths and given patterns; "
            "and, as the row without explanations, the words that go with the answer (log-odds with a prior, Monroe et "
            "al. 2008)."
        ),
        Paragraph(
            f"Each claim was tested on at most {MOST_TEXTS} texts of the other half that have it and {MOST_TEXTS} "
            "that do not. The effect of a phrase is that beyond its highest-scoring word; of two words together, that "
            "beyond the sum of both; of an order, that against the other order; of a place, that against the other "
            f"end; of a length, that of the half of the words that score least. Confirmed: p at most {LEVEL:g} in "
            "Wilcoxon's signed-rank test after Benjamini and Hochberg's correction over all claims, the whole interval "
            f"of the effect above {LEAST_EFFECT:g}, and neither taking out nor putting in contradicts."
        ),
    ]


def diff_blocks(diff: Diff, made: Mapping[str, str]) -> list[Block]:
    """Return the whole page of a difference.

    Args:
        diff: what changed.
        made: how the page was made.
    """
    of_findings = {"Element": "element", "Counts for": "target", "Change": "status", "Difference": "difference"}
    of_findings |= {"Effect before": "before", "Effect now": "after", "Corrected p-value": "corrected", "Kind": "kind"}
    of_answers = {"Text": "text", "Answer before": "before", "Answer now": "after"}
    of_answers |= {"Its probability before": "probability_before", "Its probability now": "probability"}
    of_reasons = {"Text": "text", "Answer": "answer", "Strongest words before": "before"}
    of_reasons |= {"Strongest words now": "after", "Rank correlation": "correlation"}
    return [
        Heading("What changed between two classifiers", level=1),
        Bullets(diff_sentences(diff)),
        Heading("Findings"),
        _records_table("Findings confirmed for either classifier", diff.findings, of_findings),
        Heading("Changed answers"),
        _records_table(f"Texts with another answer, at most {MOST_ANSWERS}", diff.answers[:MOST_ANSWERS], of_answers),
        Heading("Changed reasons"),
        _records_table("Texts with the same answer whose scores changed most", diff.reasons, of_reasons),
        Heading("How this was done"),
        Paragraph(
            f"Both classifiers were audited on the same texts, explained by {diff.method}; the claims of both were "
            f"tested on both, by the same changes of the same texts. A change counts if p is at most {LEVEL:g} in "
            "Wilcoxon's signed-rank test of the two effects over the changed texts, after Benjamini and Hochberg's "
            f"correction, and the difference is at least {LEAST_EFFECT:g}."
        ),
        Table(columns(["", ""]), list(made.items())),
    ]


def shortened(text: str, most: int) -> str:
    """Return the start of a text that has more than so many characters."""
    if len(text) <= most:
        return text
    return f"{text[: most - 1]}…"
