"""Endpoints, replies and answers of language models that are not what was expected: a sentence each."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatServer, Reply, answer_json
from saying import check_sentence, complaint

from explearn_study.annotate.llm import client as client_module
from explearn_study.annotate.llm.answers import InvalidAnswerError, parse_answer
from explearn_study.annotate.llm.budget import Budget, Meter, parse_prices
from explearn_study.annotate.llm.cache import read_answers
from explearn_study.annotate.llm.client import ChatClient, Completion
from explearn_study.annotate.llm.endpoint import Endpoint
from explearn_study.annotate.llm.transport import MAX_REPLY_BYTES

ENDPOINTS: list[dict[str, str]] = [
    {},
    {"BASE_URL": "localhost:11434"},
    {"BASE_URL": "ftp://localhost/v1"},
    {"BASE_URL": "file:///etc/passwd"},
    {"BASE_URL": "http://"},
    {"BASE_URL": "http://[::1"},
    {"BASE_URL": "http://localhost:port/v1"},
    {"BASE_URL": "http://localhost:99999999/v1"},
    {"BASE_URL": "http://me:secret@localhost/v1"},
    {"BASE_URL": "https://host/v1?key=secret"},
    {"BASE_URL": "https://host/v1", "API_KEY": "abc"},
    {"BASE_URL": "https://host/v1", "API_KEY": "a b c d e"},
    {"BASE_URL": "https://host/v1", "API_KEY": "schl\u00fcssel"},
    {"BASE_URL": "https://host/v1", "API_KEY": "abcd\x1b[2J"},
    {"BASE_URL": "http://host/v1", "API_KEY": "abcdefgh"},
    {"BASE_URL": "http://192.168.0.7/v1", "API_KEY": "abcdefgh"},
    {"BASE_URL": "http://127.0.0.1.example.org/v1", "API_KEY": "abcdefgh"},
    {"BASE_URL": "http://host/v1", "API_KEY": "abcdefgh", "PLAIN_HTTP": "yes"},
    {"BASE_URL": "http://host/v1", "API_KEY": "abcdefgh", "PLAIN_HTTP": "0"},
    {"BASE_URL": "https://host/v1", "PROXY": "proxy"},
    {"BASE_URL": "https://host/v1", "PROXY": "socks5://proxy:1080"},
    {"BASE_URL": "https://host/v1", "PROXY": "http://proxy:port"},
    {"BASE_URL": "https://host/v1", "PROXY": "http://proxy/path?x=1"},
    {"BASE_URL": "https://ho\x1b[2Jst"},
]


@pytest.mark.parametrize("environment", ENDPOINTS, ids=ascii)
def test_endpoints(environment: dict[str, str]) -> None:
    named = {f"EXPLEARN_LLM_{name}": value for name, value in environment.items()}
    said = complaint(lambda: Endpoint.from_environment(named), "EXPLEARN_LLM_")
    for secret in ("abcdefgh", "secret", "schl\u00fcssel"):
        assert secret not in said


@pytest.mark.parametrize("price", ["", "1", "1,2,3", "a,b", "-1,2", "nan,1", "inf,1", "m=1", "1e999,1", "\u00b2,x"])
def test_prices(price: str) -> None:
    complaint(lambda: parse_prices([price]), "--price")


KEY = "sk-0123456789-secret"


def answered(
    reply: Reply | Callable[[Any], Reply], environment: dict[str, str] | None = None
) -> Completion | Exception:
    """What a client makes of a server's reply."""

    async def ask(endpoint: Endpoint) -> Completion:
        async with ChatClient(endpoint, "m", Meter(Budget(), {}), timeout=20, attempts=1) as client:
            return await client.complete([{"role": "user", "content": "x"}], {}, max_tokens=16, temperature=0)

    with ChatServer(reply if callable(reply) else lambda _: reply) as server:
        named = {"EXPLEARN_LLM_BASE_URL": server.url, "EXPLEARN_LLM_API_KEY": KEY, **(environment or {})}
        try:
            return asyncio.run(ask(Endpoint.from_environment(named)))
        except Exception as error:
            return error


