"""`explearn annotate`: rationales from language models and people.

Modules that call a language model are imported where they are needed, as they belong to an extra.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from explearn.cli.common import command, plain_console, printed
from explearn.core.attribution import Attribution
from explearn.core.errors import DataError, UnknownNameError
from explearn.core.seeds import hash_order
from explearn.core.writing import check_place, locked, write_json
from explearn.metrics.runs import read_run
from explearn.show.blocks import figure, several
from explearn.text.agreement import agreement_metrics
from explearn.text.equal import text_hash
from explearn.text.rationales import merge_annotators
from explearn_study.annotate.options import Budget
from explearn_study.annotate.people.label_studio import read_label_studio
from explearn_study.annotate.people.sheets import (
    FilledSheet,
    MarkingKind,
    SheetKind,
    SheetRow,
    read_sheet,
    write_new_sheet,
)
from explearn_study.annotate.people.simulation import (
    TEXTS_A_SHEET,
    draw_texts,
    read_guesses,
    sheet_of,
    simulation_figures,
)
from explearn_study.annotate.task import TaskMarks, check_new, read_task_marks, spread_over_labels, write_rows
from explearn_study.params import Params, load_params
from explearn_study.sources.splits import subsample
from explearn_study.staging import TaskOption
from explearn_study.workspace import Workspace

app = typer.Typer(
    no_args_is_help=True,
    help="Make rationales for a task: let a language model mark its texts, check the marks, import marks by people.",
)

JUDGED_TEXTS = 100
"""Most texts on which models and prompts are compared, drawn by seed."""

SHEET_TEXTS = 100
"""Most texts of a sheet to check or to mark, drawn by seed, as many of each label; a person may do fewer."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Estimate the cost, without calling the model.")]
RANKING = "a ranking of words"

SheetFile = Annotated[Path, typer.Option("--out", help="The sheet: .html for a browser, .csv for a spreadsheet.")]


def _table(title: str, texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """Return a table with columns of text and of numbers."""
    table = Table(title=title, title_justify="left")
    for column in texts:
        table.add_column(column)
    for column in numbers:
        table.add_column(column, justify="right")
    return table


def _open(task: str) -> tuple[Params, TaskMarks]:
    params = load_params()
    return params, read_task_marks(params.check_task(task), params, Workspace())


@app.command()
@command
def calibrate(
    task: TaskOption,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Models to compare; may be repeated.", envvar="EXPLEARN_LLM_MODEL"),
    ] = None,
    prompt: Annotated[
        list[str] | None, typer.Option(help="Prompts to compare; may be repeated (default: all built-in prompts).")
    ] = None,
    dry_run: DryRun = False,
    *,
    meter: Budget,
) -> None:
    """Compare models and prompts on training and validation texts that people have marked, and pick the best.

    explearn annotate calibrate --task films --model small --model large --dry-run
    """
    from explearn_study.annotate.llm.calibrate import measure_candidate, pick, print_candidates, print_estimate
    from explearn_study.annotate.llm.prompts import bind_prompt, list_prompts
    from explearn_study.annotate.llm.rationales import AnnotationQuestion, ask, collect, read_shots, require_model

    run_params, marks = _open(task)
    target = Workspace().reports / "annotation" / f"{task}.json"
    # Before the first question: answers cost.
    check_place(target)
    models = list(dict.fromkeys(model or ())) or [require_model(marks.llm)]
    seeds = read_shots(marks)
    gold = merge_annotators(marks.settled(marks.rationales), run_params.rationale_agreement)
    # A model could copy an example from the prompt, so the whole seed set stays out, whatever llm.shots says.
    shown_texts = {text_hash(seed.example) for seed in seeds}
    unseen = [example for example in marks.examples if text_hash(example) not in shown_texts]
    labels = {example.id: example.label for example in unseen if example.split != "test" and example.id in gold}
    chosen = subsample(labels, JUDGED_TEXTS, run_params.seed)
    judged = [example for example in marks.examples if example.id in chosen]
    if not judged:
        raise DataError(
            f"task {task!r}: people have marked no training or validation text except the seeds; import marks"
        )
    shown = spread_over_labels(seeds, marks.labels, marks.llm.shots)
    prompts = [bind_prompt(name, task, marks.labels, shown, marks.llm) for name in prompt or list_prompts()]
    questions: list[list[AnnotationQuestion]] = []
    for name, bound in product(models, prompts):
        questions.append([AnnotationQuestion(name, bound, example) for example in judged])
    all_questions = list(chain.from_iterable(questions))
    if dry_run:
        print_estimate(all_questions, marks, meter)
        return
    ask(all_questions, marks, meter)
    candidates = []
    for asked in questions:
        name = asked[0].model
        candidates.append(measure_candidate(name, asked[0].prompt, collect(asked, marks), gold, meter.price(name)))
    best = pick(candidates)
    figures = {"task": task, "best": asdict(best)}
    write_json(target, {**figures, "candidates": [asdict(candidate) for candidate in candidates]})
    print_candidates(candidates, best)
    plain_console().print(f"{printed(str(target))}: all figures; the best, by F1 and then by cost, is bold")


