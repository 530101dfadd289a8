"""The templates of HTML pages."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def html_templates(package: str) -> Environment:
    """Return the templates in a package's folder `templates`, with automatic escaping."""
    return Environment(
        loader=PackageLoader(package), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
