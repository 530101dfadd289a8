"""A consensus of many signals on a word, learned from marks of other tasks."""
