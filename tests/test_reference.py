"""The reference of docs/explearn/api.md, read as mkdocstrings does, has every parameter of what is public."""

import re

import griffe
import pytest
from places import ROOT

import explearn

PACKAGES = ("explearn", "explearn_study", "explearn_apps")
PAGE = (ROOT / "docs/explearn/api.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def packages():
    loader = griffe.GriffeLoader(
        search_paths=[ROOT / "src"], docstring_parser="google", docstring_options={"warnings": False}
    )
    for package in PACKAGES:
        loader.load(package)
    loader.resolve_aliases(implicit=True, external=False)
    return loader.modules_collection


def everything_in(owner):
    for member in owner.members.values():
        if not member.is_alias:
            yield member
            yield from everything_in(member)


def entries(documented, section):
    """Return the names in a section of a docstring; None if there is no such section."""
    if documented.docstring is None:
        return None
    for part in documented.docstring.parsed:
        if part.kind is section:
            return [entry.name.lstrip("*") for entry in part.value]
    return None


def parameters(function):
    return [parameter.name for parameter in function.parameters if parameter.name != "self"]


def is_method_of_class(function):
    return "classmethod" in function.labels


@pytest.mark.parametrize("package", PACKAGES)
def test_a_section_of_parameters_has_each_parameter_once_in_order(package, packages):
    for documented in everything_in(packages[package]):
        described = entries(documented, griffe.DocstringSectionKind.parameters)
        if documented.is_function and described is not None:
            expected = parameters(documented)
            assert described == (expected[1:] if is_method_of_class(documented) else expected), documented.path


@pytest.mark.parametrize("package", PACKAGES)
def test_a_section_of_attributes_names_attributes(package, packages):
    for documented in everything_in(packages[package]):
        described = entries(documented, griffe.DocstringSectionKind.attributes)
        for name in described or ():
            assert name in documented.all_members, f"{documented.path}: {name}"


@pytest.mark.parametrize("name", explearn.__all__)
def test_every_parameter_of_a_public_function_or_method_is_described(name, packages):
    public = packages[f"explearn.{name}"].final_target
    functions = [public]
    if public.is_class:
        functions = [member for member in public.all_members.values() if not member.name.startswith("_")]
    for function in functions:
        # A method without a docstring is described where it is declared, in a base class.
        if function.is_function and (function is public or function.docstring):
            expected = parameters(function)[is_method_of_class(function) :]
            assert entries(function, griffe.DocstringSectionKind.parameters) or not expected, function.path


def test_the_page_has_every_public_name():
    assert set(re.findall(r"^::: explearn\.(\w+)$", PAGE, re.M)) == set(explearn.__all__)
