"""`explearn verify`: is a page, a record or a bundle still what it was, and does it hold when computed again?"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from explearn.cli import options
from explearn.cli.common import Compute, command
from explearn.core.compute import ComputeOptions
from explearn.core.documents import is_folder
from explearn.core.errors import ParamsError
from explearn.core.escape import printable
from explearn.show.blocks import several

if TYPE_CHECKING:
    from explearn.subject.manifest import Checked

_RECORDS = "Records of decisions"


@command
def verify(
    path: Annotated[
        Path,
        typer.Argument(metavar="PAGE_OR_FOLDER", help="A page, its JSON (a manifest or record), or a bundle's folder."),
    ],
    explainer: options.TrainedExplainer = None,
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
    from explearn.core.bundles import differences, read_manifest
    from explearn.decision.document import holds_record
    from explearn.subject.manifest import Checked, check_manifest, manifests_in

    def fingerprint(name: str) -> str:
        from explearn.predictors.pretrained import load_classifier

        return load_classifier(name, device="cpu").fingerprint

    document = path
    if not is_folder(path):
        if path.suffix not in (".html", ".json") or not os.path.exists(path):  # noqa: PTH110 (as in `is_folder`)
            raise ParamsError(f"got {str(path)!r}; expected a page (.html), its .json or a folder, which must exist")
        document = path.with_suffix(".json")
    if holds_record(document):
        segments = None
        if text is not None:
            segments = text if pair is None else (text, pair)
        codes = {_verify_record(document, classifier, explainer, segments, key, compute)}
    else:
        manifests = list(manifests_in(path)) if path.is_dir() else [document]
        given = None
        with suppress(ParamsError):  # none is given
            source = classifier([])
            if isinstance(source, os.PathLike):
                given = os.fspath(source)
        codes = set()
        for manifest in manifests:
            checked = check_manifest(manifest, fingerprint, root, given)
            codes.add(print_check(manifest, f"{', '.join(checked.same)} are unchanged.", checked))
        if not manifests:
            files = read_manifest(path)
            checked = Checked(differences=list(differences(path, files)))
            codes.add(print_check(path, f"all {len(files.files):,} files are unchanged.", checked))
    code = min(codes - {0}, default=0)
    if code:
        raise typer.Exit(code)


def _verify_record(
    path: Path,
    classifier: Callable[..., Any],
    folder: Path | None,
    text: str | tuple[str, str] | None,
    key: Path | None,
    compute: ComputeOptions,
) -> int:
    """Check a record, print what differs, and return the exit code."""
    from explearn.decision.checking import (
        check_recorded_page,
        field_differences,
        observed_differences,
        signature_differences,
        text_of,
    )
    from explearn.decision.document import read_record
    from explearn.decision.signature import read_public_key
    from explearn.methods.finding import find_explainer
    from explearn.predictors.pretrained import as_predictor
    from explearn.subject.manifest import Checked

    record, document = read_record(path)
    public_key = None
    if key is not None:
        public_key = read_public_key(key)
    segments = text_of(record, text)
    made_by = record.method
    explainer = find_explainer(folder) if folder else find_explainer(made_by.name, made_by.options)
    checked = Checked(differences=field_differences(record, document))
    checked.differences += signature_differences(record, document, public_key)
    check_recorded_page(record, path.with_suffix(".html"), checked)
    model = as_predictor(classifier([explainer]), compute)
    checked.differences += observed_differences(record, model, explainer, segments)
    unsigned = "Date, command, versions and the comparison's findings are not computed again"
    if record.signature is None:
        print(f"{unsigned}, and the record is not signed: whoever had it can have changed them.")
    elif public_key is None:
        print(f"{unsigned}; the signature is by {record.signature.public_key}. Give --key to check whose that is.")
    return print_check(path, "text, classifier, answer, method, scores, elements and change are confirmed.", checked)


def print_check(path: Path, unchanged: str, checked: Checked) -> int:
    """Print what differs and what could not be found, or that nothing does; return the exit code."""
    # Names come from the manifest.
    for line in (*checked.differences, *checked.missing):
        print(printable(line, one_line=True))
    sentences = []
    if checked.differences:
        sentences.append(several(len(checked.differences), "difference"))
    if checked.missing:
        sentences.append(f"{several(len(checked.missing), 'thing')} could not be found (try --root, --classifier)")
    print(printable(f"{path}: {', '.join(sentences) or unchanged}", one_line=True))
    if checked.differences:
        return 1
    return 3 if checked.missing else 0
