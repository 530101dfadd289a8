"""The JSON API gives what the methods give, within its limits."""

import asyncio
import json
import threading
from urllib.parse import urlencode

import httpx2
import numpy as np
import pytest
import tiny
from fastapi.testclient import TestClient
from saying import complaint
from serving_cases import METHODS, app_of

import explearn
from explearn import ComputeOptions, DataError, TransformerPredictor, load_classifier
from explearn_apps.serve import limits as limits_module
from explearn_apps.serve.app import make_app
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.schemas import ExplainResponse

TEXTS = list(tiny.TEXTS)


def explain(client, **wanted):
    """The results for some texts; the answer is as the OpenAPI description says."""
    answer = client.post("/explain", json=wanted)
    assert answer.status_code == 200, answer.text
    ExplainResponse.model_validate_json(answer.content)
    actual = answer.json()["results"]
    return actual


def same(row, attribution, rtol=1e-4):
    assert (row["method"], row["label"]) == (attribution.method, attribution.target)
    assert row["words"] == list(attribution.words)
    assert row["spans"] == [list(span) for span in attribution.spans]
    assert row["signed"] == attribution.signed
    np.testing.assert_allclose(row["scores"], attribution.scores, rtol=rtol, atol=1e-6)


class TestExplain:
    def test_scores_are_those_of_the_methods(self, client):
        results = explain(client, texts=TEXTS, methods=list(METHODS))
        for number, name in enumerate(METHODS):
            expected = explearn.get_explainer(name).explain(tiny.classifier("bert", 3), TEXTS)
            for result, attribution in zip(results, expected, strict=True):
                same(result["explanations"][number], attribution)

    def test_the_first_method_and_the_predicted_label_are_the_default(self, client):
        (result,) = explain(client, texts=TEXTS[:1])
        (row,) = result["explanations"]
        assert row["method"] == METHODS[0] and row["label"] == row["predicted"]
        assert result["probabilities"] is None

    def test_probabilities_are_the_classifier_s(self, client):
        results = explain(client, texts=TEXTS, methods=[])
        classifier = tiny.classifier("bert", 3)
        expected = classifier.predict_proba(TEXTS)
        for result, row in zip(results, expected, strict=True):
            assert result["explanations"] == []
            assert result["probabilities"] == pytest.approx(dict(zip(classifier.labels, row, strict=True)), rel=1e-5)

    def test_one_label_or_several(self, client):
        (one,) = explain(client, texts=TEXTS[:1], label="bad")
        (several,) = explain(client, texts=TEXTS[:1], label=["good", "bad"])
        assert [row["label"] for row in several["explanations"]] == ["good", "bad"]
        expected = pytest.approx(one["explanations"][0]["scores"], rel=1e-4, abs=1e-6)
        assert several["explanations"][1]["scores"] == expected

    def test_pairs(self, client):
        for first, second in tiny.PAIRS:
            (result,) = explain(client, texts=[first], pairs=[second])
            assert result["explanations"][0]["pair_start"] == len(first.split())

    def test_what_a_text_holds_comes_back_escaped(self, client):
        text = "<b>fox</b> \x1b[2J \u202edog\x00"
        answer = client.post("/explain", json={"texts": [text]})
        assert answer.json()["results"][0]["explanations"][0]["words"] == text.split()
        assert not {"\x1b", "\u202e", "\x00"} & set(answer.text)
        assert answer.headers["content-type"] == "application/json"

    @pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
    def test_other_kinds_of_outputs(self, problem):
        model = tiny.model("bert", 3, problem_type=problem)
        classifier = TransformerPredictor(model, tiny.tokenizer("bert"), ComputeOptions(device="cpu"), problem)
        with TestClient(app_of("attcat", classifier=classifier)) as client:
            (result,) = explain(client, texts=TEXTS[:1], probabilities=True)
            page = client.post("/", data={"text": "the fox", "before": "the dog", "method": "attcat"})
        (expected,) = explearn.get_explainer("attcat").iter_explain(classifier, TEXTS[:1])
        for row, attribution in zip(result["explanations"], expected, strict=True):
            same(row, attribution)
        if problem == "regression":
            assert result["probabilities"] is None and row["probability"] is None
            assert row["value"] == pytest.approx(attribution.value, rel=1e-4)
        else:
            assert sum(result["probabilities"].values()) != pytest.approx(1)
        assert page.status_code == 200 and "Before" in page.text


