"""Explanations over HTTP: a page, a JSON API, and batches across requests."""

from __future__ import annotations

from explearn.core.extras import check_installed

check_installed("fastapi", "starlette", "uvicorn", "h11", "prometheus_client", extra="serve", what="explearn serve")
