"""What the commands of `explearn annotate` do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from explearn.cli.printing import console, printed
from explearn.core.errors import DataError, ParamsError, UnknownNameError
from explearn.core.records import SPLITS, Example, Rationale
from explearn.core.seeds import hash_order
from explearn.core.settings import check_section
from explearn.core.storage import check_output, locked, write_json
from explearn.core.visible import visible
from explearn.text.agreement import agreement_metrics
from explearn.text.rationales import merge_annotators
from explearn_study.annotate.llm.asking import Question
from explearn_study.annotate.llm.budget import Meter
from explearn_study.annotate.llm.cache import CachedAnswer, read_answers
from explearn_study.annotate.llm.collecting import (
    annotator_name,
    collect,
    read_shots,
    require_model,
    to_rationales,
)
from explearn_study.annotate.llm.endpoint import environment_model
from explearn_study.annotate.llm.prompts import bind_prompt, choose_shots, list_prompts
from explearn_study.annotate.llm.running import Bounds, annotate, ask, questions_for, task_prompt
from explearn_study.annotate.people.label_studio import read_label_studio
from explearn_study.annotate.people.sheets import SheetKind, SheetRow, read_sheet, write_new_sheet
from explearn_study.annotate.printing import figure, print_candidates, print_estimate, print_summary
from explearn_study.annotate.store import rationale_row, write_rows
from explearn_study.annotate.task import TaskMarks
from explearn_study.params import Params, load_params
from explearn_study.rationalise import read_task_marks
from explearn_study.sections import LLMParams
from explearn_study.sources.splits import subsample
from explearn_study.workspace import Workspace

BoundOptions = tuple[int, float, int, float, int | None, int | None, float | None, Sequence[str] | None]


def _open(task: str, params_file: Path) -> tuple[Params, TaskMarks]:
    params = load_params(params_file)
    return params, read_task_marks(params.check_task(task), params, Workspace())


def _changed(settings: LLMParams, **options: Any) -> LLMParams:
    """Settings with the options that were given."""
    values = {**settings.model_dump(), **{name: value for name, value in options.items() if value is not None}}
    check_section(LLMParams, values)
    return LLMParams.model_validate(values)


def prompts(name: str | None, task: str | None, params_file: Path) -> None:
    if name is None:
        for found, summary in list_prompts().items():
            console().print(f"[bold cyan]{found}[/bold cyan]  {printed(summary)}")
        return
    if task is None:
        raise ParamsError("--task: got none; expected the task whose texts and labels fill the prompt")
    _, marks = _open(task, params_file)
    prompt = task_prompt(marks, marks.llm, name)
    print(f"{prompt.name}, version {prompt.version}, {len(prompt.shots)} examples")
    for message in prompt.messages(marks.examples[0]):
        print(visible(f"\n--- {message['role']}\n{message['content']}"))


def calibrate(
    task: str,
    models: Sequence[str],
    names: Sequence[str],
    split: str,
    texts: int,
    shots: int | None,
    dry_run: bool,
    out: Path | None,
    params_file: Path,
    bound_options: BoundOptions,
) -> None:
    # scikit-learn, which the other commands do without, takes seconds to import.
    from explearn_study.annotate.llm.calibrate import judge, pick

    params, marks = _open(task, params_file)
    settings = _changed(marks.llm, shots=shots)
    target = out or Workspace().reports / "annotation" / f"{task}.json"
    # Before the first question: answers cost.
    check_output(target)
    if split not in SPLITS:
        raise UnknownNameError("split", split, SPLITS)
    models = list(dict.fromkeys(models)) or [require_model(settings, environment_model())]
    bounds = Bounds.of(*bound_options)
    seeds = read_shots(marks.store, marks.examples, marks.unused)
    gold = merge_annotators(marks.settled(marks.rationales), params.rationale_agreement)
    # An example in the prompt would be answered by copying it; the whole seed set stays out, whatever --shots says.
    seen = {seed.example.id for seed in seeds}
    open_texts = {e.id: e.label for e in marks.examples if e.split == split and e.id in gold and e.id not in seen}
    chosen = subsample(open_texts, texts, False, params.seed)
    judged = [example for example in marks.examples if example.id in chosen]
    if not judged:
        raise DataError(
            f"task {task!r}: people have marked no text of split {split!r} beside the seeds; import marks, or name "
            "another split"
        )
    shown = choose_shots(seeds, marks.labels, settings.shots)
    bound = [bind_prompt(name, task, marks.labels, shown, settings) for name in names or list_prompts()]
    questions = [Question(model, prompt, example) for model in models for prompt in bound for example in judged]
    if dry_run:
        print_estimate(questions, marks, bounds.meter)
        return
    ask(questions, marks, bounds)
    answers = {answer.key: answer for answer in read_answers(marks.store.answers)}
    candidates = []
    for model in models:
        for prompt in bound:
            own = [question for question in questions if question.model == model and question.prompt is prompt]
            taken = [answers[question.key] for question in own]
            annotated = collect(own, marks.store.answers, settings)
            candidates.append(judge(model, prompt, annotated, gold, taken, _money(taken, bounds.meter)))
    best, why = pick(candidates)
    figures = {"task": task, "split": split, "best": best.to_record(), "why": why}
    write_json(target, {**figures, "candidates": [candidate.to_record() for candidate in candidates]})
    print_candidates(candidates, best)
    console().print(f"{printed(why)}\n{printed(str(target))}: all figures")


def _money(answers: Sequence[CachedAnswer], meter: Meter) -> float | None:
    prices = [meter.price(answer.model) for answer in answers]
    if any(price is None for price in prices):
        return None
    return sum(p.cost(a.input_tokens, a.output_tokens) for p, a in zip(prices, answers, strict=True) if p)


def run(
    task: str,
    model: str | None,
    prompt: str | None,
    shots: int | None,
    splits: Sequence[str] | None,
    texts: int | None,
    dry_run: bool,
    out: Path | None,
    params_file: Path,
    bound_options: BoundOptions,
) -> None:
    params, marks = _open(task, params_file)
    settings = _changed(
        marks.llm, model=model, prompt=prompt, shots=shots, splits=list(splits) if splits else None, max_texts=texts
    )
    bounds = Bounds.of(*bound_options)
    if out is not None:
        check_output(out)
    if dry_run:
        print_estimate(questions_for(marks, settings, params.seed), marks, bounds.meter)
        return
    annotated, summary, asked = annotate(marks, settings, params.seed, bounds)
    if summary is None:
        console().print("no text to ask about: people have marked all of them, or there are none of these labels")
        return
    print_summary(summary, bounds.meter)
    if out is not None:
        words = {example.id: example.all_words for example in marks.examples}
        write_rows(out, [rationale_row(r, words[r.example_id]) for r in to_rationales(annotated, asked)])
        console().print(
            f"{printed(str(out))}: {summary.fates['kept']:,} rationales by {printed(annotator_name(asked))}"
        )


def sheet(
    task: str,
    out: Path,
    kind: str,
    texts: int,
    model: str | None,
    prompt: str | None,
    shots: int | None,
    splits: Sequence[str] | None,
    params_file: Path,
) -> None:
    params, marks = _open(task, params_file)
    settings = _changed(marks.llm, model=model, prompt=prompt, shots=shots, splits=list(splits) if splits else None)
    if kind == "check":
        questions = questions_for(marks, settings, params.seed)
        verdicts = marks.store.read_verdicts(marks.examples, marks.unused)
        annotated = collect(questions, marks.store.answers, settings, verdicts)
        judged = {(verdict.example_id, verdict.mask) for verdict in verdicts}
        open_rows = {
            item.example.id: SheetRow(item.example, item.mask, item.answer.reason if item.answer else "")
            for item in annotated
            if item.fate == "kept" and (item.example.id, item.mask) not in judged
        }
        if not open_rows:
            raise DataError(
                f"task {task!r}: no kept rationale that is not judged yet; run `explearn annotate run` first"
            )
        _write("check", f"Check {task}", _sample(open_rows, marks, texts, params.seed), out)
    elif kind == "mark":
        wanted = splits or settings.splits
        blank = {
            example.id: SheetRow(example, (False,) * len(example.all_words))
            for example in marks.examples
            if example.split in wanted and example.id not in marks.marked
        }
        if not blank:
            raise DataError(f"task {task!r}: people have marked every text of {', '.join(wanted)}")
        _write("mark", f"Mark {task}", _sample(blank, marks, texts, params.seed), out)
    else:
        raise UnknownNameError("kind of sheet", kind, ("check", "mark"))


def _write(kind: SheetKind, title: str, rows: Sequence[SheetRow], out: Path) -> None:
    write_new_sheet(out, kind, title, rows)
    console().print(f"{printed(str(out))}: {len(rows):,} texts")


def _sample(rows: Mapping[str, SheetRow], marks: TaskMarks, count: int, seed: int) -> list[SheetRow]:
    """Rows drawn by seed, one label after the other, so that none is favoured; in the order drawn."""
    waiting = {label: [] for label in marks.labels}  # type: dict[str, list[SheetRow]]
    for item in hash_order(rows, seed):
        waiting[rows[item].example.label].append(rows[item])
    chosen: list[SheetRow] = []
    while len(chosen) < count and any(waiting.values()):
        for queue in waiting.values():
            if queue and len(chosen) < count:
                chosen.append(queue.pop(0))
    return chosen


def import_(
    path: Path,
    task: str,
    source: str,
    annotator: str | None,
    evidence: Sequence[str],
    seeds: bool,
    params_file: Path,
) -> None:
    # One import at a time: what it checks and what it adds go together.
    params = load_params(params_file)
    with locked(Workspace().annotations(params.check_task(task)) / "import", what=f"marks of {task}"):
        _import(read_task_marks(task, params, Workspace()), path, source, annotator, evidence, seeds)


def _import(
    marks: TaskMarks,
    path: Path,
    source: str,
    annotator: str | None,
    evidence: Sequence[str],
    seeds: bool,
) -> None:
    store, examples = marks.store, marks.examples
    target = store.seeds if seeds else store.human
    verdicts = 0
    if source == "sheet":
        filled = read_sheet(path, examples, annotator)
        parts = [(target, filled.rationales, "marks"), (store.adjudicated, filled.decisions, "decisions")]
        _check_new(path, filled.rationales, marks, target)
        if filled.verdicts:
            verdicts = len(filled.verdicts)
            replaced = store.add_verdicts(filled.verdicts, examples)
            rejected = sum(verdict.verdict == "reject" for verdict in filled.verdicts)
            _report(store.verdicts, verdicts, "verdicts", replaced, f", {rejected:,} of them reject")
        untouched = filled.untouched
    elif source == "label-studio":
        marked = read_label_studio(path, examples, annotator=annotator, evidence=evidence)
        _check_new(path, marked, marks, target)
        parts, untouched = [(target, marked, "marks")], 0
    else:
        raise UnknownNameError("format", source, ("sheet", "label-studio"))
    for file, rationales, noun in parts:
        if rationales:
            _report(file, len(rationales), noun, store.add(file, rationales, examples))
    if untouched:
        texts, are = ("text", "is") if untouched == 1 else ("texts", "are")
        console().print(f"{untouched:,} {texts} that nobody has touched {are} left out")
    elif not any(rationales for _, rationales, _ in parts) and not verdicts:
        raise DataError(f"{path}: holds no mark and no verdict; expected what people filled in")


def _report(file: Path, count: int, noun: str, replaced: int, more: str = "") -> None:
    instead = f", {replaced:,} in the place of earlier ones" if replaced else ""
    console().print(f"{printed(str(file))}: {count:,} {noun.removesuffix('s') if count == 1 else noun}{more}{instead}")


def _check_new(path: Path, rationales: Sequence[Rationale], marks: TaskMarks, target: Path) -> None:
    """Raise DataError for marks that an annotator has made elsewhere: only what is in the same file is replaced."""
    own = {(r.example_id, r.annotator) for r in marks.store.read(target, marks.examples, marks.unused)}
    known = {(r.example_id, r.annotator) for r in marks.rationales} - own
    for rationale in rationales:
        if (rationale.example_id, rationale.annotator) in known:
            raise DataError(
                f"{path}: annotator {rationale.annotator!r} has marked {rationale.example_id!r} in another source too; "
                "expected one rationale for each annotator and text"
            )


def agreement(tasks: Sequence[str], params_file: Path) -> None:
    params = load_params(params_file)
    workspace = Workspace()
    named = [params.check_task(task) for task in tasks]
    chosen = named or [task for task in params.tasks if workspace.examples(task).is_dir()]
    if not chosen:
        raise DataError(f"{workspace.examples('TASK')}: no task is prepared; run `dvc repro prepare@TASK` first")
    table = Table(title="Agreement over the texts that two or more have marked", title_justify="left")
    for column in ("task", "annotators", "texts", "alpha", "F1 of pairs"):
        table.add_column(column, justify="left" if column in ("task", "annotators") else "right")
    for task in chosen:
        marks = read_task_marks(task, params, workspace)
        split = params.rationale_params(task).train_split
        found: Any = agreement_metrics(marks.rationales, marks.examples, split, params.rationale_agreement)
        everyone = f"all {found['annotators']}"
        table.add_row(
            printed(task), everyone, f"{found['alpha_texts']:,}", figure(found["alpha"]), figure(found["pairwise_f1"])
        )
        for pair, figures in found["alpha_by_pair"].items():
            texts, alpha, f1 = figures["texts"], figures["alpha"], figures["pairwise_f1"]
            table.add_row("", printed(pair), f"{texts:,}", figure(alpha), figure(f1))
    console().print(table)


def adjudicate(task: str, out: Path, params_file: Path) -> None:
    params, marks = _open(task, params_file)
    opinions: dict[str, dict[str, tuple[bool, ...]]] = {}
    for rationale in marks.rationales:
        opinions.setdefault(rationale.example_id, {})[rationale.annotator] = rationale.mask
    decided = {r.example_id for r in marks.adjudicated}
    merged = merge_annotators(marks.rationales, params.rationale_agreement)

    def differs(example: Example) -> bool:
        return example.id not in decided and len(set(opinions.get(example.id, {}).values())) > 1

    rows = [SheetRow(e, merged[e.id], opinions=opinions[e.id]) for e in marks.examples if differs(e)]
    if not rows:
        raise DataError(f"task {task!r}: there is no text on which annotators differ, or all of them are decided")
    _write("adjudicate", f"Adjudicate {task}", rows, out)
