"""Display of attributions: HTML for notebooks and pages, coloured text for terminals.

Orange is evidence for the class and blue against it, on pages, in notebooks, terminals and figures. People with any
common colour blindness can distinguish the two, and a sign before the word says the same without colour. The
background is translucent, so that one pair of colours works on light and dark pages.

All text from data is escaped: no word, label or name can become markup, a script, or a terminal command.
"""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from explearn.core.attribution import Attribution, top_words
from explearn.core.escape import printable
from explearn.core.writing import write_text

if TYPE_CHECKING:
    from rich.text import Text

# ---- colours ---------------------------------------------------------------------------------------------------------

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

FOR: Colour = (200, 98, 10)
AGAINST: Colour = (47, 125, 209)

OPACITY = 0.7
"""Opacity of the background at full strength. Text on it keeps a contrast of 4.5 to 1, on light and dark pages."""

FAINT = 0.1
"""Strength below which a word has no sign, and no colour in a terminal."""

UNREAD = "not read by the classifier"

INCOMPLETE = 0.1
"""Completeness error, as a share of the absolute scores, from which displays and reports say that scores do not add up.
Our own threshold: integrated gradients in 50 steps have 0.001, DeepLIFT as captum computes it 0.9."""


def strengths(scores: ArrayLike) -> NDArray[np.float64]:
    """Scale scores to [-1, 1] by the largest absolute score, (words,); NaN (a word not read) stays."""
    array = np.asarray(scores, dtype=np.float64)
    shares: NDArray[np.float64] = array / (np.nanmax(np.abs(array), initial=0.0) or 1.0)
    return shares


def shows_signs(signed: bool, scores: ArrayLike) -> bool:
    """Return whether words get a sign: if the method is signed, or any score is below zero."""
    return signed or bool((np.asarray(scores) < 0).any())


def css(scope: str) -> str:
    """Return CSS rules for words below a selector: classes for, against, signed, unread; strength as --s, 0 to 1."""
    tints = [f"background:rgb({red} {green} {blue} / calc(var(--s)*{OPACITY}))" for red, green, blue in (FOR, AGAINST)]
    rules = {
        ".for": tints[0],
        ".against": tints[1],
        ".for.signed::before": 'content:"+"',
        ".against.signed::before": 'content:"\\2212"',
        ".unread": "opacity:.65;text-decoration:line-through",
        ".token": "outline:2px solid currentColor",
    }
    return "".join(f"{scope} {selector}{{{rule}}}\n" for selector, rule in rules.items())


