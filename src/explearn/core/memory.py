"""Old names, on their way out."""

from explearn.core.compute import peak_from_here

__all__ = ["peak_from_here"]
