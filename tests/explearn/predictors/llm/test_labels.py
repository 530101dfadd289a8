"""Probabilities of label words, from the likeliest tokens of an answer."""

import pytest
from prompt_cases import place

from explearn.predictors.llm.labels import REASONING_ENDS, answer_start, find_label, read_labels
from explearn.predictors.llm.server.transport import TokenPosition

BAD_GOOD = ["bad", "good"]
VERY = ["very good", "very bad", "neutral"]
SIGNS = ["positive", "negative"]
HAO, CHA = "好".encode(), "差".encode()  # e5 a5 bd, e5 b7 ae


def read(words, *positions, content=None, cut=False):
    """Read positions token -> probability, the first of which was taken."""
    listed = [TokenPosition.model_validate(place(likely)) for likely in positions]
    if content is None:
        content = "".join(position.token for position in listed)
    return read_labels(content, listed, words, REASONING_ENDS, cut)


@pytest.mark.parametrize(
    ("words", "positions", "share", "expected"),
    [
        (BAD_GOOD, [{" Good": 0.5, "good": 0.1, "bad": 0.2, "?": 0.2}], 0.8, [0.25, 0.75]),  # in any spelling
        # The first token that tells labels apart counts.
        (VERY, [{"very": 0.8, "neutral": 0.2}, {" good": 0.7, " bad": 0.3}], 1, [0.56, 0.24, 0.2]),
        (VERY, [{"neutral": 0.6, "very": 0.4}], 1, [0.2, 0.2, 0.6]),  # a common start that was not taken is divided
        # Beyond the likeliest tokens: the least of them, or what they leave.
        (BAD_GOOD, [{"good": 0.8, "?": 0.1}], 0.8, [0.1 / 0.9, 0.8 / 0.9]),
        (BAD_GOOD, [{"good": 0.9, "?": 0.1}], 0.9, [0, 1]),
        (BAD_GOOD, [{"good": 1.0}], 1, [0, 1]),
        # A token that begins a label is followed until the label is written, and no longer word can come of it.
        (SIGNS, [{"neg": 0.8, "pos": 0.2}, {"ative": 1.0}], 1, [0.2, 0.8]),
        (SIGNS, [{"ne": 0.97, "pos": 0.03}, {"utral": 0.99, "gative": 0.01}], 0.0397, [0.03 / 0.0397, 0.0097 / 0.0397]),
        (["yes", "no"], [{"No": 0.95, "yes": 0.05}, {"ne": 0.98, ".": 0.02}], 0.069, [0.05 / 0.069, 0.019 / 0.069]),
        (["yes", "no"], [{"No": 0.95, "yes": 0.05}, {".": 0.98, ",": 0.02}], 1, [0.05, 0.95]),
        (BAD_GOOD, [{"**": 1.0}, {"good": 0.9, "bad": 0.1}, {"**": 1.0}], 1, [0.1, 0.9]),
        (["bad", "insult"], [{"I": 0.9, "bad": 1e-8}, {"'m": 1.0}, {" sorry": 1.0}], 1e-8, [1, 0]),
        (
            ["praise", "insult"],
            [{"praise": 0.6, "I": 0.3, "ins": 0.1}],
            0.7,
            [6 / 7, 1 / 7],
        ),  # `I` of `I'm`
        (["差", "好"], [{"好": 0.9, "差": 0.1}, {"的": 1.0}], 1, [0.1, 0.9]),  # no blanks between words
        # The answer is where the reasoning has ended, or the label is.
        (
            BAD_GOOD,
            [
                {"<think>": 1.0},
                {"good": 0.6, "bad": 0.2},
                {"?": 1.0},
                {"</think>": 1.0},
                {"\n": 1},
                {"bad": 0.98, "good": 0.02},
            ],
            1,
            [0.98, 0.02],
        ),
        (
            BAD_GOOD,
            [{"The": 0.99, "good": 0.002, "bad": 0.001}, {" review is": 1.0}, {" bad": 0.95, " good": 0.05}],
            1,
            [0.95, 0.05],
        ),
    ],
)
def test_a_label_has_the_probability_of_its_tokens(words, positions, share, expected):
    reading = read(words, *positions)
    assert reading.share == pytest.approx(share)
    assert reading.probabilities == pytest.approx(expected)


