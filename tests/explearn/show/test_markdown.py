"""Text from data comes out of the renderer as it went in, and acts as nothing else."""

import re
from html.parser import HTMLParser

import pytest
from evaluations import HOSTILE, attributed
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from explearn import Example
from explearn.show.blocks import (
    Bullets,
    Cell,
    Code,
    Column,
    ExampleText,
    Fold,
    Heading,
    Paragraph,
    Picture,
    Table,
    TextRow,
    bold,
)
from explearn.show.markdown import Markdown, escape_markdown, inline_markdown
from explearn_study.report.pages import render_markdown

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
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.tags.append(tag)

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data!r}")

    handle_decl = handle_pi = unknown_decl = handle_comment


def page(source):
    parsed = _Page()
    parsed.feed(RENDERER.render(source))
    parsed.close()
    return parsed


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


@given(texts)
@pytest.mark.parametrize("frame", ["{}", "before {} after", "**{}**"])
@example("a\n\n# b\n---\n===")
@example("<!-- comment --> <![CDATA[x]]> <?php ?>")
@example("    indented")
def test_text_is_literal_in_a_paragraph(frame, text):
    escaped = escape_markdown(text)
    # Emphasis needs something to emphasise.
    if not escaped:
        return
    assert not set(escaped) & set("|*`<>[]\\~\n\r\t")
    parsed = page(frame.format(escaped))
    assert parsed.text.rstrip("\n") == frame.replace("**", "").format(one_line(text))
    assert parsed.tags == (["p", "strong"] if "*" in frame else ["p"])


@given(texts, texts)
@example("a |", "\\")
def test_text_is_literal_in_a_table_cell(first, second):
    columns = [Column(name, numeric=False) for name in "ab"]
    source = render_markdown([Table(columns, [[first, Cell(second)]])])
    assert page(source).tags == ["table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td"]
    rendered = re.findall(r"<td>(.*?)</td>", RENDERER.render(source))
    assert [page(f"<div>{cell}</div>").text for cell in rendered] == [one_line(first), one_line(second)]


@given(texts)
def test_only_what_is_marked_is_bold(text):
    parsed = page(inline_markdown(f"x {text} {bold('name')}"))
    assert parsed.text.rstrip("\n") == one_line(f"x {text} name") and parsed.tags == ["p", "strong"]


@pytest.mark.parametrize("text", ["a\x00b", "a\x1bb", "a\ud800b", "a\x7fb"])
def test_what_cannot_be_shown_is_replaced(text):
    escaped = escape_markdown(text)
    assert escaped == "a\N{REPLACEMENT CHARACTER}b" and isinstance(escaped, Markdown)


def test_addresses_are_not_made_links_and_plain_text_stays_legible():
    escaped = escape_markdown("see http://example.org or WWW.example.org")
    assert "://" not in escaped and "WWW." not in escaped
    for text in ('It\'s "fine", really: 3.5 of 5 (at most)!', "input_x_gradient", "2.13.0+cpu"):
        assert escape_markdown(text) == text


def test_every_block_has_a_form():
    blocks = [
        Heading("a # b", 3),
        Paragraph("mind", style="warning"),
        Bullets(["one", "- two"]),
        Code("a: '````'\n", "yaml"),
        Picture("machine/glance.svg", "", "a <b>", (1, 1), lambda figure: None),
        Fold("more", [Paragraph("inside")]),
    ]
    assert render_markdown(blocks) == (
        "### a &#35; b\n\n> [!WARNING]\n> mind\n\n* one\n* &#45; two\n\n`````yaml\na: '````'\n`````\n\n"
        "![a &lt;b&gt;](machine/glance.svg)\n\n<details><summary>more</summary>\n\ninside\n\n</details>\n"
    )
    (token,) = MarkdownIt("commonmark").parse(render_markdown([blocks[3]]))
    assert token.content == "a: '````'\n"


def test_cells_show_marks_and_in_narrow_tables_their_notes():
    row = ["marker", Cell("0.5", mark="best", note="0.4 to 0.6"), Cell("-0.4", mark="tied")]
    table = Table([Column("Method", numeric=False), Column("F1 ↑"), Column("AUROC ↑")], [row], "Means")
    assert render_markdown([table]) == (
        "Means:\n\n| Method | F1 ↑ | AUROC ↑ |\n| --- | ---: | ---: |\n"
        "| marker | **0.5** (0.4 to 0.6) | <u>-0.4</u> |\n"
    )
    wide = Table([*table.columns, *[Column("x")] * 5], [[*row, *["1"] * 5]])
    assert "0.6" not in render_markdown([wide])


def test_of_long_example_texts_only_chosen_words_are_shown():
    words = tuple(f"w{i}" for i in range(100))
    rows = [
        TextRow("marked", "nobody", [False] * 100),
        TextRow(
            HOSTILE, "", [i > 97 for i in range(100)], attributed(Example("a", words, "", "test", "t"), range(100), "m")
        ),
    ]
    text = render_markdown([ExampleText("films-2", "· predicted good", words, rows)])
    assert "**films-2** · predicted good Only marked or chosen words of this long text are shown." in text
    assert "| marked (nobody) | … |" in text and f"| {escape_markdown(HOSTILE)} | … **w98 w99** |" in text
