"""Explearn inside other libraries."""

from __future__ import annotations


def register_pipeline() -> None:
    """Make `transformers.pipeline("text-classification-with-rationale", ...)` known; again does nothing."""
    # Its import loads torch and transformers, and registers.
    from explearn_apps import transformers  # noqa: F401
