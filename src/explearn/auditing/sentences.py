"""The result of an audit in plain sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from explearn.auditing.candidates import ATTRIBUTIONS
from explearn.auditing.findings import Audit, Diff, Finding
from explearn.show.blocks import bold, several

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
            parts.append(f"for {bold(label)} {listed([effect_of(finding) for finding in strongest])}")
    if not parts:
        return "Nothing that was looked at changes its answers by more than chance."
    return f"Most counts {'; '.join(parts)} (mean change of the probability of this answer)."


def effect_of(finding: Finding) -> str:
    """Return a finding with its effect."""
    return f"{finding.element} ({finding.effect:+.2f})"


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
    found = (
        f"{several(len(audit.differences), 'comparison')} of what counts in a group and elsewhere found no difference"
    )
    if differing:
        count = differing.total()
        found = f"{count} of {several(len(audit.differences), 'comparison')} of what counts in a group differ"
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
    return [
        f"{answers} ({percent(changed / diff.texts)}) from the old classifier to the new.",
        f"Of {several(len(diff.findings), 'finding')} confirmed for either, {listed(statuses)}; {counts['the same']} "
        "without a change beyond chance.",
        strongest,
        reasons,
    ]
