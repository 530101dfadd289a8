"""What a run's figures say: rules find it, SENTENCES words it. No other module of a page draws conclusions."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np

from explearn.core.errors import listed
from explearn.evaluation.result import Evaluation
from explearn.methods.base.teachers import ANSWERS
from explearn.metrics.base import Metric
from explearn.metrics.mosaics import MOSAICS
from explearn.metrics.reasons import METHOD as REASONS
from explearn.metrics.reasons import judge_trust
from explearn.metrics.registry import CATALOGUE
from explearn.metrics.significance import FEWEST_TEXTS, mean_interval, signed_rank_test
from explearn.metrics.stability import SHARED_UNITS
from explearn.report.run import ANNOTATORS, MARKS, MODEL, RunFacts
from explearn.show.blocks import bold, count_range, plain, several
from explearn.show.display import INCOMPLETE
from explearn.text.custom import INLINE_ANNOTATOR

QUESTIONS = {
    MARKS: "Choose the marked {unit}s",
    "auroc": "Rank the marked {unit}s first",
    MODEL: "Find the {unit}s that the classifier depends on",
    "aopc_sufficiency": "Find {unit}s that suffice alone",
    MOSAICS.name: "Point at the explained class's own part of a text",
}
"""Questions that the first page answers, by metric. All methods choose words by the same rule, so that none gains from
its own. Infidelity, stability, consistency and simulatability are left out: random scores are seldom significantly
worse in these."""

MARGIN = 2
"""Factor around the level of significance within which a p-value decides nothing: another processor's last digits may
move it to the other side."""

NOTICED = 0.5
"""Rank correlation between a method's scores before and after randomising all weights, from which the report says that
the method hardly notices the model. Our own threshold: 1 is the same order of words, 0 an unrelated one."""

TENTATIVE_ALPHA = 0.667
"""Krippendorff's alpha below which Krippendorff advises against conclusions (2004, Content Analysis, 11.4.2)."""

SHIFT = 0.25
"""Fall of the classifier's mean confidence on randomly shortened texts from which the report mentions it, as a share
of the distance between its confidence on whole texts and guessing. Our own threshold."""

UNSURE = 0.2
"""Accuracy minus mean confidence from which the report mentions it; 0 for a calibrated classifier. Our own
threshold."""

