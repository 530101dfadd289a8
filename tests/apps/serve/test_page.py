"""The page without a script: a form, and an answer in which nothing of a text acts."""

import json
import re
from itertools import chain
from urllib.parse import unquote

import pytest
import tiny
from fastapi.testclient import TestClient
from html_pages import Page
from serving_cases import METHODS, app_of

import explearn
from explearn import ComputeOptions, LLMClassifier, TransformerPredictor
from explearn.show.display import words_html

HOSTILE = '</textarea><script>alert(1)</script> "onmouseover="alert(2) \x1b[2J \u202efox'


def test_an_empty_form(client):
    page = Page(client.get("/").text)
    boxes = [box for box in page.all("input") if box["type"] == "checkbox"]
    assert [box["value"] for box in boxes] == list(METHODS)
    assert ["checked" in box for box in boxes] == [True, False]
    labelled = {label.get("for") for label in page.all("label")}
    assert {field["id"] for field in [*page.all("textarea"), *page.all("select")]} <= labelled


def test_a_second_text_is_asked_for_where_the_model_was_made_for_pairs(client, tmp_path):
    assert "Second text" not in client.get("/").text
    with TestClient(app_of("occlusion", pairs=True)) as for_pairs:
        page = for_pairs.get("/").text
        assert "Second text" in page
        example = str(Page(page).all("a")[0]["href"])
        assert "pair=" in example and for_pairs.get("/" + example).status_code == 200
    prompt = {"model": "m", "template": "{text} So {pair}?", "label_words": {"no": "no", "yes": "yes"}}
    prompted = LLMClassifier(prompt, tmp_path / "answers")
    assert "Second text" in TestClient(app_of("occlusion", classifier=prompted)).get("/").text


def test_a_pair_in_a_link_has_its_field_on_any_page(client):
    answer = client.get("/", params={"text": "the fox", "pair": "a dog", "method": "occlusion"})
    assert Page(answer.text).texts["textarea"][1].strip() == "a dog"


def test_label_probabilities_and_heatmaps_side_by_side(client):
    text = tiny.TEXTS[0]
    page = client.post("/", data={"text": text, "method": list(METHODS)}).text
    classifier = tiny.classifier("bert", 3)
    (label,) = classifier.predict([text])
    probabilities = classifier.predict_proba([text])[0]
    assert f"<h2>Label: {label}</h2>" in page
    assert [f"{p:.3f}" for p in sorted(probabilities, reverse=True)] == re.findall(r"<span>([01]\.\d+)</span>", page)
    for name in METHODS:
        attribution = explearn.explain(classifier, text, name)
        # The house's colours, as everywhere.
        assert words_html(attribution) in page
        assert f"<b>{name}</b>: " in page
    assert "Before" not in page and Page(page).texts["textarea"][0].strip() == text


def test_a_changed_text_is_set_against_the_one_before(client):
    before = "the quick brown fox"
    now = "the lazy brown fox"
    first = Page(client.post("/", data={"text": before, "method": "occlusion"}).text)
    hidden = {field["name"]: field["value"] for field in first.all("input") if field["type"] == "hidden"}
    assert hidden == {"before": before, "before_pair": ""}
    page = client.post("/", data={"text": now, "method": "occlusion", **hidden}).text
    classifier = tiny.classifier("bert", 3)
    old, new = classifier.predict_proba([before, now])
    expected = sorted(((b, a) for a, b in zip(old, new, strict=True)), reverse=True)
    cells = re.findall(r"<span>([01]\.\d+)</span></td>\s*<td>([\d.]+)</td>\s*<td>([+−][\d.]+)</td>", page)
    assert cells == [(f"{b:.3f}", f"{a:.3f}", f"{b - a:+.3f}".replace("-", "−")) for b, a in expected]


def test_the_link_of_a_result_gives_it_again_and_the_download_holds_it(client):
    sent = {"text": "the fox", "pair": "a dog", "method": "occlusion", "label": "0", "unit": "word"}
    first = client.post("/", data=sent)
    link, download = (a["href"] for a in Page(first.text).all("a")[:2])
    again = client.get("/" + str(link))
    assert again.status_code == 200 and again.text == first.text
    document = json.loads(unquote(str(download).removeprefix("data:application/json,")))
    label = document["explanations"][0]["label"]
    asked = {"texts": ["the fox"], "pairs": ["a dog"], "methods": ["occlusion"], "label": label}
    (answer,) = client.post("/explain", json=asked | {"probabilities": True}).json()["results"]
    assert document == {"text": "the fox", "pair": "a dog"} | answer


