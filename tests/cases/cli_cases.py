"""Running the command line in tests."""

import json

from typer.testing import CliRunner

from explearn.cli.app import app


def run(*arguments, stdin="", **environment):
    return CliRunner().invoke(
        app, [str(argument) for argument in arguments], input=stdin, env={"COLUMNS": "240", **environment}
    )


def explain(folder, *arguments, **more):
    return run("explain", "--device", "cpu", "--classifier", folder, *arguments, **more)


def records(result):
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def complaint(result):
    """One line on standard error, nothing on standard output, exit code 2."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")
