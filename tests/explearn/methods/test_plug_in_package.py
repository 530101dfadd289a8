"""The example of a package with a method of its own, installed as a user installs it."""

import os
import shutil
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def run(repository, tmp_path_factory):
    """Run Python where the example is installed; what it prints."""
    # The build leaves files beside the source.
    source = shutil.copytree(repository / "examples" / "explearn-word-length", tmp_path_factory.mktemp("source") / "it")
    target = tmp_path_factory.mktemp("installed")
    path = os.pathsep.join([str(target), str(repository / "src")])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    flags = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    run("-m", "pip", "install", *flags, "--target", str(target), str(source))
    return run


BOTH = """
import sys, pytest
from explearn.cli.app import app
assert pytest.main(["-q", "-p", "no:cacheprovider", sys.argv[1]]) == 0
app(["methods"])
"""


def test_its_own_tests_pass_and_the_command_line_lists_it(run, repository):
    said = run("-c", BOTH, str(repository / "examples" / "explearn-word-length" / "tests"))
    assert "2 passed" in said
    listed = [line.strip() for line in said.splitlines()]
    at = listed.index("word_length (one forward pass)")
    assert listed[at + 1] == "The longer a word, the higher its score." and listed.count("chance") == 1
