"""What people fill in: sheets, exports of tools, and what becomes of it."""

import base64
import html
import json
import os
import re
import shutil
import subprocess
from unittest.mock import patch
from urllib.parse import unquote

import pytest
from chat_server import Reply, answer_json
from project_cases import TEXTS, example, mask
from saying import complaint
from sheet_cases import HOSTILE, rows, write

from explearn import ParamsError, Rationale
from explearn_study.annotate import command
from explearn_study.annotate.people.sheets import SheetRow, read_sheet, write_new_sheet
from explearn_study.annotate.task import Verdict


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
    films.served(lambda request: Reply(ANSWERS.get(request.text, answer_json("positive"))), "run")
    return films


@pytest.mark.parametrize(
    "row",
    [
        {"sheet": "mark", "text": "one two"},
        {"sheet": "mark", "text": "one two", "shown": "0 \u00b2"},
        {"sheet": "mark", "text": "[[one]] two", "shown": "0 0", "annotator": "ana", "verdict": "reject"},
        {"sheet": "check", "text": "one two", "shown": "0 0", "annotator": "ana", "rationale": {"0": 1}},
    ],
    ids=lambda value: ascii(value)[:60],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path, row):
    path = tmp_path / "sheet.jsonl"
    path.write_text(json.dumps({"id": "f-0", **row}) + "\n", encoding="utf-8")
    complaint(lambda: read_sheet(path, [example(0, "one two", "yes")], None), str(path), "row 1")


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
        verdicts = [(row["id"], row["verdict"], row["comment"]) for row in annotated.rows("verdicts.jsonl")]
        assert sorted(verdicts) == [("f-0", "accept", "fine"), ("f-1", "reject", "")]
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
        annotated.params(model="n")
        annotated.served(lambda _: Reply(other), "run")
        assert "f-1" in annotated.kept()

    def test_nothing_but_the_same_sheet_is_overwritten(self, annotated):
        out = annotated.root / "s.csv"
        annotated.succeed("sheet", "--out", out)
        fill(out, f_0={"comment": "?"})
        filled = out.read_bytes()
        message = annotated.complaint("sheet", "--out", out)
        assert "s.csv: exists and is not this sheet" in message
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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_only_a_regular_file_is_written_to(annotated):
    os.mkfifo(annotated.root / "pipe.csv")
    assert "is a pipe or a device; expected" in annotated.complaint("sheet", "--out", annotated.root / "pipe.csv")
    assert "pipe.csv" in annotated.complaint("import", annotated.root / "pipe.csv")


def all_marked():
    return [(item, (True,) * len(item.all_words)) for item in HOSTILE]


def page_of(folder, kind, sheet_rows, **options):
    write_new_sheet(folder / "s.html", kind, "A <title>", sheet_rows, **options)
    return (folder / "s.html").read_text(encoding="utf-8")


class TestPage:
    @pytest.mark.parametrize("kind", ["check", "mark", "adjudicate"])
    def test_whatever_a_text_holds_is_shown_as_text(self, tmp_path, kind):
        marked = [SheetRow(e, m, "<script>reason()</script>", {"<b>ana</b>": m}) for e, m in all_marked()]
        page = page_of(tmp_path, kind, marked)
        body = page.partition("<main>")[2].partition("</main>")[0]
        assert page.count("<script>") == 1 and "<b>" not in page
        tags = set(re.findall(r"<([a-z]+)", body))
        assert tags <= {"article", "div", "span", "button", "label", "input", "mark"}
        words = {html.unescape(word) for word in re.findall(r"<button[^>]*>([^<]*)</button>", body)}
        assert all(words >= set(item.all_words) for item in HOSTILE)
        assert "&lt;script&gt;reason()&lt;/script&gt;" in body
        assert "7*7" in body

    def test_nothing_is_loaded_from_elsewhere(self, tmp_path):
        page = page_of(tmp_path, "check", [SheetRow(TEXTS[0], mask("01010"))])
        assert "default-src 'none'" in page
        assert not re.search(
            r"(src|href)\s*=|@import|url\(", page.replace("link.href =", "").replace("default-src", "")
        )

    def test_it_shows_the_guideline(self, tmp_path):
        guideline = ["bad: they would <not> come again"]
        page = page_of(tmp_path, "mark", [SheetRow(TEXTS[0], mask("00000"))], guideline=guideline)
        assert "bad: they would &lt;not&gt; come again" in page

    def test_another_ending_is_refused(self, tmp_path):
        with pytest.raises(ParamsError, match=r"expected a file ending in \.html or \.csv"):
            write_new_sheet(tmp_path / "sheet.xlsx", "check", "t", [])


FILL_IN = """<pre id="out"></pre><script>
URL.createObjectURL = blob => {
  blob.text().then(text => { document.getElementById("out").textContent = btoa(encodeURIComponent(text)); });
  return "#";
};
const [first, second, third] = document.querySelectorAll("article");
document.getElementById("annotator").value = "=ana";
first.querySelector('input[value="accept"]').click();
second.querySelectorAll(".words button")[1].click();
third.querySelector('input[value="reject"]').click();
third.querySelector(".comment").value = 'no, "really"';
document.getElementById("save").click();
</script></body>"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on this machine")
@pytest.mark.timeout(120)
def test_what_the_page_saves_is_read_back(tmp_path):
    """In a real browser: the first accepted, a word of the second clicked, the third rejected, the fourth left."""
    shown = [*HOSTILE[:3], HOSTILE[4]]
    nothing = [(False,) * len(item.all_words) for item in shown]
    page = page_of(tmp_path, "check", map(SheetRow, shown, nothing)).replace("</body>", FILL_IN)
    (tmp_path / "s.html").write_text(page, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "s.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    encoded = re.search(r'<pre id="out">([^<]+)</pre>', done.stdout)
    saved = unquote(base64.b64decode(encoded[1]).decode())
    (tmp_path / "saved.csv").write_text(saved, encoding="utf-8", newline="")
    actual = read_sheet(tmp_path / "saved.csv", HOSTILE, None)
    assert actual.verdicts == [
        Verdict("f-20", "=ana", "accept", nothing[0]),
        Verdict("f-22", "=ana", "reject", nothing[2], 'no, "really"'),
    ]
    assert actual.rationales == [Rationale("f-21", "=ana", "human", (False, True, *nothing[1][2:]))]
    assert actual.untouched == 1
