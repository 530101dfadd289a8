"""The whole judgement of explanations on one's own classifier, in one process: no project, no DVC, no training."""

from __future__ import annotations

import copy
import hashlib
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explearn.comparison.choice import choose_methods, parse_budget
from explearn.comparison.given import PREFIX, read_scores, register_given
from explearn.comparison.methods_run import MethodsRun, PartClock, Tell, counted, make_plan, time_left
from explearn.comparison.texts import OwnTexts, TextColumns, given_texts, read_texts
from explearn.comparison.work import (
    PLAN,
    Plan,
    make_params,
    read_plan,
    texts_hash,
    with_remark,
    write_inputs,
    write_plan,
)
from explearn.core.arguments import FUNCTION, PATH, SEVERAL, Kind, arguments, or_none, shown
from explearn.core.compute import ComputeOptions
from explearn.core.documents import kind_of
from explearn.core.errors import ParamsError, UnsupportedError
from explearn.core.extras import check_installed
from explearn.core.locks import locked
from explearn.core.seeds import seed_everything
from explearn.core.settings import MOST
from explearn.core.storage import read_json, write_json, write_text
from explearn.core.writing import check_place, check_replaceable
from explearn.methods.base.explainer import unread_words_known
from explearn.methods.registry import get_info
from explearn.model.classifier import Classifier
from explearn.model.completion import Prompt
from explearn.model.problems import CLASSES, Problem
from explearn_study.evaluate import judge_task
from explearn_study.importing import check_labels
from explearn_study.report.project import report_project
from explearn_study.sanity import check_task
from explearn_study.workspace import Workspace

Scores = dict[str, list[tuple[str, dict[str, Any]]]]
"""Method -> records of its scores, each with its place."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found.

    Attributes:
        report: the page.
        texts: how many texts were compared on.
        methods: method -> metric -> value, as in the page; names of metrics: `explearn.judge.catalogue`.
        left_out: method -> why it is not in the comparison.
        seconds: what took how long. `explain` is the sum of the methods' own times, what they import and compile
            included, without those of an earlier run; `time`, what it takes to measure and keep them.
    """

    report: Path
    texts: int
    methods: Mapping[str, Mapping[str, int | float | None]]
    left_out: Mapping[str, str]
    seconds: Mapping[str, float]

    def __str__(self) -> str:
        return f"{len(self.methods)} methods on {self.texts} texts: {self.report}"


_FILES = Kind(
    "a list of files", lambda given: SEVERAL.fits(given) and not isinstance(given, Path) and all(map(PATH.fits, given))
)


@arguments(out=PATH, work=or_none(PATH), scores=_FILES, tell=FUNCTION)
def compare(
    classifier: str | Path | Classifier,
    texts: str | Path | Sequence[str | tuple[str, str]],
    *,
    labels: Sequence[str] | None = None,
    methods: str = "light",
    budget: str | float | None = None,
    max_texts: int | None = None,
    out: str | Path = "report.html",
    work: str | Path | None = None,
    scores: Iterable[str | Path] = (),
    columns: TextColumns | None = None,
    seed: int = 13,
    compute: ComputeOptions | None = None,
    completion: Prompt | None = None,
    tell: Tell = lambda line: None,
) -> Comparison:
    """Judge explanation methods on a classifier and write the report.

    Args:
        classifier: hub name or folder of a sequence classifier, or a loaded one; a function of texts as an
            `explearn.CallableClassifier`.
        texts: a .csv, .jsonl, .parquet or .txt file, or a list of texts (or pairs of texts).
        labels: the true labels of a list of texts; of a file, `columns.label` names their column.
        methods: a roster (quick, light, complete), or names of methods that need no training, separated by commas.
        budget: seconds, or a text such as 10m: as many texts, and if need be methods, as fit, by measured speed.
        max_texts: most texts; those with marked words come first, the others are drawn by `seed`.
        out: the page to write.
        work: folder to work in, which is kept: called again with the same arguments, finished methods are not computed
            again. Default: a temporary one.
        scores: files of word scores that somebody else computed, to be judged beside the methods.
        columns: where a file holds what.
        completion: of a generative model, its prompt and label words (`explearn.Classifier.from_pretrained`).
        tell: is given a line a method as it is finished, with its main figures (default: nothing is said).

    Raises DataError, ParamsError, UnknownNameError, ModelError or DeviceError for what cannot be used,
    MissingExtraError without `explearn[report]`, UnsupportedError where no method can explain the classifier.
    """
    check_installed("matplotlib", "adjustText", extra="report", what="the page of a comparison")
    clock, start = PartClock(), time.perf_counter()
    chosen, limit = choose_methods(methods), parse_budget(budget)
    _check_kinds(classifier, max_texts, columns, compute)
    # Before the work, which takes minutes.
    check_place(out)
    _check_folder(work)
    own, given = _texts(texts, labels, columns), _given(map(Path, scores))
    compute = compute or ComputeOptions()
    seed_everything(seed)
    with clock.part("load"):
        model = _loaded(classifier, compute, completion, own)
    with _folder(work) as folder, unread_words_known():
        workspace = Workspace(folder)
        with clock.part("choose"):
            left = None if limit is None else limit - (time.perf_counter() - start)
            plan = _plan(workspace, model, own, chosen, max_texts, limit, left, seed, tell)
        taken = {name: chosen[name] for name in plan.choice.methods}
        everything = {**taken, **{name: {} for name in given}}
        remarks = _remarks(own, plan, limit, given)
        params = make_params(own, model.name or "classifier", everything, plan.choice.texts, remarks, seed)
        write_inputs(workspace, own, model, params)
        tell(_opening(own, plan, model))
        run = MethodsRun(workspace, params, own, model, plan, clock, tell)
        run.tell_unread()
        # Before the work: a record that fits no text is to be told at once.
        matched = run.match(given)
        run.explain(taken)
        if run.refused:
            plan = plan.without(run.refused)
            everything = {name: given for name, given in everything.items() if name not in run.refused}
            if not everything:
                raise UnsupportedError(f"{model.name}: no method can explain it ({'; '.join(run.refused.values())})")
            remarks = _remarks(own, plan, limit, given)
            run.params = params = make_params(
                own, model.name or "classifier", everything, plan.choice.texts, remarks, seed
            )
            write_inputs(workspace, own, model, params)
        run.take(matched)
        figures = _judge(run, out, compute, seed)
    clock.add("total", time.perf_counter() - start)
    return Comparison(Path(out), plan.choice.texts, figures, plan.choice.left_out, dict(clock.parts))


