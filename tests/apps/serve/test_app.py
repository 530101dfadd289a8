"""The JSON API gives what the methods give, within its limits."""

import json

import numpy as np
import pytest
import tiny
from fastapi.testclient import TestClient
from serving_cases import METHODS, app_of

import explearn
from explearn import ComputeOptions, TransformerPredictor
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


class TestAround:
    def test_methods_tells_what_is_served(self, client):
        served = client.get("/methods").json()
        assert [method["name"] for method in served["methods"]] == list(METHODS)
        assert served["labels"] == tiny.classifier("bert", 3).labels and served["limits"]["texts"] == 8

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
