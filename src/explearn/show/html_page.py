"""What every HTML page shares: the environment of its templates, and files that stand inside the page."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from explearn.show.columns import mark
from explearn.show.markdown import Markdown, inline_html


def page_environment() -> Environment:
    """The environment of HTML templates: autoescape is on; the filter `inline` turns our own Markdown into HTML."""
    environment = Environment(
        loader=PackageLoader("explearn.show"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["mark"] = lambda name: Markup(f"&nbsp;{found}") if (found := mark(name)) else ""
    # Long names may break after an underscore.
    environment.filters["breakable"] = lambda name: Markup("_<wbr>").join(escape(name).split("_"))
    environment.filters["inline"] = lambda value: inline_html(value) if isinstance(value, Markdown) else value
    return environment


def asset(name: str) -> str:
    """A file beside the templates."""
    return resources.files("explearn.show").joinpath("templates", name).read_text(encoding="utf-8")


def source_hash(script: str) -> str:
    """The hash by which a Content-Security-Policy allows this script and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def data_uri(path: Path) -> str:
    """An SVG file as a data: address."""
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode()}"