def hexadecimal(colour: Colour) -> str:
    """Return a colour as in `#c8620a`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


# ---- words and sentences ---------------------------------------------------------------------------------------------

TOP = 8
"""Number of highest-scoring words listed below a text."""


ARCS = 5
"""Number of strongest pairs of words that are drawn."""


def answer_sentence(attribution: Attribution) -> str:
    """Return the explained class with its probability, and the predicted class if it differs; preceded by the
    classified word, if only one word is classified."""
    predicted = "" if attribution.target == attribution.predicted else f"; predicted: {attribution.predicted}"
    of = "" if attribution.token is None else f"{attribution.words[attribution.token]!r} is "
    return f"{of}{attribution.target} ({attribution.answer()}{predicted})"


def remarks(attribution: Attribution) -> str:
    """Return remarks on the scores: unread words, a sum missed by INCOMPLETE or more, a certificate, and pairs of
    words. Empty if there are none."""
    unread, missed = attribution.unaligned, attribution.missed or 0.0
    said = [
        f"{unread:,} of {len(attribution.words):,} {attribution.unit}s were not read" if unread else "",
        f"The scores do not add up: their sum is off by {attribution.completeness_error:.3g}, {missed:.0%} of their "
        "absolute sum" if missed >= INCOMPLETE else "",
        str(attribution.certificate or ""),
        together(attribution),
    ]  # fmt: skip
    return ". ".join(filter(None, said))


def together(attribution: Attribution) -> str:
    """Return the three strongest pairs of words with what they add together; empty if there are none."""
    said = []
    for pair in attribution.interactions[:3]:
        first, second = (printable(word, one_line=True) for word in pair.words)
        said.append(f"‘{first}’ with ‘{second}’ {pair.value:+#.3g}")
    return f"Together: {', '.join(said)}" if said else ""


# ---- in a terminal ---------------------------------------------------------------------------------------------------


def line(attribution: Attribution) -> str:
    """Return method, class and the highest-scoring words, on one line."""
    listed = ", ".join(f"{printable(word, one_line=True)} {score:+#.3g}" for word, score, *_ in top_words(attribution))
    said = remarks(attribution)
    of = "" if attribution.token is None else f" of {printable(attribution.words[attribution.token], one_line=True)!r}"
    head = f"{attribution.method} for {attribution.target!r}{of} ({attribution.answer()})"
    return f"{head}: {listed}{f' ({said})' if said else ''}"


def terminal(attribution: Attribution) -> Text:
    """Return the text in colour: orange for the class, blue against it, in three steps of strength.

    The steps are a bold word on a coloured background, a bold coloured word and a coloured word, which look similar on
    dark and light terminals. Scores with signs put a sign before the word. Unread words are struck through, the
    classified word is underlined.
    """
    from rich.text import Text

    title = printable(f"{attribution.method}: {answer_sentence(attribution)}", one_line=True)
    text, joined = Text(f"{title}\n", style="bold"), set(attribution.joined)
    signs = shows_signs(attribution.signed, attribution.scores)
    for index, (word, strength) in enumerate(zip(attribution.words, strengths(attribution.scores), strict=True)):
        if index == attribution.pair_start:
            text.append("‖ ", style="dim not bold")
        colour = hexadecimal(AGAINST if strength < 0 else FOR)
        if np.isnan(strength):
            style = "dim strike not bold"
        elif abs(strength) >= 2 / 3:
            style = f"bold #000000 on {colour}"
        elif abs(strength) >= 1 / 3:
            style = f"bold {colour}"
        else:
            style = f"not bold {colour}" if abs(strength) >= FAINT else "not bold"
        sign = ("+" if strength > 0 else "−") if signs and abs(strength) >= FAINT else ""
        style += " underline" * (index == attribution.token)
        text.append(sign + printable(word, one_line=True), style=style)
        text.append("" if index + 1 in joined else " ", style="not bold")
    top = top_words(attribution, TOP)
    below = ["  ".join(f"{printable(word, one_line=True)} {score:+#.3g}" for word, score, *_ in top)]
    text.append("".join(f"\n{part}" for part in [*below, remarks(attribution)] if part) + "\n", "dim not bold")
    return text


# ---- in HTML ---------------------------------------------------------------------------------------------------------

LOOK = resources.files("explearn.show").joinpath("look.css").read_text(encoding="utf-8")
"""CSS that all pages begin with: colours (light and dark), type, controls and the focus ring."""

STYLE = """.explearn{font:1rem/1.5 system-ui,sans-serif;margin:.5rem 0 1.5rem}
.explearn p{margin:.15rem 0}
.explearn .words{line-height:1.9;overflow-wrap:anywhere}
.explearn .words span{padding:.1rem .15rem;border-radius:.2rem;unicode-bidi:isolate}
.explearn .row{display:flex;flex-wrap:wrap;gap:0 1rem;padding:.35rem 0;border-top:1px solid #80808060}
.explearn .row>:first-child{flex:0 0 11rem;overflow-wrap:anywhere}
.explearn .row>:last-child{flex:1 1 18rem;min-width:0}
.explearn small{opacity:.8}
""" + css(".explearn .words")
"""CSS of `words_html`, `block` and `rows`, for elements of class `explearn`."""

_LEGEND = (
    'The stronger <span class="for" style="--s:.9">this colour</span>, the more a word is evidence for the class; '
    '<span class="against" style="--s:.9">this one</span>: against it. The strongest colour is the largest score in a '
    "text. Signed methods show + and −. A word that is "
    f'<span class="unread">struck through</span> was {UNREAD}.'
)

PAGE_START = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
base-uri 'none'; form-action 'none'">
<meta name="color-scheme" content="light dark">
<title>Words for and against the classifier's predictions</title>
<link rel="icon" href="data:,">
<style>
{LOOK}{STYLE}body{{max-width:60rem}}
h1{{font-size:1.4rem}}
</style>
</head>
<body>
<main>
<h1>Words for and against the classifier's predictions</h1>
<div class="explearn"><p class="words">{_LEGEND}</p></div>
"""
"""The start of a page; blocks follow, then PAGE_END. It runs no script and loads nothing from a network."""

PAGE_END = "</main>\n</body>\n</html>\n"


def escape_html(text: str) -> str:
    """Escape text for HTML, inside an element or a quoted attribute."""
    return html.escape(printable(text, one_line=True))


def words_html(attribution: Attribution, chosen: Sequence[bool] = ()) -> str:
    """Return the words of a text with their scores as background; needs the CSS rules of STYLE.

    chosen: words to put into a <strong> element; empty for none.
    """
    signs = shows_signs(attribution.signed, attribution.scores)
    parts: list[str] = []
    joined = set(attribution.joined)
    for index, (word, score, strength) in enumerate(
        zip(attribution.words, attribution.scores.tolist(), strengths(attribution.scores).tolist(), strict=True)
    ):
        if index == attribution.pair_start:
            parts.append('<span aria-label="second segment">‖</span> ')
        tag = "strong" if len(chosen) and chosen[index] else "span"
        blank = "" if index + 1 in joined else " "
        if np.isnan(strength):
            parts.append(f'<{tag} class="unread" title="{UNREAD}">{escape_html(word)}</{tag}>{blank}')
            continue
        side = "against" if strength < 0 else "for"
        side += " signed" * (signs and abs(strength) >= FAINT) + " token" * (index == attribution.token)
        share = f"--s:{abs(strength):.3g}"
        parts.append(f'<{tag} class="{side}" style="{share}" title="{score:+.4g}">{escape_html(word)}</{tag}>{blank}')
    return f'<p class="words" dir="auto">{"".join(parts).rstrip()}</p>'


def arcs(attribution: Attribution) -> str:
    """Return an SVG of the words in `interactions`, with an arc over each of the strongest pairs; empty without any.

    An arc's width is the pair's strength; it is dashed if the two add less together than alone.
    """
    pairs = attribution.interactions[:ARCS]
    places = sorted({place for pair in pairs for place in pair.positions})
    if not pairs:
        return ""
    widths = [12.0 + 9.0 * len(attribution.words[place]) for place in places]
    ends = np.cumsum(widths)
    centres = dict(zip(places, (ends - np.array(widths) / 2).tolist(), strict=True))
    height = 20 + ends[-1] / 4
    parts = []
    for (i, j), value in [(pair.positions, pair.value) for pair in pairs]:
        x, y = centres[i], centres[j]
        stroke = f'stroke="{hexadecimal(FOR if value > 0 else AGAINST)}"' + ' stroke-dasharray="5 3"' * (value < 0)
        width = 1 + 4 * abs(value) / (abs(pairs[0].value) or 1.0)
        curve = f"M{x:.0f} {height:.0f}Q{(x + y) / 2:.0f} {height - (y - x) / 2:.0f} {y:.0f} {height:.0f}"
        title = escape_html(f"{attribution.words[i]} with {attribution.words[j]} {value:+.3g}")
        parts.append(f'<path d="{curve}" fill="none" {stroke} stroke-width="{width:.1f}"><title>{title}</title></path>')
    for place in places:
        word = escape_html(attribution.words[place])
        parts.append(f'<text x="{centres[place]:.0f}" y="{height + 18:.0f}" text-anchor="middle">{word}</text>')
    size = f'viewBox="0 0 {ends[-1]:.0f} {height + 26:.0f}" style="max-width:{ends[-1]:.0f}px;width:100%"'
    label = escape_html(together(attribution))
    return f'<svg {size} fill="currentColor" role="img" aria-label="{label}">{"".join(parts)}</svg>\n'


def block(attribution: Attribution) -> str:
    """Return HTML of one attribution: what is explained, the words in colour, and the highest-scoring words."""
    listed = ", ".join(f"{escape_html(word)}&nbsp;{score:+.3g}" for word, score, *_ in top_words(attribution, TOP))
    below = ". ".join(filter(None, (listed, escape_html(remarks(attribution)))))
    head = f"<b>{escape_html(attribution.method)}</b>: {escape_html(answer_sentence(attribution))}"
    words = f"{words_html(attribution)}\n{arcs(attribution)}"
    return f'<div class="explearn"><p>{head}</p>\n{words}<p><small>{below}</small></p></div>\n'


def rows(attributions: Sequence[Attribution]) -> str:
    """Return HTML of several methods on one text, one row each; facts common to all are shown once."""
    answers = {answer_sentence(attribution) for attribution in attributions}
    heads = [attributions[0].example_id, *(answers if len(answers) == 1 else ())]
    body = []
    for attribution in attributions:
        # Long names may break after an underscore.
        name = escape_html(attribution.method).replace("_", "_<wbr>")
        note = "" if len(answers) == 1 else f"<br><small>{escape_html(answer_sentence(attribution))}</small>"
        said = escape_html(remarks(attribution))
        words = words_html(attribution) + arcs(attribution) + (f"<p><small>{said}</small></p>" if said else "")
        body.append(f'<div class="row"><div><b>{name}</b>{note}</div><div>{words}</div></div>\n')
    head = " · ".join(escape_html(part) for part in heads if part)
    return f'<div class="explearn">{f"<p>{head}</p>" if head else ""}\n{"".join(body)}</div>\n'


def in_notebook(body: str) -> str:
    """Return blocks together with their CSS rules, for notebooks."""
    return f"<style>{STYLE}</style>\n{body}"


def write_page(path: str | os.PathLike[str], body: str) -> Path:
    """Write blocks as a page, whole or not at all. Raises DataError if it cannot be written."""
    write_text(path, PAGE_START + body + PAGE_END)
    return Path(path)