class TestTogether:
    def test_requests_at_once_go_through_the_model_together(self):
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
            same(answer.json()["results"][0]["explanations"][0], attribution, rtol=1e-3)
        batches = app.state.engine.metrics.batches.labels("occlusion")
        # One request alone, then 20 together.
        assert sum(bucket.get() for bucket in batches._buckets) <= 4 and batches._sum.get() == 21

    def test_a_request_whose_time_is_over_is_told_to_come_back(self):
        with TestClient(app_of("occlusion", limits=Limits(seconds=0))) as client:
            answer = client.post("/explain", json={"texts": TEXTS})
        assert answer.status_code == 429 and answer.headers["retry-after"] == "5"

    def test_where_one_method_fails_the_work_of_the_others_is_dropped(self, monkeypatch):
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


class TestLimits:
    def test_an_answer_holds_no_more_scores_than_allowed(self, monkeypatch):
        monkeypatch.setattr(limits_module, "MOST_SCORES", 1)
        with TestClient(app_of(limits=Limits(texts=2, text_chars=30))) as client:  # room for 32
            body = {"texts": ["the quick brown fox", "a dog"], "methods": list(METHODS)}
            assert client.post("/explain", json={**body, "label": ["bad", "good"]}).status_code == 200
            refused = client.post("/explain", json={**body, "label": ["bad", "fair", "good"]})
            assert refused.status_code == 413 and refused.json() == {
                "error": "texts: 6 words by 2 methods for 3 labels are 36 scores; expected at most 32"
            }

    def test_a_body_has_room_for_the_largest_request(self):
        text = "\N{FOX FACE}" * 10_000
        assert Limits().body_bytes > len(json.dumps({"texts": [text]})) * 32
        assert Limits(texts=1).body_bytes > len(urlencode({"text": text, "before": text}))
        assert Limits(texts=10_000, text_chars=1_000_000).body_bytes == 256 * 2**20


class TestAround:
    def test_methods_tells_what_is_served(self, client):
        served = client.get("/methods").json()
        assert [method["name"] for method in served["methods"]] == list(METHODS)
        assert served["labels"] == tiny.classifier("bert", 3).labels and served["limits"]["texts"] == 8

    def test_of_a_local_classifier_the_folder_s_name_alone_is_told(self, tiny_folder):
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

    def test_openapi_describes_the_api_and_asks_nothing_of_other_servers(self, client):
        described = client.get("/openapi.json").json()
        assert set(described["paths"]) == {"/explain", "/methods", "/health", "/ready", "/metrics"}
        body = described["paths"]["/explain"]["post"]["requestBody"]["content"]["application/json"]
        wanted = body["schema"]["properties"]
        assert set(wanted) == {"texts", "pairs", "methods", "label", "unit", "probabilities"}
        assert all(field["description"] for field in wanted.values()) and wanted["texts"]["minItems"] == 1
        assert {"400", "413", "422", "429"} <= set(described["paths"]["/explain"]["post"]["responses"])

    def test_metrics_count_and_hold_no_text(self, client):
        client.post("/explain", json={"texts": ["unmistakable words"]})
        client.get("/unmistakable")
        told = client.get("/metrics").text
        assert 'explearn_requests_total{path="/explain",status="200"}' in told
        assert 'explearn_texts_total{method="occlusion"}' in told and "unmistakable" not in told

    def test_not_ready_before_it_works(self):
        client = TestClient(app_of("occlusion"))  # its lifespan has not begun
        assert client.get("/health").status_code == 200
        assert client.get("/ready").status_code == 503

    def test_a_fault_is_told_without_its_details(self, monkeypatch):
        app = app_of("occlusion")

        def broken(*_, **__):
            raise RuntimeError("secret")

        monkeypatch.setattr(app.state.engine.explainers["occlusion"], "iter_explain", broken)
        with TestClient(app, raise_server_exceptions=False) as client:
            answer = client.post("/explain", json={"texts": ["a"]})
            assert client.get("/ready").status_code == 200
        assert answer.status_code == 500 and json.loads(answer.text) == {"error": "the service failed; see its log"}
        assert "content-security-policy" in answer.headers

    def test_what_cannot_be_served(self):
        complaint(lambda: app_of("occlusion", "occlusion"), "got 'occlusion' twice")
        complaint(lambda: make_app(tiny.classifier("bert", 3), []), "got none")
        complaint(lambda: app_of("marker"), "not trained")
        complaint(lambda: app_of(classifier=tiny.make_answerer()), "expected a classifier of texts")
        complaint(lambda: app_of(classifier=tiny.make_tagger()), "expected a classifier of texts")
