"""`explearn verify`: is everything as an evidence page says it was?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from explearn.core.errors import ModelError
from explearn.core.visible import visible
from explearn.pipeline.base.staging import user_errors


def _verify_bundle(folder: Path) -> None:
    from explearn.bundle.manifest import differences, read_manifest

    manifest = read_manifest(folder)
    found = list(differences(folder, manifest))
    for difference in found:
        print(visible(difference, one_line=True))
    if found:
        raise typer.Exit(1)
    print(f"{folder}: all {len(manifest.files):,} files are as they were exported.")


def verify(
    manifest: Annotated[Path, typer.Argument(help="JSON manifest of an evidence page, or the folder of a bundle.")],
) -> None:
    """Check models, data, results, code and versions against a manifest, or the files of a bundle against its own.

    Exit code 0: all is as it was. 1: something differs, and is named. 2: this is no manifest.
    """
    with user_errors():
        if manifest.is_dir():
            _verify_bundle(manifest)
            return

        from explearn.models.classifier import Classifier
        from explearn.reporting.evidence import check_manifest

        def fingerprint(name: str) -> str:
            try:
                return Classifier.from_pretrained(name, device="cpu").fingerprint
            except ModelError as error:
                return str(error)

        differences = check_manifest(manifest, fingerprint)
    for difference in differences:
        # Names come from the manifest.
        print(visible(difference))
    if differences:
        print(f"{manifest}: {len(differences)} differences")
        raise typer.Exit(1)
    print(f"{manifest}: models, data, results, code and versions are as they were.")
