"""A whole comparison of methods on a user's classifier, in one process: no project and no DVC."""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import yaml

from explearn.comparison.plan import (
    PLAN,
    Plan,
    choose_methods,
    parse_budget,
    read_plan,
    within_budget,
    write_plan,
)
from explearn.comparison.result import Comparison
from explearn.comparison.score_files import Records, match_scores, read_scores
from explearn.comparison.texts import TextColumns, UserTexts, given_texts
from explearn.core.attribution import Attribution
from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ParamsError, UnsupportedError
from explearn.core.examples import Rationale
from explearn.core.extras import check_installed
from explearn.core.seeds import seed_everything
from explearn.core.validation import PositiveInt, Section, Seed, check_section
from explearn.core.writing import check_own, check_place, check_replaceable, is_page, locked, write_text
from explearn.methods.base.explainer import Explainer, unread_words_known
from explearn.methods.base.learned import LearnedExplainer, text_hashes
from explearn.methods.base.timing import ForwardClock, explain_timed
from explearn.methods.info import MethodInfo
from explearn.methods.registry import get_explainer, get_info, known_infos, with_seed
from explearn.methods.results import RunFacts, TaskReport, in_table_order
from explearn.metrics.evaluate import evaluate_task
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams, SanityParams
from explearn.metrics.plausibility import rationale_k
from explearn.metrics.predictions import Predictions
from explearn.metrics.runs import COST_FIGURES, MethodRun, read_run, write_run
from explearn.metrics.sanity import SanityResult, check_methods
from explearn.metrics.stability import SHARED_UNITS
from explearn.predictors.finetune import evaluate_classifier
from explearn.predictors.labels import check_labels
from explearn.predictors.params import Prompt
from explearn.predictors.pretrained import as_predictor
from explearn.predictors.problems import CLASSES, Problem
from explearn.predictors.transformer import TransformerPredictor
from explearn.report.examples import draw_examples
from explearn.report.verdict import LEADING, several
from explearn.text.agreement import agreement_metrics
from explearn.text.encoding import Encoding
from explearn.text.rationales import merge_annotators
from explearn.text.sampling import texts_to_explain
from explearn.text.units import Unit, check_unit, example_in_units, in_units, marks_in_units, unit_name

TIMED_TEXTS, TIMED_TEXTS_COSTLY = 4, 2
"""Number of texts on which a method's speed is measured; the second for methods of tens of passes or more."""

CLOCKED_TEXTS = 25
"""Classify at least this many texts (or all) around each method to time it against."""

SANITY_TEXTS, INFIDELITY_SAMPLES, SHOWN_TEXTS = 5, 6, 20
"""Number of texts explained again on perturbed models, of word sets masked per text, of example texts on the page."""

TITLE = "Which explanations of this classifier can be trusted?"

FROM_FILE = "its scores are from a file, so it cannot explain anything else"

Tell = Callable[[str], None]


class _Simple(Section):
    """Arguments of a comparison that are names and numbers."""

    max_texts: PositiveInt | None
    seed: Seed
    out: Path
    work: Path | None
    scores: list[Path]


