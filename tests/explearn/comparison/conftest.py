"""Fixtures of these tests."""

from comparison_cases import _own_names, model, table  # noqa: F401
