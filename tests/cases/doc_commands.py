"""What the documentation's pages say in fences: commands of a shell, and Python."""

import re
import shlex
import textwrap
from dataclasses import dataclass

_FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.S | re.M)
_INLINE = re.compile(r"`((?:explearn|make|dvc|python) [^`\n]*)`")


@dataclass(frozen=True)
class Command:
    """One simple command: its words, and where it stands."""

    words: tuple[str, ...]
    page: str

    def __str__(self):
        return f"{self.page}: {shlex.join(self.words)}"


def pages(repository):
    return [repository / "README.md", repository / "CONTRIBUTING.md", *sorted((repository / "docs").rglob("*.md"))]


def fences(repository, language):
    """Page and content of every fence of a language."""
    found = []
    for page in pages(repository):
        fenced = _FENCE.findall(page.read_text(encoding="utf-8"))
        found += [(page.name, textwrap.dedent(text)) for _, named, text in fenced if named == language]
    return found


def commands(repository):
    """Every command of the fences of sh: comments, redirections, variables before it and loops around it left out."""
    actual = []
    for page, text in fences(repository, "sh"):
        for line in text.replace("\\\n", " ").splitlines():
            actual += [Command(words, page) for words in simple_commands(line)]
    return actual


def mentions(repository):
    """The commands that stand in the text, where an argument may be left out or be `...`."""
    actual = []
    for page in pages(repository):
        text = _FENCE.sub("", page.read_text(encoding="utf-8"))
        actual += [Command(tuple(shlex.split(said)), page.name) for said in _INLINE.findall(text)]
    return actual


def simple_commands(line):
    """The commands of a line, each without what only a shell reads."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|<>")
    lexer.whitespace_split = True
    parts = [[]]
    skip = False
    for word in lexer:
        if set(word) <= set("<>"):
            skip = True  # the file that follows
        elif set(word) <= set(";&|"):
            parts.append([])
        elif skip:
            skip = False
        elif parts[-1] or not re.fullmatch(r"[A-Z_]+=.*", word):
            parts[-1].append(word)
    kept = [part for part in parts if part and part[0] not in ("for", "done")]
    return [tuple(part[1:] if part[0] == "do" else part) for part in kept if part != ["do"]]
