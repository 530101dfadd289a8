"""The classes of question answering, without torch."""

ANSWER_LABELS = ("answer", "another span")
"""The two classes of a question with its passage: its answer, and any other span. Every example is of the first."""

ANSWER_WORDS = 15
"""Longest span that counts as an answer, in words."""
