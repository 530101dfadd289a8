"""What docs/apps/serve.md says is so."""

import json
import re

import tiny
from fastapi.testclient import TestClient
from places import ROOT
from serving_cases import METHODS

import explearn
from explearn_apps.serve.limits import MOST_BODY_BYTES, MOST_SCORES, MOST_WAITING, Limits
from explearn_apps.serve.schemas import ExplainRequest, ExplainResponse

PAGE = (ROOT / "docs" / "apps" / "serve.md").read_text(encoding="utf-8")


def test_the_example_is_answered_as_it_says(client):
    body = re.search(r"-d '(\{.*\})'", PAGE)
    assert body
    answer = client.post("/explain", content=body[1], headers={"content-type": "application/json"})
    document = answer.json()["results"][0]
    example = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.S)[0])
    ExplainResponse.model_validate(example)
    (said,) = example["results"]
    assert list(said) == list(document) and list(said["explanations"][0]) == list(document["explanations"][0])
    for same in ("words", "spans", "method", "signed"):
        assert said["explanations"][0][same] == document["explanations"][0][same]
    assert all(f"`{name}`" in PAGE or f'"{name}"' in PAGE for name in ExplainRequest.model_fields)


def test_the_limits_are_those_of_the_code():
    limits = Limits()
    assert limits.methods == limits.labels
    for row in (
        f"* texts per request: {limits.texts} (",
        f"* characters per text: {limits.text_chars:,} (",
        f"* methods, labels per request: {limits.methods} (",
        f"* scores in an answer: {MOST_SCORES:,}, or room for every text once (",
        f"* body: room for the largest request, up to {MOST_BODY_BYTES >> 20} MiB (",
        f"* texts waiting, counted per method: {MOST_WAITING}, or room for the largest request (",
        f"* connections; of one address: {limits.connections:,}; {limits.client_connections:,} (",
        f"* time for a request to arrive: {limits.seconds:g} s (",
        f"* time to answer: {limits.seconds:g} s (",
    ):
        assert row in PAGE, row


def test_the_example_in_python(client):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    names = {"explearn": explearn, "classifier": tiny.classifier("bert", 3)}
    exec(code, names)
    with TestClient(names["app"]) as made:
        assert made.post("/explain", json={"texts": ["fox"] * 9}).status_code == 413
        assert made.post("/explain", json={"texts": ["fox"] * 8}).status_code == 200
    assert METHODS[1] == "attcat"


def test_the_container_runs_as_a_user_without_rights():
    recipe = (ROOT / "examples/container/Containerfile").read_text(encoding="utf-8")
    last_stage = recipe.rpartition("\nFROM ")[2]
    assert 0 < last_stage.index("\nUSER 10001\n") < last_stage.index("\nENTRYPOINT")
    kept = (ROOT / "examples/container/Containerfile.dockerignore").read_text(encoding="utf-8").split()
    for names in re.findall(r"^COPY (?!--from)(.*) \S+$", recipe, re.M):
        for name in names.split():
            assert (ROOT / name).exists() and f"!{name}" in kept, name
