"""Fixtures of these tests."""

from bundle_cases import metrics, model, trained  # noqa: F401
