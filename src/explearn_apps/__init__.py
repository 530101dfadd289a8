"""Explearn inside other libraries."""

from __future__ import annotations


def register_pipeline() -> None:
    """Register `transformers.pipeline("text-classification-with-rationale", ...)`; repeated calls do nothing."""
    # Importing it loads torch and transformers, and registers the pipeline.
    from explearn_apps import transformers  # noqa: F401
