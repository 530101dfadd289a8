"""Explearn inside other libraries."""

from __future__ import annotations


def register_pipeline() -> None:
    """Register `transformers.pipeline("text-classification-with-rationale", ...)`; repeated calls do nothing.

    Example:
        >>> import explearn_apps, transformers
        >>> from explearn.testing import make_classifier
        >>> explearn_apps.register_pipeline()
        >>> classifier = make_classifier()
        >>> pipe = transformers.pipeline(
        ...     "text-classification-with-rationale", model=classifier.model, tokenizer=classifier.tokenizer
        ... )  # or model="FOLDER OR HUB NAME"
        >>> pipe("a lazy fox")["words"]
        ['a', 'lazy', 'fox']
    """
    # Importing it loads torch and transformers, and registers the pipeline.
    from explearn_apps import transformers  # noqa: F401