def compare(
    classifier: Any,
    texts: Any,
    *,
    labels: Sequence[str] | None = None,
    methods: str | Sequence[str | Explainer] = "light",
    budget: str | float | None = None,
    max_texts: int | None = None,
    out: str | Path = "report.html",
    work: str | Path | None = None,
    scores: Iterable[str | Path] = (),
    columns: TextColumns | None = None,
    unit: Unit = "word",
    seed: int = 13,
    compute: ComputeOptions | None = None,
    completion: Prompt | None = None,
    tell: Tell = lambda line: None,
) -> Comparison:
    """Evaluate explanation methods on a classifier and write the report.

    Args:
        classifier: hub name or folder of a sequence classifier, or a loaded one (`explearn.explain`), or a function
            as an `explearn.FunctionPredictor`.
        texts: a .csv, .jsonl, .parquet or .txt file, a list of texts (or pairs of texts), or a table of pandas or
            datasets.
        labels: the true labels of a list of texts; for a file, `columns.label` names their column.
        methods: rosters (quick, light, complete) and names of methods that need no training, separated by commas or as
            a list, which may also hold explainers, including trained ones. Texts that a trained explainer has learned
            from are left out.
        budget: time limit in seconds, or a string such as 10m: fewer texts, then fewer methods, by measured speed.
        max_texts: most texts; texts with marked words come first, the others are drawn by `seed`.
        out: the page to write, next to which goes a manifest with the same name, ending in .json, for
            `explearn verify`. Existing files that are not a page or a manifest are not replaced.
        work: folder that keeps the plan and the scores of finished methods, so that a later call with the same
            arguments does not compute them again. Default: nothing is kept.
        scores: files of word scores computed elsewhere, to evaluate with the methods.
        columns: what the columns of a file hold.
        unit: what methods score and metrics remove, as in `Explainer.explain`. Words are marked; a unit counts as
            marked if at least half of its words are.
        completion: prompt and label words of a generative model (`explearn.load_classifier`).
        tell: called with a line for each finished method, with its main figures (default: silent).

    Raises DataError, ParamsError, UnknownNameError, ModelError or DeviceError for arguments that cannot be used,
    MissingExtraError without `explearn[report]`, UnsupportedError if no method can explain the classifier.
    """
    check_installed("matplotlib", "adjustText", extra="report", what="the page of a comparison")
    from explearn.comparison.provenance import check_manifest_place, facts_of, manifest_of
    from explearn.report.manifest import write_manifest
    from explearn.report.page import page

    check_unit(unit)
    if unit == "phrase":
        raise ParamsError(
            "unit: got 'phrase', but each method finds its own phrases; expected a unit that methods share"
        )
    simple = check_section(_Simple, {"max_texts": max_texts, "seed": seed, "out": out, "work": work, "scores": scores})
    max_texts, seed, out, folder = simple.max_texts, simple.seed, simple.out, simple.work
    start = time.perf_counter()
    limit, listed = parse_budget(budget), isinstance(methods, list | tuple)
    given = [one for one in methods if isinstance(one, Explainer)] if listed else []
    explainers = {one.name: one for one in given}
    if len(explainers) < len(given):
        raise ParamsError(f"methods: got {', '.join(one.name for one in given)}; expected each once")
    names: Any = [one for one in methods if not isinstance(one, Explainer)] if listed else methods
    chosen = choose_methods(names)
    for name, explainer in explainers.items():
        # Everything but the classifier that its scores depend on.
        learned = {"weights": explainer.content_hash()} if isinstance(explainer, LearnedExplainer) else {}
        chosen[name] = {**explainer.options.model_dump(mode="json"), **learned}
    if not chosen:
        raise ParamsError("methods: got none; expected at least one roster, name or explainer")
    # Before the work, which takes minutes.
    check_own(out, is_page, "a page")
    check_manifest_place(out)
    if folder is not None:
        check_replaceable(folder, lambda earlier: (earlier / PLAN).exists(), "comparison")
        check_place(folder / PLAN)
    user_texts = _unseen(given_texts(texts, labels, columns), explainers.values(), tell)
    records, from_files = read_scores(simple.scores)
    compute = compute or ComputeOptions()
    seed_everything(seed)
    model = _load(classifier, compute, completion, user_texts, columns or TextColumns())
    # Two comparisons at once would evaluate each other's files.
    lock = nullcontext() if folder is None else locked(folder / "compare", what=f"comparison {folder}")
    with lock, unread_words_known():
        request = {
            "classifier": model.fingerprint,
            "texts": hashlib.sha256(repr((user_texts.examples, user_texts.rationales)).encode()).hexdigest(),
            "methods": chosen,
            "budget": limit,
            "max_texts": max_texts,
            "seed": seed,
            "unit": unit_name(unit),
        }
        plan = read_plan(folder, request) if folder is not None else None
        if plan is None:
            remaining = None if limit is None else limit - (time.perf_counter() - start)
            most = min(len(user_texts.examples), max_texts or len(user_texts.examples))
            plan = make_plan(model, user_texts, chosen, explainers, most, remaining, seed, unit)
            if folder is not None:
                write_plan(folder, request, plan)
            expected = sum(plan.expected(name) or 0.0 for name in plan.methods)
            if limit is not None and expected > (left := limit - (time.perf_counter() - start)):
                work = f"{several(len(plan.methods), 'method')} on {several(plan.texts, 'text')}"
                tell(
                    f"The budget of {limit:g} s does not suffice: {max(0.0, left):.0f} s of it remained after loading "
                    f"and measuring speeds, and {work} would take about {expected:.0f} s, plus sanity checks and "
                    "the page"
                )
        run = MethodsRun(model, user_texts, explainers, plan, seed, folder, tell, unit)
        # Before the work, so that a record that fits no text is reported at once.
        matched = run.match(records)
        run.explain({name: chosen[name] for name in plan.methods})
        for name, attributions in matched.items():
            run.add(MethodRun(name, attributions, run.fingerprint), "from a file")
        if not run.runs:
            raise UnsupportedError(f"{model.name}: no method can explain it ({'; '.join(run.refused.values())})")
        facts, task = run.judge(from_files, limit is not None)
        made = facts_of(out, model, request)
        manifest = manifest_of(out, classifier, model, compute, [texts, *simple.scores], user_texts.name, request, made)
        facts = replace(facts, made=made, versions=list(manifest["versions"].items()))
        left_out = {**plan.left_out, **run.refused}
        result = Comparison(out, plan.texts, task.methods, left_out, task, facts)
        write_text(out, page(facts, [task]))
        write_manifest(out, {**manifest, "verdict": result.verdict})
    return result