@app.command()
@command
def run(
    task: TaskOption,
    dry_run: DryRun = False,
    *,
    meter: Budget,
) -> None:
    """Let a model mark a task's texts; a stopped run resumes.

    explearn annotate run --task films --dry-run
    """
    from explearn_study.annotate.llm.calibrate import print_estimate, print_summary
    from explearn_study.annotate.llm.rationales import annotate, questions_for

    run_params, marks = _open(task)
    if dry_run:
        print_estimate(questions_for(marks, run_params.seed), marks, meter)
        return
    _, summary = annotate(marks, run_params.seed, meter)
    if summary is None:
        print("no text to mark: people have marked all of them, or no text has one of these labels")
    else:
        print_summary(summary, meter)


@app.command()
@command
def sheet(
    task: TaskOption,
    out: SheetFile,
    kind: Annotated[
        MarkingKind,
        typer.Option(
            help="check: judge a model's marks. mark: mark unmarked texts. adjudicate: decide where annotators differ."
        ),
    ] = "check",
) -> None:
    """Write a sheet for people: texts drawn by seed to check or to mark, or all on which annotators differ.

    explearn annotate sheet --task films --out check.html
    """
    run_params, marks = _open(task)
    if kind == "check":
        listed = _rows_to_check(marks, run_params)
        problem = "no unchecked rationale by a model; run `explearn annotate run` first"
    elif kind == "mark":
        listed = _rows_to_mark(marks)
        problem = f"people have marked every text of {', '.join(marks.llm.splits)}"
    else:
        listed = _rows_to_adjudicate(marks, run_params)
        problem = "there is no text on which annotators differ, or all of them are decided"
    if not listed:
        raise DataError(f"task {task!r}: {problem}")
    rows = {row.example.id: row for row in listed}
    drawn = [rows[item] for item in hash_order(rows, run_params.seed)]
    most = len(drawn) if kind == "adjudicate" else SHEET_TEXTS
    _write_sheet(kind, f"{kind.title()} {task}", spread_over_labels(drawn, marks.labels, most), out, marks)


def _rows_to_check(marks: TaskMarks, params: Params) -> list[SheetRow]:
    """Return the rationales by a model that nobody has judged."""
    from explearn_study.annotate.llm.rationales import collect, questions_for

    verdicts = marks.store.read_verdicts()
    judged = {(verdict.example_id, verdict.mask) for verdict in verdicts}
    rows = []
    for item in collect(questions_for(marks, params.seed), marks):
        if item.fate == "kept" and item.answer and (item.example.id, item.mask) not in judged:
            rows.append(SheetRow(item.example, item.mask, item.answer.reason))
    return rows


def _rows_to_mark(marks: TaskMarks) -> list[SheetRow]:
    """Return the texts that nobody has marked."""
    rows = []
    for example in marks.examples:
        if example.split in marks.llm.splits and example.id not in marks.marked:
            rows.append(SheetRow(example, (False,) * len(example.all_words)))
    return rows


