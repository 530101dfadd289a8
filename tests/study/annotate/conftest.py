"""Fixtures of these tests."""

from project_cases import films  # noqa: F401
