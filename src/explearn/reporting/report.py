"""reports/report.md: what was measured, how the methods compare, and example texts, for a reader new to the project."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from explearn.data.storage import write_text
from explearn.metrics.evaluate import headline
from explearn.params import Params
from explearn.registry import get_info
from explearn.reporting.markdown import Markdown, emphasise, escape_markdown
from explearn.reporting.masks import Remark, remarks, write_study_plots
from explearn.reporting.pareto import write_pareto
from explearn.reporting.plots import AUROC_PLOT, F1_PLOT, write_plot
from explearn.reporting.tables import (
    COST_COLUMNS,
    FAITHFULNESS_COLUMNS,
    PLAUSIBILITY_COLUMNS,
    ExampleReport,
    Number,
    TaskReport,
    leaderboard,
    leaderboard_order,
)

PACKAGES = ("explearn", "torch", "transformers", "dvc", "captum")
"""Distributions whose versions the report names."""

WHOLE_TEXT_WORDS = 60
"""Longest text, in words, that every method's row repeats whole; of longer ones only the chosen words are shown."""

_RULES = {
    "top_k": "the K highest-scoring words",
    "threshold": "words scoring {threshold} or more, at least one",
    "positive_rate": "each word at random, as often as training texts are marked",
}


def write_report(folder: Path, params: Params, tasks: Sequence[TaskReport]) -> None:
    """Write report.md, and under figures/ f1.svg, auroc.svg, pareto.svg and a plot of every search, into `folder`.

    Every file is whole or not there, and the same input gives the same bytes under the same package versions.
    Raises UnknownNameError for a method that is not registered.
    """
    for spec in (F1_PLOT, AUROC_PLOT):
        write_plot(folder / "figures" / f"{spec.name}.svg", spec, tasks, params.evaluate.confidence)
    write_pareto(folder / "figures" / "pareto.svg", tasks)
    write_study_plots(folder / "figures", tasks)
    write_text(folder / "report.md", render_report(params, tasks))