def _rows_to_adjudicate(marks: TaskMarks, params: Params) -> list[SheetRow]:
    """Return the texts on which annotators differ, unless somebody has decided."""
    opinions: dict[str, dict[str, tuple[bool, ...]]] = defaultdict(dict)
    for rationale in marks.rationales:
        opinions[rationale.example_id][rationale.annotator] = rationale.mask
    decided = {rationale.example_id for rationale in marks.adjudicated}
    merged = merge_annotators(marks.rationales, params.rationale_agreement)
    rows = []
    for example in marks.examples:
        masks = opinions[example.id]
        if example.id not in decided and len(set(masks.values())) > 1:
            rows.append(SheetRow(example, merged[example.id], opinions=masks))
    return rows


def _write_sheet(kind: SheetKind, title: str, rows: Sequence[SheetRow], out: Path, marks: TaskMarks) -> None:
    # People get the same guideline as a language model.
    meanings = [f"{label}: {meaning}" for label, meaning in marks.llm.meanings.items()]
    write_new_sheet(out, kind, title, rows, marks.labels, list(filter(None, [marks.llm.about, *meanings])))
    plain_console().print(f"{printed(str(out))}: {several(len(rows), 'text')}")


@app.command("import")
@command
def import_(
    path: Annotated[Path, typer.Argument(help="A filled-in sheet, or an export (.json) of Label Studio.")],
    task: TaskOption,
    annotator: Annotated[str | None, typer.Option(help="The annotator's name, if it is not in the file.")] = None,
    seeds: Annotated[bool, typer.Option("--seeds", help="Use the marks as the seed set: examples in prompts.")] = False,
) -> None:
    """Import people's work: verdicts, marks, decisions.

    explearn annotate import Check-films-ana.csv --task films
    """
    # One import at a time, so that nothing changes between check and write.
    with locked(Workspace().annotations(load_params().check_task(task)) / "import", what=f"marks of {task}"):
        _, marks = _open(task)
        store = marks.store
        examples = marks.examples
        target = store.seeds if seeds else store.human
        if path.suffix == ".json":
            filled = FilledSheet([], read_label_studio(path, examples, annotator=annotator), [])
        else:
            filled = read_sheet(path, examples, annotator)
        # Only marks in the same file are replaced.
        replaceable = {(r.example_id, r.annotator) for r in store.read(target)}
        check_new(path, filled.rationales, {(r.example_id, r.annotator) for r in marks.rationales} - replaceable)
        if filled.verdicts:
            rejected = sum(verdict.verdict == "reject" for verdict in filled.verdicts)
            replaced = store.add_verdicts(filled.verdicts)
            _print_added(store.verdicts, len(filled.verdicts), "verdict", replaced, f", {rejected:,} of them reject")
        for file, noun, marked in (
            (target, "mark", filled.rationales),
            (store.adjudicated, "decision", filled.decisions),
        ):
            if marked:
                _print_added(file, len(marked), noun, store.add(file, marked))
    if filled.untouched == 1:
        print("1 untouched text is left out")
    elif filled.untouched:
        print(f"{filled.untouched:,} untouched texts are left out")
    elif not (filled.rationales or filled.decisions or filled.verdicts):
        raise DataError(f"{path}: has no marks and no verdicts; expected a filled-in sheet")


def _print_added(file: Path, count: int, noun: str, replaced: int, more: str = "") -> None:
    if replaced:
        more += f", {replaced:,} replacing earlier ones"
    plain_console().print(f"{printed(str(file))}: {several(count, noun)}{more}")


@app.command()
@command
def agreement() -> None:
    """Measure how far annotators agree: Krippendorff's alpha for each prepared task and each pair of annotators.

    explearn annotate agreement
    """
    run_params = load_params()
    workspace = Workspace()
    tasks = [name for name in run_params.tasks if workspace.examples(name).is_dir()]
    if not tasks:
        raise DataError(f"{workspace.examples('TASK')}: no task is prepared; run `dvc repro prepare@TASK` first")
    title = "Agreement on texts marked by two or more annotators"
    table = _table(title, ("task", "annotators"), ("texts", "alpha", "F1 of pairs"))
    for name in tasks:
        marks = read_task_marks(name, run_params, workspace)
        split = run_params.rationale_params(name).train_split
        figures: Any = agreement_metrics(marks.rationales, marks.examples, split, run_params.rationale_agreement)
        rows = {f"all {figures['annotators']}": {**figures, "texts": figures["alpha_texts"]}}
        title = printed(name)
        for who, row in (rows | figures["alpha_by_pair"]).items():
            alpha = figure(row["alpha"])
            table.add_row(title, printed(who), f"{row['texts']:,}", alpha, figure(row["pairwise_f1"]))
            title = ""
    plain_console().print(table)


