"""Relevance of the input, passed down from the class through the classifier's parts."""
