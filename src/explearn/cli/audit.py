"""`explearn audit`: what does a classifier lean on over all my texts? `explearn diff`: what changed between two?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from explearn.cli import options
from explearn.cli.common import Compute, Group, command, tell
from explearn.cli.options import ClassifierToExplain, LabelledColumns, Table

Patterns = Annotated[
    list[str] | None,
    typer.Option("--pattern", help="Regular expression whose matches are looked at, too; may be repeated."),
]


@command
def audit(
    texts: Table,
    group: Annotated[str | None, typer.Option(help="Column with the group of each text, such as its source.")] = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="Folder of a finished `explearn job` on these texts, whose scores are read."),
    ] = None,
    benign: Annotated[
        Path | None,
        typer.Option(help="Texts that should pass: false alarms, and the words that cause them, come first."),
    ] = None,
    passes: Annotated[str | None, typer.Option(help="The answer that --benign texts should get.")] = None,
    pattern: Patterns = None,
    out: options.Page = Path("audit.html"),
    work: options.WorkFolder = None,
    *,
    methods: options.MethodsToUse,
    classifier: ClassifierToExplain,
    columns: LabelledColumns,
    compute: Compute,
) -> None:
    """Find what a classifier leans on over many texts: claims from explanations, each tested by changing texts.

    explearn audit --classifier my-model --texts my-texts.csv --label-column label --out audit.html
    """
    explainer = None
    # Of a job's scores, --method only names those that are read.
    method: Any = options.only("--method", [*methods.names, *map(str, methods.folders)])
    if scores is None:
        method = explainer = methods.one()
    # Loads torch, which --help need not wait for.
    from explearn.auditing.reading import AuditOptions
    from explearn.auditing.run import audit as run

    settings = AuditOptions(
        patterns=pattern or (), columns=columns, work=work, seed=methods.seed, compute=compute, show_progress=True
    )
    result = run(
        classifier([explainer]),
        texts,
        None,
        group,
        method,
        scores=scores,
        benign=benign,
        passes=passes,
        out=out,
        options=settings,
    )
    result.print()
    tell(result.page)


def old_classifier(
    against: Annotated[str, typer.Option(help="The old classifier; as for --classifier.", show_default=False)] = "",
    against_class_name: Annotated[
        list[str] | None, typer.Option(help="Rename a class of the old classifier, CLASS=NAME; may be repeated.")
    ] = None,
    against_completion: Annotated[
        Path | None, typer.Option(help="The prompt of the old classifier, if it is generative; as for --completion.")
    ] = None,
    against_llm: Annotated[
        Path | None, typer.Option(help="A YAML file, if the old classifier is a prompt; as for --llm.")
    ] = None,
) -> Any:
    """Return the old classifier; see `options.classifier_source`."""
    names = options.parse_names("--against-class-name", against_class_name)
    return options.classifier_source(against, names, against_llm, against_completion, option="--against")


@command
def diff(
    texts: Table,
    fail_above: Annotated[
        float | None, typer.Option(help="Exit with 1 if a larger share of the answers changed.", min=0, max=1)
    ] = None,
    pattern: Patterns = None,
    out: options.Page = Path("diff.html"),
    work: options.WorkFolder = None,
    *,
    methods: options.MethodsToUse,
    classifier: ClassifierToExplain,
    old: Annotated[Any, Group("Old classifier", old_classifier)],
    columns: LabelledColumns,
    compute: Compute,
) -> None:
    """Compare two classifiers on the same texts: answers, what they lean on, and reasons.

    Exit code 0: done. 1: more answers changed than --fail-above allows. 2: something cannot be used.

    explearn diff --classifier new-model --against old-model --texts my-texts.csv --fail-above 0.05
    """
    method = methods.one()
    # Loads torch, which --help need not wait for.
    from explearn.auditing.diff import diff as run
    from explearn.auditing.reading import AuditOptions

    settings = AuditOptions(
        patterns=pattern or (), columns=columns, work=work, seed=methods.seed, compute=compute, show_progress=True
    )
    result = run(classifier([method]), old, texts, method, out=out, options=settings)
    result.print()
    tell(result.page)
    if fail_above is not None and result.share > fail_above:
        tell(f"{result.share:.3f} of the answers changed, more than {fail_above:g}")
        raise typer.Exit(1)
