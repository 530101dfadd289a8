"""Gradients at the word embeddings, computed by captum."""
