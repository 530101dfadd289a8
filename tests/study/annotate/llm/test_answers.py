"""From what a model wrote to its label, its quotes and its reason."""

import pytest
from chat_server import answer_json
from saying import check_sentence

from explearn.text.quotes import Quote
from explearn_study.annotate.llm.answers import InvalidAnswerError, parse_answer

LABELS = ["negative", "positive"]
GOOD = answer_json("positive", "warm", ("funny", 2), reason="It praises.")
QUOTES = (Quote("warm"), Quote("funny", 2))


class TestAnswers:
    @pytest.mark.parametrize(
        ("content", "finish"),
        [
            (f"Here you are:\n\n{GOOD}\n\nHope that helps!", "stop"),
            (f'<think>maybe {{"label": "negative"}}</think>\n{GOOD}', "stop"),
            (GOOD.replace('"positive"', '"Positive."'), "stop"),
            (GOOD.replace('"reason": "It praises."', '"reason": "It pra'), "length"),
            (GOOD.removesuffix("}"), "stop"),
            (GOOD.replace('"', "'"), "stop"),
            (GOOD.replace(', "reason": "It praises."', ","), "stop"),
        ],
    )
    def test_near_valid_answers_are_mended(self, content, finish):
        parsed = parse_answer(content, finish, LABELS)
        assert (parsed.label, parsed.quotes) == ("positive", QUOTES)

    @pytest.mark.parametrize(
        ("evidence", "quotes"),
        [
            ('["warm", "funny"]', ("warm", "funny")),
            ('"warm"', ("warm",)),
            ("null", ()),
            ('[{"quote": "warm", "occurrence": -3}, {"quote": "x", "occurrence": true}]', ("warm", "x")),
            ('{"quote": "warm"}', ("warm",)),
            ('["warm", "  "]', ("warm",)),
        ],
    )
    def test_evidence_in_other_shapes(self, evidence, quotes):
        parsed = parse_answer(f'{{"label": "positive", "evidence": {evidence}, "reason": "r"}}', "stop", LABELS)
        assert parsed.quotes == tuple(Quote(quote) for quote in quotes)

    @pytest.mark.parametrize(
        ("content", "finish", "why"),
        [
            ("", "stop", "empty answer"),
            (GOOD[: GOOD.index("funny") + 2], "length", "truncated before the evidence was complete"),
            (GOOD.replace("positive", "HACKED"), "stop", "label 'HACKED'; expected one of negative, positive"),
            ('{"label": "positive", "reason": "r"}', "stop", "no evidence"),
            ('{"label": "positive", "evidence": 3}', "stop", "evidence of type int"),
            ("", "refused", "the server refused the text"),
            (GOOD, "content_filter", "filter withheld"),
            ("[" * 100_000, "stop", "no JSON object"),
            ('{"a": ' + "[" * 10_000 + "]" * 5_000, "stop", ""),
            ("9" * 20_000, "stop", "no JSON object"),
            ('{"label": "\x1b"}', "stop", "label"),
        ],
    )
    def test_others_say_what_is_wrong(self, content, finish, why):
        with pytest.raises(InvalidAnswerError) as caught:
            parse_answer(content, finish, LABELS)
        check_sentence(str(caught.value), why)
        assert len(str(caught.value)) < 200

    def test_a_whole_answer_counts_although_its_length_was_reached(self):
        content = '{"reason": "r", "label": "positive", "evidence": []}'
        assert parse_answer(content, "length", LABELS).quotes == ()
