"""A service of a tiny classifier: in the process, and behind a port."""

import contextlib
import json
import socket
import threading
import time
from dataclasses import dataclass

import pytest
import tiny
from fastapi import FastAPI
from fastapi.testclient import TestClient

import explearn
from explearn_apps.serve.app import make_app
from explearn_apps.serve.limits import Limits
from explearn_apps.serve.server import address_of, bind, hosts_of, server_of

METHODS = ("occlusion", "attcat")
LIMITS = Limits(texts=8, text_chars=500)


def app_of(*names, classifier=None, limits=LIMITS, **options):
    """The service of a classifier, by default a tiny one."""
    methods = [explearn.get_explainer(name) for name in names or METHODS]
    return make_app(classifier or tiny.classifier("bert", 3), methods, limits, **options)


@pytest.fixture(scope="session")
def client():
    with TestClient(app_of()) as client:
        yield client


@dataclass(frozen=True)
class Live:
    """A service behind a port of this machine."""

    port: int
    app: FastAPI

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def send(self, raw, wait=5.0, source="127.0.0.1"):
        """What comes back to some bytes, until the service closes the connection or says no more."""
        place = ("127.0.0.1", self.port)
        with socket.create_connection(place, timeout=wait, source_address=(source, 0)) as connection:
            with contextlib.suppress(OSError):  # it may answer and close before it has read all
                connection.sendall(raw)
            return received(connection)

    def post(self, body, path="/explain", kind="application/json", extra=""):
        """As `send`, of a request with a body."""
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\nconnection: close\r\n{extra}"
        return self.send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)

    def get(self, path, source="127.0.0.1"):
        head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        return self.send(head.encode(), source=source)


def received(connection):
    """All that a connection still gives."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except OSError:
        pass
    return b"".join(parts)


def status_of(answer):
    """Of the first answer in what came back."""
    assert answer.startswith(b"HTTP/1.1 "), answer[:200]
    return int(answer.split(b" ", 2)[1])


def sentence_of(answer):
    """The error of an answer, which is JSON with one sentence."""
    body = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert list(body) == ["error"]
    sentence = body["error"]
    return sentence


def serving(app, limits=LIMITS):
    """Serve in a thread until the generator is closed."""
    listening = bind("127.0.0.1", 0)
    server = server_of(app, limits)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.started
        yield Live(int(address_of(listening).rpartition(":")[2]), app)
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()


@pytest.fixture(scope="session")
def live():
    listening = bind("127.0.0.1", 0)
    hosts = hosts_of(listening)
    listening.close()
    yield from serving(app_of(hosts=hosts))
