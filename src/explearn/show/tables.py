"""A page's tables as CSV and LaTeX, for spreadsheets and papers."""

from __future__ import annotations

import csv
import io

from explearn.show.blocks import BOLD_END, BOLD_START, Cell, Table

_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "_&%#${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}
    | {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "×": r"$\times$", "−": "$-$", "·": r"$\cdot$", "Δ": r"$\Delta$"}
    | {"†": r"\dag", "‡": r"\ddag", BOLD_START: r"\textbf{", BOLD_END: "}"}
)


def csv_of(table: Table) -> str:
    """Return a table as CSV: figures to six digits, with an extra column for small print if there is any."""
    noted = [any(_plain(cell)[1] for cell in column) for column in zip(*table.rows, strict=True)]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    titles = [column.title for column in table.columns]
    writer.writerow(_spread([(title, f"{title} interval") for title in titles], noted))
    for row in table.rows:
        writer.writerow(_spread([_plain(cell) for cell in row], noted))
    return file.getvalue()


def latex_of(table: Table) -> str:
    r"""Return a table in LaTeX (package booktabs).

    The best figure in a column is bold; figures that are not significantly worse have an asterisk.
    """
    places = "".join("r" if column.numeric else "l" for column in table.columns)
    heads = " & ".join(column.title.translate(_LATEX) for column in table.columns)
    rows = [" & ".join(map(_latex, row)) + r" \\" for row in table.rows]
    lines = [rf"\begin{{tabular}}{{{places}}}", r"\toprule", rf"{heads} \\", r"\midrule", *rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _plain(cell: Cell | str) -> tuple[str, str]:
    """Return a cell's content, and its small print."""
    if isinstance(cell, str):
        return cell.replace(BOLD_START, "").replace(BOLD_END, ""), ""
    return cell.text if cell.value is None else f"{cell.value:.6g}", cell.note


def _spread(pairs: list[tuple[str, str]], noted: list[bool]) -> list[str]:
    return [part for pair, two in zip(pairs, noted, strict=True) for part in pair[: 1 + two]]


def _latex(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return cell.translate(_LATEX)
    start, end = {"best": (r"\textbf{", "}"), "tied": ("", "$^*$")}.get(cell.mark, ("", ""))
    note = rf" {{\scriptsize ({cell.note.translate(_LATEX)})}}" if cell.note else ""
    return f"{start}{cell.text.translate(_LATEX)}{end}{note}"
