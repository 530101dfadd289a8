"""Generated answers of language models, and generated words to align."""

from __future__ import annotations

import json

import pytest
import tiny
from fuzz_cases import any_text, fuzz, json_values, one_sentence
from hypothesis import given
from hypothesis import strategies as st
from saying import check_sentence

from explearn.core.visible import visible
from explearn.text.alignment import NO_WORD, align
from explearn_study.annotate.llm.answers import InvalidAnswerError, parse_answer
from explearn_study.annotate.llm.templates import TemplateProblem, fill_template


class TestModelsWords:
    @fuzz
    @given(any_text | json_values(st.sampled_from(["label", "evidence", "quote", "reason"])).map(json.dumps))
    def test_answers(self, content: str) -> None:
        try:
            found = parse_answer(content, "stop", ["yes", "no"])
        except InvalidAnswerError as error:
            check_sentence(visible(str(error)))
        else:
            assert found.label in ("yes", "no")

    @fuzz
    @given(
        st.lists(
            st.sampled_from(
                TEMPLATE_PARTS := [
                    *(
                        "{{ ",
                        " }}",
                        "{% for x in ",
                        " %}",
                        "{% endfor %}",
                        "{% if ",
                        "{% endif %}",
                        "about",
                        "labels",
                        "range(9)",
                    ),
                    *(
                        "range(10**9)",
                        " | join",
                        " | replace('', about)",
                        " ~ ",
                        "[0]",
                        ".items()",
                        "(",
                        ")",
                        "'x'",
                        " + ",
                        "x",
                        "loop",
                    ),
                ]
            ),
            max_size=14,
        ).map("".join)
    )
    def test_templates(self, template: str) -> None:
        try:
            assert len(fill_template(template, {"about": "films", "labels": {"a": "b"}})) <= 100_000
        except TemplateProblem as error:
            check_sentence(str(error))


class TestAligner:
    @fuzz
    @given(st.data())
    def test_every_piece_is_of_one_word_or_none(self, data: st.DataObject) -> None:
        cuts = sorted(data.draw(st.lists(st.integers(0, 60), max_size=12, unique=True)))
        words = list(zip(cuts[::2], cuts[1::2], strict=False))
        spans = st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda s: (s[0], s[0] + s[1]))
        pieces = sorted(data.draw(st.lists(spans, max_size=12)))
        for (start, end), owner in zip(pieces, align(pieces, words), strict=True):
            shared = [min(end, last) - max(start, first) for first, last in words]
            if owner == NO_WORD:
                assert all(size <= 0 for size in shared)
            else:
                assert shared[owner] == max(shared) > 0

    @pytest.mark.parametrize("kind", tiny.KINDS_OF_TOKENIZER)
    @fuzz
    @given(text=st.text(max_size=40), pair=st.none() | st.text(max_size=20))
    def test_any_text(self, kind: str, text: str, pair: str | None) -> None:
        with one_sentence():
            (found,) = tiny.classifier(kind).encode([text if pair is None else (text, pair)])
            count = len(text.split()) + len((pair or "").split())
            assert len(found.words) == count
            assert all(owner == NO_WORD or 0 <= owner < count for owner in found.word_ids)
