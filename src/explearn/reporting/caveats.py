"""What not to trust in a report, as sentences that the numbers of the run bear out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from scipy.stats import spearmanr

from explearn.params import Params
from explearn.registry import get_info
from explearn.reporting.executive import QUESTIONS, means
from explearn.reporting.markdown import Markdown, escape_markdown
from explearn.reporting.tables import Number, TaskReport

NOTICED = 0.5
"""Rank correlation between a method's scores before and after new random weights, from which the report says that the
method hardly notices. A bound of our own: random scores of the same text correlate at 1, unrelated ones at 0."""

TENTATIVE_ALPHA = 0.667
"""Krippendorff's alpha below which he advises against conclusions (Krippendorff 2004, Content Analysis, 11.4.2)."""

SHIFT = 0.1
"""Fall of the classifier's mean confidence on shortened texts from which the report speaks of it."""


def chance_warning(classifier: Mapping[str, Mapping[str, Number]], margin: float) -> Markdown | None:
    """A warning where test accuracy is less than `margin` above always answering the most frequent class, else None."""
    test = classifier.get("test", {})
    accuracy, majority = test.get("accuracy"), test.get("majority_rate")
    if accuracy is None or majority is None or accuracy - majority >= margin:
        return None
    return Markdown(
        f"The classifier answers {accuracy:.3f} of the test texts rightly; always answering the most frequent class "
        f"would give {majority:.3f}. A model that has learned this little gives little to explain: read this task's "
        "numbers as a check of the machinery, not as evidence about the methods."
    )


def caveats(params: Params, tasks: Sequence[TaskReport]) -> list[Markdown]:
    """What not to trust, each as a sentence or two that the numbers of this run bear out."""
    found: list[str] = [*_own_classifiers(tasks), *_watching(tasks)]
    weak = [task.task for task in tasks if chance_warning(task.classifier, params.report.chance_margin)]
    if weak:
        found.append(
            f"**Weak classifiers:** {_names(weak)}. There the classifier itself is hardly better than always answering "
            "the most frequent class, so that explaining it means little."
        )
    level = params.evaluate.significance
    found += [*_disagreeing_annotators(tasks), *_noise(tasks, level), *_chance(tasks, level), *_unmoved(tasks)]
    found += [*_uninformative(tasks, level), *_out_of_distribution(tasks), *_rankings(tasks)]
    return [Markdown(sentence) for sentence in found]


def _own_classifiers(tasks: Sequence[TaskReport]) -> list[str]:
    """Methods that explain another classifier than the others do."""
    found = []
    for name in dict.fromkeys(name for task in tasks for name in task.own_models):
        changes = []
        for task in tasks:
            own = task.own_models.get(name, {}).get("classifier", {}).get("test", {}).get("accuracy")
            before = task.classifier.get("test", {}).get("accuracy")
            if own is not None and before is not None:
                changes.append(f"{escape_markdown(task.task)} {round(100 * (own - before), 1) + 0.0:+.1f}")
        accuracy = f" Its test accuracy against the task's, in points: {', '.join(changes)}." if changes else ""
        shown = escape_markdown(name)
        found.append(
            f"**Another classifier:** {shown} explains one that it trained for itself, and is judged on it.{accuracy} "
            f"Compare it with others in the tables headed On the classifier of {shown}, where all explain the same."
        )
    return found


def _watching(tasks: Sequence[TaskReport]) -> list[str]:
    """Methods that choose what they say by a metric of faithfulness."""
    chosen: dict[str, str] = {}
    for task in tasks:
        chosen |= {name: notes["optimised_for"] for name, notes in task.notes.items() if "optimised_for" in notes}
    return [
        f"**Looks at the metric:** {escape_markdown(name)} tries many explanations of a text and keeps the one that "
        f"is best by {escape_markdown(metric)} on that very text. That is a search: no sign that what it finds is "
        "as faithful by a measure that it did not look at, which its table of one metric against another shows."
        for name, metric in chosen.items()
    ]


def _names(names: Sequence[str]) -> str:
    return ", ".join(escape_markdown(name) for name in names)


def _disagreeing_annotators(tasks: Sequence[TaskReport]) -> list[str]:
    alphas = {task.task: alpha for task in tasks if (alpha := task.agreement.get("alpha")) is not None}
    low = {task: alpha for task, alpha in alphas.items() if alpha < TENTATIVE_ALPHA}
    found = []
    if low:
        listed = ", ".join(f"{escape_markdown(task)} ({alpha:.2f})" for task, alpha in low.items())
        found.append(
            f"**People disagree on the words:** {listed}. Krippendorff's alpha is below {TENTATIVE_ALPHA}; agreement "
            "with marked words can be no surer than the marks."
        )
    single = [task.task for task in tasks if task.agreement.get("kinds") and task.task not in alphas]
    if single:
        found.append(f"**One opinion only:** in {_names(single)} no text is marked by two; how sure are the marks?")
    return found