@pytest.mark.parametrize("spelled", [None, "bytes:{}", "{}"])
def test_a_token_may_be_a_part_of_a_character(spelled):
    """With the bytes in a field, or written as `\\xe5\\xa5`."""

    def token(piece, p):
        written = {"token": "�", "bytes": list(piece)}
        if spelled:
            written = {"token": spelled.format("".join(f"\\x{byte:02x}" for byte in piece))}
        return {**written, **{key: value for key, value in place({"": p}).items() if key == "logprob"}}

    first = [token(CHA[:2], 0.9), token(HAO[:2], 0.1)]
    second = [token(CHA[2:], 1.0)]
    positions = [TokenPosition.model_validate({**top[0], "top_logprobs": top}) for top in (first, second)]
    assert read_labels("差", positions, ["好", "差"], ()).probabilities == pytest.approx([0.1, 0.9])


@pytest.mark.parametrize("word", ["bad", "Плохо"])
def test_a_label_may_come_byte_by_byte_in_any_case(word):
    positions = []
    for byte in word.upper().encode():
        taken = {"token": "�", "bytes": [byte], "logprob": 0.0}
        positions.append(TokenPosition.model_validate({**taken, "top_logprobs": [taken]}))
    assert read_labels(word.upper(), positions, [word, "good"], ()).probabilities == pytest.approx([1, 0])


@pytest.mark.parametrize(
    ("positions", "more"),
    [
        ([{"perhaps": 0.9, "?": 0.1}], {}),
        ([{"good": 0.9, "bad": 0.1}], {"content": ""}),  # all of it was reasoning
        ([{"good": 0.9, "bad": 0.1}], {"content": "of another output"}),
        ([{"<think>": 1.0}, {"bad": 1.0}], {}),  # reasoning without an end
        ([{"go": 0.9, "bad": 0.1}], {"cut": True}),  # a label without its end
    ],
)
def test_without_any_label_there_are_none(positions, more):
    assert read(BAD_GOOD, *positions, **more) is None


def test_reasoning_in_a_field_of_its_own_is_not_the_answer():
    reading = read(BAD_GOOD, {"good": 1.0}, {" or so. ": 1.0}, {"bad": 0.9, "good": 0.1}, content="bad")
    assert reading.probabilities == pytest.approx([0.9, 0.1])


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("**Good**, on the whole", 1),
        ("bad", 0),
        ("good, not bad", 1),
        ("The review is bad.", 0),
        ("Answer: **GOOD**", 1),
        ("goods", None),
        ("not good", None),
        ("It isn't good", None),
        ("non-bad", None),
        ("either good or bad", None),
        ("I'm sorry", None),
    ],
)
def test_an_answer_names_the_label_that_it_begins_with_or_the_only_one(answer, label):
    found = find_label(answer, BAD_GOOD)
    assert (found and found[0]) == label


def test_an_answer_that_was_cut_names_only_the_label_that_it_begins_with():
    assert find_label("good, as", BAD_GOOD, cut=True) == (1, 0)
    assert find_label("Is it good? The", BAD_GOOD, cut=True) is None


def test_a_label_may_be_the_negation_of_another():
    assert find_label("This post is not hateful.", ["hateful", "not hateful"]) == (1, 13)


@pytest.mark.parametrize(
    ("output", "start"),
    [("bad", 0), ("Hm.</think>\n\nbad", 13), ("[THINK]bad", None), ("<|channel|>final<|message|>bad", 27)],
)
def test_the_answer_begins_behind_the_reasoning(output, start):
    assert answer_start(output, REASONING_ENDS) == start
