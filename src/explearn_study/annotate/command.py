"""`explearn annotate`: rationales by language models and by people, from the command line.

The commands' work is in `explearn_study.annotate.commands`, loaded when one runs: `explearn explain` needs none of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from explearn.cli.running import user_errors
from explearn_study.annotate import options

app = typer.Typer(
    no_args_is_help=True,
    help="Make rationales for a task: have a language model mark its texts, check it, bring in what people marked.",
)

Task = Annotated[str, typer.Option(help="Task of the profile.", envvar="EXPLEARN_TASK")]
ParamsFile = Annotated[Path, typer.Option("--params", help="File of parameters.", envvar="EXPLEARN_PARAMS")]
Model = Annotated[
    str | None,
    typer.Option(
        help="Name of the model on the server (default: llm.model of the parameters).", envvar="EXPLEARN_LLM_MODEL"
    ),
]
Prompt = Annotated[
    str | None, typer.Option(help="A shipped prompt or a YAML file (default: llm.prompt of the parameters).")
]
Shots = Annotated[
    int | None, typer.Option(help="Most marked examples in the prompt (default: llm.shots).", min=0, max=64)
]
Splits = Annotated[
    list[str] | None, typer.Option("--split", help="Splits to annotate (default: llm.splits); may be repeated.")
]
PARAMS = Path("params.yaml")


def _commands() -> Any:
    from explearn_study.annotate import commands

    return commands


@app.command()
def prompts(
    name: Annotated[str | None, typer.Argument(help="A prompt to show in full, as sent for --task.")] = None,
    task: Annotated[str | None, typer.Option(help="Task whose texts and labels fill the prompt.")] = None,
    params: ParamsFile = PARAMS,
) -> None:
    """List the shipped prompts, or show one as a task's texts are asked with it."""
    with user_errors():
        _commands().prompts(name, task, params)


@app.command()
def calibrate(
    task: Task,
    model: Annotated[
        list[str] | None,
        typer.Option(help="Models to compare; may be repeated.", envvar="EXPLEARN_LLM_MODEL"),
    ] = None,
    prompt: Annotated[
        list[str] | None, typer.Option(help="Prompts to compare; may be repeated (default: all that are shipped).")
    ] = None,
    split: Annotated[str, typer.Option(help="Split whose marked texts are asked.")] = "validation",
    texts: Annotated[int, typer.Option(help="Most texts, drawn by seed.", min=1)] = 100,
    shots: Shots = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and ask nothing.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="JSON of all figures (default: reports/annotation/TASK.json).")
    ] = None,
    params: ParamsFile = PARAMS,
    concurrency: options.Concurrency = 8,
    timeout: options.Timeout = 60.0,
    attempts: options.Attempts = 6,
    patience: options.Patience = 120.0,
    budget_requests: options.BudgetRequests = None,
    budget_tokens: options.BudgetTokens = None,
    budget_money: options.BudgetMoney = None,
    price: options.Prices = None,
) -> None:
    """Compare models and prompts on texts that people have marked, and pick the best."""
    bounds = (concurrency, timeout, attempts, patience, budget_requests, budget_tokens, budget_money, price)
    with user_errors():
        _commands().calibrate(task, model or [], prompt or [], split, texts, shots, dry_run, out, params, bounds)


@app.command()
def run(
    task: Task,
    model: Model = None,
    prompt: Prompt = None,
    shots: Shots = None,
    split: Splits = None,
    texts: Annotated[
        int | None, typer.Option(help="Most texts a split, drawn by seed (default: llm.max_texts).", min=1)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and ask nothing.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Also write the kept rationales to this JSON Lines file (format mask).")
    ] = None,
    params: ParamsFile = PARAMS,
    concurrency: options.Concurrency = 8,
    timeout: options.Timeout = 60.0,
    attempts: options.Attempts = 6,
    patience: options.Patience = 120.0,
    budget_requests: options.BudgetRequests = None,
    budget_tokens: options.BudgetTokens = None,
    budget_money: options.BudgetMoney = None,
    price: options.Prices = None,
) -> None:
    """Have a model mark a task's texts; a run that was ended goes on where it stopped."""
    bounds = (concurrency, timeout, attempts, patience, budget_requests, budget_tokens, budget_money, price)
    with user_errors():
        _commands().run(task, model, prompt, shots, split, texts, dry_run, out, params, bounds)


@app.command()
def sheet(
    task: Task,
    out: Annotated[Path, typer.Option(help="The sheet: .html for a browser, .csv for a spreadsheet.")],
    kind: Annotated[
        str, typer.Option(help="check: judge a model's marks. mark: mark unmarked texts.", metavar="check|mark")
    ] = "check",
    texts: Annotated[int, typer.Option(help="Most texts, drawn by seed, as many of each label.", min=1)] = 50,
    model: Model = None,
    prompt: Prompt = None,
    shots: Shots = None,
    split: Splits = None,
    params: ParamsFile = PARAMS,
) -> None:
    """Write a sheet for people: a random sample of a model's marks to check, or texts to mark."""
    with user_errors():
        _commands().sheet(task, out, kind, texts, model, prompt, shots, split, params)


@app.command("import")
def import_(
    path: Annotated[Path, typer.Argument(help="What people filled in, or an export of Label Studio.")],
    task: Task,
    source: Annotated[
        str,
        typer.Option("--format", help="Where it is from.", metavar="sheet|label-studio"),
    ] = "sheet",
    annotator: Annotated[str | None, typer.Option(help="Who marked, where the file does not say.")] = None,
    evidence: Annotated[
        list[str] | None,
        typer.Option(help="Label of the spans that are evidence (default: all spans); may be repeated."),
    ] = None,
    seeds: Annotated[
        bool, typer.Option("--seeds", help="The marks become the seed set, the examples in prompts.")
    ] = False,
    params: ParamsFile = PARAMS,
) -> None:
    """Bring in what people did: verdicts, marks, decisions."""
    with user_errors():
        _commands().import_(path, task, source, annotator, evidence or [], seeds, params)


@app.command()
def agreement(
    task: Annotated[
        list[str] | None, typer.Option(help="Tasks of the profile (default: all that are prepared); may be repeated.")
    ] = None,
    params: ParamsFile = PARAMS,
) -> None:
    """Say how far annotators agree: Krippendorff's alpha for each task and each pair of them."""
    with user_errors():
        _commands().agreement(task or [], params)


@app.command()
def adjudicate(
    task: Task,
    out: Annotated[Path, typer.Option(help="The sheet: .html for a browser, .csv for a spreadsheet.")],
    params: ParamsFile = PARAMS,
) -> None:
    """Write a sheet of the texts on which annotators differ; `import` brings the decisions back."""
    with user_errors():
        _commands().adjudicate(task, out, params)
