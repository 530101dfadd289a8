"""`explearn.verify`: is a page, a record or a bundle still what it was, and does it hold when computed again?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explearn.core.arguments import inputs_left_as_they_came
from explearn.core.bundles import differences, read_manifest
from explearn.core.compute import ComputeOptions
from explearn.core.documents import is_folder
from explearn.core.errors import ParamsError
from explearn.decision.document import holds_record, read_record
from explearn.show.blocks import several
from explearn.subject.manifest import Checked, check_manifest, manifests_in

if TYPE_CHECKING:
    from explearn.text.encoding import Text


@dataclass(frozen=True, slots=True)
class Verification:
    """What `explearn.verify` found.

    Attributes:
        differences: a sentence for each difference.
        missing: a sentence for each thing that could not be found, and so not be checked.
        lines: all that is to be said, those sentences included.

    Example:
        >>> from explearn import Verification
        >>> print(Verification([], [], ["page.json: page, code, versions are unchanged."]))
        page.json: page, code, versions are unchanged.
    """

    differences: list[str]
    missing: list[str]
    lines: list[str]

    def __str__(self) -> str:
        return "\n".join(self.lines)


@inputs_left_as_they_came
def verify(
    path: str | Path,
    classifier: Any = None,
    *,
    explainer: str | Path | None = None,
    text: Text | None = None,
    key: str | Path | None = None,
    root: str | Path | None = None,
    device: str | ComputeOptions | None = None,
) -> Verification:
    """Check a page and its inputs against the manifest next to it, or a bundle's files against the bundle's manifest;
    or compute a record again, and check its signature.

    A file is never a reason to run code: a page's classifier that is a function, or another object, is checked only if
    it is given here.

    Args:
        path: a page, the JSON next to it (a manifest or a record), a folder of pages, or a bundle's folder.
        classifier: the classifier, as for `explearn.explain`. None: the one that a page's manifest names.
        explainer: folder of the trained explainer, or bundle, that a record is of.
        text: the text of a record that has only its hash.
        key: PEM file with the public key that must have signed the record.
        root: the folder in which the page was made, if the page was moved.
        device: device for a classifier that is loaded here, or `ComputeOptions`.

    Returns:
        What differs, what could not be found, and all in sentences.

    Raises:
        ParamsError: there is nothing to check, or a record and no classifier or text.
        DataError: it is unreadable.
        ModelError: the given classifier, or the explainer, cannot be loaded.
        MissingExtraError: the record is signed, and `explearn[sign]` is not installed.

    Example:
        >>> import explearn, pathlib, tempfile
        >>> from explearn.testing import make_classifier
        >>> page = pathlib.Path(tempfile.mkdtemp()) / "record.html"
        >>> record = explearn.record(make_classifier(), "a warm funny sequel", "occlusion", out=page)
        >>> explearn.verify(page, make_classifier()).differences
        []
    """
    path = Path(path)
    compute = ComputeOptions(device=device) if isinstance(device, str) else device
    document = path
    if not is_folder(path):
        if path.suffix not in (".html", ".json") or not os.path.exists(path):  # noqa: PTH110 (as in `is_folder`)
            raise ParamsError(f"got {str(path)!r}; expected a page (.html), its .json or a folder, which must exist")
        document = path.with_suffix(".json")
    if holds_record(document):
        return _verify_record(document, classifier, explainer, text, key, compute)
    manifests = [document]
    if path.is_dir():
        manifests = list(manifests_in(path))
    if not manifests:
        files = read_manifest(path)
        checked = Checked(differences=list(differences(path, files)))
        return _told({path: checked}, f"all {len(files.files):,} files are unchanged.")
    given = None
    if isinstance(classifier, str | os.PathLike):
        given = os.fspath(classifier)

    def fingerprint(name: str | None) -> str | None:
        from explearn.predictors.pretrained import as_predictor, load_classifier  # brings torch

        if name is not None:
            return load_classifier(name, device="cpu").fingerprint
        if classifier is None:
            return None
        return as_predictor(classifier, compute).fingerprint

    found = {}
    for manifest in manifests:
        found[manifest] = check_manifest(manifest, fingerprint, None if root is None else Path(root), given)
    return _told(found)


def _verify_record(
    path: Path,
    classifier: Any,
    folder: str | Path | None,
    text: Text | None,
    key: str | Path | None,
    compute: ComputeOptions | None,
) -> Verification:
    """Compute a record again; see `verify`."""
    from explearn.decision.checking import (
        check_recorded_page,
        field_differences,
        observed_differences,
        signature_differences,
        text_of,
    )
    from explearn.decision.signature import read_public_key
    from explearn.methods.finding import find_explainer
    from explearn.predictors.pretrained import as_predictor

    record, document = read_record(path)
    public_key = None
    if key is not None:
        public_key = read_public_key(Path(key))
    segments = text_of(record, text)
    explainer = find_explainer(folder) if folder else find_explainer(record.method.name, record.method.options)
    if classifier is None:
        classifier = explainer.classifier_folder
    if classifier is None:
        raise ParamsError(f"--classifier: got none; expected the classifier of {path}")
    checked = Checked(differences=field_differences(record, document))
    checked.differences += signature_differences(record, document, public_key)
    check_recorded_page(record, path.with_suffix(".html"), checked)
    checked.differences += observed_differences(record, as_predictor(classifier, compute), explainer, segments)
    remarks = []
    unsigned = "Date, command, versions and the comparison's findings are not computed again"
    if record.signature is None:
        remarks.append(f"{unsigned}, and the record is not signed: whoever had it can have changed them.")
    elif public_key is None:
        signer = record.signature.public_key
        remarks.append(f"{unsigned}; the signature is by {signer}. Give --key to check whose that is.")
    unchanged = "text, classifier, answer, method, scores, elements and change are confirmed."
    return _told({path: checked}, unchanged, remarks)


def _told(found: Mapping[Path, Checked], unchanged: str = "", remarks: Sequence[str] = ()) -> Verification:
    """Return what was found of some documents, in sentences.

    Args:
        found: document -> what was found.
        unchanged: what to say if nothing differs; empty: what was checked.
        remarks: further sentences.
    """
    told = Verification([], [], list(remarks))
    for path, checked in found.items():
        counts = []
        if checked.differences:
            counts.append(several(len(checked.differences), "difference"))
        if checked.missing:
            counts.append(f"{several(len(checked.missing), 'thing')} could not be found (try --root, --classifier)")
        same = unchanged or f"{', '.join(checked.same)} are unchanged."
        told.lines.extend([*checked.differences, *checked.missing, f"{path}: {', '.join(counts) or same}"])
        told.differences.extend(checked.differences)
        told.missing.extend(checked.missing)
    return told
