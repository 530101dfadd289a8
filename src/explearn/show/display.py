"""Display of attributions: HTML for notebooks and pages, coloured text for terminals.

Orange is evidence for the class and blue against it, on pages, in notebooks, terminals and figures. People with any
common colour blindness can distinguish the two, and a sign before the word says the same without colour. On pages a
line that grows with the score is below words for the class and above words against it, and a word that is pointed at,
touched or focused shows its score. The background is translucent, so that one pair of colours works on light and
dark pages.

All text from data is escaped: no word, label or name can become markup, a script, or a terminal command.
"""

from __future__ import annotations

import html
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from explearn.core.arrays import Array
from explearn.core.attribution_fields import AttributionFields, TopWord
from explearn.core.documents import checked_path
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

FLOOR = 0.01
"""Share of what is at stake (`at_stake`) below which a word has no colour and no sign."""

UNREAD = "not read by the classifier"

INCOMPLETE = 0.1
"""Completeness error, as a share of the absolute scores, from which displays and reports say that scores do not add up.
Our own threshold: integrated gradients in 50 steps have 0.001, DeepLIFT as captum computes it 0.9."""


SCALE = (
    "The deeper the colour, the larger the word's share of all scores, signs apart; none below "
    f"{FLOOR:.0%}. Scores of a probability or a logit are shares of at least 1, so words that change little stay pale."
)
"""The scale of the colours, in words."""


def output_of(attribution: AttributionFields) -> str:
    """Return the output that scores are parts of, such as probability; `share` if only their shares mean something."""
    if not attribution.output:
        return "share"
    if attribution.value is not None:
        return "value"
    return attribution.output.replace("_", "-")


def at_stake(attribution: AttributionFields) -> float:
    """Return the score of full colour: the sum of the absolute scores, for parts of an output at least its size.

    That size is 1 for a probability and a logit, and the output itself for a regression.
    """
    size = 0.0
    if attribution.output:
        size = 1.0 if attribution.value is None else abs(attribution.value)
    return max(size, float(np.nansum(np.abs(attribution.scores))))


def strengths(attribution: AttributionFields) -> Array:
    """Return how deep the words' colours are, -1 to 1, (words,); NaN (a word not read) stays.

    It is the square root of a score's share of what is at stake, since shares of a few per cent matter, too, and 0 if
    the share is below FLOOR.
    """
    scores = np.asarray(attribution.scores, dtype=np.float64)
    shares = np.abs(scores) / (at_stake(attribution) or 1.0)
    shares[shares < FLOOR] = 0.0
    return np.asarray(np.sign(scores) * np.sqrt(shares))


def shows_signs(attribution: AttributionFields) -> bool:
    """Return whether words get a sign: if the method is signed, or any score is below zero."""
    return attribution.signed or bool((attribution.scores < 0).any())


_FOR = " ".join(map(str, FOR))
_AGAINST = " ".join(map(str, AGAINST))

_WORDS = f"""\
SCOPE .for{{background:rgb({_FOR} / calc(var(--s)*{OPACITY}))}}
SCOPE .against{{background:rgb({_AGAINST} / calc(var(--s)*{OPACITY}))}}
SCOPE .for.signed::before{{content:"+"}}
SCOPE .against.signed::before{{content:"\\2212"}}
SCOPE .unread{{opacity:.65;text-decoration:line-through}}
SCOPE .focus{{outline:2px solid currentColor}}
SCOPE [data-score]{{position:relative}}
SCOPE [data-score]:is(:hover,:focus)::after{{content:attr(data-score);position:absolute;left:0;bottom:100%;\
z-index:3;padding:0 .35rem;border-radius:.25rem;background:#1b1f27;color:#fff;outline:1px solid #808080;\
font:.8rem/1.5 system-ui,sans-serif;white-space:nowrap;pointer-events:none}}
"""


def css(scope: str) -> str:
    """Return CSS rules for words below a selector: classes for, against, signed, unread; strength as --s, 0 to 1."""
    return _WORDS.replace("SCOPE", scope)