SENTENCES = {
    # Answers to a question, which open the page.
    "clear": "For {words}, use {names}, clearly the best here.",
    "level": "For {words}, use {names}, about equally good.",
    "open": "For {words}, use {names}, though {perhaps} may be as good.",
    "alone": "For {words}, only {names} was tried.",
    "chance": "For {words}, no method is clearly better than random scores.",
    "cheaper": "{cheap} takes {few} through the classifier, {dear} {many}.",
    "trusted": "The model's own reasons can be trusted here.",
    "not trusted": "The model's own reasons cannot be trusted here.",
    "undecided": "Whether the model's own reasons can be trusted is undecided.",
    "no evidence": "No evidence about the methods: the classifier is hardly better than always choosing the most "
    "frequent class.",
    "no figures": "No method has figures on all tasks, so none is best.",
    # Caveats.
    "untrained": "**Not trained:** {listed}. No epoch was better than the start.",
    "not counted": "**Tasks that do not count:** {listed}. Their classifiers are hardly better than always choosing "
    "the most frequent class.",
    "still better": "**Best at the end of training:** {listed}. With more epochs they might be better.",
    "no random": "**No random scores:** without them nothing tells how far figures are from chance.",
    "unmarked": "**No marks:** {listed}. Agreement with marks is not known.",
    "unlabelled": "**No labels:** {listed}. The classifier's accuracy is not known; a wrong one, too, can be explained "
    "faithfully.",
    "near metric": "**Close to the metric:** {listed}. Fitted to, taught or chosen by nearly what comprehensiveness "
    "and sufficiency measure, which may explain part of a lead there.",
    "unmoved": "**Hardly depend on the model:** {listed}. The ranking hardly changes when all weights are drawn anew "
    "(in brackets the rank correlation).",
    "few texts": "**Few texts:** with {texts} marked ones, F1 top-K is uncertain by about ±{half:.2f}.",
    "powerless": "**Too few texts** for so many methods: in {listed} no difference can be significant.",
    "one training": "**One training run:** all that was trained was trained once, with seed {seed}. Another seed may "
    "change the order.",
    "remark": "{listed}",
    "left out": "**Left out:** {listed}.",
    "not trained here": "**Not trained here:** {listed}. The weights came with the package.",
    "from a file": "**Scores from a file:** {listed}. Cost and sanity checks need the method itself.",
    "unstable": "**Stability** is not measured: different texts hardly ever share a {listed}.",
    "unchecked": "**Not checked:** {listed}. Whether the scores depend on the classifier's weights is not known.",
    "incomplete": "**Scores that do not add up:** {listed}, in brackets the share that is missing. Read the ranking, "
    "not the numbers.",
    "like chance": "**No better than chance at ranking the marked words first:** {listed}.",
    "disagreement": "**Annotators disagree:** {listed} (Krippendorff's alpha). Agreement with the marks is as reliable "
    "as they are.",
    "one opinion": "**One opinion only:** in {listed} no text was marked twice, so the reliability of the marks is not "
    "known.",
    "low confidence": "**Low confidence:** {listed}. A low probability cannot fall by much, so faithfulness is small "
    "for every method.",
    "shifted": "**Shortened texts are unusual:** the classifier is less sure of them, also if words are taken out at "
    "random: {listed}. This is part of what faithfulness measures.",
    # What stands in a fold, or in the record of one decision.
    "reasons": "Without the {unit}s that they name, the answer's probability falls by {margin:.3f} more than without "
    "as many others (p = {p_value:.2g}); a second model that knows them gains {gain:.3f} in predicting the answers to "
    "changed texts ({bounds}).",
    "effect": "On {texts} of {task}, the probability of the answer falls by {value:.3f} on average without the words "
    "that {method} ranks first.",
    "better": "By this figure {method} is significantly better than random scores.",
    "not better": "By this figure {method} is not significantly better than random scores.",
    "not judged": "The comparison did not judge {method}: how good it is on texts of this kind is not known.",
}
"""Kind of conclusion -> template of its sentence; {listed}: whom it concerns."""

