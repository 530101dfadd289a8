"""Sentences for the person who can mend something."""

import pytest

from explearn import DataError, UnknownNameError
from explearn.core.errors import blaming, first_line, listed, located, shown


def test_without_a_near_name_all_are_told():
    assert str(UnknownNameError("task", "zzz", ["b", "a"])) == "unknown task 'zzz'; known: a, b."


def test_a_sentence_of_a_million_characters_keeps_its_ends():
    said = str(DataError("start " + "x" * 10**6 + " end"))
    assert len(said) < 900 and said.startswith("start ") and said.endswith(" end")


@pytest.mark.parametrize(
    ("value", "said"),
    [("a\n", r"'a\n'"), ([1], "[1]"), (10**18, "a huge number"), (None, "nothing"), ({1}, "set"), ("x" * 99, "...")],
    ids=ascii,
)
def test_a_value_is_shown_short_or_by_its_kind(value, said):
    assert shown(value).endswith(said) and len(shown(value)) < 90


@pytest.mark.parametrize(
    ("names", "said"),
    [("", ""), ("a", "a"), ("abc", "a, b and c"), ("abcde", "a, b, c, d and e"), ("abcdefg", "a, b, c, d and 3 more")],
)
def test_names_are_joined_and_of_many_some_are_told(names, said):
    assert listed(names) == said


def test_a_place_goes_before_the_errors_of_a_user_alone():
    with pytest.raises(DataError, match=r"^row 2: got 3$"), located("row 2: "):
        raise DataError("got 3")
    with pytest.raises(ValueError, match="a bug"), located("row 2: "):
        raise ValueError("a bug")


def test_an_error_of_a_library_is_its_first_line_with_a_kind_where_that_says_little():
    assert first_line(ValueError("\n bad value \n more")) == "bad value"
    assert first_line(KeyError("weight")) == "KeyError: 'weight'" and first_line(MemoryError()) == "MemoryError"


def test_what_others_raise_is_blamed_on_them_and_our_own_bugs_stay():
    for problem, said in (
        (SystemExit(3), "SystemExit: 3"),
        (KeyError("a"), "KeyError: 'a'"),
        (BaseException(), "Base"),
    ):
        with pytest.raises(DataError, match=rf"^theirs failed \({said}"), blaming("theirs", "theirs failed", DataError):
            raise problem
    for problem in (KeyboardInterrupt(), MemoryError(), DataError("a sentence")):
        with pytest.raises(type(problem)), blaming("theirs", "theirs failed", DataError):
            raise problem
    with pytest.raises(ZeroDivisionError), blaming("explearn.methods.lime", "lime failed", DataError):
        raise ZeroDivisionError
