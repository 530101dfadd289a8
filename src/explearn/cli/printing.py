"""Old names, on their way out."""

from explearn.cli.running import plain_console as console
from explearn.cli.running import printed

__all__ = ["console", "printed"]
