"""Example texts: which are shown, with the words that methods choose."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from explearn.core.attribution import Attribution
from explearn.core.examples import Example, Rationale, RationaleKind
from explearn.core.seeds import hash_order
from explearn.core.words import lay_out
from explearn.methods.info import MethodInfo
from explearn.methods.results import ExampleReport, RunFacts, TaskReport
from explearn.metrics.plausibility import binarise
from explearn.metrics.runs import MethodRun
from explearn.report.verdict import ANNOTATORS, if_several
from explearn.show.blocks import ExampleText, TextRow, several

SHORT_TEXT = 30
"""Preferred length limit of the text on the first screen, in words."""


def choose_examples(examples: Sequence[Example], gold: Mapping[str, ArrayLike], count: int, seed: int) -> list[Example]:
    """Draw `count` texts to show: texts with marked words first, alternating labels.

    The same seed gives the same texts. A text's place in the draw depends only on the seed and its id, not on the other
    texts or their order.
    """
    drawn: Counter[tuple[bool, str]] = Counter()
    turns: list[tuple[bool, int, str]] = []
    by_id = {example.id: example for example in examples}
    ordered = [by_id[identifier] for identifier in hash_order(by_id, seed)]
    for example in ordered:
        unmarked = not np.asarray(gold.get(example.id, False), dtype=np.bool_).any()
        # The labels take turns, texts with marks first.
        turns.append((unmarked, drawn[unmarked, example.label], example.label))
        drawn[unmarked, example.label] += 1
    order = sorted(range(len(ordered)), key=turns.__getitem__)
    return [ordered[number] for number in order[:count]]


def draw_examples(
    examples: Sequence[Example],
    rationales: Iterable[Rationale],
    gold: Mapping[str, ArrayLike],
    runs: Mapping[str, MethodRun],
    infos: Mapping[str, MethodInfo],
    *,
    count: int,
    seed: int,
    k: int,
    positive_rate: float,
) -> list[ExampleReport]:
    """Draw `count` texts to show (`choose_examples`), with the words that each method chooses by its own rule.

    Args:
        examples: texts to draw from, explained by all methods.
        rationales: their annotators' marks.
        gold: example id -> marked words.
        runs: method -> its run.
        infos: method -> its facts.
        count: number of texts.
        seed: seed of the draw.
        k: number of words in the top-K rule.
        positive_rate: share of marked words in training.
    """
    kinds: dict[str, set[RationaleKind]] = defaultdict(set)
    for rationale in rationales:
        kinds[rationale.example_id].add(rationale.kind)
    by_text: dict[str, dict[str, Attribution]] = defaultdict(dict)
    for method, run in runs.items():
        for attribution in run.attributions:
            by_text[attribution.example_id][method] = attribution
    shared = [method for method in runs if not infos[method].own_model] or list(runs)
    reports = []
    explained = [example for example in examples if len(by_text[example.id]) == len(runs)]
    for example in choose_examples(explained, gold, count, seed):
        attributions = by_text[example.id]
        selected = {}
        for method, attribution in attributions.items():
            rule = infos[method].binarisation
            threshold = runs[method].threshold
            chosen = binarise(attribution.filled(), rule, k=k, threshold=threshold, positive_rate=positive_rate)
            selected[method] = attribution.read & chosen
        marked = np.asarray(gold.get(example.id, np.zeros(len(example.all_words))), dtype=np.bool_)
        answer = next((attributions[method] for method in shared), None)
        reports.append(ExampleReport(example, marked, tuple(sorted(kinds[example.id])), attributions, selected, answer))
    return reports


def first_text(run: RunFacts, tasks: Sequence[TaskReport], roles: Mapping[str, str]) -> ExampleText | None:
    """Return the most suitable drawn text: explained by the methods with roles, classified correctly, marked, short.

    Texts are drawn at random, before the methods' figures on them are known.

    Args:
        run: facts about the run.
        tasks: its results on each task.
        roles: method -> why it is shown.

    Returns:
        The text; None if no method has a role and no text is marked.
    """
    texts = []
    for task in tasks:
        name = if_several(tasks, f"A text of {task.task}", "One of the texts")
        texts += [(text, name) for text in task.texts if roles.keys() <= text.attributions.keys()]
    if not texts:
        return None
    text, name = min(texts, key=lambda item: _unsuited(item[0]))
    if not (roles or text.kinds):
        return None
    return example_text(run, text, name, list(roles), roles)


def _unsuited(text: ExampleReport) -> tuple[bool, bool, bool]:
    """Return what speaks against showing a text first, the most serious first."""
    return not text.gold.any(), is_right(text) is not True, len(text.example.all_words) > SHORT_TEXT


def is_right(text: ExampleReport) -> bool | None:
    """Return whether the predicted class is the true label; None if that is unknown, as for questions."""
    if text.answer is None or not text.example.label or (text.example.focus and text.example.pair):
        return None
    return text.answer.predicted == text.example.label


def example_text(
    run: RunFacts, text: ExampleReport, name: str, methods: Collection[str], reasons: Mapping[str, str] | None = None
) -> ExampleText:
    """Return a text with its marked words and the words that methods choose by their own rule.

    Args:
        run: facts about the run.
        text: the text.
        name: its heading.
        methods: the methods that are shown.
        reasons: method -> why it is shown. Default: each method with its hits.
    """
    example = text.example
    label = example.label
    if example.focus and example.pair:
        label = lay_out(example.all_words[slice(*example.focus)], example.joined, example.focus[0]).text
    facts = []
    if label:
        facts.append(f"true label {label}")
    if text.answer is not None:
        facts.append(f"predicted {text.answer.predicted} (p = {text.answer.probability:.2f})")
    rows = []
    # Attribution files have no positions of words.
    spans: tuple[tuple[int, int], ...] = ()
    for segment in example.segments:
        spans += segment.spans
    if text.kinds:
        who = ", ".join(ANNOTATORS.get(kind, "by whom is unknown") for kind in text.kinds)
        rows.append(TextRow("marked", f"{who}: {several(int(text.gold.sum()), run.unit)}", text.gold.tolist()))
    for method in methods:
        chosen = text.selected[method]
        scores = replace(text.attributions[method], spans=spans)
        count = int(chosen.sum())
        note = several(count, run.unit)
        filtered = method
        if text.kinds:
            note = f"{int((chosen & text.gold).sum())} of {count} are marked"
        if reasons is not None:
            note = reasons[method]
            filtered = ""
        if text.answer is not None and scores.target != text.answer.predicted:
            # A method with its own classifier explains that classifier's prediction.
            note += f"; explains “{scores.target}”"
        rows.append(TextRow(method, note, chosen.tolist(), scores, filtered))
    pair = None
    if example.pair:
        pair = len(example.words)
    note = "".join(f" · {fact}" for fact in facts).lstrip()
    return ExampleText(name, note, example.all_words, rows, pair, is_right(text), example.joined)
