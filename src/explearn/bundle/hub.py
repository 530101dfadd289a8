"""Bundles on the Hugging Face hub: fetching one, and putting one there.

The token to write with comes from the environment (HF_TOKEN) alone. It is never written, logged or shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from explearn.bundle.manifest import CLASSIFIER, EXPLAINER, FIGURES, MANIFEST, BundleManifest, read_manifest
from explearn.core.errors import ModelError, ParamsError, first_line

TOKEN = "HF_TOKEN"


def fetch(name: str, revision: str | None = None) -> Path:
    """Fetch a bundle to the hub's cache and return its folder there. Only files that the manifest names are fetched.

    Args:
        name: of the repository, OWNER/NAME.
        revision: branch, tag or commit (default: main).

    Raises ModelError where there is no such bundle, it cannot be reached, or its manifest cannot be used.
    """
    from huggingface_hub import hf_hub_download, snapshot_download

    with _hub_errors(f"{name}: cannot be fetched as a bundle"):
        first = Path(hf_hub_download(name, MANIFEST, revision=revision)).parent
        files = read_manifest(first).files
        # The cache names a snapshot after its commit: all files are those of one.
        return Path(snapshot_download(name, revision=first.name, allow_patterns=[MANIFEST, *files]))


def push(
    folder: Path, manifest: BundleManifest, name: str, private: bool | None, revision: str | None, message: str
) -> str:
    """Put a bundle on the hub in one commit, in the place of an earlier one there, and return its address.

    Raises ParamsError where there is no token in the environment, ModelError where the hub refuses.
    """
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        raise ParamsError(f"{TOKEN}: not set; expected a token of the hub that may write, in the environment")
    from huggingface_hub import HfApi

    with _hub_errors(f"{name}: the bundle cannot be put there", token):
        api = HfApi(token=token)
        address = api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=address.repo_id,
            folder_path=folder,
            commit_message=message,
            revision=revision,
            allow_patterns=[MANIFEST, *manifest.files],
            delete_patterns=[f"{EXPLAINER}/*", f"{CLASSIFIER}/*", FIGURES],
        )
    return str(address)


@contextmanager
def _hub_errors(what: str, secret: str = "") -> Iterator[None]:
    """Turn the hub's errors into one sentence, without the token."""
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # the client raises its own, httpx's, OSError and ValueError
        reason = first_line(error)
        raise ModelError(f"{what} ({reason.replace(secret, '***') if secret else reason})") from None
