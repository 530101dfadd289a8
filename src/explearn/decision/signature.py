"""Signatures of records by Ed25519 (RFC 8032), with keys from files."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explearn.core.documents import read_bytes
from explearn.core.errors import ParamsError
from explearn.core.extras import need
from explearn.decision.document import Signature

_WHAT = "a signature"


def signed_bytes(document: Mapping[str, Any]) -> bytes:
    """Return what is signed: the record without `signature`, as JSON with sorted keys and no white space, in UTF-8."""
    content = {name: value for name, value in document.items() if name != "signature"}
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def read_private_key(path: Path) -> Any:
    """Return an Ed25519 key from a PEM file without a password.

    Raises:
        ParamsError: the file holds no such key.
        MissingExtraError: `explearn[sign]` is not installed.
    """
    return _read_key(path, "private", "`openssl genpkey -algorithm ed25519 -out key.pem` writes one", password=None)


def read_public_key(path: Path) -> str:
    """Return a public key from a PEM file, 32 bytes as base64; raise as `read_private_key` does."""
    key = _read_key(path, "public", "`openssl pkey -in key.pem -pubout` writes one")
    return base64.b64encode(key.public_bytes_raw()).decode()


def _read_key(path: Path, kind: str, hint: str, **options: None) -> Any:
    need("cryptography", extra="sign", what=_WHAT)
    from cryptography.hazmat.primitives import serialization

    load = getattr(serialization, f"load_pem_{kind}_key")
    key = None
    with contextlib.suppress(ValueError, TypeError):  # TypeError: it has a password
        key = load(read_bytes(path, ParamsError), **options)
    if not type(key).__name__.startswith("Ed25519"):
        raise ParamsError(f"{path}: is not a {kind} Ed25519 key in PEM without a password; {hint}")
    return key


def sign(document: Mapping[str, Any], key: Any) -> Signature:
    """Return the signature of a document."""
    public_key = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    value = base64.b64encode(key.sign(signed_bytes(document))).decode()
    return Signature(algorithm="Ed25519", public_key=public_key, value=value)


def is_signed_by(document: Mapping[str, Any], public_key: str, value: str) -> bool:
    """Return whether a signature is of this document.

    Args:
        document: the record, as it was read.
        public_key: 32 bytes, base64.
        value: the signature, 64 bytes, base64.

    Raises:
        MissingExtraError: `explearn[sign]` is not installed.
    """
    need("cryptography", extra="sign", what=_WHAT)
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(base64.b64decode(value, validate=True), signed_bytes(document))
    except (InvalidSignature, ValueError):
        return False
    return True
