"""Hostile requests to a real server: each gets a status 4xx and one sentence, and it serves on."""

import json
import socket
import time

import httpx2
import pytest
from serving_cases import LIMITS, received, sentence_of, status_of

GOOD = {"texts": ["the quick brown fox"], "methods": ["occlusion"]}


def as_json(**changes):
    return json.dumps({**GOOD, **changes}).encode()


BODIES = {
    "nothing": (b"", 400),
    "raw control characters": (b'{"texts": ["the \x1b[2J fox"]}', 400),
    "deep nesting": (b'{"texts": ' + b"[" * 9000 + b"]" * 9000 + b"}", 400),
    "a field of control characters": (as_json(**{"\x1b]0;x\x07": 1}), 422),
    "too many texts": (as_json(texts=["a"] * 9), 413),
    "a text too long": (as_json(texts=["a " * 251]), 413),
    "a method's name of control characters": (as_json(methods=["\x1b[2J\u202e"]), 422),
    "too large": (b" " * (LIMITS.body_bytes + 1), 413),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_cannot_be_used(live, name):
    body, status = BODIES[name]
    answer = live.post(body)
    assert status_of(answer) == status, answer
    sentence = sentence_of(answer)
    assert sentence and len(sentence) < 600 and sentence.isprintable()
    # Nothing of the answer acts on a page or a terminal.
    assert b"content-type: application/json" in answer and b"nosniff" in answer
    assert b"\x1b" not in answer and "\u202e".encode() not in answer


def test_a_client_that_sends_all_before_it_reads_gets_the_refusal(live):
    body = b" " * 5_000_000
    with httpx2.Client(base_url=live.address) as client:
        answer = client.post("/explain", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 413 and "expected no more" in answer.json()["error"]
    with socket.create_connection(("127.0.0.1", live.port), timeout=5) as connection:
        head = f"POST /explain HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        for part in (head.encode(), body[: len(body) // 2], body[len(body) // 2 :]):
            connection.sendall(part)  # no reset
            time.sleep(0.1)
        assert status_of(received(connection)) == 413


LINE = b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
POST = b"POST /explain HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
JSON = b"content-type: application/json\r\n"

RAW = {
    "a path of control characters": (b"GET /%1b%5b2J%e2%80%ae" + LINE + b"\r\n", 404),
    "another host": (b"GET /methods HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n", 400),
    "chunks without end": (
        POST + JSON + b"transfer-encoding: chunked\r\n\r\n" + (b"1000\r\n" + b" " * 4096 + b"\r\n") * 50, 413
    ),
    "a length beyond all bounds": (POST + JSON + b"content-length: 1000000000000000000\r\n\r\n{", 413),
    "no kind": (POST + b"content-length: 2\r\n\r\n{}", 415),
    "a page of another site": (POST + JSON + b"sec-fetch-site: cross-site\r\ncontent-length: 2\r\n\r\n{}", 403),
    "an upgrade": (
        b"GET /explain HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", 405
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RAW)
def test_a_request_that_cannot_be_used(live, name):
    raw, status = RAW[name]
    answer = live.send(raw, wait=1)
    assert status_of(answer) == status, answer
    sentence = sentence_of(answer)
    assert sentence and len(sentence) < 600 and sentence.isprintable()


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40,
        b"GET /health" + LINE + b"x-a: " + b"a" * 200_000 + b"\r\n\r\n",
        POST + JSON + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}}",
    ],
)
def test_what_is_no_http_is_refused_by_the_server(live, raw):
    assert status_of(live.send(raw)) in (400, 501)


FORMS = {
    "a field too many": (b"text=a&colour=red", 422),
    "ten thousand fields": (b"&".join([b"method=a"] * 2000), 400),
    "no UTF-8": (b"text=%ff%fe&method=occlusion", 400),
    "a script for a method": (b"text=fox&method=%3Cscript%3Ealert(1)%3C%2Fscript%3E", 422),
    "a text before it too long": (b"text=fox&method=occlusion&before=" + b"a+" * 300, 413),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_that_cannot_be_used(live, name):
    body, status = FORMS[name]
    answer = live.post(body, "/", "application/x-www-form-urlencoded")
    assert status_of(answer) == status, answer
    page = answer.decode()
    assert 'role="alert"' in page and "<script>" not in page


def test_after_all_that_it_serves_on_without_a_fault(live):
    """Last in this file: no request above was answered by 5xx, as the service counts them itself."""
    with httpx2.Client(base_url=live.address) as client:
        assert client.get("/ready").status_code == 200
        answer = client.post("/explain", json=GOOD).json()
        assert answer["results"][0]["explanations"][0]["words"] == ["the", "quick", "brown", "fox"]
        lines = client.get("/metrics").text.splitlines()
    counted = [line for line in lines if line.startswith("explearn_requests_total{")]
    assert counted and not [line for line in counted if 'status="5' in line]
    assert "explearn_requests_in_work 1.0" in lines
