"""Fixtures of these tests."""

from project_cases import films, new_project  # noqa: F401
