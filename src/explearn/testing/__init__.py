"""Tools for authors of methods: `check_explainer`, and tiny classifiers with random weights to try a method on.

def test_my_method():
    check_explainer(MyMethod)
"""

from explearn.testing.conformance import check_explainer
from explearn.testing.tiny import make_classifier

__all__ = ["check_explainer", "make_classifier"]
