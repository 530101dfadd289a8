"""Running the examples in the docstrings of functions and classes, and on pages."""

import doctest
import inspect
import re
import textwrap

from places import ROOT


def run_example(page, name):
    """Run the Python behind `<!-- example: NAME -->` on a page, and return the names that it defines."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (code,) = re.findall(rf"<!-- example: {name} -->\n *```python\n(.*?)```", text, re.DOTALL)
    defined = {}
    exec(textwrap.dedent(code), defined)
    return defined


def check_example(public):
    """Fail unless a docstring has an example, which does what it says."""
    name = f"{public.__module__}.{public.__name__}"
    written = inspect.cleandoc(public.__doc__ or "")
    assert ">>>" in written, f"{name} has no example"
    example = doctest.DocTestParser().get_doctest(written, {}, name, None, 0)
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(example, out=report.append).failed == 0, "".join(report)
