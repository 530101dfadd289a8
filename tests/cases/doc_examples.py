"""Running the example in the docstring of a function or class."""

import doctest
import inspect


def check_example(public):
    """Fail unless a docstring has an example, which does what it says."""
    name = f"{public.__module__}.{public.__name__}"
    written = inspect.cleandoc(public.__doc__ or "")
    assert ">>>" in written, f"{name} has no example"
    example = doctest.DocTestParser().get_doctest(written, {}, name, None, 0)
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(example, out=report.append).failed == 0, "".join(report)
