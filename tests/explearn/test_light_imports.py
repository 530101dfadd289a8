"""What a user waits for at the prompt, and what a report reads, loads nothing heavy."""

CODE = """
import sys

def without(*names):
    loaded = set(names) & set(sys.modules)
    assert not loaded, loaded

from explearn.metrics import registry, plausibility, faithfulness, runs
without("torch", "sklearn", "scipy.stats")
import explearn
explearn.list_explainers()
from explearn.core.compute import ComputeOptions
ComputeOptions()
import explearn.report.page
without("torch", "transformers", "explearn_study", "explearn_apps")
import explearn.cli.app
import explearn_study.sources, explearn_study.sources.rationale_files, explearn.text.agreement
without("torch", "transformers", "fastapi", "uvicorn")
"""


def test_torch_is_loaded_only_where_a_model_is(run_python):
    run_python(CODE)


def test_names_are_there_before_their_modules_are_loaded(run_python):
    run_python("""
import sys, explearn
assert {"explain", "Predictor", "__version__"} <= set(dir(explearn))
assert "torch" not in sys.modules
from explearn import *
assert {name for name in explearn.__all__ if globals()[name] is not getattr(explearn, name)} == set()
""")