def make_plan(
    classifier: TransformerPredictor,
    texts: UserTexts,
    methods: Mapping[str, Mapping[str, Any]],
    explainers: Mapping[str, Explainer],
    count: int,
    budget: float | None,
    seed: int,
    unit: Unit = "word",
) -> Plan:
    """Time every method on a few texts, for at most half of the budget, and choose methods and texts.

    Without a budget there is nothing to choose, and costly methods, which come last, are not timed: loading their
    packages alone would delay the first result.

    Args:
        methods: method -> options. explainers: methods passed as objects, by name.
        count: most texts. budget: remaining seconds; None for no limit.

    Raises UnsupportedError if no method can explain the classifier.
    """
    start = time.perf_counter()
    sample = texts.examples[:TIMED_TEXTS]
    encodings = classifier.encode(sample)
    classifier.predict_proba(encodings)  # first calls load kernels and allocate buffers
    begun = time.perf_counter()
    classifier.predict_proba(encodings)
    forward = (time.perf_counter() - begun) / len(sample)
    seconds: dict[str, float] = {}
    unsupported: dict[str, str] = {}
    untimed: list[str] = []
    for name, options in methods.items():
        if budget is not None and len(seconds) > 1 and time.perf_counter() - start > budget / 2:
            unsupported[name] = "no time for it within the budget"
            continue
        explainer, _ = _explainer(name, options, explainers, seed)
        try:
            if budget is None and get_info(name).costly:
                explainer.check_explains(classifier)
                untimed.append(name)
                continue
            few = sample[:TIMED_TEXTS_COSTLY] if get_info(name).costly else sample
            list(explainer.explain(classifier, sample[:1], unit=unit))  # first calls load packages
            begun = time.perf_counter()
            list(explainer.explain(classifier, few, unit=unit))
        except UnsupportedError as error:
            unsupported[name] = str(error)
        else:
            seconds[name] = (time.perf_counter() - begun) / len(few)
    if not seconds and not untimed:
        raise UnsupportedError(f"{classifier.name}: no method can explain it ({'; '.join(unsupported.values())})")
    # The classifier's figures need all texts, sanity checks of quick methods a few on each perturbed model.
    labelled = len(texts.examples) if texts.labels else 0
    remaining = None if budget is None else max(0.0, budget - (time.perf_counter() - start) - forward * labelled)
    checked = SANITY_TEXTS * (2 + SanityParams().noise_samples)
    checks = {name: checked * of_text for name, of_text in seconds.items() if not get_info(name).costly}
    plan = within_budget(seconds, forward, count, remaining, checks)
    return plan.model_copy(update={"methods": [*plan.methods, *untimed], "left_out": {**unsupported, **plan.left_out}})


