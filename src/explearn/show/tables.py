"""A page's tables as CSV and LaTeX, for spreadsheets and papers."""

from __future__ import annotations

import csv
import io

from explearn.show.blocks import BOLD_END, BOLD_START, Cell, Table, plain

_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "_&%#${}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--"}
    | {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "×": r"$\times$", "−": "$-$", "·": r"$\cdot$", "Δ": r"$\Delta$"}
    | {"≈": r"$\approx$", "†": r"\dag", "‡": r"\ddag", BOLD_START: r"\textbf{", BOLD_END: "}"}
)


def csv_of(table: Table) -> str:
    """Return a table as CSV: figures to six digits, with an extra column for small print if there is any."""
    noted = set()
    for row in table.rows:
        for index, cell in enumerate(row):
            if isinstance(cell, Cell) and cell.note:
                noted.add(index)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    heads = []
    for index, column in enumerate(table.columns):
        heads.append(column.title)
        if index in noted:
            heads.append(f"{column.title} interval")
    writer.writerow(heads)
    for row in table.rows:
        values = []
        for index, cell in enumerate(row):
            values.append(_plain(cell))
            if index in noted:
                values.append(getattr(cell, "note", ""))
        writer.writerow(values)
    return file.getvalue()


def latex_of(table: Table) -> str:
    r"""Return a table in LaTeX (package booktabs).

    The best figure in a column is bold; figures that are not significantly worse have an asterisk.
    """
    alignment = "".join("r" if column.numeric else "l" for column in table.columns)
    heads = " & ".join(column.title.translate(_LATEX) for column in table.columns)
    rows = [" & ".join(map(_latex, row)) + r" \\" for row in table.rows]
    lines = [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule", rf"{heads} \\", r"\midrule", *rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _plain(cell: Cell | str) -> str:
    """Return a cell's content without its small print."""
    if isinstance(cell, str):
        return plain(cell)
    return cell.text if cell.value is None else f"{cell.value:.6g}"


def _latex(cell: Cell | str) -> str:
    if isinstance(cell, str):
        return cell.translate(_LATEX)
    text = cell.text.translate(_LATEX)
    if cell.mark == "best":
        text = rf"\textbf{{{text}}}"
    if cell.mark == "tied":
        text = f"{text}$^*$"
    if cell.note:
        text += rf" {{\scriptsize ({cell.note.translate(_LATEX)})}}"
    return text
