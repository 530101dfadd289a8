"""Somebody's own texts from files."""

from __future__ import annotations

from pathlib import Path

import pytest
from saying import complaint

from explearn.comparison.texts import TextColumns, read_texts


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
