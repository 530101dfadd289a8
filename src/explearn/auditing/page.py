"""The result of an audit in plain sentences, and its page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from explearn.auditing.candidates import ATTRIBUTIONS, MOST_CANDIDATES, PREDICTION
from explearn.auditing.findings import FEWEST_VALUES, Audit, Diff, Finding
from explearn.auditing.reading import MOST_SEARCHED
from explearn.auditing.tested import LEAST_EFFECT, LEVEL, MOST_TEXTS
from explearn.report.figures.style import INK, STYLES, draw_value, set_rows
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
    bold,
    columns,
    several,
)

MOST_NAMED = 3
"""Findings, or classes, that a sentence names."""


def percent(share: float) -> str:
    """Format a share, such as 12 %."""
    return f"{100 * share:.0f} %"


def listed(names: Sequence[str]) -> str:
    """Join names, such as "a, b and c"."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def sentences(audit: Audit) -> list[str]:
    """Return five sentences: the answers, what was confirmed, what counts most, errors, and groups."""
    return [_answers(audit), _confirmed(audit), _strongest(audit), _errors(audit), _groups(audit)]


def _answers(audit: Audit) -> str:
    common = sorted(audit.rates, key=lambda label: -audit.rates[label])
    named = [f"{bold(label)} for {percent(audit.rates[label])}" for label in common[: MOST_NAMED + 1]]
    others = ""
    if len(common) > len(named):
        others = f", and {several(len(common) - len(named), 'more answer')}"
    right = "; how often it is right is not known, since no labels were given"
    if audit.accuracy is not None:
        right = f"; {percent(audit.accuracy)} of its answers are right"
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
    return f"Most counts {'; '.join(parts)} (mean change of the probability of this answer)."


def _errors(audit: Audit) -> str:
    if audit.accuracy is None:
        return "Which words cause its errors can be said only with labels."
    if not audit.errors:
        return "No confirmed finding was found whose removal turns a wrong answer into the right one."
    parts = []
    for cause in audit.errors[:MOST_NAMED]:
        wrong = several(cause.wrong, "wrong answer")
        parts.append(f"without {bold(cause.element)}, {cause.mended} of {wrong} “{cause.target}” would be right")
    first = parts[0][0].upper() + parts[0][1:]
    return f"{'; '.join([first, *parts[1:]])}."


def _groups(audit: Audit) -> str:
    if not audit.groups:
        return "Whether groups are treated differently was not asked (a column of groups is needed)."
    large = [group for group in audit.groups if not group.small]
    small = len(audit.groups) - len(large)
    differing = Counter(difference.group for difference in audit.differences if difference.differs)
    compared = several(len(audit.differences), "comparison")
    found = f"{compared} of a group with the other texts, {differing.total() or 'none'} with a difference in words"
    accuracies = {group.group: group.accuracy for group in large if group.accuracy is not None}
    right = ""
    if len(accuracies) > 1:
        best = max(accuracies, key=lambda group: accuracies[group])
        worst = min(accuracies, key=lambda group: accuracies[group])
        right = f"it is right most often for {best} ({percent(accuracies[best])}) and least for {worst} "
        right += f"({percent(accuracies[worst])}); "
    note = ""
    if small:
        note = f"; figures of {several(small, 'group')} of fewer than 20 texts say little"
    return f"Of {several(len(audit.groups), 'group')}: {right}{found}{note}."


def diff_sentences(diff: Diff) -> list[str]:
    """Return what changed: answers, findings, the largest changes, and reasons."""
    changed = len(diff.answers)
    answers = bold(f"{changed:,} of {several(diff.texts, 'answer')} changed")
    counts = Counter(change.status for change in diff.findings)
    statuses = [f"{counts[status]} {status}" for status in ("came", "went", "grew", "shrank")]
    largest = [change for change in diff.findings if change.status != "the same"][:MOST_NAMED]
    named = [
        f"{bold(change.element)} for {change.target} {change.status} ({change.before:+.2f} to {change.after:+.2f})"
        for change in largest
    ]
    strongest = "No confirmed finding changed by more than chance."
    if named:
        strongest = f"The largest changes: {listed(named)} (mean change of the probability of this answer)."
    reasons = "No text kept its answer and can be compared."
    if diff.reasons:
        least = diff.reasons[0]
        reasons = (
            f"Among answers that stayed, the reasons changed most for ‘{least.text[:80]}’: once {least.before}, now "
        )
        reasons += f"{least.after}."
        if math.isclose(least.correlation, 1):
            reasons = "Among answers that stayed, no reasons changed."
    return [
        f"{answers} ({percent(changed / diff.texts)}) from the old classifier to the new.",
        f"Of {several(len(diff.findings), 'finding')} confirmed for either, {listed(statuses)}; {counts['the same']} "
        "without a change beyond chance.",
        strongest,
        reasons,
    ]


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


def audit_blocks(audit: Audit) -> list[Block]:
    """Return the page of an audit, but for how it was made."""
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
    return [
        *blocks,
        Heading("How this was done"),
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
    set_rows(axes, names, "x")
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
    shown = {
        "Group": "group",
        "Element": "element",
        "Counts for": "target",
        "In the group": "inside",
        "Elsewhere": "outside",
        "Corrected p-value": "corrected",
    }
    return _records_table("Effects of taking out, in a group and elsewhere", audit.differences, shown)


def diff_blocks(diff: Diff) -> list[Block]:
    """Return the page of a difference, but for how it was made."""
    finding_columns = {
        "Element": "element",
        "Counts for": "target",
        "Change": "status",
        "Difference": "difference",
        "Effect before": "before",
        "Effect now": "after",
        "Corrected p-value": "corrected",
        "Kind": "kind",
    }
    answer_columns = {
        "Text": "text",
        "Answer before": "before",
        "Answer now": "after",
        "Its probability before": "probability_before",
        "Its probability now": "probability",
    }
    reason_columns = {
        "Text": "text",
        "Answer": "answer",
        "Strongest words before": "before",
        "Strongest words now": "after",
        "Rank correlation": "correlation",
    }
    answers = diff.answers[:MOST_ANSWERS]
    return [
        Heading("What changed between two classifiers", level=1),
        Bullets(diff_sentences(diff)),
        Heading("Findings"),
        _records_table("Findings confirmed for either classifier", diff.findings, finding_columns),
        Heading("Changed answers"),
        _records_table(f"Texts with another answer, at most {MOST_ANSWERS}", answers, answer_columns),
        Heading("Changed reasons"),
        _records_table("Texts with the same answer whose scores changed most", diff.reasons, reason_columns),
        Heading("How this was done"),
        Paragraph(
            f"Both classifiers were audited on the same texts, explained by {diff.method}; the claims of both were "
            f"tested on both, by the same changes of the same texts. A change counts if p is at most {LEVEL:g} in "
            "Wilcoxon's signed-rank test of the two effects over the changed texts, after Benjamini and Hochberg's "
            f"correction, and the difference is at least {LEAST_EFFECT:g}."
        ),
    ]


def shortened(text: str, most: int) -> str:
    """Return the start of a text that has more than so many characters."""
    if len(text) <= most:
        return text
    return f"{text[: most - 1]}…"
