"""`explearn compare`: which explanations can be trusted for a classifier?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli import options
from explearn.cli.common import Compute, command, tell
from explearn.cli.options import ClassifierToExplain, ColumnsOfTable, Table
from explearn.core.validation import MOST


@command
def compare(
    texts: Table,
    budget: Annotated[
        str | None,
        typer.Option(help="Time limit, such as 90s, 10m or 1.5h, kept by using fewer texts, then fewer methods."),
    ] = None,
    scores: Annotated[
        list[Path] | None,
        typer.Option(help="JSON Lines of word scores from elsewhere, to evaluate with the methods; may be repeated."),
    ] = None,
    max_texts: Annotated[
        int | None, typer.Option(help="Most texts; those with marked words first, others by lot.", min=1, max=MOST)
    ] = None,
    unit: options.Units = "word",
    out: options.Page = Path("compare.html"),
    work: options.WorkFolder = None,
    *,
    methods: options.MethodsToUse,
    classifier: ClassifierToExplain,
    columns: ColumnsOfTable,
    compute: Compute,
) -> None:
    """Evaluate explanation methods on your own classifier and texts, and write one self-contained page.

    explearn compare --classifier my-model --texts my-texts.csv --method quick --out report.html
    """
    listed = methods.listed()
    source = classifier([method for method in listed if not isinstance(method, str)])
    # Loads torch, which --help need not wait for.
    from explearn.comparison.run import CompareOptions
    from explearn.comparison.run import compare as run

    settings = CompareOptions(
        max_texts=max_texts,
        scores=scores or (),
        unit=unit,
        seed=methods.seed,
        compute=compute,
        tell=tell,
    )
    comparison = run(source, texts, listed, columns=columns, budget=budget, out=out, work=work, options=settings)
    comparison.print()
    tell(comparison.page)
