"""`explearn verify`: is a page, a record or a bundle still what it was, and does it hold when computed again?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.cli import options
from explearn.cli.common import Compute, command
from explearn.core.escape import printable

_RECORDS = "Records of decisions"


@command
def verify(
    path: Annotated[
        Path,
        typer.Argument(metavar="PAGE_OR_FOLDER", help="A page, its JSON (a manifest or record), or a bundle's folder."),
    ],
    explainer: Annotated[
        Path | None,
        typer.Option(help="Folder of the trained explainer, or bundle, of a record.", rich_help_panel=_RECORDS),
    ] = None,
    text: Annotated[
        str | None,
        typer.Option(help="The text of a record with only its hash.", rich_help_panel=_RECORDS),
    ] = None,
    pair: Annotated[str | None, typer.Option(help="Its second segment.", rich_help_panel=_RECORDS)] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            help="PEM file with the public key that must have signed the record.",
            rich_help_panel=_RECORDS,
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(help="The folder in which the page was made, if the page was moved.", show_default=False),
    ] = None,
    *,
    classifier: options.ClassifierToExplain,
    compute: Compute,
) -> None:
    """Check a page and its inputs (texts, models, results, code, versions) against the manifest next to it, a bundle's
    files against the bundle's manifest; or compute a record again, and check its signature.

    Exit code 0: nothing differs. 1: something differs, and is named. 2: there is nothing to check, or it is unreadable.
    3: nothing differs, but something could not be found; give --root or --classifier.

    explearn verify report.html
    """
    from explearn.decision.verify import verify as run

    segments: str | tuple[str, str] | None = text
    if text is not None and pair is not None:
        segments = text, pair
    source = classifier(required=False)
    found = run(path, source, explainer=explainer, text=segments, key=key, root=root, device=compute)
    # Names come from the manifest.
    for line in found.lines:
        print(printable(line, one_line=True))
    if found.differences:
        raise typer.Exit(1)
    if found.missing:
        raise typer.Exit(3)
