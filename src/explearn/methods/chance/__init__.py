"""Scores that know nothing of the model."""
