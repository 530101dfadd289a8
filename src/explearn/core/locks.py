"""Old names, on their way out."""

from explearn.core.writing import locked

__all__ = ["locked"]
