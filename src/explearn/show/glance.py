"""The report's first screen: a verdict in one sentence, a text to look at, and what may change the verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from explearn.methods.registry import get_info
from explearn.show.caveats import caveats
from explearn.show.columns import comparable
from explearn.show.markdown import Markdown, escape_markdown
from explearn.show.task_report import ExampleReport, TaskReport
from explearn.show.verdict import (
    TIME,
    Leader,
    aside,
    compare_together,
    counted_tasks,
    counting_sentence,
    means,
    near_chance,
)
from explearn_study.params import Params

PEOPLE, MODEL = "f1_topk", "aopc_comprehensiveness"
"""The figures that answer the report's two questions: do the words agree with people, and with the model?"""

_ASKED = {PEOPLE: "the words that people would mark", MODEL: "the words that the classifier depends on"}

_BEST = {PEOPLE: "best at people's words", MODEL: "best at the classifier's words"}

_ON_MARKS = ("in_domain", "few_shot")
"""The protocols by which a learned method needs marked words of the very task that it explains."""

SHORT_TEXT = 30
"""Longest text of the first screen, in words, where there is one as short."""

OPEN_CAVEATS = 3

_OF_METHODS = (
    "Not trained",
    "Begins untrained",
    "No better than chance at finding marked words",
    "Hardly notice the model",
    "Looks at the metric",
    "Close to the metric",
    "Another classifier",
)
"""Caveats that count for the verdict where they name one of its methods, the gravest first."""
_OF_RUNS = ("Small differences", "People disagree on the words", "One training run", "Few sanity checks")
"""Caveats that count for every verdict."""