CERTAINTY = {
    "clear": "clearly the best",
    "alone": "no other method was tried",
    "level": "about as good: {others}",
    "open": "perhaps as good: {undecided}",
    "chance": "not told from random scores; best figure: {best}",
}
"""Kind of answer -> how sure it is, in a table."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Something that the figures say.

    Attributes:
        kind: key of SENTENCES.
        methods: the methods concerned; empty for all.
        values: what its sentence names.
    """

    kind: str
    methods: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The sentence, with bold parts."""
        template = re.sub(r"\*\*(.+?)\*\*", lambda match: bold(match[1]), SENTENCES[self.kind])
        return template.format_map(self.values)

    @property
    def certainty(self) -> str:
        """How sure an answer is."""
        return CERTAINTY[self.kind].format_map(self.values)


# ---- which method is best at what ------------------------------------------------------------------------------------


def answers(run: RunFacts) -> list[Conclusion]:
    """Return the answer to each question for which the run has figures; see `answer`."""
    found = []
    for metric in [*QUESTIONS, *run.of_some_tasks]:
        of_all = answer(run, metric)
        if of_all is None:
            continue
        found.append(of_all)
        learned = {method for method in run.overall.figures if run.learned_from_marks(method)}
        if metric == MARKS and learned.intersection(of_all.values["named"]):
            without = answer(run, metric, learned)
            if without is not None and without.methods != of_all.methods:
                found.append(without)
    return found


def answer(run: RunFacts, name: str, leave_out: Collection[str] = ()) -> Conclusion | None:
    """Return which methods are best by a metric, or None if no method has it.

    Two methods are level if their corrected p-value is MARGIN times the level of significance or more. It is undecided
    whether a method is worse if its p-value is less, but not less than the level divided by MARGIN.

    Args:
        run: the run.
        name: name of the metric.
        leave_out: methods that do not count.

    Returns:
        The conclusion. Its methods are those to name: the best, and of those level with it the cheapest. Values:
        `metric`; `best`, the method with the best figure; `level` and `undecided`, other methods; `named`, the best
        with both of these, none if random scores are among them; `figure` and `chance`, formatted, and `value`.
    """
    overall = run.overall
    metric = overall.metrics[name]
    values = {}
    for method, value in overall.values(name).items():
        if overall.comparable(method, name) and method not in leave_out:
            values[method] = value
    if not values:
        return None
    best = metric.best(values)
    tests = overall.comparisons.get(name)
    others = [method for method in values if method != best]
    others.sort(key=values.__getitem__, reverse=metric.larger_is_better)
    significance = overall.params.significance
    level = []
    undecided = []
    for method in others:
        if tests is None or not tests.outcome(best, method, significance * MARGIN):
            level.append(method)
        elif not tests.outcome(best, method, significance / MARGIN):
            undecided.append(method)
    chance = overall.chance
    kind = "clear"
    if not chance.isdisjoint([best, *level, *undecided]) or overall.like_chance(name):
        kind = "chance"
    elif chance.issuperset(others):
        kind = "alone"
    elif level:
        kind = "level"
    elif undecided:
        kind = "open"
    level = [method for method in level if method not in chance]
    undecided = [method for method in undecided if method not in chance]
    named: list[str] = []
    methods: tuple[str, ...] = ()
    use = "none clearly"
    if kind != "chance":
        named = [best, *level, *undecided]
        methods = best, *sorted(level, key=lambda method: passes(overall, method))[:1]
        use = _named(run, metric, best)
    random = values.get(str(overall.random(name)))
    found = {
        "metric": metric,
        "words": words_of(run, name),
        "best": best,
        "level": level,
        "undecided": listed(undecided),
        "perhaps": listed(undecided, 2),
        "others": listed(level),
        "named": named,
        "names": _alternatives([_named(run, metric, method) for method in methods], max(0, len(level) - 1)),
        "use": use,
        "figure": metric.shown(values[best]),
        "value": values[best],
        "chance": metric.shown(random),
        "without_marks": bool(leave_out),
    }
    return Conclusion(kind, methods, found)


def passes(overall: Evaluation, method: str) -> float:
    """Return a method's passes through the classifier per text; infinity if they are not known."""
    forward = overall.figures[method].get("forward_passes")
    if forward is None:
        return float("inf")
    return forward + (overall.figures[method].get("backward_passes") or 0.0)


def _named(run: RunFacts, metric: Metric, method: str) -> str:
    """Return a method's name in bold, with why its figure may not be like others'."""
    info = run.overall.infos[method]
    aside = ""
    if metric.group == "plausibility" and run.learned_from_marks(method):
        aside = " (which learned from such marks)"
    elif info.own_model:
        aside = " (on its own classifier)"
    elif info.watches_metric:
        aside = " (which optimises a metric)"
    return bold(method) + aside


def _alternatives(names: Sequence[str], more: int) -> str:
    """Return names joined by "or", and how many more there are."""
    parts = [*names]
    if more:
        parts.append(several(more, "other"))
    if len(parts) > 2:
        parts[:-1] = [", ".join(parts[:-1])]
    return " or ".join(parts)


def words_of(run: RunFacts, metric: str) -> str:
    """Return the words that a question is about: for marked ones by whom they were marked, or of which task."""
    if metric != MARKS:
        return f"the {run.unit}s that the classifier depends on"
    kinds: set[str] = set()
    for task in run.counted:
        kinds |= set(task.marks.get("kinds") or ())
    if len(kinds) == 1 and kinds <= ANNOTATORS.keys():
        return f"the {run.unit}s that {ANNOTATORS[kinds.pop()]} marked"
    if len(run.counted) > 1:
        return f"the marked {run.unit}s"
    names = run.counted[0].marks.get("marked_by", {}).get("unknown", [])
    if kinds == {"unknown"} and len(names) == 1 and names != [INLINE_ANNOTATOR]:
        return f"the {run.unit}s that {names[0]} marked"
    return f"the marked {run.unit}s of {run.counted[0].task}"


