"""`explearn explain`: attributions in a terminal, as JSON Lines, and in files that are whole or not there."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from explearn.cli import choosing
from explearn.cli.running import Compute, Seed, command, plain_console
from explearn.core.display import MOST_INTERACTING, PAGE_END, PAGE_START, block, rows
from explearn.core.documents import decoded_lines
from explearn.core.errors import DataError, ParamsError, shown
from explearn.core.escape import printable, printable_json
from explearn.core.writing import atomic_path, check_own, is_page

if TYPE_CHECKING:
    from explearn.core.records import Attribution
    from explearn.model.classifier import Classifier

Write = Callable[[Sequence["Attribution"]], object]
"""Writes the attributions of one text, one a method."""

ROWS_AT_ONCE = 20_000
"""Words held before they go to a Parquet file."""


@command
def explain(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts to explain; none: one a line from standard input.", show_default=False),
    ] = None,
    classifier: choosing.ClassifierOption = "",
    label_name: choosing.LabelNames = None,
    completion: choosing.Completion = None,
    method: choosing.Methods = None,
    explainer: choosing.Explainers = None,
    option: choosing.Options = None,
    target: choosing.Targets = None,
    versus: Annotated[
        str | None,
        typer.Option(
            help="Explain what speaks for the class rather than for this one: the difference of their logits.",
            show_default=False,
            rich_help_panel="What is explained",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="Of a model that classifies tokens: the word whose class is explained, by its number from 0, or "
            "itself where it stands once in the text.",
            metavar="N|WORD",
            show_default=False,
            rich_help_panel="What is explained",
        ),
    ] = None,
    windows: choosing.Windows = None,
    unit: choosing.Units = "word",
    interactions: Annotated[
        int | None,
        typer.Option(
            help="Also say what two of the N words of the largest scores add together, beyond what each adds alone: "
            "2^N more passes a text and method. Pages, the terminal, --json and .jsonl files show it.",
            metavar="N",
            min=2,
            max=MOST_INTERACTING,
            show_default=False,
            rich_help_panel="What is explained",
        ),
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option(
            help="Second segment, for classifiers of pairs, or the passage of questions; goes with every text.",
            rich_help_panel="What is explained",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a text and method, a line each.")] = False,
    out: Annotated[
        list[Path] | None,
        typer.Option(
            help="Write to this file: .html (a page with the words in colour), .parquet or .csv (a row a word), .jsonl "
            "(a text a line); may be repeated.",
            show_default=False,
        ),
    ] = None,
    seed: Seed = None,
    *,
    compute: Compute,
) -> None:
    """Explain texts: a score for each word, larger meaning more evidence for the class.

    explearn explain --classifier my-model --method attn_lrp --method lime "A warm, funny sequel."
    """
    files = out or []
    for path in files:
        if path.suffix not in WRITERS:
            raise ParamsError(f"--out: got {str(path)!r}; expected a name that ends in {', '.join(WRITERS)}")
        check_own(path, *((is_page, "a page") if path.suffix == ".html" else (_holds_scores, "a table of scores")))
    if len({os.path.realpath(path) for path in files}) < len(files):
        raise ParamsError(f"--out: got {', '.join(map(str, files))}; expected different files")
    # Names and options are checked before torch is loaded for the classifier.
    methods = choosing.choose(method, explainer or [])
    classifier = choosing.classifier_for(methods, classifier)
    explainers = choosing.make(methods, choosing.parse_options(option or []), seed)
    names = choosing.parse_label_names(label_name)
    if file := next(filter(os.path.isfile, texts or ()), None):
        raise ParamsError(
            f"texts: got the name of a file, {shown(file)}; expected a text (a file of them, one a line, goes in by "
            "`< FILE`, a table by `explearn job --texts FILE`)"
        )
    lines = texts or _lines()
    from explearn.core.seeds import seed_everything
    from explearn.methods.explaining import best_at_once
    from explearn.methods.interactions import interactions as pairs
    from explearn.model.classifier import Classifier

    if seed is not None:
        seed_everything(seed)
    loaded = Classifier.from_pretrained(classifier, compute, completion=completion).renamed(names)
    for chosen in methods:
        chosen.check_classifier(loaded)
    if token is not None:
        loaded = loaded.at(int(token) if token.isdecimal() else token)
    if versus is not None:
        loaded = loaded.versus(versus)
    inputs: list[Any] = [(line, pair) for line in lines] if pair is not None else list(lines)
    targets = [target] * len(inputs) if target else None
    # A text that is given here is explained at once; one that is read through windows may take hours.
    quiet = bool(texts) and windows is None
    unnamed = not (method or explainer or option)
    if unnamed:
        explainers = [best_at_once(loaded)]
    explained = [
        method.explain_each(loaded, inputs, targets, None if quiet else f"explain by {method.name}", windows, unit)
        for method in explainers
    ]
    with ExitStack() as stack:
        # The files take their places when the block ends without an exception.
        writers = [stack.enter_context(WRITERS[path.suffix](path)) for path in files]
        for text, of_text in zip(inputs, zip(*explained, strict=True), strict=True):
            # One row of methods for each class that is explained.
            for attributions in zip(*of_text, strict=True):
                if interactions is not None:
                    attributions = tuple(
                        replace(one, interactions=tuple(pairs(loaded, text, one, interactions))) for one in attributions
                    )
                for write in writers:
                    write(attributions)
                if as_json or not writers:
                    _show(loaded, text, attributions, as_json)
    if not as_json:
        if unnamed:
            print(f"{explainers[0].name}: the most faithful method that works at once here; --method takes another")
        for path in files:
            print(printable(str(path)))


def _lines() -> list[str]:
    """Return texts from standard input, one a line. Raises DataError where it is closed."""
    if sys.stdin is None:
        raise DataError("standard input is closed; expected texts, one a line, or on the command line")
    if sys.stdin.isatty():
        print("no text given: type texts, one a line; Ctrl+D ends them", file=sys.stderr)
    return [line.rstrip("\r\n") for _, line in decoded_lines(sys.stdin.buffer, "standard input")]


def _show(classifier: Classifier, text: Any, attributions: Sequence[Attribution], as_json: bool) -> None:
    """Print a text's attributions: in colour, or as JSON Lines."""
    from explearn.model.classifier import QuestionAnswerer

    # Of a question, the answer is what is explained.
    answer = {"answer": classifier.answer(text)} if isinstance(classifier, QuestionAnswerer) else {}
    if as_json:
        unicode = (sys.stdout.encoding or "").lower().startswith("utf")
        for attribution in attributions:
            print(printable_json(attribution.to_dict() | answer, ascii_only=not unicode))
        return
    if answer:
        plain_console().print(printable(f"answer: {answer['answer']}"), markup=False)
    for attribution in attributions:
        Console().print(attribution)


