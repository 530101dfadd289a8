"""AML: a model learns soft masks that keep a classifier's prediction, and whose complement destroys it.

Source: Barkan et al. (2024), "LLM Explainability via Attributive Masking Learning".
"""
