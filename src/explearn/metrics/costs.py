"""The cost of explanations."""

from __future__ import annotations

from explearn.metrics.arrays import mean_of_known
from explearn.metrics.context import Context, MetricColumns


def measure(context: Context, columns: MetricColumns) -> None:
    """Add each method's passes per text, its completeness error, and the numbers of texts and words measured.

    unaligned_words: words without a sub-token, or that the model did not read.
    """
    for method, texts in context.attributions.items():
        columns.figures[method] |= {
            "forward_passes": context.runs[method].forward_passes,
            "backward_passes": context.runs[method].backward_passes,
            "completeness_error": mean_of_known([text.missed for text in texts]),
            "texts": len(texts),
            "unaligned_words": sum(text.unaligned for text in texts),
        }
