"""Rationales by language models."""

from explearn.core.extras import check_installed

check_installed("openai", "httpx2", "json_repair", "rapidfuzz", extra="annotate", what="explearn annotate")