def named_methods(run: RunFacts) -> list[str]:
    """Return the methods that the answers name."""
    methods: dict[str, None] = {}
    for found in answers(run):
        methods |= dict.fromkeys(found.methods)
    return list(methods)


def lead(run: RunFacts) -> list[Conclusion]:
    """Return what the page begins with, three at most: which method to use for what, and how sure that is."""
    if all(run.near_chance(task) for task in run.tasks):
        return [Conclusion("no evidence")]
    best = []
    for metric in (MARKS, MODEL):
        found = answer(run, metric)
        if found is not None:
            best.append(found)
    if not best:
        return [Conclusion("no figures")]
    more = [*trust(run), *cheaper(run, best[-1])]
    return [*best, *more[:1]]


def verdict(run: RunFacts) -> str:
    """Return the page's first sentences, without marks of bold parts."""
    return plain(" ".join(found.sentence for found in lead(run)))


def cheaper(run: RunFacts, best: Conclusion) -> Iterator[Conclusion]:
    """Find that of two methods that are level the one with the lower figure takes fewer passes."""
    if len(best.methods) < 2:
        return
    dear, cheap = best.methods
    few = passes(run.overall, cheap)
    many = passes(run.overall, dear)
    if few < many < float("inf"):
        counted = f"{few:.0f} passes"
        if round(few) == 1:
            counted = "1 pass"
        values = {"cheap": cheap, "dear": dear, "few": counted, "many": f"{many:.0f}"}
        yield Conclusion("cheaper", (cheap, dear), values)


def trust(run: RunFacts) -> Iterator[Conclusion]:
    """Find whether the model's own reasons can be trusted, and what that rests on."""
    judged = [task.by_text for task in run.counted if REASONS in task.by_text.get("reason_margin", {})]
    if not judged:
        return
    margin = np.concatenate([by_text["reason_margin"][REASONS] for by_text in judged])
    gain = np.concatenate([by_text["reason_gain"][REASONS] for by_text in judged])
    params = run.overall.params
    yield Conclusion(judge_trust(margin, gain, params), (REASONS,))
    bounds = f"{several(len(gain), 'text')} are too few for an interval"
    if len(gain) >= FEWEST_TEXTS:
        bounds = "interval: {:.2f} to {:.2f}".format(*mean_interval(gain, params.confidence, -1.0, 1.0))
    p_value = float(signed_rank_test(margin[None])[0])
    values = {"unit": run.unit, "margin": margin.mean(), "gain": gain.mean(), "p_value": p_value, "bounds": bounds}
    yield Conclusion("reasons", (REASONS,), values)


# ---- what not to trust -----------------------------------------------------------------------------------------------


def caveats(run: RunFacts) -> list[Conclusion]:
    """Return the reasons not to trust a page: those on methods that it names, or on all, come first, then by RULES."""
    named: set[str] = set()
    for answered in lead(run):
        named |= set(answered.methods)
    found: list[Conclusion] = []
    for rule in RULES:
        found += rule(run)
    return sorted(found, key=lambda conclusion: bool(conclusion.methods) and named.isdisjoint(conclusion.methods))


def _on(kind: str, figures: Mapping[str, str], are_methods: bool = True) -> Iterator[Conclusion]:
    """Yield a conclusion on some methods or tasks, each with its figure, which may be empty; none on none of them."""
    names = [f"{name} ({figure})".removesuffix(" ()") for name, figure in figures.items()]
    methods: tuple[str, ...] = ()
    if are_methods:
        methods = tuple(figures)
    if names:
        yield Conclusion(kind, methods, {"listed": ", ".join(names)})


def _on_tasks(run: RunFacts, kind: str, is_concerned: Callable[[Evaluation], bool]) -> Iterator[Conclusion]:
    """Yield a conclusion on some tasks; none on none of them."""
    tasks = [task.task for task in run.tasks if is_concerned(task)]
    return _on(kind, dict.fromkeys(tasks, ""), are_methods=False)


