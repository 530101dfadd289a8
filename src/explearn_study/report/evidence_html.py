"""The page of a manifest: what a run rests on, for people."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from explearn.show.html_page import asset, page_environment


def render_evidence(name: str, manifest: Mapping[str, Any]) -> str:
    """The page; everything from data is escaped, and no script runs in it.

    Args:
        name: of the page, and of the manifest beside it.
    """
    files = manifest["files"]
    return (
        page_environment()
        .get_template("evidence.html.j2")
        .render(
            css=Markup(asset("report.css")),
            name=name,
            manifest=manifest,
            met=all(requirement["met"] for requirement in manifest["requirements"]),
            parts=[(part, len(found), _joint(found), list(found.items())) for part, found in files.items()],
            parameters=json.dumps(manifest["parameters"], indent=2, ensure_ascii=False),
        )
    )


def _joint(files: Mapping[str, str]) -> str:
    """One hash over the names and hashes of all files of a part."""
    return hashlib.sha256("\n".join(f"{name} {digest}" for name, digest in files.items()).encode()).hexdigest()
