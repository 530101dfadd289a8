"""Every public function and class has an example in its docstring, which does what it says."""

import inspect

import pytest
from doc_examples import check_example

import explearn
import explearn_apps
from explearn import testing


def is_error(name):
    public = getattr(explearn, name)
    return inspect.isclass(public) and issubclass(public, Exception)


@pytest.mark.parametrize("name", [name for name in explearn.__all__ if not is_error(name)])
def test_the_example_of(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("explearn.methods.registry._registered", {})
    check_example(getattr(explearn, name))


@pytest.mark.parametrize("name", testing.__all__)
def test_the_example_in_testing_of(name):
    check_example(getattr(testing, name))


def test_the_example_of_the_pipeline_of_transformers():
    check_example(explearn_apps.register_pipeline)