def test_only_named_origins_frame_the_page_and_the_log_holds_no_text(caplog):
    app = app_of(embedders=["https://example.org"])
    with caplog.at_level("INFO", "explearn_apps.serve.guard"), TestClient(app) as framed:
        answer = framed.get("/", params={"text": "the fox", "method": "occlusion"})
    assert "frame-ancestors https://example.org" in answer.headers["content-security-policy"]
    assert "GET / 200" in caplog.text and "fox" not in caplog.text


class TestWhatATextHolds:
    @pytest.fixture
    def hostile(self):
        model = tiny.model("bert", 3)
        model.config.id2label = {0: "<script>alert(3)</script>", 1: '"><img src=x onerror=alert(4)>', 2: "\x1b[2J"}
        classifier = TransformerPredictor(
            model, tiny.tokenizer("bert"), ComputeOptions(device="cpu"), "<b>name</b>\x1b"
        )
        with TestClient(app_of("occlusion", classifier=classifier)) as client:
            yield client

    @pytest.mark.parametrize("field", ["text", "pair", "before", "label"])
    def test_is_shown_and_nothing_more(self, hostile, field):
        given = {"text": "the fox", "method": "occlusion", field: HOSTILE}
        answer = hostile.post("/", data=given)
        page = Page(answer.text)
        assert answer.status_code == (422 if field == "label" else 200)
        assert page.all("script") == [{"src": "page.js", "defer": None}]
        assert not page.all("img") and "name" not in page.texts.get("b", [])
        assert not page.acts()
        shown = re.sub(r'<textarea.*?</textarea>|<input type="hidden".*?>|data-word=".*?"', "", answer.text, flags=re.S)
        assert not {"\x1b", "\u202e"} & set(shown)

    def test_stays_in_its_field_as_it_was(self, hostile):
        text = f"\n the\tfox\n\n{HOSTILE}  "
        page = Page(hostile.post("/", data={"text": text, "method": "occlusion"}).text)
        # A browser takes the first line feed for the element's own.
        assert page.texts["textarea"][0] == f"\n{text}"
        hidden = {field["name"]: field["value"] for field in page.all("input") if field["type"] == "hidden"}
        # The only method is no choice.
        assert hidden == {"before": text, "before_pair": "", "method": "occlusion"}
        again = hostile.post("/", data={"text": text, **hidden})
        assert again.status_code == 200 and "Before" not in again.text
        words = [button["data-word"] for button in page.all("button") if "data-word" in button]
        assert words and words == text.split()[: len(words)]


def test_nothing_comes_from_elsewhere(client):
    for path in ("/", "/page.css", "/page.js"):
        answer = client.get(path)
        assert answer.status_code == 200 and not re.search(r"(?:https?:)?//[\w.]+\.\w|@import|url\(", answer.text)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy.replace("style-src-attr 'unsafe-inline'", "")


@pytest.mark.parametrize(
    ("text", "method", "said"),
    [
        (" ", "occlusion", "text 1: field &#39;text&#39; is empty"),
        ("fox", "lime", "unknown method &#39;lime&#39;"),
        ("fox " * 200, "occlusion", "expected at most 500"),
        ("fox", [], "Choose at least one method"),
    ],
)
def test_mistakes_are_one_sentence_beside_the_form(client, text, method, said):
    answer = client.post("/", data={"text": text, "method": method})
    assert answer.status_code in (413, 422)
    assert re.search(rf'<p class="error" role="alert">[^<]*{said}', answer.text), answer.text
    assert Page(answer.text).texts["textarea"][0].strip() == text.strip()


def test_what_a_comparison_found_is_said_and_escaped():
    client = TestClient(app_of(verdict="Use <b>attcat</b>."))
    assert "What to trust.</b> Use &lt;b&gt;attcat&lt;/b&gt;." in client.get("/").text
    assert client.get("/methods").json()["verdict"] == "Use <b>attcat</b>."


def test_the_page_of_the_api_has_every_path_and_field_and_loads_nothing_from_elsewhere(client):
    api = client.get("/openapi.json").json()
    answer = client.get("/docs")
    page = Page(answer.text)
    shown = list(chain.from_iterable(page.texts.values()))
    for path, verbs in api["paths"].items():
        assert all(f"{verb.upper()} {path}" in shown for verb in verbs)
    for schema in api["components"]["schemas"].values():
        for field in ("texts", *schema["properties"]):
            assert f"<code>{field.replace('_', '_<wbr>')}</code>" in answer.text
    assert not page.all("script") and "http" not in "".join(str(link["href"]) for link in page.all("a"))
