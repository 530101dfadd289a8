"""The HTML page: one file that fetches nothing and runs no script but its own, with all text from data as text."""

import base64
import hashlib
import re
import shutil
import subprocess
from itertools import pairwise, product

import pytest
from evaluations import HOSTILE, check, metrics, paired, run, shown, task, text
from html_pages import Page

from explearn.report.figures.style import svg
from explearn.report.page import draw, report_blocks
from explearn.show.blocks import Heading, Paragraph, Picture, Table, bold, columns
from explearn.show.html_page import render_html

BROWSER = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)


@pytest.fixture(scope="module")
def source():
    figures = {"marker": 0.5, "cam": 0.45}
    texts = [text(f"a {HOSTILE} </script> film&amp;", [0, 1, 0, 1], figures, number=i) for i in range(2)]
    of = task(
        "films",
        {"marker": metrics(0.5, 0.4, 0.6), "cam": metrics(0.45)},
        labels=[HOSTILE],
        **shown(*texts, text(methods=figures, predicted="bad", number=2)),
        comparisons={"f1": paired("f1", figures), "auroc": paired("auroc", figures)},
        sanity={"marker": check(), "cam": check(skipped=HOSTILE)},
    )
    blocks = report_blocks(
        run(of, task("meals", dict.fromkeys(figures, metrics())), subtitle=HOSTILE, parameters=HOSTILE)
    )
    return render_html(blocks, draw(blocks))


@pytest.fixture(scope="module")
def page(source):
    return Page(source)


def test_hostile_text_is_text(page):
    assert [tag for tag, _ in page.elements].count("script") == 1
    assert HOSTILE in page.text and f"cam could not be checked ({HOSTILE})" in page.text and "film&amp;" in page.text
    assert not page.acts()


def test_control_characters_and_turned_text_are_shown_as_escapes():
    steering = "\x07 \x1b[2J \u202edog"
    ordinary = "a \u200f\u05e9\u05dc\u05d5\u05dd \U0001f468\u200d\U0001f469"
    picture = Picture("a.svg", steering, steering, (2, 1), lambda figure: figure.suptitle(steering))
    blocks = [
        Heading(steering, level=1),
        Paragraph(bold(steering) + ordinary),
        Table(columns(["Word"]), [[steering]], steering, methods=[steering]),
        picture,
    ]
    drawn = svg(picture)
    page = render_html(blocks, {"a.svg": drawn})
    assert not {"\x02", "\x07", "\x1b", "\u202e"} & {*page, *drawn}
    assert r"\u202edog" in drawn and rf"<strong>\x07 \x1b[2J \u202edog</strong>{ordinary}<" in page


def test_nothing_is_fetched_and_no_other_script_may_run(page, source):
    addresses = [a[n] for (_, a), n in product(page.elements, ("src", "href", "action")) if a.get(n)]
    assert addresses and all(address.startswith(("#", "data:")) for address in addresses)
    assert not re.search(r"url\(|@import|https?://|//cdn", re.sub(r'"data:[^"]*"', "", source.split("<main")[0]))
    (policy,) = (a["content"] for t, a in page.elements if t == "meta" and "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(page.texts["script"][0].encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy


def test_headings_labels_and_tables_are_whole(page):
    assert page.unclosed == []
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b <= a + 1 for a, b in pairwise(levels))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids)) and {"what-not-to-trust", "texts-films"} <= set(ids)
    for _, attributes in page.elements:
        assert attributes.get("aria-labelledby", ids[0]) in ids
        if (address := attributes.get("href") or "").startswith("#"):
            assert address[1:] in ids
    assert all("scope" in a for t, a in page.elements if t == "th")
    assert all(a.get("alt") for t, a in page.elements if t == "img")
    assert all(a.get("tabindex") == "0" for _, a in page.elements if a.get("role") == "region")


def test_best_and_tied_figures_are_marked_for_eye_and_ear(source):
    assert '<strong>0.500</strong><span class="hidden-text"> best</span><small>0.40 to 0.60</small>' in source
    assert '<u>0.450</u><span class="hidden-text"> not significantly worse</span>' in source


def test_tables_of_figures_can_be_saved(page):
    saved = {a["download"]: a["href"] for t, a in page.elements if t == "a" and "download" in a}
    table = base64.b64decode(saved["agreement-with-the-marks-films.csv"].partition("base64,")[2]).decode()
    assert "marker" in table and table.startswith("Method,F1") and saved["agreement-with-the-marks-films.tex"]


def test_rows_and_texts_can_be_filtered(page):
    assert {a["data-method"] for _, a in page.elements if "data-method" in a} == {"marker", "cam"}
    assert [a["data-answer"] for _, a in page.elements if "data-answer" in a] == ["right", "right", "right", "wrong"]
    inputs = [(a["name"], a["value"]) for t, a in page.elements if t == "input"]
    assert ("task", "films") in inputs and ("task", "meals") in inputs and ("method", "cam") in inputs
    assert len([a for _, a in page.elements if "data-score" in a]) == 32


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_a_browser_sorts_and_filters_without_a_complaint(source, tmp_path):
    clicks = (
        'document.querySelector("table.sortable thead button").click();'
        'document.querySelector("input[value=cam]").click();'
    )
    # The page's policy forbids any other script, so that these clicks are made in a copy without it.
    free = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", source)
    (tmp_path / "report.html").write_text(f"{free}<script>{clicks}</script>", encoding="utf-8")
    done = subprocess.run(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
            "--no-first-run", "--disable-background-networking", "--virtual-time-budget=3000",
            "--enable-logging=stderr", "--dump-dom", f"file://{tmp_path / 'report.html'}",
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    assert 'aria-sort="ascending"' in done.stdout or 'aria-sort="descending"' in done.stdout
    assert re.search(r'<tr data-method="cam" hidden="">', done.stdout)