def hexadecimal(colour: Colour) -> str:
    """Return a colour as in `#c8620a`."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


# ---- words and sentences ---------------------------------------------------------------------------------------------

TOP = 5
"""Most words that are listed below a text for the class, and as many against it; none without a colour."""

LITTLE = 0.1
"""Share of a probability that a text must add to that of an empty one, or its words explain little of the answer."""

ARCS = 5
"""Number of strongest pairs of words that are drawn."""


@dataclass(frozen=True, slots=True)
class ShownWord:
    """A word as displays show it.

    Attributes:
        text: the word, printable on one line.
        score: NaN for a word that was not read.
        strength: how deep its colour is, as in `strengths`.
        sign: + or −, for a method with signs and a word with a colour.
        space: what follows the word.
        new_segment: whether the second segment begins here.
        in_focus: whether the answer is about this word.
    """

    text: str
    score: float
    strength: float
    sign: str
    space: str
    new_segment: bool
    in_focus: bool

    @property
    def colour(self) -> str:
        """The colour of its side."""
        if self.strength < 0:
            return hexadecimal(AGAINST)
        return hexadecimal(FOR)


def shown_words(attribution: AttributionFields) -> list[ShownWord]:
    """Return an attribution's words as displays show them."""
    signs = shows_signs(attribution)
    strength = strengths(attribution).tolist()
    joined = set(attribution.joined)
    focus = range(*(attribution.focus or (0, 0)))
    words = []
    for index, word in enumerate(attribution.words):
        sign = ""
        if signs and strength[index] > 0:
            sign = "+"
        if signs and strength[index] < 0:
            sign = "−"
        words.append(
            ShownWord(
                text=printable(word, one_line=True),
                score=float(attribution.scores[index]),
                strength=strength[index],
                sign=sign,
                space="" if index + 1 in joined else " ",
                new_segment=index == attribution.pair_start,
                in_focus=index in focus,
            )
        )
    return words


def listed_words(words: Sequence[TopWord], form: str = "+#.3g") -> str:
    """Return words with their scores, as text."""
    parts = []
    for word in words:
        parts.append(f"{printable(word.word, one_line=True)} {format(word.score, form)}")
    return ", ".join(parts)


def strongest_words(attribution: AttributionFields) -> str:
    """Return the words that speak most for the class and, if scores have signs, most against it."""
    strength = strengths(attribution)
    supporting = [word for word in attribution.top_words(TOP) if strength[word.position] > 0]
    opposing = [word for word in attribution.top_words(TOP, against=True) if strength[word.position] < 0]
    if supporting and not shows_signs(attribution):
        return f"Highest: {listed_words(supporting, '#.3g')}"
    sentences = []
    if supporting:
        sentences.append(f"For {attribution.target}: {listed_words(supporting)}")
    if opposing:
        sentences.append(f"Against: {listed_words(opposing)}")
    return ". ".join(sentences)


def answer_sentence(attribution: AttributionFields) -> str:
    """Return the explained class with its probability.

    The predicted class follows if it is another one; the words that the answer is about come first, if it is not about
    the whole text.
    """
    sentence = f"{attribution.target} ({attribution.answer()}"
    if attribution.target != attribution.predicted:
        sentence += f"; predicted: {attribution.predicted}"
    if attribution.focus is not None:
        sentence = f"{attribution.focus_text!r} is {sentence}"
    return f"{sentence})"


def remarks(attribution: AttributionFields) -> str:
    """Return remarks on the scores, empty if there are none.

    They are about words that all change nothing, unread words, a sum missed by INCOMPLETE or more, the certificate, and
    pairs of words.
    """
    sentences = []
    if sentence := pale(attribution):
        sentences.append(sentence)
    if attribution.unaligned:
        total = len(attribution.words)
        sentences.append(f"{attribution.unaligned:,} of {total:,} {attribution.unit}s were not read")
    missed = attribution.missed or 0.0
    if missed >= INCOMPLETE:
        sentences.append(
            f"The scores do not add up: their sum is off by {attribution.completeness_error:.3g}, {missed:.0%} of "
            "their absolute sum"
        )
    if attribution.certificate is not None:
        output = "probability" if attribution.value is None else "value"
        sentences.append(attribution.certificate.sentence(output))
    if attribution.interactions:
        sentences.append(together(attribution))
    return ". ".join(sentences)


def pale(attribution: AttributionFields) -> str:
    """Return a sentence on a text of which no word has a colour; empty for others."""
    if np.nansum(np.abs(strengths(attribution))) or not attribution.read.any():
        return ""
    if not attribution.output:
        return f"No {attribution.unit} has {FLOOR:.0%} of the scores"
    most = f"{FLOOR * at_stake(attribution):.2g} ({output_of(attribution)})"
    return f"No {attribution.unit} changes the answer by more than {most}"


