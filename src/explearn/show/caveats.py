"""What not to trust in a report, in sentences that the numbers of the run support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from scipy.stats import spearmanr

from explearn.methods.aml.report import is_untrained
from explearn.methods.registry import get_info, leaderboard_order
from explearn.show.columns import comparable
from explearn.show.markdown import Markdown, escape_markdown
from explearn.show.missing import missing
from explearn.show.task_report import Number, TaskReport
from explearn.show.verdict import QUESTIONS, counted_tasks, means, near_chance
from explearn_study.params import Params

NOTICED = 0.5
"""Rank correlation between a method's scores before and after all weights were drawn anew, from which the report says
that the method hardly notices. A bound of our own: 1 is the same order of words, 0 an unrelated one."""

TENTATIVE_ALPHA = 0.667
"""Krippendorff's alpha below which he advises against conclusions (Krippendorff 2004, Content Analysis, 11.4.2)."""

SHIFT = 0.25
"""Fall of the classifier's mean confidence on texts shortened at random from which the report mentions it, as a share
of the distance between its confidence on whole texts and guessing. A bound of our own."""

UNSURE = 0.2
"""By how much mean confidence is below accuracy where the report mentions it; 0 is a calibrated classifier. A bound of
our own."""


def chance_warning(classifier: Mapping[str, Mapping[str, Number]], margin: float) -> Markdown | None:
    """A warning where test accuracy is less than `margin` above always choosing the most frequent class, else None."""
    found = near_chance(classifier, margin)
    if found is None:
        return None
    accuracy, majority = found
    return Markdown(
        f"The classifier's test accuracy is {accuracy:.3f}; always choosing the most frequent class would give "
        f"{majority:.3f}. There is little to explain in a model that has learned so little: read this task's numbers "
        "as a check that the pipeline works, not as evidence about the methods."
    )


def caveats(params: Params, tasks: Sequence[TaskReport]) -> list[Markdown]:
    """What not to trust, each in a sentence or two that the numbers of this run support."""
    counted = counted_tasks(params, tasks)
    level = params.evaluate.significance
    found = [
        *missing(params, tasks),
        *_own_classifiers(tasks),
        *_untrained(tasks),
        *_watching(tasks),
        *_like_the_metric(tasks),
        *_one_training(params, tasks),
    ]
    found += [*_disagreeing_annotators(tasks), *_noise(counted, level), *_chance(counted, level)]
    found += [*_unmoved(tasks), *_unchecked(tasks), *_uninformative(counted, level), *_unsure(tasks)]
    found += [*_out_of_distribution(tasks), *_rankings(counted)]
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
        accuracy = f" Its test accuracy compared with the task's, in points: {', '.join(changes)}." if changes else ""
        shown = escape_markdown(name)
        found.append(
            f"**Another classifier:** {shown} explains a classifier that it trained for itself, and is judged on that "
            f"one.{accuracy} Where its figures depend on the classifier, they do not compare with the others' and do "
            f"not count for who is best; the tables headed On the classifier of {shown} compare like with like."
        )
        untrained = [task.task for task in tasks if task.own_models.get(name, {}).get("best_epoch") == 0]
        if untrained:
            found.append(
                f"**Not trained:** {shown} on {_names(untrained)}. No epoch was better than the start, so its figures "
                "there are those of the untrained module on the task's own classifier."
            )
    return found


def _untrained(tasks: Sequence[TaskReport]) -> list[str]:
    """Learned methods on the task's own classifier that training did not improve."""
    where: dict[str, list[str]] = {}
    for task in tasks:
        idle = {name for name, notes in task.notes.items() if is_untrained(notes)}
        for name in task.methods:
            if name in idle or get_info(name).base in idle:
                where.setdefault(name, []).append(task.task)
    said = []
    for name, found in where.items():
        shown, base = escape_markdown(name), get_info(name).base
        if base is None:
            said.append(
                f"**Not trained:** {shown} on {_names(found)}. No epoch was better than the start, so its figures "
                "there are those of the model before training."
            )
        else:
            said.append(
                f"**Begins untrained:** {shown} on {_names(found)}. It starts from {escape_markdown(base)}, in whose "
                "training there no epoch was better than the start."
            )
    return said


