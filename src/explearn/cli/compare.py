"""`explearn compare`: which explanations can be trusted for a classifier?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli import options
from explearn.cli.common import DEFAULT_SEED, Compute, Seed, command, tell
from explearn.cli.options import ClassifierToExplain, ColumnsOfTable, Table


@command
def compare(
    texts: Table,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="A roster (quick, light, complete) or a method (`explearn methods`); may be repeated.",
            show_default="light",
        ),
    ] = None,
    explainer: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of a trained explainer, or a bundle, to evaluate with the methods; may be repeated. Texts "
            "that it was trained on are left out.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(help="Time limit, such as 90s, 10m or 1.5h, kept by using fewer texts, then fewer methods."),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(help="JSON Lines of word scores from elsewhere, to evaluate with the methods; may be repeated."),
    ] = None,
    unit: options.Units = "word",
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    work: Annotated[Path | None, typer.Option(help="Working folder to keep, so that a stopped run can resume.")] = None,
    seed: Seed = DEFAULT_SEED,
    *,
    classifier: ClassifierToExplain,
    columns: ColumnsOfTable,
    compute: Compute,
) -> None:
    """Evaluate explanation methods on your own classifier and texts, and write one self-contained page.

    explearn compare --classifier my-model --texts my-texts.csv --method quick --out report.html
    """
    trained = options.named_explainers(None, explainer, None)
    # Loads torch, which --help need not wait for.
    from explearn.comparison.run import CompareOptions
    from explearn.comparison.run import compare as run

    settings = CompareOptions(
        scores=scores or (),
        unit=unit,
        seed=seed,
        compute=compute,
        tell=tell,
    )
    comparison = run(
        classifier(trained),
        texts,
        [*(method or ["light"]), *trained],
        columns=columns,
        budget=budget,
        out=out,
        work=work,
        options=settings,
    )
    for name, reason in comparison.left_out.items():
        tell(f"left out: {name} ({reason})")
    tell(comparison.verdict)
    tell(comparison.page)