class MethodsRun:
    """A run of all methods on the chosen texts, which reports each method's main figures early, and evaluates them.

    Attributes:
        examples: the texts of the comparison.
        units: example id -> the text with scored units in place of words.
        encodings: example id -> the text as the classifier reads it, by units.
        rationales: the marks, by units.
        gold: example id -> marked units, annotators merged, for all texts with marks.
        predictions: cached predictions, so that evaluating all methods need not repeat them.
        runs: method -> its run on the texts.
        refused: method -> why it could not explain one of the texts, such as a long one.
    """

    def __init__(
        self,
        classifier: TransformerPredictor,
        texts: UserTexts,
        explainers: Mapping[str, Explainer],
        plan: Plan,
        seed: int,
        folder: Path | None,
        tell: Tell,
        unit: Unit = "word",
    ) -> None:
        self.classifier, self.texts, self.explainers, self.plan, self.seed = classifier, texts, explainers, plan, seed
        self.folder, self.tell = folder, tell
        self.params = EvaluateParams(infidelity_samples=INFIDELITY_SAMPLES)
        self.examples = texts_to_explain(texts.examples, _marked(texts.rationales), plan.texts, seed)
        encodings = classifier.encode(self.examples)
        self.unit, self.rationales = unit, texts.rationales
        self.units = {example.id: example for example in texts.examples}
        if unit != "word":
            encodings = self._in_units(encodings)
        self.encodings = {e.id: encoding for e, encoding in zip(self.examples, encodings, strict=True)}
        self.fingerprint = classifier.fingerprint
        if not classifier.has_model:
            # A function may have changed behind its name: what was kept is of use while it answers these texts alike.
            answers = classifier.predict_proba(encodings)
            self.fingerprint = hashlib.sha256(self.fingerprint.encode() + answers.tobytes()).hexdigest()
        self.gold = _marked(self.rationales)
        self.predictions = Predictions(classifier)
        self.runs: dict[str, MethodRun] = {}
        self.refused: dict[str, str] = {}
        self._used: dict[str, Explainer] = {}
        self._remaining = {name: plan.expected(name) for name in plan.methods}
        self._begun, self._expected = time.perf_counter(), 0.0
        tell(
            f"{several(len(plan.methods), 'method')} on {plan.texts} of {several(len(texts.examples), 'text')}, "
            f"classes {', '.join(classifier.labels)}\n"
            "Means over the texts; comprehensiveness: larger is better, sufficiency: smaller"
        )
        # The words of an answer are read, but have no score.
        unread = [len(e.words) - len(e.read) - (e.answer[1] - e.answer[0] if e.answer else 0) for e in encodings]
        if any(unread):
            tell(
                f"{several(sum(unread), unit_name(unit))} in {several(sum(map(bool, unread)), 'text')} not read, "
                f"because beyond {classifier.max_length:,} sub-tokens or without known characters: no method scores "
                "them"
            )

    def _in_units(self, encodings: Sequence[Encoding]) -> list[Encoding]:
        """Replace words by units in the texts of the comparison and in all marks; return the encodings."""
        marked = {rationale.example_id for rationale in self.rationales} - {example.id for example in self.examples}
        others = [example for example in self.texts.examples if example.id in marked]
        read = {
            example.id: (example, in_units(encoding, example.segments, self.unit, f"example {example.id!r}"))
            for example, encoding in zip(
                [*self.examples, *others], [*encodings, *self.classifier.encode(others)], strict=True
            )
        }
        self.units = {i: example_in_units(*one, self.unit) for i, one in read.items()}
        marks = [replace(r, mask=marks_in_units(r.mask, *read[r.example_id])) for r in self.rationales]
        self.rationales = marks if any(any(one.mask) for one in marks) else []
        return [read[example.id][1] for example in self.examples]

    def match(self, records: Records) -> dict[str, list[Attribution]]:
        """Return attributions of the texts from files of scores, by method. Raises DataError as `match_scores` does."""
        if not records:
            return {}
        labels, p = self.classifier.labels, self.classifier.predict_proba(list(self.encodings.values()))
        predicted = {i: (labels[row.argmax()], float(row.max())) for i, row in zip(self.encodings, p, strict=True)}
        read = {i: encoding.read for i, encoding in self.encodings.items()}
        compared = [self.units[example.id] for example in self.examples]
        return {name: match_scores(name, rows, compared, predicted, read) for name, rows in records.items()}

    def explain(self, methods: Mapping[str, Mapping[str, Any]]) -> None:
        """Explain the texts with every method (method -> options) that an earlier call has not finished."""
        forward: ForwardClock | None = None
        for name, chosen_options in methods.items():
            self._used[name], options = _explainer(name, chosen_options, self.explainers, self.seed)
            path = None if self.folder is None else self.folder / f"{name}.parquet"
            run = None if path is None else self._kept(path, options)
            if run is not None:
                self.add(run, "of an earlier run")
                continue
            self._expected += self.plan.expected(name) or 0.0
            share = max(1, len(self.examples) // CLOCKED_TEXTS)
            forward = forward or ForwardClock(self.classifier, self.examples, share)
            explainer = self._used[name]
            try:
                run = explain_timed(explainer, self.classifier, self.examples, options, forward, self.unit, warm_up=1)
                run = replace(run, classifier=self.fingerprint)
            except UnsupportedError as error:
                self.refused[name] = str(error)
                self.tell(f"{name}: left out: {error}")
                continue
            if path is not None:
                write_run(path, run, with_cost=True)
            self.add(run, "" if run.cost is None else f"{run.cost.seconds:.1f} s")

    def _kept(self, path: Path, options: Mapping[str, Any]) -> MethodRun | None:
        """Return the run of an earlier call with this classifier, these texts and options; else None."""
        try:
            run = read_run(path)
        except DataError:  # missing or damaged: it is computed again
            return None
        texts = [(attribution.example_id, tuple(attribution.words)) for attribution in run.attributions]
        same = (run.classifier, run.options) == (self.fingerprint, dict(options))
        return run if same and texts == [(e.id, self.units[e.id].all_words) for e in self.examples] else None

    def add(self, run: MethodRun, note: str) -> None:
        """Add a method's run and report its main figures; predictions made here are kept."""
        self.runs[run.method] = run
        attributions = {run.method: run.attributions}
        results = faithfulness(self.classifier, self.encodings, attributions, self.params, predictions=self.predictions)
        figures = results[run.method].means()
        self._remaining.pop(run.method, None)
        # Correct the speed measured on a few texts, which may be far off, by the speed so far.
        pace = (time.perf_counter() - self._begun) / self._expected if self._expected else 1.0
        ahead = time_left(self._remaining, pace) if self._remaining else "then the page"
        self.tell(
            f"{run.method:<22} {note:>17}  comprehensiveness {figures['aopc_comprehensiveness']:+.3f}  "
            f"sufficiency {figures['aopc_sufficiency']:+.3f}  {ahead}"
        )

    def _could_explain(self, name: str) -> bool:
        try:
            get_explainer(name).check_problem(self.classifier)
        except UnsupportedError:
            return False
        return True

    def judge(self, from_files: Mapping[str, MethodInfo], by_budget: bool) -> tuple[RunFacts, TaskReport]:
        """Evaluate all methods.

        from_files: methods whose scores are from a file. by_budget: whether a time budget chose the texts.
        """
        model, texts, runs, examples = self.classifier, self.texts, self.runs, self.examples
        # All explain the classifier of this comparison, also those that trained it.
        known_methods = [info.model_copy(update={"own_model": False}) for info in known_infos() if info.name in runs]
        infos = in_table_order([*known_methods, *from_files.values()])
        # Without training texts, K and the share of marked words come from these texts.
        agreement: dict[str, Any] = agreement_metrics(self.rationales, self.units.values(), "test")
        k, positive_rate = rationale_k(agreement["mean_length"]), agreement["positive_rate"] or 0.0
        evaluation = evaluate_task(
            texts.name,
            runs,
            self.units,
            self.gold,
            model,
            rules={name: infos[name].binarisation for name in runs},
            k=k,
            positive_rate=positive_rate,
            params=self.params,
            seed=self.seed,
            predictions=self.predictions,
            encodings=self.encodings,
        )
        remarks = self._remarks(from_files, by_budget)
        try:
            sanity = self._sanity([name for name in runs if not infos[name].costly])
        except UnsupportedError as error:
            sanity = {"texts": 0, "methods": {}}
            remarks.append(f"No sanity checks: {error}.")
        costs = {name: run.cost.figures() if run.cost else dict.fromkeys(COST_FIGURES) for name, run in runs.items()}
        thresholds = {name: run.threshold for name, run in runs.items() if run.threshold is not None}
        known = evaluate_classifier(model, texts.examples) if texts.labels else {}
        task = TaskReport(
            task=texts.name,
            labels=model.labels,
            split_counts={"train": 0, "validation": 0, "test": len(texts.examples)},
            agreement=agreement,
            classifier={"test": known} if known else {},
            methods={name: {**evaluation.metrics[name], **costs[name]} for name in runs},
            texts=draw_examples(
                [self.units[example.id] for example in examples],
                self.rationales,
                self.gold,
                runs,
                infos,
                count=SHOWN_TEXTS,
                seed=self.seed,
                k=k,
                positive_rate=positive_rate,
            ),
            k=k,
            positive_rate=positive_rate,
            thresholds=thresholds,
            comparisons=evaluation.comparisons,
            by_text=evaluation.by_text,
            method_agreement=evaluation.agreement,
            sanity=sanity,
            notes={name: run.notes for name, run in runs.items() if run.notes},
        )
        accuracy = f"accuracy {known['accuracy']:.3f}" if known else "accuracy not known"
        named = "" if texts.name == "texts" else f" ({texts.name})"  # "texts" is the name of a list
        scored = sum(len(encoding.words) for encoding in self.encodings.values())
        by_units = "" if self.unit == "word" else f", by their {several(scored, unit_name(self.unit))}"
        options = {name: dict(run.options) for name, run in runs.items()}
        tried = {*runs, *self.plan.left_out, *self.refused}
        facts = RunFacts(
            title=TITLE,
            unit=unit_name(self.unit),
            subtitle=f"Classifier {model.name} ({', '.join(model.labels)}; {accuracy}): {several(len(runs), 'method')} "
            f"on {several(len(examples), 'text')}{named}{by_units}.",
            methods=infos,
            options=options,
            evaluate=self.params,
            seed=self.seed,
            remarks=remarks,
            untried=[name for name in LEADING if name not in tried and self._could_explain(name)],
            parameters=yaml.safe_dump(
                {"seed": self.seed, "unit": unit_name(self.unit), "methods": options}, sort_keys=False
            ),
        )
        return facts, task

    def _sanity(self, names: Sequence[str]) -> dict[str, Any]:
        """Run the sanity checks of methods that take few passes; see `TaskReport.sanity`."""
        params = SanityParams(texts=min(SANITY_TEXTS, len(self.examples)))
        examples = texts_to_explain(self.examples, self.gold, params.texts, self.seed)
        explainers = [self._used[name] for name in names if name in self._used]
        for explainer in explainers:
            explainer.any_classifier = True
        percent = self.params.headline_percent
        results = check_methods(explainers, self.classifier, examples, params, self.seed, percent, unit=self.unit)
        results |= {name: SanityResult(skipped=FROM_FILE) for name in names if name not in self._used}
        checks: dict[str, Any] = {name: asdict(results[name]) for name in names}
        return {"texts": len(examples), "methods": checks}

    def _remarks(self, from_files: Mapping[str, MethodInfo], by_budget: bool) -> list[str]:
        plan, remarks = self.plan, []
        if plan.texts < len(self.texts.examples):
            why = "as the time budget allows" if by_budget else "as many as requested"
            remarks.append(f"{plan.texts} of {len(self.texts.examples)} texts were used, {why}.")
        remarks += [f"Left out: {name} ({reason})." for name, reason in {**plan.left_out, **self.refused}.items()]
        remarks += [
            f"{name} uses the weights that come with the package (docs/explearn/{name}.md); nothing was trained here."
            for name in self.runs
            if name not in from_files and name not in self.explainers and get_info(name).ready
        ]
        if (unit := unit_name(self.unit)) not in SHARED_UNITS:
            remarks.append(f"Stability is not measured: different texts hardly ever share a {unit}.")
        if self.texts.rationales and not self.rationales:
            remarks.append(f"Agreement with people is not measured: no {unit} has half of its words marked.")
        if from_files:
            remarks.append(
                f"{', '.join(from_files)}: the scores are from a file. Their cost is not known, and sanity checks need "
                "the method itself."
            )
        return [*remarks, self.texts.hint] if self.texts.hint else remarks


def _marked(rationales: Iterable[Rationale]) -> dict[str, tuple[bool, ...]]:
    return {i: mask for i, mask in merge_annotators(rationales).items() if any(mask)}


def _explainer(
    name: str, options: Mapping[str, Any], explainers: Mapping[str, Explainer], seed: int
) -> tuple[Explainer, dict[str, Any]]:
    """Return a method and its options: a copy of one of the explainers, since checks change it, or a new one."""
    if name in explainers:
        return copy.copy(explainers[name]), dict(options)
    options = with_seed(name, options, seed)
    return get_explainer(name, **options), options


def _unseen(texts: UserTexts, explainers: Iterable[Explainer], tell: Tell) -> UserTexts:
    """Leave out the texts that an explainer was trained on.

    Raises DataError if none is left.
    """
    seen = {
        one for explainer in explainers if isinstance(explainer, LearnedExplainer) for one in explainer.trained_texts
    }
    kept = {i for i, text in text_hashes(texts.examples).items() if text not in seen}
    count = len(texts.examples) - len(kept)
    if not kept:
        raise DataError(
            f"texts: a trained explainer has learned from all {len(texts.examples)} of them; expected others, kept "
            "back from its training"
        )
    if not count:
        return texts
    note = f"{several(count, 'text')} left out, from which a trained explainer has learned"
    tell(note)
    return replace(
        texts,
        examples=[one for one in texts.examples if one.id in kept],
        rationales=[one for one in texts.rationales if one.example_id in kept],
        hint=f"{note}. {texts.hint}".strip(),
    )


def time_left(expected: Mapping[str, float | None], pace: float) -> str:
    """Return how long the remaining methods will take, in words.

    Args:
        expected: method -> seconds, None if it was not timed.
        pace: factor by which the methods so far took longer than expected.
    """
    timed = [of_method for of_method in expected.values() if of_method is not None]
    untimed = [name for name, of_method in expected.items() if of_method is None]
    seconds = pace * sum(timed)
    ahead = [f"about {int(seconds // 60)}:{int(seconds % 60):02d} left"] if timed else []
    return ", ".join(ahead + ([f"then {', '.join(untimed)}"] if untimed else []))


def _load(
    classifier: Any, compute: ComputeOptions, completion: Prompt | None, texts: UserTexts, columns: TextColumns
) -> TransformerPredictor:
    """Load the classifier, and check that its labels fit the labels of the texts."""
    model = columns.renamed(as_predictor(classifier, compute, completion))
    if model.problem is Problem.REGRESSION:
        raise UnsupportedError(f"{model.why_not(CLASSES)}; `explearn explain` says which words speak for a value")
    check_labels(model.name, model.labels, texts.labels, "map the texts' labels with --label-name VALUE=CLASS")
    return model
