"""Requests are answered together, within the limits, by methods that fit the classifier."""

import asyncio
import threading

import httpx2
import numpy as np
import tiny
from fastapi.testclient import TestClient
from saying import complaint
from serving_cases import METHODS, app_of

import explearn
from explearn import DataError, load_classifier
from explearn_apps.serve import limits as limits_module
from explearn_apps.serve.app import make_app
from explearn_apps.serve.limits import Limits

TEXTS = list(tiny.TEXTS)


def test_requests_at_once_go_through_the_model_together():
    app = app_of("occlusion")

    async def run():
        async with app.router.lifespan_context(app):
            transport = httpx2.ASGITransport(app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client:
                await client.post("/explain", json={"texts": ["the fox"]})
                threads = threading.active_count()
                answers = await asyncio.gather(*(client.post("/explain", json={"texts": [t]}) for t in TEXTS * 4))
                assert threading.active_count() == threads
                return answers

    answers = asyncio.run(run())
    expected = explearn.get_explainer("occlusion").explain(tiny.classifier("bert", 3), TEXTS * 4)
    for answer, attribution in zip(answers, expected, strict=True):
        row = answer.json()["results"][0]["explanations"][0]
        np.testing.assert_allclose(row["scores"], attribution.scores, rtol=1e-3, atol=1e-6)
    batches = app.state.engine.metrics.batches.labels("occlusion")
    # One request alone, then 20 together.
    assert sum(bucket.get() for bucket in batches._buckets) <= 4 and batches._sum.get() == 21


def test_a_request_whose_time_is_over_is_told_to_come_back():
    with TestClient(app_of("occlusion", limits=Limits(seconds=0))) as client:
        answer = client.post("/explain", json={"texts": TEXTS})
    assert answer.status_code == 429 and answer.headers["retry-after"] == "5"


def test_where_one_method_fails_the_work_of_the_others_is_dropped(monkeypatch):
    app = app_of()
    begun = []
    dropped = []

    async def submit(key, _):
        method = key[0]
        begun.append(method)
        if method == METHODS[1]:
            raise DataError("one sentence")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            dropped.append(method)
            raise

    monkeypatch.setattr(app.state.engine.batcher, "submit", submit)
    with TestClient(app) as client:
        answer = client.post("/explain", json={"texts": TEXTS, "methods": list(METHODS)})
        assert answer.status_code == 422 and answer.json() == {"error": "one sentence"}
        assert begun == list(METHODS) and dropped == [METHODS[0]]


def test_an_answer_holds_no_more_scores_than_allowed(monkeypatch):
    monkeypatch.setattr(limits_module, "MOST_SCORES", 1)
    with TestClient(app_of(limits=Limits(texts=2, text_chars=30))) as client:  # room for 32
        body = {"texts": ["the quick brown fox", "a dog"], "methods": list(METHODS)}
        assert client.post("/explain", json={**body, "label": ["bad", "good"]}).status_code == 200
        refused = client.post("/explain", json={**body, "label": ["bad", "fair", "good"]})
        assert refused.status_code == 413 and refused.json() == {
            "error": "texts: 6 words by 2 methods for 3 labels are 36 scores; expected at most 32"
        }


def test_of_a_local_classifier_the_folder_s_name_alone_is_told(tiny_folder):
    classifier = load_classifier(str(tiny_folder), device="cpu")
    with TestClient(app_of(classifier=classifier)) as client:
        assert client.get("/methods").json()["classifier"] == tiny_folder.name
        assert str(tiny_folder.parent) not in client.get("/").text
        for weight in classifier.model.parameters():
            weight.data.fill_(float("nan"))
        answer = client.post("/explain", json={"texts": ["the fox"], "methods": []})
    assert "error" in answer.json() and tiny_folder.name in answer.text
    assert str(tiny_folder.parent) not in answer.text
    assert classifier.name == str(tiny_folder)


def test_what_cannot_be_served():
    complaint(lambda: app_of("occlusion", "occlusion"), "got 'occlusion' twice")
    complaint(lambda: make_app(tiny.classifier("bert", 3), []), "got none")
    complaint(lambda: app_of("marker"), "not trained")
    complaint(lambda: app_of(classifier=tiny.make_answerer()), "expected a classifier of texts")
    complaint(lambda: app_of(classifier=tiny.make_tagger()), "expected a classifier of texts")
