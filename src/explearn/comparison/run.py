"""A whole comparison of methods on a user's classifier, in one process, and its result: no project and no DVC."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from explearn.comparison.explaining import ComparedTexts, MethodsRun
from explearn.comparison.judging import judge
from explearn.comparison.plan import Tell, kept_plan, parse_budget
from explearn.comparison.score_files import read_scores
from explearn.core.arguments import inputs_left_as_they_came, options_of
from explearn.core.compute import ComputeOptions
from explearn.core.documents import read_json
from explearn.core.errors import DataError, ParamsError, UnsupportedError
from explearn.core.seeds import seed_everything
from explearn.core.validation import PositiveInt, Section, Seed, check_section
from explearn.core.writing import check_place, write_text
from explearn.evaluation.result import EVALUATION, Evaluation
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.methods.base.learned import LearnedExplainer
from explearn.methods.finding import find_explainers, listed_methods
from explearn.methods.registry import known_infos
from explearn.metrics.runs import MethodRun
from explearn.report.conclusions import verdict
from explearn.report.page import page
from explearn.report.run import MODEL, RunFacts
from explearn.show.blocks import several
from explearn.subject.manifest import COMPARISON, Origin, check_page, versions
from explearn.subject.subject import Subject, make_subject
from explearn.subject.texts import TextColumns, UserTexts, given_texts
from explearn.text.equal import text_hash
from explearn.text.units import Unit, check_unit, unit_name

WHAT = "an output of explearn compare"

TITLE = "Which explanations of this classifier can be trusted?"


class Comparison(Evaluation):
    """The evaluation of methods that `explearn.compare` returns, with its page.

    Attributes:
        page: path of the page; None if none was written.

    Example:
        >>> import explearn
        >>> from explearn.testing.tiny import classifier, TEXTS
        >>> comparison = explearn.compare(classifier(), TEXTS, "occlusion")
        >>> comparison.figures["occlusion"]["texts"]
        5
    """

    page: Path | None = Field(default=None, exclude=True)

    def bold_sentences(self) -> list[str]:
        """Return what was left out and why, and the verdict."""
        left_out = [f"left out: {name} ({reason})" for name, reason in self.left_out.items()]
        return [f"{self.counts}.", *left_out, self.verdict]

    def next_steps(self) -> str:
        """Return how to go on in Python."""
        page = "explearn.compare(..., out='report.html') writes a page."
        if self.page is not None:
            page = f"The page is {self.page}."
        return f"{super().next_steps()} {page}"

    @property
    def verdict(self) -> str:
        """The page's first sentences: which method to use for what."""
        return verdict(RunFacts(title=TITLE, subtitle="", tasks=[self]))

    def critical_difference(self, metric: str = MODEL) -> str:
        """Draw a critical-difference diagram as SVG: methods by mean rank, bars over those that do not differ
        significantly.

        Args:
            metric: name of a metric.

        Raises:
            UnknownNameError: there is no such metric.
            ParamsError: it has no paired tests.
        """
        from explearn.report.figures.critical_difference import critical_difference_picture
        from explearn.report.figures.style import svg

        by_text = self.metric(metric).by_text
        tests = self.comparisons.get(metric)
        if tests is None or len(tests.methods) < 2:
            raise ParamsError(f"metric: got {metric!r}, in which no two methods were tested")
        return svg(critical_difference_picture(tests, self.by_text[by_text]))