def together(attribution: AttributionFields) -> str:
    """Return the three strongest pairs of words with what they add together."""
    pairs = []
    for pair in attribution.interactions[:3]:
        first = printable(pair.words[0], one_line=True)
        second = printable(pair.words[1], one_line=True)
        pairs.append(f"‘{first}’ with ‘{second}’ {pair.value:+#.3g}")
    return f"Together: {', '.join(pairs)}"


def text_remarks(attributions: Sequence[AttributionFields]) -> list[str]:
    """Return remarks on a text: an empty one's answer if it explains this one, and signs that methods disagree on.

    Args:
        attributions: of one text.
    """
    first = attributions[0]
    sentences = []
    if first.target == first.predicted and first.without_words > (1 - LITTLE) * first.probability:
        sentences.append(
            f"A text without any word has p = {first.without_words:.3f} for {first.target}, too: the words explain "
            "little of this answer."
        )
    if disagreement := disagreed(attributions):
        sentences.append(disagreement)
    return sentences


def disagreed(attributions: Sequence[AttributionFields]) -> str:
    """Return a sentence on the words that count for a class by one method and against it by another, if there are any.

    Args:
        attributions: of one text.
    """
    # Of each word, how strongly the methods speak most against a class, and most for it.
    against: dict[tuple[str, int, str], float] = {}
    supports: dict[tuple[str, int, str], float] = {}
    for attribution in filter(shows_signs, attributions):
        for position, strength in enumerate(strengths(attribution).tolist()):
            word = attribution.target, position, attribution.words[position]
            if strength < 0:
                against[word] = max(-strength, against.get(word, 0.0))
            if strength > 0:
                supports[word] = max(strength, supports.get(word, 0.0))
    both = {word: min(against[word], supports[word]) for word in against.keys() & supports}
    names = [f"‘{word}’" for *_, word in sorted(both, key=lambda word: (-both[word], word))]
    if not names:
        return ""
    if len(names) > TOP:
        names[TOP:] = [f"{len(names) - TOP} more"]
    return f"The methods disagree on the sign of {', '.join(names)}."


def first_classes(attribution: AttributionFields) -> str:
    """Return the most probable classes with their probabilities, and how to ask why it is not the next one."""
    shown = [f"{found.label} p = {found.probability:.3f}" for found in attribution.classes]
    other = next((found.label for found in attribution.classes if found.label != attribution.target), "")
    return (
        f"{', '.join(shown)}. Why not {other}? Ask with --versus {shlex.quote(other)}, in Python with explearn.versus."
    )


# ---- in a terminal ---------------------------------------------------------------------------------------------------


def line(attribution: AttributionFields) -> str:
    """Return method, class and the highest-scoring words, on one line."""
    head = f"{attribution.method} ({output_of(attribution)}) for {attribution.target!r}"
    if attribution.focus is not None:
        head += f" of {printable(attribution.focus_text, one_line=True)!r}"
    sentence = f"{head} ({attribution.answer()}): {listed_words(attribution.top_words())}"
    remark = remarks(attribution)
    if remark:
        sentence += f" ({remark})"
    return sentence


def terminal(attributions: Sequence[AttributionFields]) -> Text:
    """Return a text in colour, once for each method: orange for the class, blue against it, in three steps of strength.

    The steps are a bold word on a coloured background, a bold coloured word and a coloured word, which look similar on
    dark and light terminals. Scores with signs put a sign before the word. Unread words are struck through, the
    words that the answer is about are underlined.

    Args:
        attributions: of one text.
    """
    from rich.text import Text

    text = Text()
    for attribution in attributions:
        title = f"{attribution.method} ({output_of(attribution)}): {answer_sentence(attribution)}"
        text.append(f"{printable(title, one_line=True)}\n", style="bold")
        for word in shown_words(attribution):
            if word.new_segment:
                text.append("‖ ", style="dim not bold")
            style = _terminal_style(word)
            if word.in_focus:
                style += " underline"
            text.append(word.sign + word.text, style=style)
            text.append(word.space, style="not bold")
        text.append("\n")
        for part in (strongest_words(attribution), remarks(attribution)):
            if part:
                text.append(f"{printable(part, one_line=True)}\n", "dim not bold")
    below = text_remarks(attributions)
    if attributions[0].classes:
        below.append(first_classes(attributions[0]))
    for part in below:
        text.append(f"{printable(part, one_line=True)}\n", "not bold")
    return text