def _loaded(
    classifier: str | Path | Classifier, compute: ComputeOptions, completion: Prompt | None, own: OwnTexts
) -> Classifier:
    """The classifier, with labels that fit those of the texts, and a fingerprint of its own."""
    if not isinstance(classifier, Classifier):
        model = Classifier.from_pretrained(classifier, compute, completion=completion)
    elif completion is not None:
        raise ParamsError("completion: got one beside a loaded classifier; give it where that is loaded")
    else:
        model = classifier
    if model.problem is Problem.REGRESSION:
        raise UnsupportedError(f"{model.why_not(CLASSES)}; `explearn explain` says which words speak for a value")
    check_labels(model.name, model.labels, own.labels, "map the texts' labels with --label-name VALUE=CLASS")
    return _told_apart(model, own)


def _told_apart(classifier: Classifier, own: OwnTexts) -> Classifier:
    """The classifier; of a function of texts a copy whose fingerprint is that of its answers to these texts.

    A function has no weights to tell it from another by, and what it was asked before is of use while it answers so.
    """
    if classifier.has_model:
        return classifier
    answers = classifier.predict_proba(classifier.encode(own.examples))
    found = copy.copy(classifier)
    found.__dict__["fingerprint"] = hashlib.sha256(repr(classifier.labels).encode() + answers.tobytes()).hexdigest()
    return found


def _judge(run: MethodsRun, out: str | Path, compute: ComputeOptions, seed: int) -> dict[str, Any]:
    """Judge what a run has explained, write the page, and return every method's figures."""
    workspace, params, task, clock = run.workspace, run.params, run.task, run.clock
    with clock.part("judge"):
        judge_task(workspace, params, task, compute, seed, run.classifier, run.predictions)
    with clock.part("sanity"):
        try:
            checked = check_task(workspace, params, task, compute, seed, run.classifier, run.found)
        except UnsupportedError as error:
            checked = {"texts": 0, "methods": {}}
            params = with_remark(params, f"No sanity checks: {error}.")
        write_json(workspace.metrics("sanity", task), checked)
    with clock.part("report"):
        report_project(workspace, params, seed)
        write_text(out, (workspace.reports / "report.html").read_text(encoding="utf-8"))
    figures: dict[str, Any] = read_json(workspace.metrics("explanations", task))
    return figures


def _check_kinds(classifier: object, max_texts: object, columns: object, compute: object) -> None:
    """Raise ParamsError for an argument of another kind than `compare` takes."""
    if not isinstance(classifier, str | Path | Classifier):
        hint = "; a function goes in an explearn.CallableClassifier" if callable(classifier) else ""
        raise ParamsError(
            f"classifier: got {kind_of(classifier)}; expected a name, a folder or an explearn.Classifier{hint}"
        )
    whole = isinstance(max_texts, int) and not isinstance(max_texts, bool)
    if max_texts is not None and not (whole and 1 <= max_texts <= MOST):  # type: ignore[operator]
        raise ParamsError(f"max_texts: got {shown(max_texts)}; expected a whole number, 1 or more")
    if columns is not None and not isinstance(columns, TextColumns):
        raise ParamsError(f"columns: got {kind_of(columns)}; expected an explearn.TextColumns")
    if compute is not None and not isinstance(compute, ComputeOptions):
        raise ParamsError(f"compute: got {kind_of(compute)}; expected ComputeOptions")


