"""Language models behind an OpenAI-compatible server: the client, its budget, and a prompt as a classifier."""

from explearn.core.extras import check_installed

check_installed("openai", "httpx2", extra="annotate", what="a language model behind a server")