def _noise(tasks: Sequence[TaskReport], level: float) -> list[str]:
    """How wide intervals are, and how many differences are told apart."""
    found = []
    halves = [
        (high - low) / 2
        for task in tasks
        for figures in task.methods.values()
        if (low := figures.get("f1_low")) is not None and (high := figures.get("f1_high")) is not None
    ]
    if halves:
        texts = [int(t) for task in tasks for m in task.methods.values() if (t := m.get("plausibility_texts"))]
        counted = f"{min(texts):,} to {max(texts):,}" if len(set(texts)) > 1 else f"{texts[0]:,}" if texts else "no"
        found.append(
            f"**Small differences:** over {counted} texts an F1 is known to about ±{np.median(halves):.2f}. "
            "Compare methods by the tests below, not by the third decimal."
        )
    for metric, name in (("f1", "F1"), ("aopc_comprehensiveness", "AOPC comprehensiveness")):
        told = total = 0
        for task in tasks:
            comparison = task.comparisons.get(metric)
            if comparison is not None and len(comparison.methods) > 1:
                upper = comparison.adjusted[np.triu_indices(len(comparison.methods), 1)]
                told, total = told + int((upper < level).sum()), total + len(upper)
        if total:
            found.append(f"Of all pairs of methods, {told:,} of {total:,} differ significantly in {name}.")
    return [" ".join(found)] if found else []


def _chance(tasks: Sequence[TaskReport], level: float) -> list[str]:
    """Methods that on no task beat random scores significantly in ranking the marked words."""
    found: dict[str, bool] = {}
    for task in tasks:
        comparison = task.comparisons.get("auroc")
        if comparison is None or "random" not in comparison.methods:
            continue
        floor = comparison.values[comparison.methods.index("random")]
        for method, value in zip(comparison.methods, comparison.values, strict=True):
            if method != "random":
                above = bool(value > floor and comparison.p_value(method, "random") < level)
                found[method] = found.get(method, False) or above
    never = [method for method, above in found.items() if not above]
    if not never:
        return []
    return [
        f"**No better than chance at finding marked words:** {_names(never)}. On no task is their AUROC significantly "
        "above that of random scores."
    ]


def _uninformative(tasks: Sequence[TaskReport], level: float) -> list[str]:
    """Figures in which most methods are not told apart from random scores."""
    found = []
    for _, column in QUESTIONS:
        better = total = 0
        for task in tasks:
            comparison = task.comparisons.get(column.metric)
            if comparison is None or "random" not in comparison.methods:
                continue
            sign = 1 if column.larger_is_better else -1
            floor = sign * comparison.values[comparison.methods.index("random")]
            for method, value in zip(comparison.methods, comparison.values, strict=True):
                if get_info(method).family != "chance":
                    total += 1
                    better += bool(sign * value > floor and comparison.p_value(method, "random") < level)
        if total and better < total / 4:
            found.append(f"{column.heading} ({better} of {total})")
    if not found:
        return []
    return [
        f"**Figures that hardly tell a method from random scores:** {', '.join(found)}. In brackets: how often, over "
        "methods and tasks, one is significantly better than random. Do not choose a method by them."
    ]


def _unmoved(tasks: Sequence[TaskReport]) -> list[str]:
    """Methods whose scores stay when the model's weights are drawn anew."""
    rhos: dict[str, list[float]] = {}
    for task in tasks:
        for method, result in task.sanity.get("methods", {}).items():
            drawn = list(result["random_model"].values())
            # The last part drawn anew is the embeddings: all weights.
            if drawn and drawn[-1]["spearman"] is not None and get_info(method).family != "chance":
                rhos.setdefault(method, []).append(drawn[-1]["spearman"])
    unmoved = {method: fmean(values) for method, values in rhos.items() if fmean(values) >= NOTICED}
    if not unmoved:
        return []
    listed = ", ".join(f"{escape_markdown(m)} ({rho:.2f})" for m, rho in sorted(unmoved.items(), key=lambda i: -i[1]))
    return [
        f"**Hardly notice the model:** {listed}. With all of the classifier's weights drawn anew their order of words "
        "stays much the same (mean rank correlation in brackets): they show the text, not what the classifier learned."
    ]


def _out_of_distribution(tasks: Sequence[TaskReport]) -> list[str]:
    shifted = []
    for task in tasks:
        full, *others = (
            [v for m in task.methods.values() if (v := m.get(f"confidence_{inputs}")) is not None]
            for inputs in ("full", "without", "only", "masked")
        )
        if full and all(others):
            lowest = min(fmean(values) for values in others)
            if fmean(full) - lowest >= SHIFT:
                shifted.append(f"{escape_markdown(task.task)} ({fmean(full):.2f} to {lowest:.2f})")
    if not shifted:
        return []
    return [
        f"**Out of distribution:** {', '.join(shifted)}. The classifier's mean confidence falls this far on shortened "
        "texts, such as it never learned to read; part of each faithfulness figure is that surprise, not the words."
    ]


def _rankings(tasks: Sequence[TaskReport]) -> list[str]:
    """Whether the methods that agree with people are those that agree with the model."""
    first, second = means("f1_topk", tasks), means("aopc_comprehensiveness", tasks)
    common = [method for method in first if method in second]
    if len(common) < 4:
        return []
    pairs = np.array([(first[m], second[m]) for m in common])
    # Where all methods have one figure alike there is no order to compare.
    if (np.ptp(pairs, axis=0) == 0).any():
        return []
    rho = float(spearmanr(pairs).statistic)
    how = "much the same" if rho >= 0.7 else "partly the same" if rho >= 0.3 else "not the same"
    return [
        f"**Two questions:** the methods that agree with people and those that agree with the model are {how} (rank "
        f"correlation of F1 top-K and AOPC comprehensiveness over {len(common)} methods: {rho:.2f}). "
        "Choose by the question you have."
    ]
