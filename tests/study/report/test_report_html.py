"""The page is one file that shows every figure, and in which data is text and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from task_reports import check, comparison, metrics, task

from explearn.core.records import Attribution, Example
from explearn.show.html_page import page_environment, source_hash
from explearn.show.markdown import Markdown, emphasise, escape_markdown, inline_html
from explearn.show.report_html import render_html, write_html
from explearn.show.report_markdown import render_report
from explearn.show.task_report import example_reports
from explearn_study.params import Params
from explearn_study.report.files import write_report

HOSTILE = "<script>alert(1)</script>"
BROWSER = next((b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)), None)


def params(*tasks: str) -> Params:
    names = [*tasks, "another"]
    sources = {name: {"kind": "embedded", "adapter": "corpus"} for name in names}
    return Params.of({"profile": HOSTILE, "tasks": names, "sources": sources})


def attributed(example: Example, scores, method: str, predicted: str) -> Attribution:
    array = np.asarray(scores, dtype=np.float32)
    return Attribution(
        words=example.all_words, scores=array, tokens=example.all_words, token_scores=array, target=predicted,
        method=method, probability=0.875, predicted=predicted, aggregation="max", signed=True, example_id=example.id,
    )  # fmt: skip


def films(**changes):
    examples = [
        Example(
            id=f"films-{i}", words=("a", HOSTILE, "</script>", "film&amp;"), label=label, split="test", task="films"
        )
        for i, label in enumerate(("good", "bad"))
    ]
    shown = example_reports(
        examples,
        {"films-0": [0, 1, 0, 1]},
        {"films-0": ("human",)},
        {
            "expnet": {e.id: attributed(e, [0.5, 0.25, 0, 0.5], "expnet", "good") for e in examples},
            "cam": {e.id: attributed(e, [-2, 1, 0, 0.5], "cam", "good") for e in examples},
        },
        k=2,
        thresholds={"expnet": 0.5},
        positive_rate=0.2,
    )
    figures = {"expnet": 0.5, "cam": 0.25}
    return task(
        "films",
        {"expnet": metrics(0.5, 0.4, 0.6), "cam": metrics(0.25)},
        labels=[HOSTILE],
        heatmaps=shown,
        comparisons={"f1": comparison("f1", figures, {("expnet", "cam"): 0.01})},
        method_agreement={"rank_agreement": np.array([[1.0, 0.256], [0.256, 1.0]])},
        sanity={"texts": 4, "methods": {"expnet": check(), "cam": check(skipped=HOSTILE)}},
        **changes,
    )


def test_methods_that_need_a_word_of_warning_are_marked_in_every_table():
    methods = {"ivra": metrics(), "faml": metrics(), "cam": metrics()}
    figures = {"ivra": 0.5, "faml": 0.4, "cam": 0.25}
    of = task(
        "films",
        methods,
        comparisons={"f1_topk": comparison("f1_topk", figures)},
        sanity={"texts": 4, "methods": {"ivra": check()}},
    )
    found = re.findall(r'<th scope="row">(ivra|faml|cam)([^<]*)<', page := render_html(params("films"), [of]))
    assert set(found) == {("ivra", "&nbsp;†"), ("faml", "&nbsp;‡"), ("cam", "")} and len(found) > 15
    assert "† explains a classifier of its own" in page and "‡ searches, on every text" in page


class Page(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "img", "wbr"):
            self._open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        # Every element that opens is closed, in order.
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] == "script":
            self.scripts[-1] += data
        elif "style" not in self._open:
            self.text += data


@pytest.fixture(scope="module")
def source() -> str:
    return render_html(params("films"), [films()])


@pytest.fixture(scope="module")
def page(source) -> Page:
    return Page(source)


def test_hostile_text_is_text(page):
    tags = [tag for tag, _ in page.elements]
    assert tags.count("script") == 2
    assert f"Profile {HOSTILE}" in page.text and f"not checked: {HOSTILE}" in page.text
    data = json.loads(page.scripts[0])
    assert data["tasks"][0]["texts"][0]["words"] == ["a", HOSTILE, "</script>", "film&amp;"]
    assert "<" not in page.scripts[0]
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_nothing_is_fetched_and_no_other_script_may_run(page, source):
    addresses = [a.get(n) for _, a in page.elements for n in ("src", "href", "action") if a.get(n)]
    assert addresses and all(address.startswith(("#", "data:")) for address in addresses)
    assert not re.search(r"url\(|@import|https?://|//cdn", re.sub(r'"data:[^"]*"', "", source.split("<main")[0]))
    (policy,) = (a["content"] for t, a in page.elements if t == "meta" and "http-equiv" in a)
    assert "default-src 'none'" in policy and f"script-src '{source_hash(page.scripts[1])}'" in policy


def test_headings_labels_and_tables_are_whole(page):
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    for _, attributes in page.elements:
        for reference in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(reference, ids[0]) in ids
        if (address := attributes.get("href") or "").startswith("#"):
            assert address[1:] in ids
    assert all("scope" in a for t, a in page.elements if t == "th")
    assert all(a.get("alt") for t, a in page.elements if t == "img")
    assert all(a.get("tabindex") == "0" for _, a in page.elements if a.get("role") == "region")


def test_best_and_tied_figures_are_marked_for_eye_and_ear():
    figures = {"expnet": 0.5, "cam": 0.45}
    close = task("films", {m: metrics(f1) for m, f1 in figures.items()}, comparisons={"f1": comparison("f1", figures)})
    text = render_html(params("films"), [close])
    assert '<strong>0.500</strong><span class="hidden-text"> best</span>' in text
    assert '<u>0.450</u><span class="hidden-text"> not significantly worse</span>' in text


def test_scores_are_scaled_to_the_text_s_largest_and_chosen_words_are_kept(page):
    data = json.loads(page.scripts[0])
    assert data["methods"] == ["expnet", "cam"]
    (first, second) = data["tasks"][0]["texts"]
    assert first["scores"] == [[99, 50, 0, 99], [-99, 50, 0, 25]]
    assert first["chosen"] == ["1001", "0101"] and first["marked"] == "0101" and second["marked"] == "0000"
    assert (first["label"], second["label"], second["predicted"], first["pair"]) == ("good", "bad", "good", -1)
    assert first["answers"] == [None, None]
    assert (first["right"], second["right"]) == (True, False)


def test_of_a_question_the_true_answer_is_shown_and_nobody_is_said_to_be_right():
    asked = Example("q", ("who",), "answer", "test", "facts", ("a", "quick", "fox"), (2, 4))
    shown = example_reports(
        [asked], {}, {}, {"lime": {"q": attributed(asked, [1, 0, 0, 0], "lime", "answer")}},
        k=1, thresholds={}, positive_rate=0.2,
    )  # fmt: skip
    of = task("facts", {"lime": metrics()}, heatmaps=shown, examples=shown)
    (text,) = json.loads(Page(render_html(params("facts"), [of])).scripts[0])["tasks"][0]["texts"]
    assert (text["label"], text["right"], text["pair"]) == ("quick fox", None, 1)
    assert "**q** · true label quick fox · predicted answer" in render_report(params("facts"), [of])


def test_figures_are_inside_the_file(tmp_path):
    write_report(tmp_path, params("films"), [films()])
    found = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    images = [a["src"] for t, a in found.elements if t == "img"]
    # The first look, what agreement costs, F1 and AUROC: all that report.md and machine/costs.md show.
    assert len(images) == 4 and all(image.startswith("data:image/svg+xml;base64,") for image in images)
    again = (tmp_path / "report.html").read_bytes()
    write_html(tmp_path / "report.html", params("films"), [films()])
    assert (tmp_path / "report.html").read_bytes() == again


def test_long_names_may_break_behind_an_underscore_and_are_escaped():
    shown = page_environment().from_string("{{ name | breakable }}").render(name="a_<b>_c")
    assert shown == "a_<wbr>&lt;b&gt;_<wbr>c"


def test_our_markdown_becomes_html():
    assert inline_html(Markdown(f"{emphasise(['a<b', '*c*'], [True, False])}")) == (
        "<strong>a&lt;b</strong> &#42;c&#42;"
    )
    assert "<script" not in inline_html(escape_markdown(HOSTILE))


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_a_browser_draws_the_heatmaps_without_a_complaint(source, tmp_path):
    (tmp_path / "report.html").write_text(source, encoding="utf-8")
    done = subprocess.run(
        [
            str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
            "--no-first-run", "--disable-background-networking", "--virtual-time-budget=3000",
            "--enable-logging=stderr", "--dump-dom", f"file://{tmp_path / 'report.html'}",
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    drawn = Page(done.stdout.replace("<!DOCTYPE html>", ""))
    assert "2 of 2 texts" in drawn.text
    # The text's own words, once for the marks and once for each method, in two texts.
    assert done.stdout.count("&lt;script&gt;alert(1)&lt;/script&gt;</") >= 6
    assert [t for t, _ in drawn.elements].count("script") == 2
    assert all(a.get("aria-sort") == "none" for t, a in drawn.elements if t == "th" and "data-first" in a)
    assert "✓ right" in drawn.text and "✗ wrong" in drawn.text
