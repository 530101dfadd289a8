"""Bundles on the Hugging Face hub.

The token for writing comes only from the environment (HF_TOKEN). It is never written, logged or shown.
"""

from __future__ import annotations

import os
from pathlib import Path

from explearn.core.bundles import CLASSIFIER, EXPLAINER, FIGURES, MANIFEST, checked_manifest
from explearn.core.documents import PathLike
from explearn.core.errors import ParamsError
from explearn.predictors.loading import hub_errors

TOKEN = "HF_TOKEN"


def push_to_hub(folder: PathLike, repo_id: str, *, private: bool | None = None) -> str:
    """Upload a bundle to the Hugging Face hub in one commit; return the repository's address.

    The token comes from the environment variable HF_TOKEN.

    Args:
        folder: the bundle.
        repo_id: OWNER/NAME; the repository is created if it does not exist, an earlier bundle there is replaced.
        private: whether a new repository is private. None: as the owner's settings say.

    Raises:
        ModelError: the folder is not a bundle, a file differs from its manifest, or the hub refuses.
        ParamsError: there is no token.

    Example:
        >>> import explearn
        >>> folder = explearn.export("gae-to-share", method="gae")
        >>> explearn.push_to_hub(folder, "me/gae")  # doctest: +SKIP
        'https://huggingface.co/me/gae'
    """
    folder = Path(folder)
    files = checked_manifest(folder).files
    token = os.environ.get(TOKEN, "").strip()
    if not (token and token.isascii()):
        raise ParamsError(f"{TOKEN}: not set or not ASCII; expected a token with write access, in the environment")
    from huggingface_hub import HfApi

    with hub_errors(f"{repo_id}: the bundle cannot be uploaded", token):
        api = HfApi(token=token)
        address = api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=address.repo_id,
            folder_path=folder,
            commit_message="Bundle of Explearn",
            allow_patterns=[MANIFEST, *files],
            delete_patterns=[f"{EXPLAINER}/*", f"{CLASSIFIER}/*", FIGURES],
        )
    return str(address)
