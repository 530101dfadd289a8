"""Every public function and class has an example in its docstring, which does what it says."""

import doctest
import inspect

import pytest

import explearn


def is_error(name):
    public = getattr(explearn, name)
    return inspect.isclass(public) and issubclass(public, Exception)


@pytest.mark.parametrize("name", [name for name in explearn.__all__ if not is_error(name)])
def test_the_example_of(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("explearn.methods.registry._registered", {})
    written = inspect.cleandoc(getattr(explearn, name).__doc__ or "")
    assert ">>>" in written, f"explearn.{name} has no example"
    example = doctest.DocTestParser().get_doctest(written, {}, name, None, 0)
    report = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(
        example, out=report.append
    )
    assert result.failed == 0, "".join(report)
