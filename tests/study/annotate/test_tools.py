"""Exports of annotation tools, imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from project_cases import TEXTS, Project

from explearn.core.errors import DataError
from explearn_study.annotate.people.imports import import_marks


def label_studio(text: str, *spans: tuple[int, int, str], **more: Any) -> dict[str, Any]:
    def region(start: int, end: int, label: str) -> dict[str, Any]:
        # Offsets of the browser, in units of UTF-16.
        units = [len(text[:offset].encode("utf-16-le")) // 2 for offset in (start, end)]
        value = {"start": units[0], "end": units[1], "text": text[start:end], "labels": [label]}
        return {"type": "labels", "from_name": "label", "to_name": "text", "value": value}

    regions = [region(*span) for span in spans]
    choice = {"type": "choices", "value": {"choices": ["positive"]}}
    return {"id": 1, "data": {"text": text}, "annotations": [{"completed_by": 3, "result": [*regions, choice]}], **more}


def at(text: str, *words: str) -> list[tuple[int, int, str]]:
    return [(text.index(word), text.index(word) + len(word), "EVIDENCE") for word in words]


EMOJI = TEXTS[2].text  # the emoji and the words after it are where offsets differ


class TestTools:
    def write(self, path: Path, value: object, lines: bool = False) -> Path:
        if lines:
            assert isinstance(value, list)
            path.write_text("".join(json.dumps(row) + "\n" for row in value), encoding="utf-8")
        else:
            path.write_text(json.dumps(value), encoding="utf-8")
        return path

    def marks(self, path: Path, tool: str, **more: Any) -> dict[tuple[str, str], str]:
        found = import_marks(path, tool, TEXTS, **more).rationales
        return {(r.example_id, r.annotator): "".join("01"[m] for m in r.mask) for r in found}

    def test_label_studio(self, tmp_path: Path) -> None:
        tasks = [
            label_studio(EMOJI, *at(EMOJI, "harming", "\u6620\u753b \U0001f600 !")),
            label_studio(TEXTS[1].text),
            {"id": 3, "data": {"text": TEXTS[4].text}, "annotations": []},
            {
                "data": {"text": "a  warm and\nfunny film", "id": "f-7"},
                "annotations": [
                    {"completed_by": {"id": 9, "email": "a@b.c"}, "result": []},
                    {"completed_by": 4, "was_cancelled": True, "result": []},
                ],
            },
        ]
        assert self.marks(self.write(tmp_path / "e.json", tasks), "label-studio") == {
            ("f-2", "annotator-3"): "00100111",
            ("f-1", "annotator-3"): "0000000",
            ("f-7", "a@b.c"): "00000",
        }

    def test_nobody_marks_a_text_twice(self, tmp_path: Path) -> None:
        text = TEXTS[1].text
        once, again = label_studio(text, *at(text, "dull")), label_studio(text, *at(text, "film"))
        both = {**once, "annotations": [*once["annotations"], *again["annotations"]]}
        for tasks, where in (([once, again], "in .*task 1 too"), ([both], "twice")):
            path = self.write(tmp_path / "e.json", tasks)
            with pytest.raises(DataError, match=f"'annotator-3' has marked 'f-1' {where}; expected it once"):
                self.marks(path, "label-studio")

    def test_label_studio_s_short_form(self, tmp_path: Path) -> None:
        text = TEXTS[1].text
        spans = [
            {"start": s, "end": e, "text": text[s:e], "labels": [label]} for s, e, label in at(text, "dull", "film")
        ]
        spans[1]["labels"] = ["TOPIC"]
        rows = [{"id": 1, "text": text, "annotator": 2, "label": spans, "sentiment": "negative"}]
        path = self.write(tmp_path / "min.json", rows)
        assert self.marks(path, "label-studio") == {("f-1", "annotator-2"): "0000011"}
        assert self.marks(path, "label-studio", evidence=["EVIDENCE"]) == {("f-1", "annotator-2"): "0000010"}

    def test_doccano(self, tmp_path: Path) -> None:
        span = {"id": 5, "start_offset": 2, "end_offset": 6, "label": "EVIDENCE"}
        rows = [
            {"id": 1, "text": EMOJI, "label": [list(item) for item in at(EMOJI, "!")], "Comments": []},
            {"id": 2, "text": TEXTS[0].text, "entities": [span], "relations": [], "example_id": "f-0"},
            {"id": 3, "text": TEXTS[1].text, "label": []},
        ]
        path = self.write(tmp_path / "ana.jsonl", rows, lines=True)
        assert self.marks(path, "doccano") == {("f-2", "ana"): "00000001", ("f-0", "ana"): "01000"}
        assert import_marks(path, "doccano", TEXTS).untouched == 1
        assert self.marks(path, "doccano", with_empty=True, annotator="ben")["f-1", "ben"] == "0000000"

    def test_brat(self, tmp_path: Path) -> None:
        folder = tmp_path / "ben"
        folder.mkdir()
        (folder / "f-7.txt").write_text("a warm\nand funny film\n", encoding="utf-8")
        lines = ["T1\tEvidence 2 6;11 16\twarm funny", "T2\tTopic 17 21\tfilm", "#1\tAnnotatorNotes T1\tsure", "R1\tx"]
        (folder / "f-7.ann").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (folder / "f-1.txt").write_text(TEXTS[1].text, encoding="utf-8")
        (folder / "f-1.ann").write_text("", encoding="utf-8")
        assert self.marks(folder, "brat", evidence=["Evidence"]) == {("f-7", "ben"): "01010"}
        assert self.marks(folder, "brat") == {("f-7", "ben"): "01011"}
        assert self.marks(folder / "f-7.ann", "brat", annotator="x") == {("f-7", "x"): "01011"}

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            ({"a": 1}, "got dict; expected the list of tasks"),
            ([3], "task 1: got 3; expected a JSON object"),
            ([{"data": {}}], "task 1, field 'text': got None; expected the text"),
            ([label_studio("another text")], "expected the words of a text of this task"),
            (
                [label_studio(TEXTS[0].text)],
                "2 texts of this task read 'a warm and funny film'; expected the id of one",
            ),
            ([label_studio(TEXTS[1].text)] * 2, "'annotator-3' has marked 'f-1' in"),
        ],
    )
    def test_label_studio_exports_that_do_not_fit(self, tmp_path: Path, value: Any, words: str) -> None:
        with pytest.raises(DataError) as caught:
            self.marks(self.write(tmp_path / "e.json", value), "label-studio")
        assert str(caught.value).startswith(str(tmp_path / "e.json"))
        assert words in str(caught.value)

    @pytest.mark.parametrize(
        ("label", "words"),
        [
            ([[0, 99, "E"]], "row 1: got the span [0, 99); expected one within the text's 25 characters"),
            ([[3, 3, "E"]], "got the span [3, 3)"),
            ([[1, 2, "E"]], "expected one with a word in it"),
            ([["0", "1", "E"]], "expected [start, end, label]"),
            (["E"], "got the span 'E'"),
        ],
    )
    def test_doccano_spans_that_cannot_be(self, tmp_path: Path, label: Any, words: str) -> None:
        path = self.write(tmp_path / "d.jsonl", [{"text": TEXTS[1].text, "label": label}], lines=True)
        with pytest.raises(DataError) as caught:
            self.marks(path, "doccano")
        assert words in str(caught.value)

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("T1\tEvidence 0 1\twarm", "f-1.ann, line 1: got the words 'warm'; expected 'a', as in the text"),
            ("T1\tEvidence x y\twarm", "expected ID<tab>TYPE START END<tab>WORDS"),
            ("T1", "expected ID<tab>TYPE START END<tab>WORDS"),
        ],
    )
    def test_brat_lines_that_cannot_be(self, tmp_path: Path, line: str, words: str) -> None:
        (tmp_path / "f-1.txt").write_text(TEXTS[1].text, encoding="utf-8")
        (tmp_path / "f-1.ann").write_text(line, encoding="utf-8")
        with pytest.raises(DataError) as caught:
            self.marks(tmp_path, "brat")
        assert words in str(caught.value)

    def test_files_that_are_not_there(self, tmp_path: Path, films: Project) -> None:
        with pytest.raises(DataError, match=r"no \.ann file"):
            self.marks(tmp_path, "brat")
        (tmp_path / "f-1.ann").write_text("", encoding="utf-8")
        with pytest.raises(DataError, match=r"f-1\.txt: no such file"):
            self.marks(tmp_path / "f-1.ann", "brat")
        assert "none.json: no such file" in films.complaint("import", "none.json", "--format", "label-studio")
        assert "none.csv: no such file" in films.complaint("import", "none.csv")
        assert "unknown format 'docano'; did you mean doccano?" in films.complaint("import", "x", "--format", "docano")

    def test_the_command_files_them_as_human_marks(self, films: Project) -> None:
        path = self.write(films.root / "e.json", [label_studio(EMOJI, *at(EMOJI, "charming"))])
        assert "human.jsonl: 1 mark\n" in films.succeed("import", path, "--format", "label-studio")
        (row,) = films.rows("human.jsonl")
        assert (row["id"], row["kind"], row["rationale"]) == ("f-2", "human", [0, 0, 1, 0, 0, 0, 0, 0])
