"""The method of CONTRIBUTING is a whole one."""

from doc_examples import run_example

import explearn
from explearn.testing import check_explainer


def test_it_is_as_every_method():
    method = run_example("CONTRIBUTING.md", "method")["WordLength"]
    check_explainer(method)
    assert explearn.explain(explearn.testing.make_classifier(), "a lazy fox", method()).scores.tolist() == [1, 4, 3]