_TITLE = re.compile(r"\*\*(.+?):\*\*")


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of the text on the first screen: a method, and what it is there for."""

    method: str
    role: str


@dataclass(frozen=True, slots=True)
class Unmarked:
    """The methods that need no marked words of the task.

    Attributes:
        best: the best of them by PEOPLE.
        level: those of the others that are not significantly worse, random scores left out; none where that was not
            tested.
        figures: method -> its figure, as text.
    """

    best: str
    level: tuple[str, ...]
    figures: dict[str, str]

    def beside(self, chosen: str | None) -> str | None:
        """`chosen`, where it is one of those that are level with the best."""
        return chosen if chosen in self.level else None

    def fastest(self, times: dict[str, float]) -> str | None:
        """The fastest of those that are level with the best; None where the best is faster still."""
        known = [method for method in (self.best, *self.level) if method in times]
        return self.beside(min(known, key=times.__getitem__, default=None))


@dataclass(frozen=True, slots=True)
class Glance:
    """What the first screen shows.

    Attributes:
        verdict: one sentence, without what depends on the machine. timed: the same with times.
        scope: the tasks that the means are over.
        leaders: the best methods by PEOPLE and MODEL, those of the two for which there are figures. Where the best by
            PEOPLE learned from marked words of the task, which others may not have, the best without them as well.
        fastest: the fastest methods not significantly worse than these, where they are others and were timed.
        example, task: the text to show and its task; None where no text was explained.
        open, folded: caveats, those that may change the verdict and the others.
    """

    verdict: Markdown
    timed: Markdown
    scope: Markdown
    leaders: tuple[Shown, ...]
    fastest: tuple[Shown, ...]
    example: ExampleReport | None
    task: str
    open: tuple[Markdown, ...]
    folded: tuple[Markdown, ...]

    @property
    def methods(self) -> list[str]:
        """The methods of the verdict and the fastest beside them, each once."""
        return list(dict.fromkeys(shown.method for shown in (*self.leaders, *self.fastest)))


def glance(params: Params, tasks: Sequence[TaskReport], found: Sequence[Leader]) -> Glance:
    """The first screen of a report on `tasks`; `found` are the leaders of those that count (`verdict.leaders`)."""
    counted = counted_tasks(params, tasks)
    best = {leader.column.metric: leader for leader in found}
    asked = [best[metric] for metric in (PEOPLE, MODEL) if metric in best]
    roles: dict[str, list[str]] = {}
    without = _without_marks(params, counted, asked)
    for leader in (leader for leader in asked if not _by_chance(leader)):
        roles.setdefault(leader.method, []).append(f"{_BEST[leader.column.metric]}{_level(leader)}")
        if without is not None and leader.column.metric == PEOPLE:
            roles.setdefault(without.best, []).append("best at people's words without marked words of the task")
    ahead = tuple(Shown(method, "; ".join(what)) for method, what in roles.items())
    times = means(TIME.metric, counted)
    equals = [(leader.fastest, leader.method) for leader in asked]
    quick = None if without is None else without.fastest(times)
    if without is not None:
        equals.append((quick, without.best))
    faster = {
        one: Shown(one, f"the fastest not significantly worse than {of}: {TIME.text(times[one])}")
        for one, of in equals
        if one is not None and one not in roles
    }
    no_evidence = bool(tasks) and all(near_chance(t.classifier, params.report.chance_margin) for t in tasks)
    sentence = counting_sentence(params, tasks) if no_evidence else None
    # Which method is the fastest depends on the machine, and what report.md shows must not: there, the explainer under
    # study stands beside the best where it is level with it.
    study = None if without is None else without.beside(params.explainer)
    example, task = _text(counted, list(roles))
    opened, folded = _caveats(caveats(params, tasks), list(roles))
    return Glance(
        verdict=sentence or _verdict(asked, without, study, {}),
        timed=sentence or _verdict(asked, without, quick, times),
        scope=_scope(tasks, counted),
        leaders=ahead,
        fastest=tuple(faster.values()),
        example=example,
        task=task,
        open=opened,
        folded=folded,
    )


def _by_chance(leader: Leader) -> bool:
    """Whether random scores are the best, or not significantly worse than the best."""
    return leader.random_too or get_info(leader.method).family == "chance"


def _level(leader: Leader) -> str:
    """How a leader stands to the other methods, where that was tested."""
    if leader.rivals == 0:
        return ", significantly ahead of all others"
    if leader.rivals is not None and leader.fastest == leader.method:
        return f", and the fastest of {leader.rivals + 1} not told apart"
    return ""


def _without_marks(params: Params, tasks: Sequence[TaskReport], asked: Sequence[Leader]) -> Unmarked | None:
    """The methods that need no marked words of the task; None where the best of all is one of them, or where none of
    them is better than random scores."""
    leader = next((leader for leader in asked if leader.column.metric == PEOPLE and not _by_chance(leader)), None)
    if leader is None or not _on_marks(params, leader.method):
        return None
    table = {m: v for m, v in means(PEOPLE, tasks).items() if comparable(m, PEOPLE) and not _on_marks(params, m)}
    best = max(table, key=table.__getitem__, default=None)
    if best is None or get_info(best).family == "chance":
        return None
    tested = compare_together(PEOPLE, table, tasks, True, params.evaluate.significance)
    level = [] if tested is None else [m for m in (*tested.best, *tested.tied) if m != best]
    figures = {method: leader.column.text(value) for method, value in table.items()}
    return Unmarked(best, tuple(m for m in level if get_info(m).family != "chance"), figures)


def _on_marks(params: Params, method: str) -> bool:
    """Whether a method learned from marked words of the task that it is judged on."""
    info = get_info(method)
    return info.trained and params.options_of(method).get("protocol") in _ON_MARKS


def _verdict(
    asked: Sequence[Leader], without: Unmarked | None, beside: str | None, times: dict[str, float]
) -> Markdown:
    """Which method to use for what; `without` as from `_without_marks`, `beside` the one of them that is named beside
    the best, `times` by method, empty where the page names no times."""
    if not asked:
        return Markdown("No method has figures on all tasks, so none is ahead.")
    clear = [leader for leader in asked if not _by_chance(leader)]
    if not clear:
        return Markdown("**No method is shown to be better than random scores** on these texts.")
    parts = []
    for method in dict.fromkeys(leader.method for leader in clear):
        of = [leader for leader in clear if leader.method == method]
        what = ", and ".join(f"{_ASKED[x.column.metric]} ({_figure(x, without, beside, times)})" for x in of)
        time = f", at {TIME.text(times[method])} the time of classifying" if method in times else ""
        on_marks = without is not None and any(leader.column.metric == PEOPLE for leader in of)
        learned = ", trained on marked words of the task," if on_marks else ""
        parts.append(f"**{escape_markdown(method)}**{aside(method)}{learned} for {what}{time}")
    unclear = [_ASKED[leader.column.metric] for leader in asked if _by_chance(leader)]
    rest = f"; for {unclear[0]}, no method is shown to be better than random scores" if unclear else ""
    return Markdown(f"Use {'; and '.join(parts)}{rest}.")


def _figure(leader: Leader, without: Unmarked | None, beside: str | None, times: dict[str, float]) -> str:
    """The leader's figure beside those of the best without marks, where that is another, and of random scores."""
    value, chance = leader.column.text(leader.value), leader.column.text(leader.chance)
    if leader.column.metric != PEOPLE:
        random = "" if leader.chance is None else f", random words by {chance}"
        return f"without them its probability falls by {value}{random}"

    def named(method: str, figures: dict[str, str]) -> str:
        time = f" at {TIME.text(times[method])}" if method in times else ""
        return f"**{escape_markdown(method)}** {figures[method]}{time}"

    parts = [f"F1 {value}"]
    if without is not None:
        level = "" if beside is None else f" or, not significantly worse, {named(beside, without.figures)}"
        parts.append(f"without such words {named(without.best, without.figures)}{level}")
    if leader.chance is not None:
        parts.append(f"words at random {chance}")
    return "; ".join(parts)


