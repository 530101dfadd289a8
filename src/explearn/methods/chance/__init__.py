"""Scores that know nothing of the model."""

from explearn.methods.chance.random import Random

__all__ = ["Random"]
