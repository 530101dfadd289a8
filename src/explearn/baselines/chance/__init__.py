"""Scores that know nothing of the model."""

from explearn.baselines.chance.random import Random

__all__ = ["Random"]