def _scope(tasks: Sequence[TaskReport], counted: Sequence[TaskReport]) -> Markdown:
    names = ", ".join(escape_markdown(task.task) for task in counted)
    left = [escape_markdown(task.task) for task in tasks if task.task not in {t.task for t in counted}]
    out = f" Left out: {', '.join(left)}, where the classifier has hardly learned anything." if left else ""
    return Markdown(f"Means over {names}.{out}")


def _text(tasks: Sequence[TaskReport], methods: Sequence[str]) -> tuple[ExampleReport | None, str]:
    """The first drawn text that suits: explained by these methods, rightly classified, marked, and short.

    Texts are drawn by chance before anything is known of the methods on them; none is picked for what they show.
    """
    found = [(e, t.task) for t in tasks for e in t.heatmaps if all(m in e.attributions for m in methods)]

    def unsuited(item: tuple[ExampleReport, str]) -> tuple[bool, bool, bool]:
        report, of = item[0], item[0].task_attribution
        right = of is not None and of.predicted == report.example.label
        return not report.gold.any(), not right, len(report.example.all_words) > SHORT_TEXT

    return min(found, key=unsuited, default=(None, ""))


def _caveats(
    sentences: Sequence[Markdown], methods: Sequence[str]
) -> tuple[tuple[Markdown, ...], tuple[Markdown, ...]]:
    """The caveats that may change the verdict, OPEN_CAVEATS at most, and all the others in their order."""
    names = [escape_markdown(name) for name in methods]

    def rank(sentence: Markdown) -> int | None:
        title = found[1] if (found := _TITLE.match(sentence)) else ""
        if title in _OF_METHODS and any(re.search(rf"(?<![\w]){re.escape(n)}(?![\w])", sentence) for n in names):
            return _OF_METHODS.index(title)
        return len(_OF_METHODS) + _OF_RUNS.index(title) if title in _OF_RUNS else None

    ranks = {index: place for index, sentence in enumerate(sentences) if (place := rank(sentence)) is not None}
    opened = sorted(ranks, key=ranks.__getitem__)[:OPEN_CAVEATS]
    return (
        tuple(sentences[index] for index in opened),
        tuple(sentence for index, sentence in enumerate(sentences) if index not in opened),
    )
