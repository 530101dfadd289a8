"""`explearn explain`: attributions in a terminal, as JSON Lines, and in files that are written whole or not at all."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from explearn.cli import options
from explearn.cli.common import Compute, command, tell
from explearn.core.attribution import MOST_INTERACTING
from explearn.core.documents import decoded_lines
from explearn.core.errors import DataError, ParamsError, shown
from explearn.core.escape import printable_json
from explearn.core.validation import whole_number
from explearn.core.writing import check_place, write_text
from explearn.methods.finding import find_explainer
from explearn.methods.registry import get_info
from explearn.show.attributions import Attributions
from explearn.show.display import embed_or_write, methods_html, rows

if TYPE_CHECKING:
    from explearn.core.attribution import Attribution
    from explearn.predictors.predictor import Predictor
    from explearn.subject.manifest import Origin

WHAT = "an output of explearn explain"

Texts = Sequence[Sequence["Attribution"]]
"""An entry for each text and class: its attributions, one for each method."""

Token = Annotated[
    str | None,
    typer.Option(
        help="For a model that classifies tokens: the word whose class is explained, as its number from 0, or the "
        "word itself if it occurs once in the text.",
        metavar="N|WORD",
        rich_help_panel="What is explained",
    ),
]
Interactions = Annotated[
    int | None,
    typer.Option(
        help="Also compute what each two of the N words with the largest scores add together, beyond what each "
        "adds alone: 2^N more passes per text and method. Shown in pages, the terminal, --json and .jsonl files.",
        metavar="N",
        min=2,
        max=MOST_INTERACTING,
        rich_help_panel="What is explained",
    ),
]
Files = Annotated[
    list[Path] | None,
    typer.Option(
        help="Write to this file: .html (a page with the words in colour, with a manifest for `explearn "
        "verify` next to it), .parquet or .csv (one row per word), "
        ".jsonl (one line per text and method); may be repeated.",
    ),
]


@command
def explain(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts to explain (default: standard input, one text per line)."),
    ] = None,
    target: options.Targets = None,
    versus: options.Versus = None,
    token: Token = None,
    windows: options.Windows = None,
    unit: options.Units = "word",
    interactions: Interactions = None,
    pair: options.Pair = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per text and method.")] = False,
    out: Files = None,
    table: options.TableOrTexts = None,
    *,
    methods: options.MethodsToUse,
    columns: options.TextsAlone,
    classifier: options.ClassifierToExplain,
    compute: Compute,
) -> None:
    """Explain texts: score each word; larger scores mean more evidence for the class.

    explearn explain --classifier my-model --method attn_lrp --method lime "A warm, funny sequel."
    """
    files = out or []
    _check_files(files)
    _check_no_file_names(texts or ())
    explainers = methods.explainers()
    source = classifier(explainers)
    typed = texts or ()
    if table is None:
        typed = typed or _lines()
    inputs = options.given_texts(typed, table, columns, pair)
    from explearn.predictors.pretrained import as_predictor  # brings torch

    whole = as_predictor(source, compute)
    explainers = [used.for_view(whole) for used in explainers]
    loaded = _view(whole, token, versus)
    unnamed = not explainers
    if unnamed:
        explainers = [find_explainer(None, classifier=loaded, seed=methods.seed)]
    targets = None
    if target:
        targets = [target] * len(inputs)
    explained = []
    for used in explainers:
        description = None
        # Texts from the command line take no time worth a progress bar, unless they are read through windows.
        if not texts or windows is not None:
            description = f"explain by {used.name}"
        explained.append(used.iter_explain(loaded, inputs, targets, description, windows, unit))
    _write(loaded, inputs, explained, files, as_json, interactions)
    request = {
        "classifier": whole.fingerprint,
        "fingerprint": whole.fingerprint_kind,
        "texts": hashlib.sha256(repr(inputs).encode()).hexdigest(),
        "methods": {used.name: used.options.model_dump(mode="json") for used in explainers},
        "targets": target,
        "versus": versus,
        "token": token,
        "unit": unit,
        "windows": windows,
        "interactions": interactions,
    }
    from explearn.subject.manifest import Origin

    _write_manifests(files, Origin("explearn explain", source, whole, compute, [table], request))
    if as_json:
        return
    if unnamed:
        print(f"{explainers[0].name}: the default method for this classifier; --method names another")
    for path in files:
        tell(path)


def _view(classifier: Predictor, token: str | None, versus: str | None) -> Predictor:
    """Return the view of a classifier that `--token` and `--versus` ask for."""
    from explearn.predictors.heads.token_classification import at
    from explearn.predictors.views import versus as versus_view

    if token is not None:
        position = whole_number(token)
        classifier = at(classifier, token if position is None else position)
    if versus is not None:
        classifier = versus_view(classifier, versus)
    return classifier


def _write(
    classifier: Predictor,
    texts: Sequence[Any],
    explained: Sequence[Iterable[list[Attribution]]],
    files: Sequence[Path],
    as_json: bool,
    interactions: int | None,
) -> None:
    """Show each text's attributions, or write all to the files; `explained` has those of each method, text by text."""
    from explearn.methods.base.attributions import without_words  # brings scipy

    empty: dict[str, float] | None = None
    written: list[Sequence[Attribution]] = []
    for text, *by_method in zip(texts, *explained, strict=True):
        # Those of one class; a method has none of a text that it left out.
        for attributions in zip(*filter(None, by_method), strict=True):
            if interactions is not None:
                from explearn.methods.interactions import interactions as interactions_of  # brings torch

                attributions = tuple(
                    replace(each, interactions=tuple(interactions_of(classifier, text, each, interactions)))
                    for each in attributions
                )
            if empty is None:
                empty = without_words(classifier, attributions[0])
            attributions = tuple(replace(each, without_words=empty.get(each.target, math.nan)) for each in attributions)
            if as_json or not files:
                _show(as_json, attributions)
            if files:
                written.append(attributions)
    for path in files:
        WRITERS[path.suffix](path, written)