def untrained(run: RunFacts) -> Iterator[Conclusion]:
    """Find methods that no epoch of training improved, or whose base none improved."""
    tasks: dict[str, list[str]] = {}
    for task in run.tasks:
        for name in task.figures:
            notes = [task.notes.get(str(method), {}) for method in (name, task.infos[name].base)]
            if any(note.get("best_epoch") == 0 for note in notes):
                tasks.setdefault(name, []).append(task.task)
    return _on("untrained", {name: ", ".join(of_method) for name, of_method in tasks.items()})


def still_better(run: RunFacts) -> Iterator[Conclusion]:
    """Find methods whose best epoch of training was the last."""
    tasks: dict[str, list[str]] = {}
    for task in run.tasks:
        for name, notes in task.notes.items():
            if "ended" in notes and notes["best_epoch"] == notes["epochs"][-1]["epoch"]:
                tasks.setdefault(name, []).append(task.task)
    return _on("still better", {name: ", ".join(of_method) for name, of_method in tasks.items()})


def not_counted(run: RunFacts) -> Iterator[Conclusion]:
    """Find tasks that do not count in means."""
    return _on_tasks(run, "not counted", lambda task: task not in run.counted)


def no_random(run: RunFacts) -> Iterator[Conclusion]:
    """Find that random scores are missing."""
    if run.overall.figures and not any(info.at_random for info in run.overall.infos.values()):
        yield Conclusion("no random")


def has_no_marks(task: Evaluation) -> bool:
    """Return whether no text of a task has a marked word."""
    texts = task.marks.get("texts")
    return texts is not None and not any(texts.values())


def unmarked(run: RunFacts) -> Iterator[Conclusion]:
    """Find tasks without marked words."""
    return _on_tasks(run, "unmarked", has_no_marks)


def unlabelled(run: RunFacts) -> Iterator[Conclusion]:
    """Find tasks whose classifier's accuracy is not known."""
    return _on_tasks(run, "unlabelled", lambda task: bool(task.figures) and not task.performance)


def near_metric(run: RunFacts) -> Iterator[Conclusion]:
    """Find methods that probe, were trained on, or choose explanations by, what faithfulness metrics measure."""
    found = []
    for name, info in run.overall.infos.items():
        notes: dict[str, Any] = {}
        for task in run.counted:
            notes |= task.notes.get(name, {})
        # A perturbation method that takes gradients compares texts with reference texts and does not shorten them.
        probes = info.family == "perturbation" and "gradients" not in info.needs
        taught = run.counted[0].options.get(name, {}).get("teacher") == ANSWERS
        trained = bool(notes.get("best_epoch")) and "metric" in notes
        aimed = bool(notes.get("best_epoch")) and not {"comp", "suff"}.isdisjoint(notes.get("criteria", ()))
        chooses = info.watches_metric or "optimised_for" in notes
        if probes or taught or trained or chooses or (aimed and not info.own_model):
            found.append(name)
    return _on("near metric", dict.fromkeys(found, ""))


def _told_by_new_weights(run: RunFacts) -> list[str]:
    """Return the methods of which scores on new weights tell whether they depend on the classifier.

    A learned method keeps what it learned before; scores by chance do not depend on the classifier.
    """
    return [name for name, info in run.overall.infos.items() if info.family not in ("learned", "chance")]


def unmoved(run: RunFacts) -> Iterator[Conclusion]:
    """Find methods whose scores hardly change when all weights are randomised."""
    correlations: dict[str, list[float]] = {}
    for task in run.tasks:
        for method, checks in task.sanity.items():
            # After the last part, the embeddings, all weights are randomised.
            for similar in list(checks.random_model.values())[-1:]:
                if similar.spearman is not None:
                    correlations.setdefault(method, []).append(similar.spearman)
    told = _told_by_new_weights(run)
    figures = {}
    for method, values in sorted(correlations.items(), key=lambda item: -fmean(item[1])):
        if fmean(values) >= NOTICED and method in told:
            figures[method] = f"{fmean(values):.2f}"
    return _on("unmoved", figures)