def _check_folder(work: str | Path | None) -> None:
    """Raise ParamsError for a folder that cannot be worked in, or holds what is of no comparison and might be replaced.

    Before the work, which takes minutes.
    """
    if work is None:
        return
    folder = Path(work)
    if folder.exists() and not folder.is_dir():
        raise ParamsError(f"work: {work} is a file; expected a folder, or the name of a new one")
    check_replaceable(folder, lambda there: (there / PLAN).exists(), "comparison")
    check_place(folder / PLAN)


@contextmanager
def _folder(work: str | Path | None) -> Iterator[Path]:
    if work is not None:
        # Of two comparisons at once one would judge what the other wrote.
        with locked(Path(work) / "compare", what=f"comparison {work}"):
            yield Path(work)
        return
    with tempfile.TemporaryDirectory(prefix="explearn-compare-") as folder:
        yield Path(folder)


def _plan(
    workspace: Workspace,
    model: Classifier,
    own: OwnTexts,
    chosen: Mapping[str, dict[str, Any]],
    max_texts: int | None,
    budget: float | None,
    left: float | None,
    seed: int,
    tell: Tell,
) -> Plan:
    """The plan that an earlier call with the same arguments made in this folder, or a new one for the seconds left.

    Says so where even the fewest texts and methods take longer than what is left of the budget.
    """
    request = {
        "classifier": model.fingerprint,
        "texts": texts_hash(own),
        "methods": chosen,
        "budget": budget,
        "max_texts": max_texts,
        "seed": seed,
    }
    plan = read_plan(workspace, request)
    if plan is None:
        most = min(len(own.examples), max_texts or len(own.examples))
        plan = make_plan(model, own, chosen, most, left, seed)
        write_plan(workspace, request, plan)
        expected = sum(plan.expected(name) or 0.0 for name in plan.choice.methods)
        if left is not None and expected > left:
            methods, few = counted(len(plan.choice.methods), "method"), counted(plan.choice.texts, "text")
            tell(
                f"The budget of {budget:g} s does not suffice: {max(0.0, left):.0f} s of it were left after loading, "
                f"and {methods} on {few} would take about {expected:.0f} s, besides measuring speeds and making the "
                "page"
            )
    return plan


def _texts(
    texts: str | Path | Sequence[str | tuple[str, str]], labels: Sequence[str] | None, columns: TextColumns | None
) -> OwnTexts:
    if not isinstance(texts, str | Path):
        if columns is not None:
            raise ParamsError("columns: go with a file; got a list of texts")
        return given_texts(texts, labels)
    if labels is not None:
        raise ParamsError("labels: go with a list of texts; of a file, columns.label names their column")
    return read_texts(texts, columns or TextColumns())


def _given(paths: Iterable[Path]) -> Scores:
    """What the files of scores hold, and their methods made known."""
    given: Scores = {}
    files: dict[str, Path] = {}
    for path in paths:
        for name, records in read_scores(path).items():
            if name in files:
                raise ParamsError(
                    f"{path}: scores of {name.removeprefix(PREFIX)!r} are in {files[name]} too; expected them once"
                )
            given[name], files[name] = records, path
    register_given(files)
    return given


def _opening(own: OwnTexts, plan: Plan, classifier: Classifier) -> str:
    texts, names = plan.choice.texts, plan.choice.methods
    return (
        f"{counted(len(names), 'method')} on {texts} of {counted(len(own.examples), 'text')}, classes "
        f"{', '.join(classifier.labels)}: {time_left({n: plan.expected(n) for n in names}, most=len(names))}\n"
        "Means over the texts; comprehensiveness: larger is better, sufficiency: smaller"
    )


def _remarks(own: OwnTexts, plan: Plan, budget: float | None, given: Scores) -> list[str]:
    choice = plan.choice
    found = []
    if choice.texts < len(own.examples):
        why = "as the budget of time allows" if budget is not None else "as many as were asked for"
        found.append(f"{choice.texts} of {len(own.examples)} texts were compared on, {why}.")
    found += [f"Left out: {name} ({reason})." for name, reason in choice.left_out.items()]
    found += [
        f"{name} explains with the weights that come with the package (docs/{name}.md); nothing was trained here."
        for name in choice.methods
        if get_info(name).ready
    ]
    if given:
        found.append(
            f"{', '.join(given)}: the scores are from a file. What they cost is not known, and the sanity checks need "
            "the method itself."
        )
    return [*found, own.hint] if own.hint else found
