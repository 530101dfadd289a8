"""Fixtures of these tests."""

from serving_cases import client, live  # noqa: F401
