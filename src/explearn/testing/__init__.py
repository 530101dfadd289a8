"""Tools for authors of methods, predictors and metrics: checks of what holds for each, and tiny classifiers.

def test_my_method():
    check_explainer(MyMethod)
"""

from explearn.testing.explainers import check_explainer
from explearn.testing.metrics import check_metric
from explearn.testing.predictors import check_predictor
from explearn.testing.tiny import make_classifier

__all__ = ["check_explainer", "check_metric", "check_predictor", "make_classifier"]