def _holds_scores(path: Path) -> bool:
    """Return whether a file is one that --out wrote."""
    if path.suffix == ".parquet":
        from explearn.core.parquet import column_names
        from explearn.core.word_tables import WORD_SCHEMA

        return column_names(path) == list(WORD_SCHEMA.names)
    with path.open("rb") as file:
        start = file.readline(2**20)
    return b'"token_scores":' in start if path.suffix == ".jsonl" else start.startswith(b"text,id,method,target,")


# ---- files -----------------------------------------------------------------------------------------------------------


@contextmanager
def _page(path: Path) -> Iterator[Write]:
    with atomic_path(path) as partial, partial.open("w", encoding="utf-8") as file:
        file.write(PAGE_START)
        yield lambda shown: file.write(block(shown[0]) if len(shown) == 1 else rows(shown))
        file.write(PAGE_END)


@contextmanager
def _json_lines(path: Path) -> Iterator[Write]:
    with atomic_path(path) as partial, partial.open("w", encoding="utf-8") as file:
        yield lambda shown: file.writelines(f"{printable_json(attribution.to_dict())}\n" for attribution in shown)


@contextmanager
def _csv(path: Path) -> Iterator[Write]:
    # Arrow is loaded for tables alone: `explearn explain` starts sooner without.
    from explearn.core.word_tables import WORD_SCHEMA, WordRows

    words = WordRows()
    with atomic_path(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, WORD_SCHEMA.names)
        writer.writeheader()
        yield lambda shown: writer.writerows(row for attribution in shown for row in words.rows(attribution))


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    import pyarrow as pa

    from explearn.core.parquet import parquet_writer
    from explearn.core.word_tables import WORD_SCHEMA, WordRows

    words = WordRows()
    held: list[dict[str, object]] = []
    with parquet_writer(path, WORD_SCHEMA) as writer:

        def write(shown: Sequence[Attribution], least: int = ROWS_AT_ONCE) -> None:
            for attribution in shown:
                held.extend(words.rows(attribution))
            if len(held) >= least:
                writer.write_table(pa.Table.from_pylist(held, schema=WORD_SCHEMA))
                held.clear()

        yield write
        write((), least=0)


WRITERS: dict[str, Callable[[Path], AbstractContextManager[Write]]] = {
    ".html": _page,
    ".parquet": _parquet,
    ".csv": _csv,
    ".jsonl": _json_lines,
}
