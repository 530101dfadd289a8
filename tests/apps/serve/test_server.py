"""Connections of clients that keep them, go away or drip: nobody is shut out. Who can reach the service."""

import contextlib
import json
import socket
import threading
import time

import pytest
from serving_cases import app_of, received, serving, status_of

import explearn_apps.serve.app as app_module
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.server import bind, hosts_of

BODY = json.dumps({"texts": ["the quick brown fox jumps over the lazy dog"] * 8, "methods": ["occlusion"]}).encode()
POST = b"POST /explain HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n"
HEAD = POST + f"content-length: {len(BODY)}\r\n\r\n".encode()


def connected(live):
    return socket.create_connection(("127.0.0.1", live.port), timeout=5)


def test_clients_that_go_away_leave_no_work(live):
    for number in range(40):
        with connected(live) as connection:
            connection.sendall(HEAD + (BODY if number % 2 else BODY[:10]))
    deadline = time.monotonic() + 10
    while live.app.state.engine.batcher.waiting and time.monotonic() < deadline:
        time.sleep(0.05)
    assert live.app.state.engine.batcher.waiting == 0
    assert status_of(live.post(BODY)) == 200


def test_a_client_that_sends_no_more_gets_its_answer():
    """And so do others, while one that has gone altogether leaves no work behind it."""
    app = app_of()
    for live in serving(app):
        blocked = threading.Event()
        app.state.engine.batcher._worker.submit(blocked.wait, 5)
        with connected(live) as half, connected(live) as gone:
            for connection in (half, gone):
                connection.sendall(HEAD + BODY)
                time.sleep(0.2)
            half.shutdown(socket.SHUT_WR)
            gone.close()
            deadline = time.monotonic() + 4
            while app.state.engine.batcher.waiting > 8 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert app.state.engine.batcher.waiting <= 8
            blocked.set()
            answer = received(half)
        assert status_of(answer.rpartition(b"HTTP/1.1 100 Continue\r\n\r\n")[2]) == 200


def test_texts_are_read_beside_other_requests(monkeypatch):
    live_app = app_of()
    read = app_module.parse_json
    monkeypatch.setattr(app_module, "parse_json", lambda body: (time.sleep(2), read(body))[1])
    for live in serving(live_app):
        with connected(live) as connection:
            connection.sendall(HEAD + BODY)
            time.sleep(0.1)
            begun = time.monotonic()
            assert status_of(live.get("/health")) == 200
            assert time.monotonic() - begun < 1
            assert status_of(received(connection)) == 200


@pytest.mark.parametrize("sent", [b"", b"POST /expl", POST + b"content-length: 50\r\n\r\n{"])
def test_300_idle_connections_shut_nobody_out(live, sent):
    with contextlib.ExitStack() as held:
        for _ in range(300):
            connection = held.enter_context(connected(live))
            connection.sendall(sent)
        assert status_of(live.get("/ready")) == 200
        assert status_of(live.post(BODY)) == 200


def test_an_address_with_too_many_requests_is_refused_and_others_are_answered():
    limits = Limits(client_connections=2, seconds=5)
    app = app_of(limits=limits)
    for live in serving(app, limits):
        blocked = threading.Event()
        app.state.engine.batcher._worker.submit(blocked.wait, 5)
        with contextlib.ExitStack() as held:
            for _ in range(2):
                connection = held.enter_context(connected(live))
                connection.sendall(HEAD + BODY)
            time.sleep(0.2)
            assert status_of(live.get("/ready")) == 503
            assert status_of(live.get("/ready", "127.0.0.2")) == 200
            blocked.set()


@pytest.mark.parametrize("start", [b"GET /ready HT", POST + b"content-length: 50\r\n\r\n"])
def test_a_request_of_a_few_bytes_a_second_is_ended(start):
    limits = Limits(seconds=0.5)
    for live in serving(app_of(limits=limits), limits):
        begun = time.monotonic()
        with connected(live) as connection, pytest.raises(OSError):
            connection.sendall(start)
            while time.monotonic() - begun < 5:
                connection.sendall(b" ")
                time.sleep(0.1)


def test_this_machine_alone_unless_asked():
    with bind("127.0.0.1", 0) as listening:
        assert "localhost" in (hosts_of(listening) or ())
    with bind("0.0.0.0", 0) as listening:
        assert hosts_of(listening) is None
