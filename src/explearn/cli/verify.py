"""`explearn verify`: is everything as an evidence page says it was?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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

        found = check_manifest(manifest, lambda name: Classifier.from_pretrained(name, device="cpu").fingerprint)
        for difference in found:
            # Names come from the manifest.
            print(visible(difference, one_line=True))
        if found:
            print(f"{manifest}: {len(found)} difference{'s' * (len(found) > 1)}")
        else:
            print(f"{manifest}: models, data, results, code and versions are as they were.")
    if found:
        raise typer.Exit(1)