def unchecked(run: RunFacts) -> Iterator[Conclusion]:
    """Find methods that were not checked on every task."""
    methods = _told_by_new_weights(run)
    missing = []
    for method in methods:
        checked = [method in task.sanity and bool(task.sanity[method].random_model) for task in run.tasks]
        if not all(checked):
            missing.append(method)
    if missing != methods:
        yield from _on("unchecked", dict.fromkeys(missing, ""))
    elif missing:
        reasons: dict[str, None] = {}
        for task in run.tasks:
            for result in task.sanity.values():
                reasons[result.skipped.partition(";")[0]] = None  # without the advice that may follow
        yield from _on("unchecked", {"all methods": "; ".join(reasons)}, are_methods=False)


def like_chance(run: RunFacts) -> Iterator[Conclusion]:
    """Find methods that are not significantly better than random scores at ranking marked words."""
    tests = run.overall.comparisons.get("auroc")
    random = run.overall.random("auroc")
    if tests is None or random is None or run.overall.like_chance("auroc"):
        return
    found = []
    for method in tests.methods:
        if method not in run.overall.chance and tests.outcome(method, random, tests.significance) <= 0:
            found.append(method)
    yield from _on("like chance", dict.fromkeys(found, ""))


def incomplete(run: RunFacts) -> Iterator[Conclusion]:
    """Find methods whose scores should add up to a change of the output, but miss it by INCOMPLETE or more."""
    missed: dict[str, float] = {}
    for task in run.tasks:
        for method, error in task.values("completeness_error").items():
            if error >= INCOMPLETE:
                missed[method] = max(error, missed.get(method, 0.0))
    return _on("incomplete", {method: f"{error:.0%}" for method, error in missed.items()})


def remarks(run: RunFacts) -> Iterator[Conclusion]:
    """Find what whoever made the evaluations remarked."""
    for task in run.tasks:
        for remark in task.remarks:
            yield Conclusion("remark", (), {"listed": remark})


def left_out(run: RunFacts) -> Iterator[Conclusion]:
    """Find methods that were not judged."""
    reasons: dict[str, list[str]] = {}
    for task in run.tasks:
        for name, reason in task.left_out.items():
            reasons.setdefault(name, []).append(reason)
    return _on("left out", {name: "; ".join(of_name) for name, of_name in reasons.items()}, are_methods=False)


def not_trained_here(run: RunFacts) -> Iterator[Conclusion]:
    """Find methods that took the weights that come with the package."""
    found = {}
    for task in run.tasks:
        for name, noted in task.notes.items():
            if "shipped" in noted:
                found[name] = ""
    return _on("not trained here", found)


def from_a_file(run: RunFacts) -> Iterator[Conclusion]:
    """Find methods of which only the scores are known."""
    return _on("from a file", {name: "" for name, info in run.overall.infos.items() if info.family == "given"})


def unstable(run: RunFacts) -> Iterator[Conclusion]:
    """Find that texts have no units in common by which they could be compared."""
    if run.unit not in SHARED_UNITS:
        yield Conclusion("unstable", (), {"listed": run.unit})


def few_texts(run: RunFacts) -> Iterator[Conclusion]:
    """Find how wide the intervals of agreement with the marks are."""
    widths = []
    texts = []
    for task in run.counted:
        for figures in task.figures.values():
            low = figures.get(f"{MARKS}_low")
            high = figures.get(f"{MARKS}_high")
            if low is not None and high is not None:
                widths.append(high - low)
                texts.append(int(figures.get("plausibility_texts") or 0))
    if widths:
        yield Conclusion("few texts", (), {"texts": count_range(texts), "half": float(np.median(widths)) / 2})


def powerless(run: RunFacts) -> Iterator[Conclusion]:
    """Find figures in which no difference can be significant."""
    found = []
    for name in (MARKS, MODEL):
        tests = run.overall.comparisons.get(name)
        if tests is not None and len(tests.methods) > 1 and not tests.can_differ():
            found.append(CATALOGUE[name].heading)
    if found:
        yield Conclusion("powerless", (), {"listed": " and ".join(found)})


def disagreement(run: RunFacts) -> Iterator[Conclusion]:
    """Find tasks whose annotators agree too little for conclusions."""
    alphas = {}
    for task in run.tasks:
        alpha = task.marks.get("alpha")
        if alpha is not None and alpha < TENTATIVE_ALPHA:
            alphas[task.task] = f"{alpha:.2f}"
    return _on("disagreement", alphas, are_methods=False)


