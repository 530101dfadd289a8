"""Every command in README, CONTRIBUTING and docs is one that its program takes; every Python example compiles.

Here the programs' own parsers read them; tests/test_doc_blocks.py runs what takes seconds.
"""

import argparse
import ast
import importlib
import re
import runpy
import sys
import tomllib
from itertools import chain

import pytest
import typer
import yaml
from doc_commands import commands, fences, mentions, pages
from places import ROOT

import explearn
from explearn.cli.app import app

COMMANDS = commands(ROOT)
MENTIONS = mentions(ROOT)
EXPLEARN = typer.main.get_command(app)
ANY = {"git", "source", "export", "curl", "grep", "openssl"}
"""Programs of everybody's shell, whose arguments are not looked at."""


class Parsed(Exception):
    """The arguments were read; nothing more is to happen."""


def of(program, actual=COMMANDS):
    return list({command.words: command for command in actual if command.words[0] == program}.values())


def test_programs_are_those_that_are_checked_here():
    assert {command.words[0] for command in COMMANDS} <= {"explearn", "dvc", "make", "python", "pip", *ANY}
    assert len(of("explearn")) > 40 and len(of("dvc")) > 20 and len(of("python")) > 8 and len(of("make")) > 3


@pytest.mark.parametrize("command", of("explearn"), ids=str)
def test_explearn_takes_it(command):
    group = EXPLEARN
    words = list(command.words[1:])
    while hasattr(group, "commands"):
        assert words and words[0] in group.commands, command
        group = group.commands[words.pop(0)]
    group.make_context(command.words[1], words)


@pytest.mark.parametrize("command", of("explearn", MENTIONS), ids=str)
def test_what_the_text_names_of_explearn_is_there(command):
    group = EXPLEARN
    words = list(command.words[1:])
    while hasattr(group, "commands") and words and words[0] != "...":
        assert words[0] in group.commands, command
        group = group.commands[words.pop(0)]
    known = set(chain(*(parameter.opts for parameter in group.params)))
    assert {word for word in words if word.startswith("--")} <= known


def test_each_option_that_a_command_lacks_has_its_reason():
    text = (ROOT / "docs/explearn/options.md").read_text(encoding="utf-8")
    table = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    names, _, *rows = [[cell.strip() for cell in row] for row in table]
    reasons = set(re.findall(r"^\* (\w): ", text, re.M))
    alone = {
        name: set(re.findall("`(--[a-z-]+)`", rest)) for name, rest in re.findall(r"^\* (\w{2,}): ([^*]+)", text, re.M)
    }
    for command, *cells in list(zip(names, *rows, strict=True))[1:]:
        has = {name for name in chain(*(one.opts for one in EXPLEARN.commands[command].params)) if name[:2] == "--"}
        shown = alone.get(command, set())
        for (options, *_), cell in zip(rows, cells, strict=True):
            named = set(re.findall("--[a-z-]+", options))
            assert cell in ("✓", *reasons) and named & has == (named if cell == "✓" else set()), (command, options)
            shown |= named & has
        assert shown == has, command


@pytest.mark.parametrize("command", of("python") + of("python", MENTIONS), ids=str)
def test_a_script_takes_it(command, monkeypatch):
    script, *arguments = command.words[1:]
    if script == "stages/NAME.py":
        return
    if script == "-m":
        assert arguments[0] in ("pip", "build"), command
        return
    path = ROOT / script
    assert path.is_file() or (path / "__main__.py").is_file(), command
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if not any(parser in text for parser in ("ArgumentParser", "@stage", "typer.run(")):
        assert not arguments or "sys.argv" in text, f"{command}: the script reads no arguments"
        assert not any(argument.startswith("-") for argument in arguments), f"{command}: the script reads no options"
        return
    parse = argparse.ArgumentParser.parse_args

    def only_parse(self, *given):
        parse(self, *given)
        raise Parsed

    def not_run(*_):
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", only_parse)
    monkeypatch.setattr(typer.core.TyperCommand, "invoke", not_run)
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])
    with pytest.raises(Parsed):
        runpy.run_path(str(path), run_name="__main__")


def test_dvc_takes_it():
    from dvc.cli import parse_args

    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    for command in [*of("dvc"), *(one for one in of("dvc", MENTIONS) if "..." not in one.words)]:
        try:
            read = parse_args(list(command.words[1:]))
        except (SystemExit, Exception) as error:
            raise AssertionError(str(command)) from error
        if command.words[1] in ("repro", "pull", "push"):
            for target in read.targets:
                assert target.split("@")[0] in stages or target.startswith("data/"), command


def test_make_has_the_targets():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    for command in of("make") + of("make", MENTIONS):
        named = {word for word in command.words[1:] if "=" not in word}
        assert named <= targets, command


def test_pip_installs_extras_that_there_are():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for page in pages(ROOT):
        for names in re.findall(r"explearn\[([\w,]+)\]", page.read_text(encoding="utf-8")):
            assert set(names.split(",")) <= set(extras), f"{page.name}: {names}"


OTHERS = ("mlflow",)
"""Packages that a page shows beside Explearn, and that are no extra of it."""


@pytest.mark.parametrize(("page", "code"), fences(ROOT, "python"))
def test_python_compiles_and_what_it_imports_is_there(page, code):
    tree = ast.parse(code)
    compile(tree, page, "exec")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name not in OTHERS:
                    importlib.import_module(name.name)
        elif isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            assert all(hasattr(module, name.name) for name in node.names), node.module
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "explearn":
            assert hasattr(explearn, node.attr), node.attr
