"""SECURITY.md names the tests that hold its promises; they are there."""

from __future__ import annotations

import re
from pathlib import Path


def test_every_promise_names_tests_that_there_are(repository: Path) -> None:
    text = (repository / "SECURITY.md").read_text(encoding="utf-8")
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


def test_the_bounds_are_those_of_the_code(repository: Path) -> None:
    from explearn.core import documents, settings, tables
    from explearn_apps.serve.limits import MOST_BODY_BYTES, Limits
    from explearn_study.annotate.llm import templates, transport

    text = (repository / "SECURITY.md").read_text(encoding="utf-8")
    for row in (
        f"| levels of lists and objects in YAML and JSON | {documents.MAX_DEPTH} |",
        f"| digits of a whole number | {documents.MAX_DIGITS} |",
        f"| {documents.MAX_YAML_BYTES // 2**20} MiB; {documents.MAX_YAML_VALUES:,} |",
        f"| {tables.LIMIT_MB:,} MiB | `{tables.LIMIT}` |",
        f"| a server's reply, unpacked | {transport.MAX_REPLY_BYTES // 2**20} MiB |",
        f"| {templates.MAX_TEMPLATE_CHARS:,} characters; {templates.MAX_CHARS:,}; {templates.MAX_ROUNDS:,}; "
        f"{templates.MAX_SECONDS:g} s |",
        f"| a request to the service; its texts; a text; scores of its answer | {Limits().body_bytes // 2**20} MiB, or "
        f"room for the largest request up to {MOST_BODY_BYTES // 2**20} MiB; {Limits().texts}; {Limits().text_chars:,} "
        f"characters; {Limits().scores:,}, or room for every text once |",
        f"| seeds | 0 to {settings.LARGEST_SEED:,} |",
        f"| epochs, steps, samples, evaluations | {settings.MOST_ROUNDS:,} |",
        f"| widths, layers, heads, texts a batch | {settings.MOST_UNITS:,} |",
        f"| counts of texts | {settings.MOST:,} |",
    ):
        assert row in text, row
