"""`explearn.verify`: is a page, a record or a bundle still what it was, and does it hold when computed again?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explearn.core.bundles import differences as bundle_differences
from explearn.core.bundles import read_manifest
from explearn.core.compute import ComputeOptions
from explearn.core.documents import is_folder
from explearn.core.errors import ParamsError
from explearn.decision.document import holds_record, read_record
from explearn.subject.manifest import check_manifest, manifests_in

if TYPE_CHECKING:
    from explearn.text.encoding import Text


@dataclass(frozen=True, slots=True)
class Verification:
    """What `explearn.verify` found.

    Attributes:
        differences: a sentence for each difference; empty if there is none.
        lines: all that is to be said, the differences included, each with what it is about.

    Example:
        >>> from explearn import Verification
        >>> print(Verification((), ("page.json: page, code, versions are unchanged.",)))
        page.json: page, code, versions are unchanged.
    """

    differences: Sequence[str]
    lines: Sequence[str]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def verify(
    path: str | Path,
    classifier: Any = None,
    *,
    explainer: str | Path | None = None,
    text: Text | None = None,
    key: str | Path | None = None,
    device: str | ComputeOptions | None = None,
) -> Verification:
    """Check a page and its inputs against the manifest next to it, or a bundle's files against the bundle's manifest;
    or compute a record again, and check its signature.

    A file is never a reason to run code: a page's classifier that is a function, or another object, is checked only if
    it is given here.

    Args:
        path: a page, the JSON next to it (a manifest or a record), a folder of pages, or a bundle's folder.
        classifier: the classifier of a record, or of a page about an object, as for `explearn.explain`.
        explainer: folder of the trained explainer, or bundle, that a record is of.
        text: the text of a record that has only its hash.
        key: PEM file with the public key that must have signed the record.
        device: device for a classifier that is loaded here, or `ComputeOptions`.

    Returns:
        The differences, and what was checked.

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
        ()
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
        return _told(path, list(bundle_differences(path, files)), f"all {len(files.files):,} files are unchanged.")

    def fingerprint(name: str | None) -> str | None:
        from explearn.predictors.pretrained import as_predictor, load_classifier  # brings torch

        if name is not None:
            return load_classifier(name, device="cpu").fingerprint
        if classifier is None:
            skipped.append("; the classifier was not given, and is not checked")
            return None
        return as_predictor(classifier, compute).fingerprint

    differing: list[str] = []
    lines: list[str] = []
    for manifest in manifests:
        skipped: list[str] = []
        checked, found = check_manifest(manifest, fingerprint)
        told = _told(manifest, found, f"{', '.join(checked)} are unchanged{''.join(skipped[:1])}.")
        differing += told.differences
        lines += told.lines
    return Verification(tuple(differing), tuple(lines))


def _verify_record(
    path: Path,
    classifier: Any,
    folder: str | Path | None,
    text: Text | None,
    key: str | Path | None,
    compute: ComputeOptions | None,
) -> Verification:
    """Compute a record again; see `verify`."""
    from explearn.decision.checking import observed_differences, page_differences, signature_differences, text_of
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
    differing = list(signature_differences(record, document, public_key))
    differing += page_differences(record, path.with_suffix(".html"))
    differing += observed_differences(record, as_predictor(classifier, compute), explainer, segments)
    unsigned = "Date, command, versions and the comparison's findings are not computed again"
    remark = f"{unsigned}, and the record is not signed: whoever had it can have changed them."
    if record.signature is not None:
        remark = f"{unsigned}; the signature is by {record.signature.public_key}. Give --key to check whose that is."
    told = _told(path, differing, "text, classifier, answer, method, scores, elements and change are confirmed.")
    if record.signature is not None and key is not None:
        return told
    return Verification(told.differences, (remark, *told.lines))


def _told(path: Path, differing: Sequence[str], unchanged: str) -> Verification:
    """Return the differences of a document, and what to say of it: the differences, or that there are none."""
    sentence = unchanged
    if len(differing) == 1:
        sentence = "1 difference"
    elif differing:
        sentence = f"{len(differing)} differences"
    return Verification(tuple(differing), (*differing, f"{path}: {sentence}"))