def _watching(tasks: Sequence[TaskReport]) -> list[str]:
    """Methods that choose their explanation by a metric of faithfulness."""
    chosen: dict[str, str] = {}
    for task in tasks:
        chosen |= {name: notes["optimised_for"] for name, notes in task.notes.items() if "optimised_for" in notes}
    silent = [name for name in _methods(tasks) if get_info(name).watches_metric and name not in chosen]
    searching = [
        f"**Looks at the metric:** {escape_markdown(name)} searches, on every text, for the explanation that is best "
        "by a metric of faithfulness. That does not show that what it finds is as faithful by another measure."
        for name in silent
    ]
    return searching + [
        f"**Looks at the metric:** {escape_markdown(name)} tries many explanations of a text and keeps the one that "
        f"is best by {escape_markdown(metric)} on that same text. Such a search does not show that what it finds is as "
        "faithful by a measure that it did not look at; see its table of one metric against another."
        for name, metric in chosen.items()
    ]


def _like_the_metric(tasks: Sequence[TaskReport]) -> list[str]:
    """Methods that probe, or were trained on, what the metrics of faithfulness measure."""
    run = _methods(tasks)
    infos = {name: get_info(name) for name in run}
    # A perturbation method that takes gradients compares with reference texts and shortens none.
    asking = [
        name
        for name, info in infos.items()
        if info.family == "perturbation" and not info.watches_metric and "gradients" not in info.needs
    ]
    trained = dict.fromkeys(
        name for task in tasks for name, notes in task.notes.items() if "epochs" in notes and not is_untrained(notes)
    )
    found = []
    if asking:
        found.append(
            f"{_names(asking)} {'is' if len(asking) == 1 else 'are'} fitted to the classifier's answers to texts with "
            "words left out, which is what comprehensiveness, sufficiency and AOPC measure."
        )
    if trained:
        found.append(f"{_names(list(trained))} was trained on the classifier's answers to masked texts.")
    if not found:
        return []
    return [f"**Close to the metric:** {' '.join(found)} Part of a lead in these figures may come from that."]


def _one_training(params: Params, tasks: Sequence[TaskReport]) -> list[str]:
    # What stands among the baselines came trained.
    learned = [n for n in _methods(tasks) if get_info(n).learned and n not in params.baseline_names]
    if not learned:
        return []
    return [
        f"**One training run:** {_names(learned)}, and the classifiers, were trained once, with seed {params.seed}. "
        "Intervals and tests do not cover what another seed would change (docs/reports.md: several seeds)."
    ]


def _methods(tasks: Sequence[TaskReport]) -> list[str]:
    return leaderboard_order(list(dict.fromkeys(name for task in tasks for name in task.methods)))


def _names(names: Sequence[str]) -> str:
    return ", ".join(escape_markdown(name) for name in names)


def _disagreeing_annotators(tasks: Sequence[TaskReport]) -> list[str]:
    alphas = {task.task: alpha for task in tasks if (alpha := task.agreement.get("alpha")) is not None}
    low = {task: alpha for task, alpha in alphas.items() if alpha < TENTATIVE_ALPHA}
    found = []
    if low:
        listed = ", ".join(f"{escape_markdown(task)} ({alpha:.2f})" for task, alpha in low.items())
        found.append(
            f"**People disagree on the words:** {listed}. Krippendorff's alpha is below {TENTATIVE_ALPHA}. Agreement "
            "with the marked words is only as reliable as the marks."
        )
    single = [task.task for task in tasks if task.agreement.get("kinds") and task.task not in alphas]
    if single:
        found.append(
            f"**One opinion only:** in {_names(single)} no text was marked by two annotators, so nothing shows how "
            "reliable the marks are."
        )
    return found


