"""The client of an OpenAI-compatible server."""

from explearn.core.extras import check_installed

check_installed("openai", "httpx2", extra="annotate", what="a language model behind a server")
