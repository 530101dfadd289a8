"""Requests that mean no good, against a real server: each gets a status 4xx and one sentence, and it serves on."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Iterator

import httpx
import pytest
from serving_cases import LIMITS, Live, app_of, received, sentence_of, serving, status_of

from explearn_apps.serve.limits import Limits

GOOD = {"texts": ["the quick brown fox"], "methods": ["occlusion"]}


def as_json(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


BODIES: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 422),
    "no JSON": (b"{texts: [the fox]}", 400),
    "half of it": (b'{"texts": ["the fox', 400),
    "HTML": (b"<script>alert(1)</script>", 400),
    "no UTF-8": (b'{"texts": ["\xff\xfe"]}', 400),
    "raw control characters": (b'{"texts": ["the \x1b[2J fox"]}', 400),
    "a list": (b"[]", 422),
    "null": (b"null", 422),
    "deep nesting": (b'{"texts": ' + b"[" * 9000 + b"]" * 9000 + b"}", 400),
    "NaN": (b'{"texts": ["a"], "label": NaN}', 400),
    "a number beyond floats": (b'{"texts": ["a"], "label": 1e999}', 400),
    "a number of many digits": (b'{"texts": ["a"], "label": ' + b"9" * 5000 + b"}", 400),
    "a key twice": (b'{"texts": ["a"], "texts": ["b"]}', 400),
    "half a surrogate pair": (b'{"texts": ["the \\ud800 fox"]}', 422),
    "half a surrogate pair in a key": (b'{"texts": ["a"], "\\udfff": 1}', 422),
    "half a surrogate pair in a name": (b'{"texts": ["a"], "methods": ["\\udfff"]}', 422),
    "an unknown field": (as_json(colour="red"), 422),
    "a field of control characters": (as_json(**{"\x1b]0;x\x07": 1}), 422),
    "a number for a text": (as_json(texts=[1]), 422),
    "a text for texts": (as_json(texts="the fox"), 422),
    "a word for a truth": (as_json(probabilities="yes"), 422),
    "no text": (as_json(texts=[]), 422),
    "a blank text": (as_json(texts=[" \n\t"]), 422),
    "too many texts": (as_json(texts=["a"] * 9), 413),
    "a text too long": (as_json(texts=["a " * 251]), 413),
    "a pair too many": (as_json(pairs=["a", "b"]), 422),
    "an unknown method": (as_json(methods=["<img src=x onerror=alert(1)>"]), 422),
    "a method's name of control characters": (as_json(methods=["\x1b[2J\u202e"]), 422),
    "a method twice": (as_json(methods=["occlusion", "occlusion"]), 422),
    "a hundred methods": (as_json(methods=["occlusion"] * 100), 413),
    "an unknown label": (as_json(label="<b>good</b>"), 422),
    "a hundred labels": (as_json(label=[f"label {number}" for number in range(100)]), 413),
    "a label's number": (as_json(label=1), 422),
    "too large": (as_json(texts=["a" * 30_000]), 413),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_cannot_be_used(live: Live, name: str) -> None:
    body, status = BODIES[name]
    answer = live.post(body)
    assert status_of(answer) == status, answer
    said = sentence_of(answer)
    assert said and len(said) < 600 and said.isprintable()
    # Nothing of the answer acts on a page or a terminal.
    assert b"content-type: application/json" in answer and b"nosniff" in answer
    assert b"\x1b" not in answer and "\u202e".encode() not in answer


LINE = b" HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
POST = b"POST /explain HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
JSON = b"content-type: application/json\r\n"

RAW: dict[str, tuple[bytes, int]] = {
    "a wrong path": (b"GET /admin" + LINE + b"\r\n", 404),
    "a way out of the folder": (b"GET /../../etc/passwd" + LINE + b"\r\n", 404),
    "the same, encoded": (b"GET /%2e%2e/%2e%2e/etc/passwd%00" + LINE + b"\r\n", 404),
    "a path of control characters": (b"GET /%1b%5b2J%e2%80%ae" + LINE + b"\r\n", 404),
    "a path that is no UTF-8": (b"GET /%ff%fe" + LINE + b"\r\n", 404),
    "a server elsewhere": (b"GET http://elsewhere.example/" + LINE + b"\r\n", 404),
    "a wrong verb": (b"GET /explain" + LINE + b"\r\n", 405),
    "another one": (b"DELETE /methods" + LINE + b"\r\n", 405),
    "TRACE": (b"TRACE /" + LINE + b"\r\n", 405),
    "a verb of one's own": (b"BREW /explain" + LINE + b"\r\n", 405),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40, 400),
    "a line that never ends": (b"GET /" + b"a" * 200_000, 400),
    "an address too long": (b"GET /health?" + b"a" * 20_000 + LINE + b"\r\n", 414),
    "a header too large": (b"GET /health" + LINE + b"x-a: " + b"a" * 200_000 + b"\r\n\r\n", 400),
    "thousands of headers": (b"GET /health" + LINE + b"name: b\r\n" * 4_000 + b"\r\n", 431),
    "a header of control characters": (b"GET /health" + LINE + b"x-a: \x00\x1b\r\n\r\n", 400),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", 400),
    "another host": (b"GET /methods HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n", 400),
    "a length below zero": (POST + JSON + b"content-length: -1\r\n\r\n{}", 400),
    "a length of many digits": (POST + JSON + b"content-length: " + b"9" * 30 + b"\r\n\r\n", 400),
    "a terabyte announced": (POST + JSON + b"content-length: 1000000000000\r\n\r\n", 413),
    "two lengths": (POST + JSON + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}}", 400),
    "chunks that are none": (POST + JSON + b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400),
    "chunks without end": (
        POST + JSON + b"transfer-encoding: chunked\r\n\r\n" + (b"1000\r\n" + b" " * 4096 + b"\r\n") * 50, 413
    ),
    "an encoding that is none": (POST + JSON + b"transfer-encoding: rot13\r\n\r\n{}", 400),
    "no kind": (POST + b"content-length: 2\r\n\r\n{}", 415),
    "a form for the API": (POST + b"content-type: multipart/form-data\r\ncontent-length: 2\r\n\r\n{}", 415),
    "a compressed body": (
        POST + JSON + b"content-encoding: gzip\r\ncontent-length: 22\r\n\r\n" + gzip.compress(b"{}")[:22], 415
    ),
    "a page of another site": (POST + JSON + b"sec-fetch-site: cross-site\r\ncontent-length: 2\r\n\r\n{}", 403),
    "an upgrade": (
        b"GET /explain HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", 405
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RAW)
def test_a_request_that_cannot_be_used(live: Live, name: str) -> None:
    raw, status = RAW[name]
    answer = live.send(raw)
    assert status_of(answer) == status, answer
    said = sentence_of(answer)
    assert said and len(said) < 600 and said.isprintable()


FORMS: dict[str, tuple[bytes, int]] = {
    "a field too many": (b"text=a&colour=red", 422),
    "ten thousand fields": (b"&".join([b"method=a"] * 2000), 400),
    "no UTF-8": (b"text=%ff%fe&method=occlusion", 400),
    "no ASCII": (b"text=\xff&method=occlusion", 400),
    "half a surrogate pair": (b"text=%ED%A0%80&method=occlusion", 400),
    "no text": (b"method=occlusion", 422),
    "no method": (b"text=fox", 422),
    "a script for a method": (b"text=fox&method=%3Cscript%3Ealert(1)%3C%2Fscript%3E", 422),
    "a script for a label": (b"text=fox&method=occlusion&label=%22%3E%3Cscript%3E", 422),
    "a label that there is not": (b"text=fox&method=occlusion&label=3", 422),
    "a text before it too long": (b"text=fox&method=occlusion&before=" + b"a+" * 300, 413),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_that_cannot_be_used(live: Live, name: str) -> None:
    body, status = FORMS[name]
    answer = live.post(body, "/", "application/x-www-form-urlencoded")
    assert status_of(answer) == status, answer
    page = answer.decode()
    assert 'role="alert"' in page and "<script>" not in page


class TestTime:
    def test_a_body_that_stops(self, live: Live) -> None:
        start = time.monotonic()
        answer = live.send(POST + JSON + b'content-length: 100\r\n\r\n{"te')
        assert status_of(answer) == 408 and "expected it faster" in sentence_of(answer)
        assert LIMITS.body_seconds <= time.monotonic() - start < 4

    def test_a_body_that_drips(self, live: Live) -> None:
        with socket.create_connection(("127.0.0.1", live.port), timeout=5) as connection:
            connection.sendall(POST + JSON + b"transfer-encoding: chunked\r\n\r\n")
            start = time.monotonic()
            try:
                while time.monotonic() - start < 4:
                    connection.sendall(b"1\r\n \r\n")
                    time.sleep(0.1)
            except OSError:
                pass
            assert time.monotonic() - start < 3
            assert status_of(received(connection)) == 408

    @pytest.mark.parametrize("begun", [b"", b"GET /heal", b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-a: "])
    def test_a_head_that_stops(self, live: Live, begun: bytes) -> None:
        assert status_of(live.send(begun)) == 408

    def test_an_answer_that_nobody_reads(self) -> None:
        limits = Limits(rate=0, read_seconds=0.5)
        count = 1000
        asked = (b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * count)[:-2] + b"connection: close\r\n\r\n"
        for live in serving(app_of("occlusion", limits=limits), limits):
            assert live.send(asked).count(b"HTTP/1.1 200") == count
            with socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.settimeout(5)
                connection.connect(("127.0.0.1", live.port))
                connection.sendall(asked)
                time.sleep(2)
                assert received(connection).count(b"HTTP/1.1 200") < count
            assert status_of(live.get("/ready")) == 200


class TestMany:
    def test_clients_that_go_away_leave_no_work(self, live: Live) -> None:
        body = as_json(texts=["the quick brown fox jumps over the lazy dog"] * 8)
        head = POST + JSON + f"content-length: {len(body)}\r\n\r\n".encode()
        for number in range(40):
            with socket.create_connection(("127.0.0.1", live.port), timeout=5) as connection:
                connection.sendall(head + (body if number % 2 else body[:10]))
        deadline = time.monotonic() + 10
        while live.app.state.service.engine.waiting and time.monotonic() < deadline:
            time.sleep(0.05)
        assert live.app.state.service.engine.waiting == 0
        assert status_of(live.post(as_json())) == 200

    @pytest.fixture
    def small(self) -> Iterator[Live]:
        limits = Limits(rate=0.01, burst=3, connections=4, text_chars=500)
        yield from serving(app_of(limits=limits), limits)

    def test_more_than_a_client_may_send(self, small: Live) -> None:
        answers = [small.post(as_json()) for _ in range(6)]
        assert [status_of(answer) for answer in answers[:3]] == [200] * 3
        refused = [answer for answer in answers if status_of(answer) == 429]
        assert refused and b"retry-after: " in refused[0]
        assert status_of(small.get("/health")) == 200

    def test_more_connections_than_are_taken(self, small: Live) -> None:
        held = [socket.create_connection(("127.0.0.1", small.port), timeout=5) for _ in range(4)]
        time.sleep(0.2)
        assert status_of(small.send(b"")) == 429
        for connection in held:
            connection.close()
        time.sleep(0.2)
        assert status_of(small.get("/ready")) == 200


def test_after_all_that_it_serves_on_without_a_fault(live: Live) -> None:
    """Last in this file: no request above was answered by 5xx, as the service counts them itself."""
    with httpx.Client(base_url=live.address) as client:
        assert client.get("/ready").status_code == 200
        found = client.post("/explain", json=GOOD).json()
        assert found["results"][0]["explanations"][0]["words"] == ["the", "quick", "brown", "fox"]
        lines = client.get("/metrics").text.splitlines()
    counted = [line for line in lines if line.startswith("explearn_requests_total{")]
    assert counted and not [line for line in counted if 'status="5' in line]
    assert "explearn_requests_in_work 1.0" in lines