def _check_files(files: Sequence[Path]) -> None:
    """Raise ParamsError for files that cannot be written, and for those of others."""
    for path in files:
        if path.suffix not in WRITERS:
            raise ParamsError(f"--out: got {str(path)!r}; expected a name that ends in {', '.join(WRITERS)}")
        if path.suffix == ".html":
            from explearn.subject.manifest import check_page

            check_page(path, WHAT)
        else:
            check_place(path, WHAT)
    if len({os.path.realpath(path) for path in files}) < len(files):
        raise ParamsError(f"--out: got {', '.join(map(str, files))}; expected different files")


def _check_no_file_names(texts: Sequence[str]) -> None:
    """Raise ParamsError for a text that is the name of a file."""
    for text in texts:
        if os.path.isfile(text):  # noqa: PTH113 (Path.is_file raises for names that no file can have)
            raise ParamsError(
                f"texts: got the name of a file, {shown(text)}; expected a text (to read the texts of "
                "a file use `--texts FILE`)"
            )


def _write_manifests(files: Sequence[Path], origin: Origin) -> None:
    """Write a manifest next to each page, which `explearn verify` checks."""
    for path in files:
        if path.suffix == ".html":
            origin.write_manifest(path, "texts", origin.facts(path), WHAT)


def _lines() -> list[str]:
    """Return texts from standard input, one per line that is not blank.

    Raises:
        DataError: it is closed, or holds no text.
    """
    if sys.stdin is None:
        raise DataError("standard input is closed; expected texts, one per line, or on the command line")
    if sys.stdin.isatty():
        print("no text given: type texts, one per line; Ctrl+D ends", file=sys.stderr)
    lines = [line.rstrip("\r\n") for _, line in decoded_lines(sys.stdin.buffer, "standard input")]
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise DataError("standard input: no text; expected at least one")
    return texts


def _show(as_json: bool, attributions: Sequence[Attribution]) -> None:
    """Print a text's attributions: in colour, or as JSON Lines."""
    if as_json:
        unicode = (sys.stdout.encoding or "").lower().startswith("utf")
        for attribution in attributions:
            print(printable_json(attribution.to_dict(), ascii_only=not unicode))
        return
    Attributions(attributions).print()


# ---- files -----------------------------------------------------------------------------------------------------------


def _write_page(path: Path, texts: Texts) -> None:
    summaries: dict[str, str] = {}
    parts = []
    for attributions in texts:
        for attribution in attributions:
            summaries.setdefault(attribution.method, get_info(attribution.method).summary)
        parts.append(rows(attributions))
    embed_or_write("".join(parts) + methods_html(summaries), path, WHAT)


def _write_lines(path: Path, texts: Texts) -> None:
    lines = [printable_json(attribution.to_dict()) for attribution in chain.from_iterable(texts)]
    write_text(path, "".join(f"{line}\n" for line in lines), WHAT)


def _write_table(path: Path, texts: Texts) -> None:
    # Arrow is loaded only for tables: `explearn explain` starts sooner without it.
    from explearn.core.parquet import write_table
    from explearn.core.word_tables import WORD_SCHEMA, to_arrow

    table = to_arrow(chain.from_iterable(texts)).to_pylist()
    if path.suffix == ".parquet":
        write_table(path, table, WORD_SCHEMA, what=WHAT)
        return
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, WORD_SCHEMA.names)
    writer.writeheader()
    writer.writerows(table)
    write_text(path, file.getvalue(), WHAT)


WRITERS: dict[str, Callable[[Path, Texts], None]] = {
    ".html": _write_page,
    ".parquet": _write_table,
    ".csv": _write_table,
    ".jsonl": _write_lines,
}
