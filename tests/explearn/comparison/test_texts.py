"""Somebody's own texts from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from saying import complaint

from explearn.comparison.texts import TextColumns, given_texts, read_texts


def test_a_txt_file_has_a_text_a_line(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("A warm film.\n \nSlow and dull.\n", encoding="utf-8")
    texts = read_texts(tmp_path / "lines.txt", TextColumns())
    assert [example.text for example in texts.examples] == ["A warm film.", "Slow and dull."]


@pytest.mark.parametrize(
    "columns", [TextColumns(label="stars"), TextColumns(pair="stars"), TextColumns(rationales="mask:stars")]
)
def test_a_txt_file_has_no_other_column(tmp_path: Path, columns: TextColumns) -> None:
    (tmp_path / "lines.txt").write_text("A warm film.\n", encoding="utf-8")
    complaint(lambda: read_texts(tmp_path / "lines.txt", columns), "lines.txt, row 1, field 'stars': missing")


@pytest.mark.parametrize(
    ("marks_by", "annotator", "kind"),
    [
        (None, "table", "unknown"),
        ("people", "table", "human"),
        ("model", "table", "llm"),
        ("nurses", "nurses", "unknown"),
    ],
)
def test_marks_are_by_people_only_if_the_user_says_so(marks_by, annotator, kind):
    columns = TextColumns(rationales="mask:mask", marks_by=marks_by)
    (marks,) = given_texts([{"text": "fine film", "mask": "[1, 0]"}], columns=columns).rationales
    assert (marks.annotator, marks.kind) == (annotator, kind)