def protocol(**change: Any) -> bytes:
    message = {"role": "assistant", "content": "x"}
    reply = {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], **change}
    return json.dumps(reply).encode()


REPLIES: dict[str, Reply] = {
    "nothing": Reply(raw=b""),
    "HTML": Reply(raw=b"<html>"),
    "a list": Reply(raw=b"[]"),
    "null": Reply(raw=b"null"),
    "bytes": Reply(raw=b"\xff\xfe"),
    "no choices": Reply(raw=protocol(choices=[])),
    "choices that are a number": Reply(raw=protocol(choices=3)),
    "choices that are an object": Reply(raw=protocol(choices={"a": 1})),
    "choices that are a text": Reply(raw=protocol(choices="abc")),
    "a choice that is a number": Reply(raw=protocol(choices=[3])),
    "a choice without a message": Reply(raw=protocol(choices=[{}])),
    "content that is a number": Reply(raw=protocol(choices=[{"message": {"content": 3}}])),
    "content that is a list": Reply(raw=protocol(choices=[{"message": {"content": ["x"]}}])),
    "nested 100,000 deep": Reply(raw=b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "nested and open": Reply(raw=b"[" * 100_000),
    "many digits": Reply(raw=protocol()[:-1] + b', "usage": {"prompt_tokens": ' + b"9" * 5000 + b"}}"),
    "an error nested deeply": Reply(status=500, raw=b'{"error":' * 50_000 + b"1" + b"}" * 50_000),
    "a terminal's commands": Reply(status=401, error="\x1b[2J\x1b]0;title\x07 wrong \u202e key"),
    "an error that is a list": Reply(status=500, raw=b'{"error": [1, 2]}'),
    "a long error": Reply(status=500, error="x" * 100_000),
    "a pause without end": Reply(status=429, headers={"retry-after": "inf"}),
    "a pause of years": Reply(status=503, headers={"retry-after": "1e9"}),
    "a packed bomb": Reply(raw=gzip.compress(b" " * 100_000_000, 9), headers={"content-encoding": "gzip"}),
    "a deflated bomb": Reply(raw=zlib.compress(b" " * 100_000_000, 9), headers={"content-encoding": "deflate"}),
    "a large reply": Reply(raw=b" " * (MAX_REPLY_BYTES + 1)),
    "packed as nobody does": Reply(raw=protocol(), headers={"content-encoding": "brotli"}),
    "not packed at all": Reply(raw=protocol(), headers={"content-encoding": "gzip"}),
    "a redirect": Reply(status=307, raw=b"", headers={"location": f"http://elsewhere.example/v1?key={KEY}"}),
    "a redirect to nowhere": Reply(status=302, raw=b""),
    "a redirect of commands": Reply(status=308, raw=b"", headers={"location": "http://[::1"}),
    "a redirect to the same server": Reply(status=301, raw=b"", headers={"location": "/v2"}),
}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.timeout(60)
def test_replies(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_WAIT", 0.01)
    found = answered(REPLIES[name])

    def fail() -> None:
        if isinstance(found, Exception):
            raise found

    # Counts of tokens that nobody can have are no reason to throw an answer away.
    if name == "many digits" and isinstance(found, Completion):
        return
    said = complaint(fail, "model 'm'")
    assert KEY not in said


@pytest.mark.parametrize("packing", ["gzip", "deflate", "identity"])
def test_a_packed_reply_is_read(packing: str) -> None:
    raw = protocol()
    packed = {"gzip": gzip.compress(raw), "deflate": zlib.compress(raw), "identity": raw}[packing]
    found = answered(Reply(raw=packed, headers={"content-encoding": packing}))
    assert isinstance(found, Completion) and found.content == "x"


class TestWhereRequestsGo:
    def test_a_redirect_is_not_followed(self) -> None:
        with ChatServer(lambda _: Reply("stolen")) as thief:
            found = answered(Reply(status=307, raw=b"", headers={"location": f"{thief.url}/chat/completions"}))
            assert not thief.requests
        assert "127.0.0.1" in str(found) and "redirects are not followed" in str(found)

    @pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY", "EXPLEARN_LLM_PROXY"])
    def test_a_server_on_this_machine_is_asked_directly(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with ChatServer(lambda _: Reply("stolen")) as thief:
            proxy = thief.url.removesuffix("/v1")
            monkeypatch.setenv(name, proxy)
            found = answered(Reply("mine"), {"EXPLEARN_LLM_PROXY": proxy} if name.startswith("EXPLEARN") else {})
            assert not thief.requests
        assert isinstance(found, Completion) and found.content == "mine"

    @pytest.mark.parametrize(
        ("url", "proxy"),
        [
            ("https://host.example/v1", "http://proxy.example:3128"),
            ("http://127.0.0.2:1/v1", None),
            ("http://[::1]:1/v1", None),
            ("http://localhost./v1", None),
            ("http://model.localhost/v1", None),
        ],
    )
    def test_the_proxy_that_is_named_stands_before_other_machines_alone(self, url: str, proxy: str | None) -> None:
        named = {"EXPLEARN_LLM_BASE_URL": url, "EXPLEARN_LLM_PROXY": "http://proxy.example:3128"}
        endpoint = Endpoint.from_environment(named)
        assert endpoint.proxy_url == proxy

    def test_the_password_of_a_proxy_is_in_no_description(self) -> None:
        named = {"EXPLEARN_LLM_BASE_URL": "https://h/v1", "EXPLEARN_LLM_PROXY": "http://me:pass-word@p:1"}
        assert "pass-word" not in repr(Endpoint.from_environment(named))

    def test_a_key_over_plain_http_to_another_machine_is_asked_for_by_name(self) -> None:
        named = {"EXPLEARN_LLM_BASE_URL": "http://host.example/v1", "EXPLEARN_LLM_API_KEY": KEY}
        complaint(lambda: Endpoint.from_environment(named), "plain http to host.example", "EXPLEARN_LLM_PLAIN_HTTP=1")
        assert Endpoint.from_environment({**named, "EXPLEARN_LLM_PLAIN_HTTP": "1"}).plain_http

    def test_no_netrc(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password from-netrc\n", encoding="utf-8")
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        monkeypatch.setenv("HOME", str(tmp_path))
        with ChatServer(lambda _: Reply("x")) as server:

            async def ask() -> None:
                async with ChatClient(Endpoint(server.url), "m", Meter(Budget(), {}), attempts=1) as client:
                    await client.complete([{"role": "user", "content": "x"}], {}, max_tokens=16, temperature=0)

            asyncio.run(ask())
            assert server.requests[0].headers["authorization"] == "Bearer -"


CONTENTS = [
    "",
    " ",
    "I would rather not.",
    "[]",
    "[1]",
    "3",
    "null",
    "{}",
    '{"label": 3}',
    '{"label": "maybe", "evidence": []}',
    '{"label": "yes"}',
    '{"label": "yes", "evidence": 3}',
    '{"label": "yes", "evidence": [[1]]}',
    '{"label": "yes", "evidence": [{"occurrence": 1}]}',
    "[" * 20_000,
    '{"label": ' * 2_500,
    '{"a": ' + "[" * 10_000 + "]" * 5_000,
    "9" * 20_000,
    '{"label": "\x1b[2J", "evidence": []}',
]


@pytest.mark.parametrize("content", CONTENTS, ids=lambda value: ascii(value)[:40])
@pytest.mark.timeout(30)
def test_answers(content: str) -> None:
    with pytest.raises(InvalidAnswerError) as caught:
        parse_answer(content, "stop", ["yes", "no"])
    check_sentence(str(caught.value))


def test_a_deeply_nested_answer_beside_a_good_one_is_read() -> None:
    assert parse_answer(answer_json("yes", "one"), "stop", ["yes", "no"]).label == "yes"


LINES: Sequence[bytes] = [b"3", b"null", b"[]", b"{}", b"{", b"\xff", b"[" * 100_000, b'{"key": NaN}', b'{"key": "x"}']


@pytest.mark.parametrize("line", LINES, ids=lambda value: ascii(value)[:30])
def test_kept_answers(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(line + b"\n")
    complaint(lambda: list(read_answers(path)), str(path), "row 1")
