"""Hostile requests to a real server: each gets a status 4xx and one sentence, and it serves on."""

import contextlib
import json
import socket
import threading
import time

import httpx2
import pytest
from serving_cases import LIMITS, app_of, sentence_of, serving, status_of

from explearn_apps.serve.limits import Limits

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


class TestMany:
    def test_clients_that_go_away_leave_no_work(self, live):
        body = as_json(texts=["the quick brown fox jumps over the lazy dog"] * 8)
        head = POST + JSON + f"content-length: {len(body)}\r\n\r\n".encode()
        for number in range(40):
            with socket.create_connection(("127.0.0.1", live.port), timeout=5) as connection:
                connection.sendall(head + (body if number % 2 else body[:10]))
        deadline = time.monotonic() + 10
        while live.app.state.engine.batcher.waiting and time.monotonic() < deadline:
            time.sleep(0.05)
        assert live.app.state.engine.batcher.waiting == 0
        assert status_of(live.post(as_json())) == 200

    @pytest.mark.parametrize("sent", [b"", b"POST /expl", POST + JSON + b"content-length: 50\r\n\r\n{"])
    def test_300_idle_connections_shut_nobody_out(self, live, sent):
        with contextlib.ExitStack() as held:
            for _ in range(300):
                connection = held.enter_context(socket.create_connection(("127.0.0.1", live.port), timeout=5))
                connection.sendall(sent)
            assert status_of(live.get("/ready")) == 200
            assert status_of(live.post(as_json())) == 200

    def test_an_address_with_too_many_requests_is_refused_and_others_are_answered(self):
        limits = Limits(client_connections=2, seconds=5)
        app = app_of(limits=limits)
        for live in serving(app, limits):
            blocked = threading.Event()
            app.state.engine.batcher._worker.submit(blocked.wait, 5)
            body = as_json()
            request = POST + JSON + f"content-length: {len(body)}\r\n\r\n".encode() + body
            with contextlib.ExitStack() as held:
                for _ in range(2):
                    connection = held.enter_context(socket.create_connection(("127.0.0.1", live.port), timeout=5))
                    connection.sendall(request)
                time.sleep(0.2)
                assert status_of(live.get("/ready")) == 503
                assert status_of(live.get("/ready", "127.0.0.2")) == 200
                blocked.set()

    @pytest.mark.parametrize("start", [b"GET /ready HT", POST + JSON + b"content-length: 50\r\n\r\n"])
    def test_a_request_of_a_few_bytes_a_second_is_ended(self, start):
        limits = Limits(seconds=0.5)
        for live in serving(app_of(limits=limits), limits):
            begun = time.monotonic()
            with socket.create_connection(("127.0.0.1", live.port), timeout=5) as connection, pytest.raises(OSError):
                connection.sendall(start)
                while time.monotonic() - begun < 5:
                    connection.sendall(b" ")
                    time.sleep(0.1)


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
