"""Endpoints and replies of language models that are not what was expected: a sentence each."""

import asyncio
import gzip
import json
from unittest.mock import patch

import pytest
from chat_server import ChatServer, Reply
from saying import complaint

from explearn.predictors.llm.budget import Meter, parse_prices
from explearn.predictors.llm.endpoint import Endpoint
from explearn.predictors.llm.server import client
from explearn.predictors.llm.server.transport import MAX_REPLY_BYTES

KEY = "sk-0123456789-secret"

ENDPOINTS = [
    {},
    {"BASE_URL": "file:///etc/passwd"},
    {"BASE_URL": "http://me:secret@localhost/v1"},
    {"BASE_URL": "https://host/v1?key=secret"},
    {"BASE_URL": "https://host/v1", "API_KEY": "a b c d e"},
    {"BASE_URL": "https://host/v1", "PROXY": "socks5://proxy:1080"},
    {"BASE_URL": "https://host/v1", "CONCURRENCY": "many"},
    {"BASE_URL": "https://host/v1", "API_KEY": "schl\u00fcssel"},
    {"BASE_URL": "http://127.0.0.1.example.org/v1", "API_KEY": "abcdefgh"},
    {"BASE_URL": "https://ho\x1b[2Jst"},
    {"BASE_URL": "https://host/v1", "TIMEOUT": "inf"},
]


def endpoint(**environment):
    return Endpoint.from_environment({f"EXPLEARN_LLM_{name}": value for name, value in environment.items()})


@pytest.mark.parametrize("environment", ENDPOINTS, ids=ascii)
def test_endpoints(environment):
    said = complaint(lambda: endpoint(**environment), "EXPLEARN_LLM_")
    for secret in ("abcdefgh", "secret", "schl\u00fcssel"):
        assert secret not in said


@pytest.mark.parametrize("price", ["1", "a,b", "-1,2", "nan,1"])
def test_prices(price):
    complaint(lambda: parse_prices([price]), "EXPLEARN_LLM_PRICES")


async def ask(endpoint):
    async with client.ChatClient(endpoint, Meter()) as chat:
        return await chat.complete("m", [{"role": "user", "content": "x"}], {}, max_tokens=16, temperature=0)


def answered(reply, **environment):
    """Return what a client makes of a server's reply."""
    with ChatServer(lambda _: reply) as server, patch.object(client, "ATTEMPTS", 1):
        return asyncio.run(ask(endpoint(**{"BASE_URL": server.url, "API_KEY": KEY, **environment})))


def protocol(**change):
    message = {"role": "assistant", "content": "x"}
    return json.dumps({"id": "c", "choices": [{"message": message, "finish_reason": "stop"}], **change}).encode()


REPLIES = {
    "nested 100,000 deep": Reply(raw=b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a terminal's commands": Reply(status=401, error="\x1b[2J\x1b]0;title\x07 wrong \u202e key"),
    "a packed bomb": Reply(raw=gzip.compress(b" " * 100_000_000, 9), headers={"content-encoding": "gzip"}),
    "a large reply": Reply(raw=b" " * (MAX_REPLY_BYTES + 1)),
}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.timeout(60)
def test_replies(name):
    assert KEY not in complaint(lambda: answered(REPLIES[name]), "model 'm'")


def test_counts_of_tokens_that_are_none_are_no_reason_to_throw_an_answer_away():
    for usage in (3, {"prompt_tokens": -1, "completion_tokens": None}, {"prompt_tokens": 10**300}):
        assert answered(Reply(raw=protocol(usage=usage))).content == "x"


def test_halves_of_characters_are_replaced():
    assert answered(Reply(raw=protocol().replace(b'"x"', b'"x\\ud800"'))).content.startswith("x")


class TestWhereRequestsGo:
    def test_a_redirect_is_not_followed(self):
        with ChatServer(lambda _: Reply("stolen")) as thief:
            reply = Reply(status=307, raw=b"", headers={"location": f"{thief.url}/chat/completions"})
            complaint(lambda: answered(reply), "127.0.0.1", "redirects are not followed")
            assert not thief.requests

    @pytest.mark.parametrize("name", ["HTTP_PROXY", "ALL_PROXY", "HTTPS_PROXY", "EXPLEARN_LLM_PROXY"])
    def test_a_server_on_this_machine_is_asked_directly(self, name, monkeypatch):
        with ChatServer(lambda _: Reply("stolen")) as thief:
            proxy = thief.url.removesuffix("/v1")
            monkeypatch.setenv(name, proxy)
            named = {"PROXY": proxy} if name.startswith("EXPLEARN") else {}
            assert answered(Reply("mine"), **named).content == "mine"
            assert not thief.requests

    @pytest.mark.parametrize(
        ("url", "proxied"),
        [
            ("https://host.example/v1", True),
            ("http://127.0.0.2:1/v1", False),
            ("http://[::1]:1/v1", False),
            ("http://model.localhost./v1", False),
        ],
    )
    def test_the_proxy_that_is_named_stands_before_other_machines_alone(self, url, proxied):
        proxy = "http://me:pass-word@proxy.example:3128"
        named = endpoint(BASE_URL=url, PROXY=proxy)
        assert named.proxy.get_secret_value() == (proxy if proxied else "")
        assert "pass-word" not in repr(named)

    def test_a_key_over_plain_http_to_another_machine_has_to_be_allowed(self):
        named = {"BASE_URL": "http://host.example/v1", "API_KEY": KEY}
        complaint(lambda: endpoint(**named), "plain http to host.example", "EXPLEARN_LLM_PLAIN_HTTP=1")
        assert endpoint(**named, PLAIN_HTTP="1").base_url == "http://host.example/v1"

    def test_no_netrc(self, tmp_path, monkeypatch):
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password from-netrc\n", encoding="utf-8")
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        monkeypatch.setenv("HOME", str(tmp_path))
        with ChatServer(lambda _: Reply("x")) as server:
            asyncio.run(ask(Endpoint(server.url)))
            assert server.requests[0].headers["authorization"] == "Bearer -"