def _terminal_style(word: ShownWord) -> str:
    strength = abs(word.strength)
    if np.isnan(strength):
        return "dim strike not bold"
    if strength >= 2 / 3:
        return f"bold #000000 on {word.colour}"
    if strength >= 1 / 3:
        return f"bold {word.colour}"
    if strength > 0:
        return f"not bold {word.colour}"
    return "not bold"


# ---- in HTML ---------------------------------------------------------------------------------------------------------

LOOK = resources.files("explearn.show").joinpath("look.css").read_text(encoding="utf-8")
"""CSS that all pages begin with: colours (light and dark), type, controls and the focus ring."""

STYLE = f"""\
.explearn{{font:1rem/1.5 system-ui,sans-serif;margin:.5rem 0 1.5rem}}
.explearn p{{margin:.15rem 0}}
.explearn .words{{line-height:1.9;overflow-wrap:anywhere}}
.explearn .words span{{padding:.1rem .15rem;border-radius:.2rem;unicode-bidi:isolate}}
.explearn .row{{display:flex;flex-wrap:wrap;gap:0 1rem;padding:.35rem 0;border-top:1px solid #80808060}}
.explearn .row>:first-child{{flex:0 0 11rem;overflow-wrap:anywhere}}
.explearn .row>:last-child{{flex:1 1 18rem;min-width:0}}
.explearn .arcs{{overflow-x:auto}}
.explearn small{{opacity:.8}}
{css(".explearn .words")}\
.explearn .words .for{{box-shadow:inset 0 calc(var(--s)*-.2em) rgb({_FOR})}}
.explearn .words .against{{box-shadow:inset 0 calc(var(--s)*.2em) rgb({_AGAINST})}}
"""
"""CSS of `words_html` and `rows`, for elements of class `explearn`."""

_STEPS = "".join(f' <span class="for" style="--s:{share**0.5:.2g}">{share:.0%}</span>' for share in (0.01, 0.1, 0.5, 1))

_LEGEND = (
    '<span class="for" style="--s:.9">Evidence for the class</span>, '
    f'<span class="against" style="--s:.9">against it</span>; {_STEPS}. {SCALE} Point at a word or tab to it '
    f'for its score. <span class="unread">Struck through</span>: {UNREAD}.'
)

PAGE_START = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="explearn">
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


def words_html(attribution: AttributionFields, chosen: Sequence[bool] = ()) -> str:
    """Return the words of a text with their scores as background; needs the CSS rules of STYLE.

    Args:
        attribution: the text's.
        chosen: whether each word is put into a <strong> element; empty for none.
    """
    parts: list[str] = []
    for index, word in enumerate(shown_words(attribution)):
        if word.new_segment:
            parts.append('<span aria-label="second segment">‖</span> ')
        tag = "span"
        if len(chosen) and chosen[index]:
            tag = "strong"
        parts.append(f"<{tag} {_word_attributes(word)}>{html.escape(word.text)}</{tag}>{word.space}")
    return f'<p class="words" dir="auto">{"".join(parts).rstrip()}</p>'


def _word_attributes(word: ShownWord) -> str:
    classes = ""
    style = f' style="--s:{abs(word.strength):.3g}"'
    score = f"{word.score:+.4g}".replace("-", "−")
    if word.strength > 0:
        classes = "for"
    if word.strength < 0:
        classes = "against"
    if np.isnan(word.strength):
        classes = "unread"
        style = ""
        score = UNREAD
    if word.sign:
        classes += " signed"
    if word.in_focus:
        classes += " focus"
    label = html.escape(f"{word.text} {score}")
    return f'class="{classes}"{style} tabindex="0" role="img" aria-label="{label}" data-score="{score}"'