def _noise(tasks: Sequence[TaskReport], level: float) -> list[str]:
    """How wide the intervals are, and how many differences are significant."""
    found = []
    halves = [
        (high - low) / 2
        for task in tasks
        for figures in task.methods.values()
        if (low := figures.get("f1_topk_low")) is not None and (high := figures.get("f1_topk_high")) is not None
    ]
    if halves:
        texts = [int(t) for task in tasks for m in task.methods.values() if (t := m.get("plausibility_texts"))]
        counted = f"{min(texts):,} to {max(texts):,}" if len(set(texts)) > 1 else f"{texts[0]:,}" if texts else "no"
        found.append(
            f"**Small differences:** with {counted} texts, an F1 top-K is known to about ±{np.median(halves):.2f}. "
            "Compare methods by the tests below, not by the third decimal."
        )
    told_apart = []
    for metric, name in (("f1_topk", "F1 top-K"), ("aopc_comprehensiveness", "AOPC comprehensiveness")):
        told = total = 0
        for task in tasks:
            comparison = task.comparisons.get(metric)
            if comparison is not None and len(comparison.methods) > 1:
                upper = comparison.outcomes(level)[np.triu_indices(len(comparison.methods), 1)]
                told, total = told + int((upper != 0).sum()), total + len(upper)
        if total:
            told_apart.append(f"{told:,} of {total:,} in {name}")
    if told_apart:
        found.append(f"Pairs of methods on a task that differ significantly: {', '.join(told_apart)}.")
    return [" ".join(found)] if found else []


def _chance(tasks: Sequence[TaskReport], level: float) -> list[str]:
    """Methods that do not rank marked words significantly better than random scores on any task."""
    found: dict[str, bool] = {}
    for task in tasks:
        comparison = task.comparisons.get("auroc")
        if comparison is None or "random" not in comparison.methods:
            continue
        for method in comparison.methods:
            if method != "random":
                above = comparison.outcome(method, "random", level) > 0
                found[method] = found.get(method, False) or above
    never = [method for method, above in found.items() if not above]
    if not never:
        return []
    return [
        f"**No better than chance at finding marked words:** {_names(never)}. On no task is their AUROC significantly "
        "above that of random scores."
    ]


def _uninformative(tasks: Sequence[TaskReport], level: float) -> list[str]:
    """Figures in which most methods are not significantly better than random scores."""
    found = []
    for _, column in QUESTIONS:
        better = total = 0
        for task in tasks:
            comparison = task.comparisons.get(column.metric)
            if comparison is None or "random" not in comparison.methods:
                continue
            for method in comparison.methods:
                if get_info(method).family != "chance":
                    total += 1
                    better += comparison.outcome(method, "random", level) > 0
        if total and better < total / 4:
            found.append(f"{column.heading} ({better} of {total})")
    if not found:
        return []
    return [
        f"**Figures that hardly tell a method from random scores:** {', '.join(found)}. In brackets: in how many of "
        "all pairs of a method and a task the method is significantly better than random. Do not choose a method by "
        "these figures."
    ]


def _unmoved(tasks: Sequence[TaskReport]) -> list[str]:
    """Methods whose scores stay much the same when the model's weights are drawn anew."""
    rhos: dict[str, list[float]] = {}
    for task in tasks:
        for method in task.sanity.get("methods", {}):
            drawn = list(_redrawn(task, method).values())
            # After the last part, the embeddings, all weights have been drawn anew.
            if drawn and drawn[-1]["spearman"] is not None and get_info(method).family != "chance":
                rhos.setdefault(method, []).append(drawn[-1]["spearman"])
    unmoved = {method: fmean(values) for method, values in rhos.items() if fmean(values) >= NOTICED}
    found = []
    if unmoved:
        listed = ", ".join(f"{escape_markdown(m)} ({r:.2f})" for m, r in sorted(unmoved.items(), key=lambda i: -i[1]))
        found.append(
            f"{listed}. When all the classifier's weights are drawn anew, their order of words stays much the same "
            "(mean rank correlation in brackets): they show the text, not what the classifier learned."
        )
    students = [name for name in _methods(tasks) if _reads_the_text_alone(name)]
    if students:
        found.append(
            f"{_names(students)} sees only the text and the predicted label, and imitates a teacher: a change of the "
            "classifier's weights does not change its scores."
        )
    return [f"**Hardly notice the model:** {' '.join(found)}"] if found else []


def _reads_the_text_alone(method: str) -> bool:
    return "teacher" in get_info(method).needs


def _redrawn(task: TaskReport, method: str) -> Mapping[str, Mapping[str, Number]]:
    """Part of the classifier drawn anew -> how similar a method's scores are; empty where it was not checked."""
    found: Mapping[str, Mapping[str, Number]] = task.sanity["methods"].get(method, {}).get("random_model", {})
    return found


