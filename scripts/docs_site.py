"""What mkdocs does to a page before it becomes HTML.

Pages link to files of the repository outside docs/, which code hosts follow. The site does not hold these files: a link
becomes its text with the file's path, or leads to the repository where mkdocs.yml names one (`repo_url`).
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Rewrite links that leave docs/."""

    def rewritten(match: re.Match[str]) -> str:
        text, target = match.groups()
        name, hash_sign, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), name))
        if not path.startswith("../"):
            return match.group()
        path = path.removeprefix("../")
        if config.repo_url:
            return f"[{text}]({config.repo_url.rstrip('/')}/blob/HEAD/{path}{hash_sign}{anchor})"
        if text in (path, f"`{path}`"):
            return f"`{path}`"
        return f"{text} (`{path}` in the repository)"

    return _LINK.sub(rewritten, markdown)
