"""What people fill in: sheets, exports of tools, and what becomes of it."""

import os
import threading
from itertools import product
from unittest.mock import patch

import pytest
from chat_server import ChatServer, Reply, answer_json
from project_cases import TEXTS, mask
from sheet_cases import HOSTILE, rows, write

from explearn import Rationale
from explearn_study.annotate import command
from explearn_study.annotate.people.sheets import SheetRow, read_sheet, write_new_sheet
from explearn_study.annotate.task import Store


def fill(path, **changes):
    """Fill in a table as a person would: id -> column -> value."""
    lines = rows(path)
    for row in lines:
        row.update(changes.get(row["id"].replace("-", "_"), {}))
    return write(path, lines)


class TestTable:
    def test_no_cell_is_a_formula(self, tmp_path):
        write_new_sheet(tmp_path / "s.csv", "mark", "t", [SheetRow(e, (False,) * len(e.all_words)) for e in HOSTILE])
        for row in rows(tmp_path / "s.csv"):
            assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row.values())

    @pytest.mark.parametrize("item", [*HOSTILE, *TEXTS], ids=lambda item: repr(item.id))
    def test_marks_come_back_whatever_the_words_hold(self, tmp_path, item):
        marks = tuple(n % 2 == 0 for n in range(len(item.all_words)))
        write_new_sheet(tmp_path / "s.csv", "adjudicate", "t", [SheetRow(item, marks)])
        lines = rows(tmp_path / "s.csv")
        lines[0] |= {"verdict": "accept", "annotator": "ana"}
        write(tmp_path / "s.csv", lines)
        assert read_sheet(tmp_path / "s.csv", [item], None).decisions == [Rationale(item.id, "ana", "human", marks)]


ANSWERS = {
    TEXTS[0].text: answer_json("positive", "warm", reason="<i>It</i> praises."),
    TEXTS[1].text: answer_json("negative", "slow"),
    TEXTS[9].text: answer_json("positive", "cast"),
}


@pytest.fixture
def annotated(films):
    """Three texts with a model's rationales; f-7 has the words of f-0."""
    with ChatServer(lambda request: Reply(ANSWERS.get(request.text, answer_json("positive")))) as server:
        films.succeed("run", server=server)
    return films


class TestSpotCheck:
    def test_a_sample_of_what_was_kept_is_written(self, annotated):
        out = annotated.root / "s.csv"
        assert "4 texts" in annotated.succeed("sheet", "--out", out)
        actual = {row["id"]: row for row in rows(out)}
        assert set(actual) == {"f-0", "f-1", "f-7", "f-9"}
        assert actual["f-0"]["text"] == "a [[warm]] and funny film"
        assert actual["f-0"]["reason"] == "<i>It</i> praises."
        with patch.object(command, "SHEET_TEXTS", 2):
            annotated.succeed("sheet", "--out", annotated.root / "two.csv")
        assert sorted(row["label"] for row in rows(annotated.root / "two.csv")) == ["negative", "positive"]

    def test_verdicts_decide_what_stays(self, annotated):
        """f-0 accepted, f-1 rejected, f-9 corrected, f-7 not looked at."""
        out = annotated.root / "s.csv"
        annotated.succeed("sheet", "--out", out)
        fill(
            out,
            f_0={"verdict": "accept", "comment": "fine"},
            f_1={"verdict": " Reject "},
            f_9={"text": "the cast is [[excellent]]"},
        )
        printed = annotated.succeed("import", out, "--annotator", "ana")
        assert "2 verdicts, 1 of them reject" in printed
        assert "human.jsonl: 1 mark\n" in printed
        assert "1 untouched text is left out" in printed
        verdicts = {row["id"]: (row["verdict"], row["comment"]) for row in annotated.rows("verdicts.jsonl")}
        assert verdicts == {"f-0": ("accept", "fine"), "f-1": ("reject", "")}
        (corrected,) = annotated.rows("human.jsonl")
        assert (corrected["id"], corrected["annotator"], corrected["rationale"]) == ("f-9", "ana", [0, 0, 0, 1])
        # f-9 is a person's now, f-1 is out.
        assert annotated.kept() == {"f-0": "01000", "f-7": "01000"}
        # What is judged is not drawn again.
        rest = annotated.root / "rest.csv"
        annotated.succeed("sheet", "--out", rest)
        assert [row["id"] for row in rows(rest)] == ["f-7"]

    def test_a_verdict_is_about_the_marks_it_was_given_on(self, annotated):
        out = annotated.root / "s.csv"
        annotated.succeed("sheet", "--out", out)
        annotated.succeed("import", fill(out, f_1={"verdict": "reject"}), "--annotator", "ana")
        assert "f-1" not in annotated.kept()
        other = answer_json("negative", "dull")
        with ChatServer(lambda _: Reply(other)) as server:
            annotated.params(model="n")
            annotated.succeed("run", server=server)
        assert "f-1" in annotated.kept()