def arcs(attribution: AttributionFields) -> str:
    """Return an SVG of the words in `interactions`, with an arc over each of the strongest pairs; empty without any.

    An arc's width is the pair's strength; it is dashed if the two add less together than alone.
    """
    pairs = attribution.interactions[:ARCS]
    if not pairs:
        return ""
    positions = sorted(set(chain.from_iterable(pair.positions for pair in pairs)))
    width = 0.0
    centres: dict[int, float] = {}
    for position in positions:
        word_width = 12.0 + 9.0 * len(attribution.words[position])
        centres[position] = width + word_width / 2
        width += word_width
    height = 20 + width / 4
    largest = abs(pairs[0].value) or 1.0
    parts = []
    for pair in pairs:
        left = centres[pair.positions[0]]
        right = centres[pair.positions[1]]
        middle = (left + right) / 2
        top = height - (right - left) / 2
        curve = f"M{left:.0f} {height:.0f}Q{middle:.0f} {top:.0f} {right:.0f} {height:.0f}"
        stroke = f'stroke="{hexadecimal(FOR)}"'
        if pair.value <= 0:
            stroke = f'stroke="{hexadecimal(AGAINST)}"'
        if pair.value < 0:
            stroke += ' stroke-dasharray="5 3"'
        stroke += f' stroke-width="{1 + 4 * abs(pair.value) / largest:.1f}"'
        title = escape_html(f"{pair.words[0]} with {pair.words[1]} {pair.value:+.3g}")
        parts.append(f'<path d="{curve}" fill="none" {stroke}><title>{title}</title></path>')
    for position in positions:
        word = escape_html(attribution.words[position])
        parts.append(f'<text x="{centres[position]:.0f}" y="{height + 18:.0f}" text-anchor="middle">{word}</text>')
    size = f'width="{width:.0f}" height="{height + 26:.0f}"'
    label = escape_html(together(attribution))
    drawing = f'<svg {size} fill="currentColor" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    return f'<div class="arcs" tabindex="0">{drawing}</div>\n'


def _below(attribution: AttributionFields) -> str:
    sentences = [sentence for sentence in (strongest_words(attribution), remarks(attribution)) if sentence]
    return escape_html(". ".join(sentences))


def methods_html(summaries: Mapping[str, str]) -> str:
    """Return HTML that says what methods do.

    Args:
        summaries: method -> a sentence.
    """
    parts = []
    for method, summary in summaries.items():
        parts.append(f"<p><b>{escape_html(method)}</b>: {escape_html(summary)}</p>\n")
    return f'<div class="explearn">{"".join(parts)}</div>\n'


def rows(attributions: Sequence[AttributionFields]) -> str:
    """Return HTML of the attributions of one text, one row each; facts common to all are shown once."""
    answers = {answer_sentence(attribution) for attribution in attributions}
    facts = [attributions[0].example_id]
    if len(answers) == 1:
        facts.append(answers.pop())
    head = " · ".join(escape_html(fact) for fact in facts if fact)
    if head:
        head = f"<p>{head}</p>"
    for sentence in text_remarks(attributions):
        head += f"<p>{escape_html(sentence)}</p>"
    if attributions[0].classes:
        classes = escape_html(first_classes(attributions[0]))
        head += f"<details><summary>The most probable classes</summary><p>{classes}</p></details>"
    body = []
    for attribution in attributions:
        # Long names may break after an underscore.
        name = escape_html(attribution.method).replace("_", "_<wbr>")
        title = f"<b>{name}</b> <small>{output_of(attribution)}</small>"
        if answers:
            title += f"<br><small>{escape_html(answer_sentence(attribution))}</small>"
        words = words_html(attribution) + arcs(attribution)
        words += f"<p><small>{_below(attribution)}</small></p>"
        body.append(f'<div class="row"><div>{title}</div><div>{words}</div></div>\n')
    return f'<div class="explearn">{head}\n{"".join(body)}</div>\n'


def embed_or_write(body: str, path: str | os.PathLike[str] | None, what: str = "a page of attributions") -> str | Path:
    """Return blocks with their CSS rules, to embed in a page, or write them as a page and return its path.

    Args:
        body: HTML of the blocks.
        path: the page to write, whole or not at all. None: return HTML.
        what: what the page is, as for `explearn.core.writing.atomic_path`.

    Raises:
        ParamsError: the page would replace something else.
        DataError: the page cannot be written.
    """
    if path is None:
        return f"<style>{STYLE}</style>\n{body}"
    path = checked_path(path, "path")
    write_text(path, PAGE_START + body + PAGE_END, what)
    return Path(path)
