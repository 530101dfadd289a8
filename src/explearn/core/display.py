"""Attributions as people see them: HTML for notebooks and pages, coloured text for terminals.

All text from data is escaped: no word, label or name can become markup, a script, or a terminal's command.
"""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from explearn.core.arguments import shown
from explearn.core.errors import DataError, ParamsError
from explearn.core.heat import AGAINST, FAINT, FOR, UNREAD, classes, css, hexadecimal, shows_signs, strengths
from explearn.core.visible import visible
from explearn.core.writing import write_text

if TYPE_CHECKING:
    from rich.text import Text

TOP = 8
"""Highest-scoring words named below a text."""


class Scored(Protocol):
    """What is shown of an attribution (`explearn.core.records.Attribution`)."""

    @property
    def words(self) -> tuple[str, ...]: ...
    @property
    def scores(self) -> NDArray[np.float32]: ...
    @property
    def spans(self) -> tuple[tuple[int, int], ...]: ...
    @property
    def pair_start(self) -> int | None: ...
    @property
    def target(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def unaligned(self) -> int: ...
    def answer(self) -> str: ...
    @property
    def predicted(self) -> str: ...
    @property
    def signed(self) -> bool: ...
    @property
    def example_id(self) -> str: ...


class TopWord(NamedTuple):
    """A word with its score, its place among the text's words, and its [start, end) in the text, where known."""

    word: str
    score: float
    position: int
    span: tuple[int, int] | None


def top_words(scored: Scored, count: int = 10, against: bool = False) -> list[TopWord]:
    """The `count` highest-scoring words, highest first; with `against`, those that score below zero, lowest first.

    Words that were not read have no place among them. Raises ParamsError for a count that is no whole number from 0.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ParamsError(f"top_words: got the count {shown(count)}; expected a whole number from 0")
    sign = 1.0 if against else -1.0
    order = [i for i in np.argsort(sign * scored.scores, kind="stable").tolist() if np.isfinite(scored.scores[i])]
    chosen = [i for i in order if not against or scored.scores[i] < 0][:count]
    return [
        TopWord(scored.words[i], float(scored.scores[i]), i, scored.spans[i] if scored.spans else None) for i in chosen
    ]


def escape(text: str) -> str:
    """Text as HTML, in an element or in a quoted attribute."""
    return html.escape(visible(text, one_line=True))


def answer_sentence(scored: Scored) -> str:
    """The class that is explained, with its probability, and the predicted one where that is another."""
    if scored.target == scored.predicted:
        return f"{scored.predicted} ({scored.answer()})"
    return f"{scored.target} ({scored.answer()}; predicted: {scored.predicted})"


def unread_sentence(scored: Scored) -> str:
    """How many words the classifier did not read; empty where it read all."""
    return f"{scored.unaligned:,} of {len(scored.words):,} words were not read" if scored.unaligned else ""


# ---- in a terminal ---------------------------------------------------------------------------------------------------


def line(scored: Scored) -> str:
    """Method, class and the highest-scoring words, on one line."""
    listed = ", ".join(f"{visible(word, one_line=True)} {score:+.3f}" for word, score, *_ in top_words(scored))
    head = f"{scored.method} for {scored.target!r} ({scored.answer()})"
    unread = unread_sentence(scored)
    return f"{head}: {listed}{f' ({unread})' if unread else ''}"


def terminal(scored: Scored) -> Text:
    """The text in colour: orange for the class, blue against it, in three steps of strength.

    The steps are a bold word on a coloured background, a bold coloured word and a coloured word: they read alike on
    dark and light terminals. A sign stands before a word where scores have signs. Words not read are struck through.
    """
    from rich.text import Text

    title = visible(f"{scored.method}: {answer_sentence(scored)}", one_line=True)
    text = Text(f"{title}\n", style="bold")
    signs = shows_signs(scored.signed, scored.scores)
    for index, (word, strength) in enumerate(zip(scored.words, strengths(scored.scores), strict=True)):
        if index == scored.pair_start:
            text.append("‖ ", style="dim not bold")
        shown = visible(word, one_line=True)
        if signs and abs(strength) >= FAINT:
            shown = ("+" if strength > 0 else "−") + shown
        text.append(shown, style=_terminal_style(float(strength)))
        text.append(" ", style="not bold")
    listed = "  ".join(f"{visible(word, one_line=True)} {score:+.4f}" for word, score, *_ in top_words(scored, TOP))
    text.append(f"\n{listed}\n", style="dim not bold")
    if unread := unread_sentence(scored):
        text.append(f"{unread}\n", style="dim not bold")
    return text


def _terminal_style(strength: float) -> str:
    if np.isnan(strength):
        return "dim strike not bold"
    colour = hexadecimal(AGAINST if strength < 0 else FOR)
    if abs(strength) >= 2 / 3:
        return f"bold #000000 on {colour}"
    if abs(strength) >= 1 / 3:
        return f"bold {colour}"
    return f"not bold {colour}" if abs(strength) >= FAINT else "not bold"


# ---- in HTML ---------------------------------------------------------------------------------------------------------

_STYLE = """.explearn{font:1rem/1.5 system-ui,sans-serif;margin:.5rem 0 1.5rem}
.explearn p{margin:.15rem 0}
.explearn .words{line-height:1.9;overflow-wrap:anywhere}
.explearn .words span{padding:.1rem .15rem;border-radius:.2rem;unicode-bidi:isolate}
.explearn .row{display:flex;flex-wrap:wrap;gap:0 1rem;padding:.35rem 0;border-top:1px solid #80808060}
.explearn .row>:first-child{flex:0 0 11rem;overflow-wrap:anywhere}
.explearn .row>:last-child{flex:1 1 18rem;min-width:0}
.explearn small{opacity:.8}
""" + css(".explearn .words")

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
base-uri 'none'; form-action 'none'">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
:root{{color-scheme:light dark}}
body{{max-width:60rem;margin:0 auto;padding:1rem;background:light-dark(#fff,#12151b);color:light-dark(#1b1f27,#e9ecf1);\
font:1rem/1.5 system-ui,sans-serif}}
h1{{font-size:1.4rem}}
{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<div class="explearn"><p class="words">{legend}</p></div>
"""
PAGE_END = "</main>\n</body>\n</html>\n"

_LEGEND = (
    'The stronger <span class="for" style="--s:.9">this colour</span>, the more a word speaks for the class; '
    '<span class="against" style="--s:.9">this one</span> against it. The full colour is the largest score of a text. '
    "Methods whose scores have signs show + and −. A word that is "
    f'<span class="unread">struck through</span> was {UNREAD}.'
)


def words_html(scored: Scored, chosen: Sequence[bool] = ()) -> str:
    """The words of a text on the background of their scores; needs the rules of `style`.

    chosen: words that are a <strong> element; empty: none.
    """
    signs = shows_signs(scored.signed, scored.scores)
    parts = []
    for index, (word, score, strength) in enumerate(
        zip(scored.words, scored.scores.tolist(), strengths(scored.scores).tolist(), strict=True)
    ):
        if index == scored.pair_start:
            parts.append('<span aria-label="second segment">‖</span>')
        unread = np.isnan(strength)
        title = UNREAD if unread else f"{score:+.4g}"
        share = "" if unread else f' style="--s:{abs(strength):.3g}"'
        tag = "strong" if len(chosen) and chosen[index] else "span"
        parts.append(f'<{tag} class="{classes(strength, signs)}"{share} title="{title}">{escape(word)}</{tag}>')
    return f'<p class="words" dir="auto">{" ".join(parts)}</p>'


def style() -> str:
    """The CSS of `words_html`, `block` and `rows`, for elements of class `explearn`."""
    return _STYLE


def block(scored: Scored) -> str:
    """One attribution: what is explained, the words in colour, and the highest-scoring ones with their scores."""
    listed = ", ".join(f"{escape(word)}&nbsp;{score:+.3g}" for word, score, *_ in top_words(scored, TOP))
    below = ". ".join(filter(None, (listed, unread_sentence(scored))))
    return (
        f'<div class="explearn"><p><b>{escape(scored.method)}</b>: {escape(answer_sentence(scored))}</p>\n'
        f"{words_html(scored)}\n<p><small>{below}</small></p></div>\n"
    )


def rows(attributions: Sequence[Scored]) -> str:
    """Several methods on one text, a row each; what they all explain is said once."""
    answers = {answer_sentence(a) for a in attributions}
    heads = [attributions[0].example_id, *(answers if len(answers) == 1 else ())]
    shown = []
    for attribution in attributions:
        # Long names may break after an underscore.
        name = escape(attribution.method).replace("_", "_<wbr>")
        note = "" if len(answers) == 1 else f"<br><small>{escape(answer_sentence(attribution))}</small>"
        shown.append(f'<div class="row"><div><b>{name}</b>{note}</div><div>{words_html(attribution)}</div></div>\n')
    head = " · ".join(escape(part) for part in heads if part)
    return f'<div class="explearn">{f"<p>{head}</p>" if head else ""}\n{"".join(shown)}</div>\n'


def in_notebook(body: str) -> str:
    """Blocks with the rules that they need, as notebooks want them."""
    return f"<style>{style()}</style>\n{body}"


def page_start(title: str = "Explanations") -> str:
    """The start of a page; blocks follow, then PAGE_END. It runs no script and asks no network."""
    return _PAGE.format(title=escape(title), style=style(), legend=_LEGEND)


def write_page(path: str | os.PathLike[str], body: str, title: str = "Explanations") -> Path:
    """Write blocks as a page of its own; it is whole or not there. Raises DataError where it cannot be written."""
    try:
        write_text(path, page_start(title) + body + PAGE_END)
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: cannot be written ({error.strerror})") from error
    return Path(path)