def one_opinion(run: RunFacts) -> Iterator[Conclusion]:
    """Find tasks with marks of which nothing says how reliable they are."""
    return _on_tasks(run, "one opinion", lambda task: bool(task.marks.get("kinds")) and task.marks.get("alpha") is None)


def one_training(run: RunFacts) -> Iterator[Conclusion]:
    """Find that learned methods were trained once."""
    if run.trained:
        yield Conclusion("one training", (), {"seed": run.overall.seed})


def low_confidence(run: RunFacts) -> Iterator[Conclusion]:
    """Find tasks whose classifier is much less sure than right."""
    figures = {}
    for task in run.tasks:
        accuracy = task.performance.get("test", {}).get("accuracy")
        full = task.shared_figure("confidence_full")
        if accuracy is not None and full is not None and accuracy - full >= UNSURE:
            figures[task.task] = f"accuracy {accuracy:.2f}, mean confidence {full:.2f}"
    return _on("low confidence", figures, are_methods=False)


def shifted(run: RunFacts) -> Iterator[Conclusion]:
    """Find tasks whose classifier is much less sure of randomly shortened texts."""
    falls = {}
    for task in run.tasks:
        full = task.shared_figure("confidence_full")
        random = task.figures.get("random", {})
        shortened = [random.get(f"confidence_{inputs}") for inputs in ("without", "only", "masked")]
        lowest = min((value for value in shortened if value is not None), default=None)
        guess = 1 / max(1, len(task.labels))
        if full is None or lowest is None or full <= guess:
            continue
        if (full - lowest) / (full - guess) >= SHIFT:
            falls[task.task] = f"{full:.2f} to {lowest:.2f}"
    return _on("shifted", falls, are_methods=False)


RULES: tuple[Callable[[RunFacts], Iterator[Conclusion]], ...] = (
    untrained,
    still_better,
    not_counted,
    no_random,
    unmarked,
    unlabelled,
    near_metric,
    unmoved,
    few_texts,
    powerless,
    one_training,
    remarks,
    left_out,
    not_trained_here,
    from_a_file,
    unstable,
    unchecked,
    incomplete,
    like_chance,
    disagreement,
    one_opinion,
    low_confidence,
    shifted,
)
"""All rules for caveats, the most serious first."""


# ---- what a comparison says of one method ----------------------------------------------------------------------------


def about(evaluation: Evaluation, method: str) -> tuple[list[str], list[str]]:
    """Return sentences on how good a method is at finding what the classifier depends on, and the caveats on it."""
    if method not in evaluation.figures:
        return [Conclusion("not judged", (method,), {"method": method}).sentence], []
    found = []
    value = evaluation.figures[method].get(MODEL)
    if value is not None:
        texts = several(int(evaluation.figures[method]["texts"] or 0), "text")
        values = {"texts": texts, "task": evaluation.task, "value": value, "method": method}
        found.append(Conclusion("effect", (method,), values))
    tests = evaluation.comparisons.get(MODEL)
    random = evaluation.random(MODEL)
    if tests is not None and random is not None and method in tests.methods and method not in evaluation.chance:
        kind = "not better"
        if tests.outcome(method, random, tests.significance) > 0:
            kind = "better"
        found.append(Conclusion(kind, (method,), {"method": method}))
    run = RunFacts(title="", subtitle="", tasks=[evaluation])
    against = [conclusion for conclusion in caveats(run) if not conclusion.methods or method in conclusion.methods]
    return [plain(conclusion.sentence) for conclusion in found], [plain(conclusion.sentence) for conclusion in against]


def best_of(evaluation: Evaluation) -> str | None:
    """Return the method that finds the words the classifier depends on best; None if no figure says so."""
    not_made_here = {name for name, info in evaluation.infos.items() if info.family in ("chance", "given")}
    found = answer(RunFacts(title="", subtitle="", tasks=[evaluation]), MODEL, not_made_here)
    if found is None:
        return None
    return str(found.values["best"])