class TestSheetsThatPeopleFilledIn:
    def test_nothing_but_the_same_sheet_is_overwritten(self, annotated):
        out = annotated.root / "s.csv"
        annotated.succeed("sheet", "--out", out)
        fill(out, f_0={"comment": "?"})
        filled = out.read_bytes()
        message = annotated.complaint("sheet", "--out", out)
        assert "s.csv already exists, and people may have filled it in; give another name, or remove it" in message
        assert out.read_bytes() == filled


class TestMarking:
    def test_people_mark_a_blank_sheet_and_it_becomes_seeds(self, films):
        out = films.root / "blank.csv"
        with patch.object(command, "SHEET_TEXTS", 4):
            films.succeed("sheet", "--out", out, "--kind", "mark")
        lines = rows(out)
        assert sorted(row["label"] for row in lines) == ["negative"] * 2 + ["positive"] * 2
        assert all("[[" not in row["text"] for row in lines)
        first, second, *_ = (row["id"] for row in lines)
        words = {row["id"]: row["text"].split() for row in lines}
        change = {
            first.replace("-", "_"): {"text": " ".join([f"[[{words[first][0]}]]", *words[first][1:]])},
            second.replace("-", "_"): {"verdict": "accept"},
        }
        printed = films.succeed("import", fill(out, **change), "--annotator", "ana", "--seeds")
        assert "seeds.jsonl: 2 marks" in printed
        assert "2 untouched texts" in printed
        seeds = {row["id"]: sum(row["rationale"]) for row in films.rows("seeds.jsonl")}
        assert seeds == {first: 1, second: 0}

    def test_one_annotator_marks_a_text_once(self, films):
        out = films.root / "s.csv"
        write_new_sheet(out, "mark", "t", [SheetRow(TEXTS[10], mask("00000"))])
        fill(out, f_10={"verdict": "accept"})
        message = films.complaint("import", out, "--annotator", "ana")
        assert "annotator 'ana' has marked 'f-10' in another source too" in message
        films.succeed("import", out, "--annotator", "cleo")


class TestAgreement:
    def test_alpha_is_given_for_the_task_and_for_each_pair(self, films):
        """f-10: 10101 and 10100; f-11: 10001 and 00101. Of ten words 3 + 3 against 1 + 1 marked alike, 3 not.

        Nominal alpha from coincidences: 20 values, 5 + 4 = 9 marked; observed disagreement 3 words of 10;
        expected 2 * 9 * 11 / (20 * 19); 1 - 0.3 / (198 / 380) = 0.42424.
        """
        printed = films.succeed("agreement", task=False)
        line = next(line for line in printed.splitlines() if "ana and ben" in line)
        assert "0.424" in line
        # f-10: 2 * 2 / (3 + 2); f-11: 2 * 1 / (2 + 2).
        assert "0.650" in line
        assert any("films" in line and "all 2" in line and "0.424" in line for line in printed.splitlines())

    def test_differences_are_decided(self, films):
        out = films.root / "s.csv"
        films.succeed("sheet", "--kind", "adjudicate", "--out", out)
        actual = {row["id"]: row for row in rows(out)}
        assert actual["f-10"]["text"] == "[[warm]] and [[bright]] and [[kind]]"
        assert actual["f-10"]["reason"] == "ana: 1 0 1 0 1; ben: 1 0 1 0 0"
        films.succeed("sheet", "--kind", "adjudicate", "--out", films.root / "s.html")
        page = (films.root / "s.html").read_text(encoding="utf-8")
        assert "<mark>kind</mark>" in page
        fill(out, f_10={"text": "[[warm]] and [[bright]] and kind"})
        assert "adjudicated.jsonl: 1 decision\n" in films.succeed("import", out, "--annotator", "judge")
        out = films.root / "rest.csv"
        films.succeed("sheet", "--kind", "adjudicate", "--out", out)
        assert [row["id"] for row in rows(out)] == ["f-11"]
        films.succeed("import", fill(out, f_11={"verdict": "accept"}), "--annotator", "judge")
        assert "all of them are decided" in films.complaint("sheet", "--kind", "adjudicate", "--out", out)


def test_imports_at_the_same_time_lose_nothing(tmp_path):
    """Each adds its marks to what it has read: without a lock, the last one to write would drop the others'."""
    texts = TEXTS[:4]
    store = Store(tmp_path, texts)

    def add(annotator):
        for text in texts:
            store.add(store.human, [Rationale(text.id, annotator, "human", (True,) * len(text.all_words))])

    threads = [threading.Thread(target=add, args=(f"p{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    actual = {(mark.example_id, mark.annotator) for mark in store.read(store.human)}
    assert actual == {(text.id, f"p{number}") for text, number in product(texts, range(4))}
    assert [path.name for path in tmp_path.iterdir()] == ["human.jsonl"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_only_a_regular_file_is_written_to(annotated):
    os.mkfifo(annotated.root / "pipe.csv")
    assert "is a pipe or a device; expected" in annotated.complaint("sheet", "--out", annotated.root / "pipe.csv")
    assert "pipe.csv" in annotated.complaint("import", annotated.root / "pipe.csv")
