"""`explearn audit`: what does a classifier lean on over all my texts?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from explearn.cli import options
from explearn.cli.common import DEFAULT_SEED, Compute, Seed, command
from explearn.cli.tables import ClassifierToJudge, LabelledColumns, Table
from explearn.core.errors import ParamsError
from explearn.core.escape import printable

if TYPE_CHECKING:
    from explearn.methods.base.explainer import Explainer

Method = Annotated[
    str | None,
    typer.Option(help="Method of the explanations (`explearn methods`).", show_default="attn_lrp, if it can"),
]
TrainedExplainer = Annotated[
    Path | None,
    typer.Option("--explainer", help="Folder of a trained explainer, or a bundle, in place of a method."),
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
    explainer: TrainedExplainer = None,
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
    print(printable(str(result.page)))
