"""Texts in scripts with and without spaces, asked of the service."""

import html
import re

import pytest
from fastapi.testclient import TestClient
from script_cases import KINDS, TEXTS, classifier
from serving_cases import app_of


@pytest.mark.parametrize("kind", KINDS)
def test_words_and_the_words_to_change_are_the_text_s(kind):
    with TestClient(app_of("occlusion", classifier=classifier(kind))) as client:
        for text, words in TEXTS.values():
            expected = [word.strip() for word in words.split("|")]
            (row,) = client.post("/explain", json={"texts": [text]}).json()["results"][0]["explanations"]
            assert row["words"] == expected and [text[a:b] for a, b in row["spans"]] == expected
            page = client.post("/", data={"text": text, "method": "occlusion"}).text
            assert [html.unescape(word) for word in re.findall('data-word="([^"]*)"', page)] == expected
