"""The page on which people mark words."""

import base64
import html
import re
import shutil
import subprocess
from urllib.parse import unquote

import pytest
from project_cases import TEXTS, mask
from sheet_cases import HOSTILE

from explearn import ParamsError, Rationale
from explearn_study.annotate.people.sheets import SheetRow, read_sheet, write_new_sheet
from explearn_study.annotate.task import Verdict


class TestPage:
    def written(self, path, kind, *sheet_rows):
        write_new_sheet(path / "sheet.html", kind, "A <title>", sheet_rows)
        return (path / "sheet.html").read_text(encoding="utf-8")

    @pytest.mark.parametrize("kind", ["check", "mark", "adjudicate"])
    def test_whatever_a_text_holds_is_shown_as_text(self, tmp_path, kind):
        full = [(True,) * len(item.all_words) for item in HOSTILE]
        page = self.written(
            tmp_path,
            kind,
            *[
                SheetRow(e, m, "<script>reason()</script>", {"<b>ana</b>": m})
                for e, m in zip(HOSTILE, full, strict=True)
            ],
        )
        body = page.partition("<main>")[2].partition("</main>")[0]
        assert "<script" not in body
        assert "<img" not in body
        assert "<b>" not in page
        assert page.count("<script>") == 1
        tags = set(re.findall(r"<([a-z]+)", body))
        assert tags <= {"article", "div", "span", "button", "label", "input", "mark"}
        for item in HOSTILE:
            words = [html.unescape(word) for word in re.findall(r"<button[^>]*>([^<]*)</button>", body)]
            assert all(word in words for word in item.all_words)
        assert "&lt;script&gt;reason()&lt;/script&gt;" in body
        assert "7*7" in body

    def test_nothing_is_loaded_from_elsewhere(self, tmp_path):
        page = self.written(tmp_path, "check", SheetRow(TEXTS[0], mask("01010")))
        assert "default-src 'none'" in page
        assert not re.search(
            r"(src|href)\s*=|@import|url\(", page.replace("link.href =", "").replace("default-src", "")
        )

    def test_it_shows_the_guideline(self, tmp_path):
        rows = [SheetRow(TEXTS[0], mask("00000"))]
        write_new_sheet(tmp_path / "s.html", "mark", "t", rows, guideline=["bad: they would <not> come again"])
        assert "bad: they would &lt;not&gt; come again" in (tmp_path / "s.html").read_text(encoding="utf-8")

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
    write_new_sheet(tmp_path / "s.html", "check", "t", [SheetRow(e, (False,) * len(e.all_words)) for e in shown])
    page = (tmp_path / "s.html").read_text(encoding="utf-8").replace("</body>", FILL_IN)
    (tmp_path / "s.html").write_text(page, encoding="utf-8")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "s.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    encoded = re.search(r'<pre id="out">([^<]+)</pre>', done.stdout)
    saved = unquote(base64.b64decode(encoded[1]).decode())
    (tmp_path / "saved.csv").write_text(saved, encoding="utf-8", newline="")
    actual = read_sheet(tmp_path / "saved.csv", HOSTILE, None)
    nothing = [(False,) * len(e.all_words) for e in shown]
    assert actual.verdicts == [
        Verdict("f-20", "=ana", "accept", nothing[0]),
        Verdict("f-22", "=ana", "reject", nothing[2], 'no, "really"'),
    ]
    assert actual.rationales == [Rationale("f-21", "=ana", "human", (False, True, *nothing[1][2:]))]
    assert actual.untouched == 1
