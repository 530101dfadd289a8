"""Text from data comes out of the renderer as it went in, and acts as nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from explearn.show.markdown import Markdown, emphasise, escape_markdown

RENDERER = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])

ACTIVE = "|*_`<>&[]()\\\n#~-+=!:.$@^\"'{}1 "
texts = st.one_of(
    st.text(alphabet=st.sampled_from(ACTIVE + "ab"), max_size=30),
    st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=30),
    st.lists(
        st.sampled_from(
            ["<script>", "</td>", "<!--", "-->", "&amp;", "&#42;", "[x](y)", "![x](y)", "``", "**b**", "__b__", "\\|"]
        ),
        max_size=5,
    ).map("".join),
)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data!r}")

    handle_decl = handle_pi = unknown_decl = handle_comment


def page(source: str) -> _Page:
    parsed = _Page()
    parsed.feed(RENDERER.render(source))
    parsed.close()
    return parsed


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a | b \\| c",
    "# heading",
    "1. item",
    "- item",
    "a\n\n# b\n---\n===",
    "[link](javascript:alert(1)) ![image](x) [ref]: y",
    "`code` ``more``",
    "***bold*** __bold__ ~~gone~~ snake_case a__b",
    "<!-- comment --> <![CDATA[x]]> <?php ?>",
    "&lt;b&gt; &#60; &copy",
    "back\\slash\\",
    "| --- | --- |",
    "> quote",
    "    indented",
]


@given(texts)
@pytest.mark.parametrize("frame", ["{}", "before {} after", "**{}**"])
def test_text_is_literal_in_a_paragraph(frame, text):
    escaped = escape_markdown(text)
    # Emphasis needs something to emphasise.
    if not escaped:
        return
    found = page(frame.format(escaped))
    assert found.text.rstrip("\n") == frame.replace("**", "").format(one_line(text))
    assert found.tags == (["p", "strong"] if "*" in frame else ["p"])


@given(texts, texts)
@example("a |", "\\")
def test_text_is_literal_in_a_table_cell(first, second):
    cells = [escape_markdown(first), escape_markdown(second)]
    source = "| a | b |\n| --- | --- |\n| {} | {} |\n".format(*cells)
    found = page(source)
    assert found.tags == ["table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]
    rendered = re.findall(r"<td>(.*?)</td>", RENDERER.render(source))
    assert [page(f"<div>{cell}</div>").text for cell in rendered] == [one_line(first), one_line(second)]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_literal(text):
    found = page(escape_markdown(text))
    assert found.tags == ["p"] and found.text.rstrip("\n") == one_line(text)


@given(texts)
def test_escaped_text_is_one_line_without_active_characters(text):
    escaped = escape_markdown(text)
    assert isinstance(escaped, Markdown)
    assert not set(escaped) & set("|*`<>[]\\~\n\r\t")


@pytest.mark.parametrize("text", ["a\x00b", "a\x1bb", "a\ud800b", "a\x7fb"])
def test_what_cannot_be_shown_is_replaced(text):
    escaped = escape_markdown(text)
    assert escaped == "a\N{REPLACEMENT CHARACTER}b"
    escaped.encode("utf-8")


def test_addresses_are_not_made_links():
    escaped = escape_markdown("see http://example.org or WWW.example.org")
    assert "://" not in escaped and "WWW." not in escaped
    assert page(escaped).text.strip() == "see http://example.org or WWW.example.org"


def test_plain_text_stays_legible():
    for text in ('It\'s "fine", really: 3.5 of 5 (at most)!', "input_x_gradient", "2.13.0+cpu"):
        assert escape_markdown(text) == text


def test_neighbouring_words_are_bold_together():
    assert emphasise(["not", "a", "good", "film"], [True, False, True, True]) == "**not** a **good film**"
    assert emphasise(["not", "a", "good", "film"], [True, False, True, True], whole=False) == "**not** … **good film**"
    assert emphasise(["none", "at", "all"], [False] * 3, whole=False) == "…"


words = st.lists(
    st.tuples(texts.map(lambda t: re.sub(r"\s", "", t)).filter(bool), st.booleans()), min_size=1, max_size=8
)


@given(words)
def test_bold_words_keep_the_text_and_bold_is_all_there_is(pairs):
    found = page("x " + emphasise([w for w, _ in pairs], [s for _, s in pairs]))
    assert found.text.rstrip("\n") == "x " + " ".join(w for w, _ in pairs)
    runs = sum(s and (i == 0 or not pairs[i - 1][1]) for i, (_, s) in enumerate(pairs))
    assert found.tags == ["p", *["strong"] * runs]
