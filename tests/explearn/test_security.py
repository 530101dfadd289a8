""".github/SECURITY.md names the tests that hold its promises; they are there."""

import re


def test_every_promise_names_tests_that_there_are(repository):
    text = (repository / ".github/SECURITY.md").read_text(encoding="utf-8")
    promises = [line for line in text.partition("## Bounds")[0].splitlines() if line.startswith("| **")]
    assert len(promises) >= 9
    for line in promises:
        named = re.findall(r"`(tests/[\w/]+(?:\.py)?)(?:::(\w+))?`", line)
        assert named, line
        for path, name in named:
            place = repository / path
            assert place.exists(), path
            files = [place] if place.is_file() else sorted(place.glob("test_*.py"))
            text = "\n".join(file.read_text(encoding="utf-8") for file in files)
            assert re.search(r"^ *def test_", text, re.M), path
            assert not name or re.search(rf"^(def|class) {name}\b", text, re.M), (path, name)
            # A test that is always skipped holds nothing.
            assert not re.search(rf"@pytest\.mark\.(skip|xfail)\b[^\n]*\n(@[^\n]*\n)*(def|class) {name}\b", text), name