def render_report(params: Params, tasks: Sequence[TaskReport]) -> str:
    """The report as Markdown; figures are linked as figures/NAME.svg."""
    environment = Environment(
        loader=PackageLoader("explearn.reporting"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        # Names and texts come from data: what was not made as Markdown on purpose is escaped.
        finalize=lambda value: value if isinstance(value, Markdown) else escape_markdown(str(value)),
    )
    methods = leaderboard_order(list(dict.fromkeys(m for task in tasks for m in task.methods)))
    sections = [_section(task, params) for task in tasks]
    text = environment.get_template("report.md.j2").render(
        params=params,
        headline=headline_sentences(params, tasks),
        methods=[_method_row(name, tasks) for name in methods],
        sections=sections,
        warned=[s.task.task for s in sections if s.warning],
        plausibility_columns=[Markdown(c.title) for c in PLAUSIBILITY_COLUMNS],
        faithfulness_columns=[Markdown(c.title) for c in FAITHFULNESS_COLUMNS],
        cost_columns=[Markdown(c.title) for c in COST_COLUMNS],
        percents=Markdown(", ".join(str(p) for p in params.evaluate.percents)),
        confidence=Markdown(f"{100 * params.evaluate.confidence:g}"),
        whole_text_words=WHOLE_TEXT_WORDS,
        parameters=fenced("yaml", yaml.safe_dump(params.model_dump(mode="json"), sort_keys=False, allow_unicode=True)),
        versions=versions(),
    )
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def headline_sentences(params: Params, tasks: Sequence[TaskReport]) -> list[Markdown]:
    """What the numbers say of the explainer under study, in plain sentences; nothing that was not measured."""
    numbers = headline(params, {task.task: task.methods for task in tasks})
    name = Markdown(f"**{escape_markdown(params.explainer)}**")
    f1 = numbers["f1"]
    if not isinstance(f1, float):
        return [Markdown(f"No text of these tasks has marked words that {name} could be compared with.")]
    count = numbers["tasks_with_f1"]
    over = "1 task" if count == 1 else f"{count} tasks"
    sentences = [f"{name} agrees with the marked words at an F1 of **{f1:.3f}**, the mean over {over}."]
    chance, topk, chance_topk = numbers["random_f1"], numbers["f1_topk"], numbers["random_f1_topk"]
    if params.explainer != "random" and isinstance(chance, float):
        sentences.append(
            f"Words drawn at random, as often as people mark them, have {chance:.3f}: {name} is "
            f"{_compared(f1, chance)}."
        )
        if isinstance(topk, float) and isinstance(chance_topk, float):
            sentences.append(
                f"Where every method chooses its K best words, {name} has {topk:.3f} and random words have "
                f"{chance_topk:.3f}."
            )
    for key, won, what in (
        ("best_baseline", "tasks_won_f1_baselines", "baseline"),
        ("best_other", "tasks_won_f1", "other method"),
    ):
        rival, value = numbers[key], numbers[f"{key}_f1"]
        if not isinstance(rival, str) or not isinstance(value, float):
            continue
        if key == "best_other" and rival == numbers["best_baseline"]:
            continue
        sentences.append(
            f"The best {what} by that mean, {escape_markdown(rival)}, has {value:.3f}: {name} is "
            f"{_compared(f1, value)}, and leads every {what}, or ties with the best, on {numbers[won]} of {over}."
        )
    auroc, speed = numbers["auroc"], numbers["relative_throughput"]
    if isinstance(auroc, float):
        sentences.append(f"Its mean AUROC is {auroc:.3f}, where ordering words by chance gives 0.5.")
    if isinstance(speed, float):
        sentences.append(f"It classifies and explains at {speed:.3f} times the speed of classifying alone.")
    return [Markdown(sentence) for sentence in sentences]


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


def fenced(language: str, text: str) -> Markdown:
    """A code block that no run of backticks in the text can end."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markdown(f"{fence}{language}\n{text.rstrip()}\n{fence}")


def versions() -> list[tuple[str, str]]:
    """Python and PACKAGES with their versions, read from their metadata without importing them."""
    rows = [("python", platform.python_version())]
    for package in PACKAGES:
        try:
            rows.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            rows.append((package, "not installed"))
    return rows


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of an example's table: who chose, how many of the chosen words people marked too, and the words."""

    name: Markdown
    hits: Markdown
    words: Markdown


@dataclass(frozen=True, slots=True)
class _Text:
    id: str
    label: str
    predicted: str
    probability: Markdown
    rows: list[_Row]
    whole: bool


@dataclass(frozen=True, slots=True)
class _Section:
    task: TaskReport
    warning: Markdown | None
    facts: list[tuple[str, Markdown]]
    classifier: list[list[Markdown]]
    plausibility: list[list[Markdown]]
    faithfulness: list[list[Markdown]]
    remarks: list[Remark]
    cost: list[list[Markdown]]
    counted: Markdown | None
    texts: list[_Text]


def _section(task: TaskReport, params: Params) -> _Section:
    return _Section(
        task=task,
        warning=chance_warning(task.classifier, params.report.chance_margin),
        facts=_facts(task),
        classifier=[
            [
                escape_markdown(split),
                *(_figure(row.get(name)) for name in ("accuracy", "majority_rate", "macro_f1", "mcc")),
                Markdown("–" if row.get("texts") is None else f"{row['texts']:,}"),
            ]
            for split, row in task.classifier.items()
        ],
        plausibility=leaderboard(task.methods, PLAUSIBILITY_COLUMNS),
        faithfulness=leaderboard(task.methods, FAITHFULNESS_COLUMNS),
        remarks=remarks(task),
        cost=leaderboard(task.methods, COST_COLUMNS),
        counted=_counted(task),
        texts=[_text(example) for example in task.examples],
    )


def _facts(task: TaskReport) -> list[tuple[str, Markdown]]:
    agreement = task.agreement
    facts = [
        ("Labels", Markdown(", ".join(escape_markdown(label) for label in task.labels))),
        ("Texts", Markdown(", ".join(f"{escape_markdown(s)} {n:,}" for s, n in task.split_counts.items()))),
    ]
    mean_length = agreement.get("mean_length")
    if task.k is not None:
        mean = "" if mean_length is None else f" (mean length of the rationales in training: {mean_length:.2f})"
        facts.append(("Words chosen by the top-K rule, K", Markdown(f"{task.k}{mean}")))
    if task.positive_rate is not None:
        facts.append(("Share of words marked in training", _figure(task.positive_rate)))
    kinds = agreement.get("kinds")
    if kinds:
        facts.append(("Rationales", Markdown(", ".join(f"{escape_markdown(kind)} {n:,}" for kind, n in kinds.items()))))
    none = "no text is marked by two"
    texts = agreement.get("alpha_texts")
    over = f" over {texts:,} texts" if texts else ""
    facts.append(
        (
            f"Agreement of annotators{over}, Krippendorff's alpha (1: perfect, 0: as by chance)",
            _figure(agreement.get("alpha"), none),
        )
    )
    facts.append((f"Agreement of annotators{over}, mean F1 of pairs", _figure(agreement.get("pairwise_f1"), none)))
    return facts


def _counted(task: TaskReport) -> Markdown | None:
    """How many texts the numbers rest on, as a sentence; methods may differ where they explain their own classifier."""
    if not task.methods:
        return None

    def span(name: str) -> str:
        values = sorted({int(v) for m in task.methods.values() if (v := m.get(name)) is not None})
        if not values:
            return "–"
        return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"

    sentence = (
        f"Agreement is counted over {span('plausibility_texts')} test texts (marked, and classified rightly), "
        f"faithfulness over {span('texts')}."
    )
    lost = max((int(m.get("unaligned_words") or 0) for m in task.methods.values()), default=0)
    if lost:
        sentence += (
            f" Up to {lost:,} words have no sub-token, being cut off or unknown; they get their text's lowest score."
        )
    return Markdown(sentence)


def _method_row(name: str, tasks: Sequence[TaskReport]) -> list[str]:
    info = get_info(name)
    thresholds = sorted({task.thresholds[name] for task in tasks if name in task.thresholds})
    rule = _RULES[info.binarisation].format(
        threshold=" or ".join(f"{value:g}" for value in thresholds) or "its threshold"
    )
    return [info.family, name, info.summary, rule, info.cost]


def _text(report: ExampleReport) -> _Text:
    words = report.example.all_words
    whole = len(words) <= WHOLE_TEXT_WORDS
    marked = int(report.gold.sum())
    kinds = ", ".join(report.kinds) or "nobody"
    rows = [
        _Row(
            name=Markdown(f"*Marked* ({escape_markdown(kinds)})"),
            hits=Markdown(f"{marked} marked"),
            words=emphasise(words, report.gold.tolist(), whole),
        )
    ]
    for method in leaderboard_order(list(report.selected)):
        selected = np.asarray(report.selected[method], dtype=np.bool_)
        hits = int((selected & report.gold).sum())
        rows.append(
            _Row(
                name=escape_markdown(method),
                hits=Markdown(f"{hits} of {int(selected.sum())}"),
                words=emphasise(words, selected.tolist(), whole),
            )
        )
    # The predicted class is the classifier's; methods that train their own classifier come later in the order of
    # attributions, and the probability is that of their target.
    first = next(iter(report.attributions.values()), None)
    return _Text(
        id=report.example.id,
        label=report.example.label,
        predicted="–" if first is None else first.predicted,
        probability=Markdown("") if first is None else Markdown(f" (p = {first.probability:.2f})"),
        rows=rows,
        whole=whole,
    )


def _figure(value: Number, missing: str = "–") -> Markdown:
    return Markdown(missing if value is None else f"{round(value, 3) + 0.0:.3f}")


def _compared(own: float, other: float) -> str:
    difference = round(own - other, 3)
    if difference == 0:
        return "level with it"
    return f"{abs(difference):.3f} {'above' if difference > 0 else 'below'} it"
