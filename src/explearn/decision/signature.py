"""Signatures of records by Ed25519 (RFC 8032), with keys from files."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explearn.core.documents import read_bytes
from explearn.core.errors import ParamsError
from explearn.core.extras import need

_WHAT = "a signature"
_CREATE = "`openssl genpkey -algorithm ed25519 -out key.pem` writes one"


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
    need("cryptography", extra="sign", what=_WHAT)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    refused = ParamsError(f"{path}: is not a private Ed25519 key in PEM without a password; {_CREATE}")
    try:
        key = load_pem_private_key(read_bytes(path, ParamsError), password=None)
    except (ValueError, TypeError) as error:  # TypeError: it has a password
        raise refused from error
    if not isinstance(key, Ed25519PrivateKey):
        raise refused
    return key


def read_public_key(path: Path) -> str:
    """Return a public key from a PEM file, 32 bytes as base64.

    Raises:
        ParamsError: the file holds no such key.
        MissingExtraError: `explearn[sign]` is not installed.
    """
    need("cryptography", extra="sign", what=_WHAT)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    refused = ParamsError(f"{path}: is not a public Ed25519 key in PEM; `openssl pkey -in key.pem -pubout` writes one")
    try:
        key = load_pem_public_key(read_bytes(path, ParamsError))
    except ValueError as error:
        raise refused from error
    if not isinstance(key, Ed25519PublicKey):
        raise refused
    return base64.b64encode(key.public_bytes_raw()).decode()


def public_part(key: Any) -> str:
    """Return the public key of a private one, 32 bytes as base64."""
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def sign(document: Mapping[str, Any], key: Any) -> dict[str, str]:
    """Return the signature of a document."""
    value = base64.b64encode(key.sign(signed_bytes(document))).decode()
    return {"algorithm": "Ed25519", "public_key": public_part(key), "value": value}


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
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True
