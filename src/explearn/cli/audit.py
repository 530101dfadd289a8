"""`explearn audit`: what does a classifier lean on over all my texts? `explearn diff`: what changed between two?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from explearn.cli import options
from explearn.cli.common import DEFAULT_SEED, Compute, Group, Seed, command, tell
from explearn.cli.options import ClassifierToJudge, LabelledColumns, Table
from explearn.core.errors import ParamsError

if TYPE_CHECKING:
    from explearn.methods.base.explainer import Explainer

Method = Annotated[
    str | None,
    typer.Option(help="Method of the explanations (`explearn methods`).", show_default="attn_lrp, if it can"),
]
Patterns = Annotated[
    list[str] | None,
    typer.Option("--pattern", help="Regular expression whose matches are looked at, too; may be repeated."),
]
WorkFolder = Annotated[Path | None, typer.Option(help="Working folder to keep, so that a stopped run can resume.")]


def method_of(method: str | None, explainer: Path | None) -> str | Explainer | None:
    """Return the method that --method or --explainer names.

    Raises:
        ParamsError: both do.
    """
    if explainer is None:
        return method
    if method is not None:
        raise ParamsError("--method: got one besides --explainer; expected one of them")
    (trained,) = options.make(options.choose(None, [explainer]), {})
    return trained


@command
def audit(
    texts: Table,
    group: Annotated[str | None, typer.Option(help="Column with the group of each text, such as its source.")] = None,
    method: Method = None,
    explainer: options.TrainedExplainer = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="Folder of a finished `explearn job` on these texts, whose scores are read."),
    ] = None,
    pattern: Patterns = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("audit.html"),
    work: WorkFolder = None,
    seed: Seed = DEFAULT_SEED,
    *,
    classifier: ClassifierToJudge,
    columns: LabelledColumns,
    compute: Compute,
) -> None:
    """Find what a classifier leans on over many texts: claims from explanations, each tested by changing texts.

    explearn audit --classifier my-model --texts my-texts.csv --labels label --out audit.html
    """
    trained = method_of(method, explainer)
    # Loads torch, which --help need not wait for.
    from explearn.auditing.reading import AuditOptions
    from explearn.auditing.run import audit as run

    settings = AuditOptions(
        patterns=pattern or (), columns=columns, work=work, seed=seed, compute=compute, show_progress=True
    )
    result = run(classifier, texts, None, group, trained, scores=scores, out=out, options=settings)
    result.print()
    tell(result.page)


def old_classifier(
    against: Annotated[
        str, typer.Option(help="Folder of the old classifier, or its hub name.", show_default=False)
    ] = "",
    against_llm: Annotated[
        Path | None, typer.Option(help="A YAML file, if the old classifier is a prompt; as for --llm.")
    ] = None,
) -> Any:
    """Return the name of the old classifier, or the prompt that is one.

    Raises:
        ParamsError: both are given, or neither is.
    """
    if against_llm is not None:
        return options.prompt_alone(against_llm, against)
    if not against:
        raise ParamsError(
            "--against: got none; expected the folder of a saved classifier, a hub name, or --against-llm"
        )
    return against


@command
def diff(
    texts: Table,
    fail_above: Annotated[
        float | None, typer.Option(help="Exit with 1 if a larger share of the answers changed.", min=0, max=1)
    ] = None,
    method: Method = None,
    explainer: options.TrainedExplainer = None,
    pattern: Patterns = None,
    out: Annotated[Path | None, typer.Option(help="The page to write.", show_default="none")] = None,
    work: WorkFolder = None,
    seed: Seed = DEFAULT_SEED,
    *,
    classifier: ClassifierToJudge,
    old: Annotated[Any, Group("Old classifier", old_classifier)],
    columns: LabelledColumns,
    compute: Compute,
) -> None:
    """Compare two classifiers on the same texts: answers, what they lean on, and reasons.

    Exit code 0: done. 1: more answers changed than --fail-above allows. 2: something cannot be used.

    explearn diff --classifier new-model --against old-model --texts my-texts.csv --fail-above 0.05
    """
    trained = method_of(method, explainer)
    # Loads torch, which --help need not wait for.
    from explearn.auditing.diff import diff as run
    from explearn.auditing.reading import AuditOptions

    settings = AuditOptions(
        patterns=pattern or (), columns=columns, work=work, seed=seed, compute=compute, show_progress=True
    )
    result = run(classifier, old, texts, trained, out=out, options=settings)
    result.print()
    if result.page is not None:
        tell(result.page)
    if fail_above is not None and result.share > fail_above:
        tell(f"{result.share:.3f} of the answers changed, more than {fail_above:g}")
        raise typer.Exit(1)