Method = Annotated[str, typer.Option(help="Method of the run whose explanations people see.")]


def _explained(task: str, method: str) -> tuple[Params, TaskMarks, dict[str, Attribution]]:
    params, marks = _open(task)
    if method not in params.methods:
        raise UnknownNameError("method", method, params.methods)
    run = read_run(Workspace().attributions(task) / f"{method}.parquet")
    return params, marks, {attribution.example_id: attribution for attribution in run.attributions}


@app.command()
@command
def rank(
    task: TaskOption,
    out: Annotated[
        Path,
        typer.Option(help="JSON Lines file of texts and scores, for `explearn compare --scores`."),
    ],
    dry_run: DryRun = False,
    *,
    meter: Budget,
) -> None:
    """Let a language model rank the words of the explained texts for their predicted classes: the method llm_ranking.

    explearn annotate rank --task films --out llm_ranking.jsonl --dry-run
    """
    from explearn_study.annotate.llm.calibrate import print_estimate, print_spent
    from explearn_study.annotate.llm.ranking import rank, ranking_questions

    params = load_params()
    # Any method that explains the task's classifier has the same texts and predicted classes.
    shared = next(name for name, method in params.methods.items() if not method.info.own_model)
    _, marks, explained = _explained(task, shared)
    check_place(out, RANKING)
    questions = ranking_questions(marks, explained)
    if dry_run:
        print_estimate(questions, marks, meter)
        return
    rankings = rank(questions, marks, meter)
    write_rows(out, rankings.rows, RANKING)
    plain_console().print(
        f"{printed(str(out))}: {several(len(rankings.rows), 'text')}; {rankings.invented:,} of {rankings.named:,} "
        "words named are not in the text"
    )
    if rankings.unread:
        print(f"{rankings.unread:,} answers cannot be read; their texts' scores are 0; see llm.max_tokens")
    print_spent(meter)


@app.command()
@command
def simulate(
    task: TaskOption,
    method: Method,
    out: SheetFile,
) -> None:
    """Write two sheets that ask people to predict the model with and without a method's explanations.

    explearn annotate simulate --task films --method attn_lrp --out predict.html
    """
    run_params, marks, explained = _explained(task, method)
    drawn = draw_texts(marks.examples, explained, TEXTS_A_SHEET, run_params.seed)
    for person in range(2):
        rows = sheet_of(person, drawn, explained, run_params.evaluate.headline_percent, run_params.seed)
        path = out.with_stem(f"{out.stem}-{person + 1}")
        _write_sheet("predict", f"Predict {task} {person + 1}", rows, path, marks)


@app.command()
@command
def simulated(
    sheets: Annotated[list[Path], typer.Argument(help="Filled-in sheets.")],
    task: TaskOption,
    method: Method,
) -> None:
    """Measure how well people predicted the model with and without a method's explanations, and test the difference.

    explearn annotate simulated Predict-films-1-ana.csv --task films --method attn_lrp
    """
    run_params, marks, explained = _explained(task, method)
    guesses = read_guesses(sheets, marks.examples, explained, marks.labels)
    figures = simulation_figures(guesses, run_params.seed)
    target = Workspace().reports / "annotation" / f"{task}-{method}.json"
    write_json(target, {"task": task, "method": method, **figures})
    title = f"Predicting the model: {printed(task)}, {printed(method)}"
    table = _table(title, ["person"], ("with", "texts", "without", "texts"))
    for person, row in {**figures["people"], "all": figures["all"]}.items():
        cells = []
        for way in ("with", "without"):
            cells += [figure(row[way]), f"{row[f'texts_{way}']:,}"]
        table.add_row(printed(person), *cells)
    plain_console().print(table)
    if figures["p_value"] is None:
        print("too few answers of one kind to test the difference")
    else:
        print(f"difference {figures['difference']:+.3f}, p = {figures['p_value']:.3g} ({figures['test']} permutations)")
    plain_console().print(f"{printed(str(target))}: all figures")