def silent(line: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """Further settings of `explearn.compare`.

    Attributes:
        max_texts: most texts; texts with marked words come first, the others are drawn by `seed`. None: all.
        scores: files of word scores computed elsewhere, to evaluate with the methods.
        unit: what methods score and metrics remove, as in `Explainer.explain`. Words are marked; a unit counts as
            marked if at least half of its words are.
        seed: seed of all draws.
        compute: where and how to compute.
        tell: called with a line for each finished method, with its main figures (default: silent).

    Example:
        >>> import explearn
        >>> from explearn.testing.tiny import classifier, TEXTS
        >>> options = explearn.CompareOptions(max_texts=3, seed=1)
        >>> explearn.compare(classifier(), TEXTS, "occlusion", options=options).counts
        '1 method on 3 texts'
    """

    max_texts: int | None = None
    scores: Iterable[str | Path] = ()
    unit: Unit = "word"
    seed: int = 13
    compute: ComputeOptions | None = None
    tell: Tell = silent


class _Checked(Section):
    """Arguments of a comparison that are names and numbers."""

    max_texts: PositiveInt | None
    seed: Seed
    out: Path | None
    work: Path | None
    scores: list[Path]


@inputs_left_as_they_came
def compare(
    classifier: Any,
    texts: Any,
    methods: str | Explainer | Sequence[str | Explainer] = "light",
    *,
    labels: Sequence[str | int | None] | None = None,
    columns: TextColumns | None = None,
    budget: str | float | None = None,
    out: str | Path | None = None,
    work: str | Path | None = None,
    options: CompareOptions | None = None,
) -> Comparison:
    """Explain texts by several methods, evaluate them, and write the report.

    Args:
        classifier: as for `explearn.explain`.
        texts: a .csv, .jsonl, .parquet or .txt file, a list of texts (or pairs of texts), or a table of pandas or
            datasets.
        methods: rosters (quick, light, complete), which are made for the kind of classifier, and names of methods that
            need no training, separated by commas or as a list, which may also hold folders of trained explainers,
            bundles and explainers; or one explainer. Texts that a trained explainer has learned from are left out.
        labels: the true labels of a list of texts, by name or number; None, NaN or blank where it is not known. For a
            file, `columns.label` names their column.
        columns: what the columns of a file or table hold.
        budget: time limit in seconds, or a string such as 10m: fewer texts, then fewer methods, by measured speed.
        out: the page to write. Next to it go, with the same name, a manifest ending in .json, for `explearn verify`,
            and a folder ending in .evaluation, for `Evaluation.load`. Only earlier ones that nobody changed are
            replaced. None: no page.
        work: folder that keeps the plan and the scores of finished methods, so that a later call with the same
            arguments does not compute them again. None: nothing is kept.
        options: further settings.

    Returns:
        Figures, paired tests and verdict.

    Raises:
        DataError: texts, labels or scores cannot be used.
        ParamsError: another argument cannot be used.
        UnknownNameError: there is no such method.
        ModelError: the classifier cannot be loaded.
        UnsupportedError: no method can explain the classifier, or only random scores would be judged.

    Example:
        >>> import explearn
        >>> from explearn.testing.tiny import classifier, TEXTS
        >>> comparison = explearn.compare(classifier(), TEXTS, "random,occlusion")
        >>> list(comparison.figures)
        ['random', 'occlusion']
    """
    options = options_of(CompareOptions, options)
    limit = parse_budget(budget)
    end = time.perf_counter() + (limit or math.inf)
    check_unit(options.unit)
    if options.unit == "phrase":
        raise ParamsError(
            "unit: got 'phrase', but each method finds its own phrases; expected a unit that methods share"
        )
    checked = check_section(
        _Checked,
        {
            "max_texts": options.max_texts,
            "seed": options.seed,
            "out": out,
            "work": work,
            "scores": options.scores,
        },
    )
    listed = listed_methods(methods)
    given = [method for method in listed if isinstance(method, Explainer)]
    # Before the work, which takes minutes.
    if checked.out is not None:
        check_page(checked.out, WHAT)
        check_place(folder_of(checked.out), EVALUATION, folder=True)
    user_texts = _unseen(given_texts(texts, labels, columns), given, options.tell)
    records, from_files = read_scores(checked.scores)
    seed_everything(checked.seed)
    subject = make_subject(
        "explearn.compare, in Python",
        classifier,
        user_texts,
        partial(find_explainers, listed, checked.seed),
        seed=checked.seed,
        compute=options.compute,
        work=checked.work,
        files=[texts, *checked.scores],
        settings={"budget": limit, "max_texts": checked.max_texts, "unit": unit_name(options.unit)},
        most=checked.max_texts,
    )
    user_texts = subject.texts
    # Two comparisons at once would evaluate each other's files.
    with subject.work.locked(), unread_words_known():
        most = min(len(user_texts.examples), checked.max_texts or len(user_texts.examples))
        plan = kept_plan(subject, most, limit, end, options.unit, options.tell)
        _check_judged(subject, [*plan.methods, *records], plan.left_out)
        compared = ComparedTexts(subject, plan.texts, options.unit)
        run = MethodsRun(compared, plan, options.tell)
        # Before the work, so that a record that fits no text is reported at once.
        matched = compared.match(records)
        run.explain(subject)
        for name, attributions in matched.items():
            run.add(MethodRun(name, attributions), "from a file")
        _check_judged(subject, list(run.runs), run.refused)
        run.leave_out_unexplained()
        evaluation = judge(run, from_files, checked.seed, by_budget=limit is not None)
        result = Comparison(**evaluation.fields(), page=checked.out)
        if checked.out is not None:
            _write_page(checked.out, result, subject.origin)
        return result


def _check_judged(subject: Subject, methods: Sequence[str], left_out: Mapping[str, str]) -> None:
    """Raise UnsupportedError if no method is judged, or only those by chance, which say nothing by themselves."""
    chance = {info.name for info in known_infos() if info.family == "chance"}
    if set(methods) - chance:
        return
    quick = [name for name in find_explainers("quick", subject.seed, subject.classifier) if name not in chance]
    reasons = ""
    if left_out:
        reasons = f" ({'; '.join(left_out.values())})"
    raise UnsupportedError(
        f"{subject.classifier.name}: no method is left to judge but random scores{reasons}; name another beside them, "
        f"such as {', '.join(quick)} (those of the roster quick), or lime or shap (extra baselines)"
    )


def folder_of(out: Path) -> Path:
    """Return the folder, next to a page, with what the page shows (`Evaluation.load`)."""
    return out.with_suffix(".evaluation")


def _write_page(out: Path, result: Comparison, origin: Origin) -> None:
    """Write the evaluation, the page and its manifest."""
    folder = folder_of(out)
    result.save(folder)
    made = origin.facts(out)
    performance = result.performance.get("test", {})
    accuracy = "accuracy not known"
    if performance:
        accuracy = f"accuracy {performance['accuracy']:.3f}"
    subtitle = f"{origin.model.name} ({', '.join(result.labels)}; {accuracy}): {result.counts}"
    if result.task != "texts":  # the name of a list
        subtitle += f" ({result.task})"
    if result.unit != "word":
        subtitle += f", by their {result.unit}s"
    options = {"seed": result.seed, "unit": result.unit, "methods": result.options}
    run = RunFacts(
        title=TITLE,
        subtitle=f"{subtitle}.",
        tasks=[result],
        folder=folder.name,
        parameters=yaml.safe_dump(options, sort_keys=False),
        made=made,
        versions=versions(COMPARISON),
    )
    write_text(out, page(run), WHAT)
    origin.write_manifest(out, result.task, made, WHAT, [folder.name], verdict=result.verdict, evaluation=folder.name)


def read_comparison(path: Path) -> Evaluation:
    """Read the evaluation that belongs to the JSON next to a comparison's page.

    Raises:
        DataError: the file is another one, or the evaluation is missing or damaged.
    """
    document = read_json(path)
    if not isinstance(document, dict) or not isinstance(document.get("evaluation"), str):
        raise DataError(f"{path}: names no evaluation; expected the JSON that explearn compare writes next to its page")
    return Evaluation.load(path.parent / document["evaluation"])


def _unseen(texts: UserTexts, explainers: Iterable[Explainer], tell: Tell) -> UserTexts:
    """Leave out the texts that an explainer was trained on, and those equal to them.

    Raises:
        DataError: no text is left.
    """
    seen: set[str] = set()
    for explainer in explainers:
        if isinstance(explainer, LearnedExplainer):
            seen.update(explainer.trained_texts)
    learned = {example.id for example in texts.examples if text_hash(example) in seen}
    if len(learned) == len(texts.examples):
        raise DataError(
            f"texts: a trained explainer has learned from all {len(texts.examples)} of them; expected others, kept "
            "back from its training"
        )
    if not learned:
        return texts
    note = f"{several(len(learned), 'text')} left out, from which a trained explainer has learned"
    tell(note)
    return texts.without(learned, note)
