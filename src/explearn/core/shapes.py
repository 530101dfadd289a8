"""Old names, on their way out."""

from explearn.core.validation import Count, Figure, Figures, Number, Shape, check_shape, read_document

__all__ = ["Count", "Figure", "Figures", "Number", "Shape", "check_shape", "read_document"]