def _unchecked(tasks: Sequence[TaskReport]) -> list[str]:
    """On how many texts the sanity checks were made, and which methods and checks were left out."""
    if not any(task.methods for task in tasks):
        return []
    checked = [task for task in tasks if task.sanity.get("methods")]
    if not checked:
        return ["**Not checked:** whether any method's scores depend on the classifier. No sanity check was run."]
    # Random scores and students are known not to read the model.
    known = {m for m in _methods(tasks) if get_info(m).family == "chance" or _reads_the_text_alone(m)}
    missing = [
        name
        for name in _methods(checked)
        if name not in known and any(name in task.methods and not _redrawn(task, name) for task in checked)
    ]
    texts = sorted({task.sanity["texts"] for task in checked})
    counted = f"{texts[0]:,}" if len(texts) == 1 else f"{texts[0]:,} to {texts[-1]:,}"
    few = f"Whether scores depend on the classifier's weights was checked on {counted} texts per task"
    few += f", and not for {_names(missing)}." if missing else "."
    if not any(result["random_labels"] for task in checked for result in task.sanity["methods"].values()):
        few += " Whether they depend on what it learned (permuted labels) was not checked."
    return [f"**Few sanity checks:** {few}"]


def _unsure(tasks: Sequence[TaskReport]) -> list[str]:
    """Tasks whose classifier is much less confident than it is accurate."""
    found = []
    for task in tasks:
        accuracy = task.classifier.get("test", {}).get("accuracy")
        # Confidence on whole texts is the same for all methods.
        full = next((known["full"] for method in task.methods if (known := _confidences(task, method))), None)
        if accuracy is not None and full is not None and accuracy - full >= UNSURE:
            found.append(f"{escape_markdown(task.task)} (accuracy {accuracy:.2f}, mean confidence {full:.2f})")
    if not found:
        return []
    return [
        f"**Low confidence:** {', '.join(found)}. A low probability cannot fall by much: comprehensiveness, "
        "sufficiency and AOPC are small there for every method, and count least in means over the tasks."
    ]


def _confidences(task: TaskReport, method: str) -> dict[str, float] | None:
    """The classifier's mean confidence on whole texts ("full") and on texts that a method shortened ("without", "only",
    "masked"); None where one is unknown or the method explains another classifier."""
    figures = task.methods.get(method, {})
    found = {name: figures.get(f"confidence_{name}") for name in ("full", "without", "only", "masked")}
    known = {name: value for name, value in found.items() if value is not None}
    return None if get_info(method).own_model or len(known) < len(found) else known


def _out_of_distribution(tasks: Sequence[TaskReport]) -> list[str]:
    """Tasks on which the classifier's confidence falls when random words are taken out."""
    shifted = []
    for task in tasks:
        found = _confidences(task, "random")
        if found is None or not task.labels:
            continue
        full, lowest, guess = found["full"], min(found.values()), 1 / len(task.labels)
        if full > guess and (full - lowest) / (full - guess) >= SHIFT:
            shifted.append(f"{escape_markdown(task.task)} ({full:.2f} to {lowest:.2f})")
    if not shifted:
        return []
    return [
        f"**Out of distribution:** {', '.join(shifted)}. The classifier's mean confidence falls this far on texts "
        "shortened at random, because it never learned to read shortened texts. That is part of every fall that "
        "faithfulness measures; the words taken out are the other part. The figures do not tell them apart."
    ]


def _rankings(tasks: Sequence[TaskReport]) -> list[str]:
    """Whether the methods that agree with people are also those that agree with the model."""
    first, second = means("f1_topk", tasks), means("aopc_comprehensiveness", tasks)
    common = [method for method in first if method in second and comparable(method, "aopc_comprehensiveness")]
    if len(common) < 4:
        return []
    pairs = np.array([(first[m], second[m]) for m in common])
    # Where all methods have the same figure there is no order to compare.
    if (np.ptp(pairs, axis=0) == 0).any():
        return []
    rho = float(spearmanr(pairs).statistic)
    how = "much the same" if rho >= 0.7 else "partly the same" if rho >= 0.3 else "not the same"
    return [
        f"**Two questions:** the methods that agree with people and those that agree with the model are {how} (rank "
        f"correlation of F1 top-K and AOPC comprehensiveness over {len(common)} methods: {rho:.2f}). "
        "Choose by the question you ask."
    ]
