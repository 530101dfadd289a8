"""What annotation tools, people, prompts and servers send that cannot be used."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from chat_server import ChatServer, Reply, answer_json
from explearn.annotation.llm import client as client_module
from explearn.annotation.llm.answers import InvalidAnswerError, parse_answer
from explearn.annotation.llm.budget import Budget, Meter, parse_prices
from explearn.annotation.llm.cache import read_answers
from explearn.annotation.llm.client import ChatClient, Completion
from explearn.annotation.llm.endpoint import Endpoint
from explearn.annotation.llm.prompts import bind_prompt
from explearn.annotation.llm.transport import MAX_REPLY_BYTES
from explearn.annotation.people.imports import import_marks
from explearn.annotation.people.sheets import read_sheet
from explearn.annotation.store import Store
from explearn.core.records import Example, Rationale
from explearn.core.sections import LLMParams

from .saying import check_sentence, complaint

EXAMPLES = [Example("a", ("one", "two"), "yes", "train", "t"), Example("b", ("three",), "no", "train", "t")]

REGION = {"start": 0, "end": 3, "text": "one", "labels": ["e"]}


def studio(**change: Any) -> dict[str, Any]:
    return {"data": {"text": "one two"}, "annotations": [{"result": [{"value": {**REGION, **change}}]}]}


LABEL_STUDIO: list[Any] = [
    None,
    3,
    {"data": {}},
    [3],
    [None],
    [[]],
    [{}],
    [{"data": None}],
    [{"data": []}],
    [{"data": {}}],
    [{"data": {"text": 3}}],
    [{"data": {"text": ["one two"]}}],
    [{"data": {"text": "another text"}, "annotations": [{"result": []}]}],
    [{"data": {"text": "one two"}, "annotations": 3}],
    [{"data": {"text": "one two"}, "annotations": {"result": []}}],
    [{"data": {"text": "one two"}, "annotations": "none"}],
    [{"data": {"text": "one two"}, "annotations": [3]}],
    [{"data": {"text": "one two"}, "annotations": [{"result": 3}]}],
    [{"data": {"text": "one two"}, "annotations": [{"result": {"value": REGION}}]}],
    [{"data": {"text": "one two"}, "annotations": [{"result": "x"}]}],
    [{"data": {"text": "one two"}, "annotations": [{"result": [3]}]}],
    [{"data": {"text": "one two"}, "annotations": [{"result": [{"value": 3}]}]}],
    [{"data": {"text": "one two"}, "annotations": [{"result": [{"value": [REGION]}]}]}],
    [{"data": {"text": "one two"}, "annotations": [{"result": [], "was_cancelled": "perhaps"}]}],
    [{"data": {"text": "one two"}, "annotations": [{"result": [], "completed_by": [1]}]}],
    [{"data": {"text": "one two"}, "annotations": [{"result": [], "completed_by": 1.5}]}],
    [{"data": {"text": "one two"}, "annotations": [{"result": [], "completed_by": {"email": {}, "id": [3]}}]}],
    [{"data": {"text": "one two"}, "annotations": [{"result": [], "completed_by": "\ud800"}]}],
    [studio(start="0")],
    [studio(start=None)],
    [studio(start=0.0)],
    [studio(start=True)],
    [studio(start=-1)],
    [studio(end=99, text=None)],
    [studio(end=10**90, text=None)],
    [studio(end=0)],
    [studio(text=3)],
    [studio(text="two")],
    [studio(text=["one"])],
    [studio(labels=3)],
    [studio(labels="e")],
    [studio(labels=[3])],
    [studio(labels=[{}])],
    [studio(labels={"e": 1})],
    [{"text": "one two", "label": [{"start": "0", "end": 3}], "annotator": 1}],
    [{"text": "one two", "label": [REGION], "annotator": {"id": {}}}],
    [{"text": "one two", "label": [REGION], "annotator": [1]}],
    [studio(), studio()],
]


@pytest.mark.parametrize("document", LABEL_STUDIO, ids=lambda value: ascii(value)[:60])
def test_label_studio(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    complaint(lambda: import_marks(path, "label-studio", EXAMPLES, evidence=["e"]), str(path))


DOCCANO: list[Any] = [
    3,
    None,
    [],
    {},
    {"text": None},
    {"text": 3},
    {"text": ["one two"]},
    {"text": "another", "label": [[0, 3, "e"]]},
    {"text": "one two", "label": 3},
    {"text": "one two", "label": "e"},
    {"text": "one two", "label": [3]},
    {"text": "one two", "label": [[0, 3]]},
    {"text": "one two", "label": [["0", "3", "e"]]},
    {"text": "one two", "label": [[0.0, 3.0, "e"]]},
    {"text": "one two", "label": [[0, 99, "e"]]},
    {"text": "one two", "label": [[3, 0, "e"]]},
    {"text": "one two", "label": [[3, 4, "e"]]},
    {"text": "one two", "label": [[-5, 2, "e"]]},
    {"text": "one two", "label": [[0, 10**90, "e"]]},
    {"text": "one two", "label": [[0, 3, ["e"]]]},
    {"text": "one two", "label": [[0, 3, {}]]},
    {"text": "one two", "label": [None]},
    {"text": "one two", "label": {"a": 1}},
    {"text": "one two", "entities": [{"start_offset": "0", "end_offset": 3, "label": "e"}]},
    {"text": "one two", "entities": [{"start_offset": 0}]},
    {"text": "one two", "label": [[0, 3, "e"]], "annotator": [3]},
    {"text": "one two", "label": [[0, 3, "e"]], "annotator": {"a": 1}},
    {"text": "one two", "label": [[0, 3, "e"]], "annotator": "\ud800"},
]


@pytest.mark.parametrize("row", DOCCANO, ids=lambda value: ascii(value)[:60])
def test_doccano(tmp_path: Path, row: Any) -> None:
    path = tmp_path / "export.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    complaint(lambda: import_marks(path, "doccano", EXAMPLES, evidence=["e"]), str(path), "row 1")


BRAT = [
    "T1",
    "T1\t",
    "T1\te",
    "T1\te 0",
    "T1\te 0 x\tone",
    "T1\te 0 \u00b2\tone",
    "T1\te 0 " + "9" * 5000 + "\tone",
    "T1\te 3 0\tone",
    "T1\te 0 3\ttwo",
    "T1\te -3 3\tone",
    "T1\te 0 99\tone two",
    "T1\te 0 3;\tone",
    "T1\te 3 4\t ",
]


@pytest.mark.parametrize("line", BRAT, ids=lambda value: ascii(value)[:30])
def test_brat(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.txt").write_text("one two", encoding="utf-8")
    (tmp_path / "a.ann").write_text(line + "\n", encoding="utf-8")
    complaint(lambda: import_marks(tmp_path, "brat", EXAMPLES, with_empty=True), "a.ann", str(tmp_path))


def test_exports_that_are_not_there(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "alone.ann").write_bytes(b"T1\te 0 3\tone\n")
    (tmp_path / "bytes.ann").write_bytes(b"\xff")
    (tmp_path / "bytes.txt").write_bytes(b"one two")
    for path in (tmp_path / "none", tmp_path / "alone.ann", tmp_path / "bytes.ann", pipe, tmp_path / ("x" * 300)):
        complaint(lambda path=path: import_marks(path, "brat", EXAMPLES))
        complaint(lambda path=path: import_marks(path, "label-studio", EXAMPLES))


SHEETS: list[dict[str, Any]] = [
    {},
    {"sheet": "mark"},
    {"sheet": 3},
    {"sheet": ["mark"]},
    {"sheet": "buy", "id": "a"},
    {"sheet": "mark", "id": "c"},
    {"sheet": "mark", "id": None},
    {"sheet": "mark", "id": ["a"]},
    {"sheet": "mark", "id": {"a": 1}},
    {"sheet": "mark", "id": "a", "text": "one two"},
    {"sheet": "mark", "id": "a", "text": "one two", "shown": "0"},
    {"sheet": "mark", "id": "a", "text": "one two", "shown": "0 \u00b2"},
    {"sheet": "mark", "id": "a", "text": None, "shown": "0 0"},
    {"sheet": "mark", "id": "a", "text": 3, "shown": "0 0"},
    {"sheet": "mark", "id": "a", "text": ["one"], "shown": "0 0"},
    {"sheet": "mark", "id": "a", "text": "[[one", "shown": "0 0"},
    {"sheet": "mark", "id": "a", "text": "[[one]] deux", "shown": "0 0"},
    {"sheet": "mark", "id": "a", "text": "one", "shown": "0 0"},
    {"sheet": "mark", "id": "a", "text": "[[one]] two", "shown": "0 0"},
    {"sheet": "mark", "id": "a", "text": "[[one]] two", "shown": "0 0", "annotator": ["ana"]},
    {"sheet": "mark", "id": "a", "text": "[[one]] two", "shown": "0 0", "annotator": {"name": "ana"}},
    {"sheet": "mark", "id": "a", "text": "[[one]] two", "shown": "0 0", "annotator": "\ud800"},
    {"sheet": "mark", "id": "a", "text": "[[one]] two", "shown": "0 0", "annotator": "ana", "verdict": "reject"},
    {"sheet": "check", "id": "a", "text": "one two", "shown": "0 0", "annotator": "ana", "verdict": "perhaps"},
    {"sheet": "check", "id": "a", "text": "one two", "shown": "0 0", "annotator": "ana", "verdict": ["accept"]},
    {"sheet": "check", "id": "a", "text": "one two", "shown": "0 0", "annotator": "ana", "rationale": "1"},
    {"sheet": "check", "id": "a", "text": "one two", "shown": "0 0", "annotator": "ana", "rationale": {"0": 1}},
    {"sheet": "check", "id": "a", "text": "a", "shown": "0 0", "annotator": "a", "verdict": "accept", "comment": []},
]


@pytest.mark.parametrize("row", SHEETS, ids=lambda value: ascii(value)[:60])
def test_sheets(tmp_path: Path, row: dict[str, Any]) -> None:
    path = tmp_path / "sheet.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    complaint(lambda: read_sheet(path, EXAMPLES, None), str(path), "row 1")


STORED = [
    '{"id": ["a"]}',
    '{"annotator": "x"}',
    "[]",
    "{",
    '{"id": "a", "annotator": {}}',
    '{"id": 3, "annotator": "x"}',
]


@pytest.mark.parametrize("line", STORED)
def test_what_is_stored(tmp_path: Path, line: str) -> None:
    store = Store(tmp_path)
    store.human.write_text(line + "\n", encoding="utf-8")
    complaint(lambda: store.add(store.human, [Rationale("a", "ana", "human", (True, False))], EXAMPLES), "row 1")


PROMPT = {"summary": "s", "order": ["label", "evidence", "reason"], "system": "{{ about }}"}
TEMPLATES = [
    "{{",
    "{% if %}",
    "{% for x in labels %}",
    "{{ nothing }}",
    "{{ about.nothing }}",
    "{{ labels[0] }}",
    "{{ 1 / 0 }}",
    "{{ 1 + 'a' }}",
    "{{ 'x' * 10**10 }}",
    "{{ 10 ** 10 ** 10 }}",
    "{{ range(10**9) | list }}",
    "{{ range(1000000000) | join }}",
    "{% for i in range(1000000000) %}x{% endfor %}",
    "{% for i in range(9000) %}{% for j in range(9000) %}{% endfor %}{% endfor %}",
    "{% for i in range(9999) %}" + "x" * 5000 + "{% endfor %}",
    "{{ about | center(10000000000) }}",
    "{{ '%10000000000d' | format(1) }}",
    "{{ about | indent(10000000000) }}",
    "{{ lipsum(100000) }}",
    "{{ about" + " | replace('', about)" * 30 + " }}",
    "{{ about" + " | join(about)" * 30 + " }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ self.__init__.__globals__ }}",
    "{{ labels.__class__ }}",
    "{{ about.format(1) }}",
    "{{ about.zfill(10000000000) }}",
    "{{ labels.clear() }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% set x = 1 %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% set ns = namespace(s='a') %}{% for i in range(40) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "{% call about() %}{% endcall %}",
    "{% for i in labels recursive %}{{ loop(labels) }}{% endfor %}",
    "{% for i in range(1, 2, 0) %}{% endfor %}",
    "{% for i in 3 %}{% endfor %}",
    "{% for i in labels %}" * 30 + "{% endfor %}" * 30,
    "{% if about %}" * 200 + "{% endif %}" * 200,
    "{{ " + "(" * 4000 + "1" + ")" * 4000 + " }}",
    "x" * 30_000,
    "{{ about | nothing }}",
    "{{ about is nothing }}",
    "{{ range(-10**30, 10**30) }}",
    "{{ range(2**70) }}",
]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda value: value[:40])
@pytest.mark.timeout(30)
def test_templates(tmp_path: Path, template: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**PROMPT, "system": template}), encoding="utf-8")
    settings = LLMParams(about="short film reviews")
    complaint(lambda: bind_prompt(str(path), "films", ["yes", "no"], [], settings), str(path), "system")


PROMPTS: list[Any] = [
    None,
    3,
    [],
    {},
    {**PROMPT, "more": 1},
    {**PROMPT, "order": ["label"]},
    {**PROMPT, "order": ["label", "label", "reason"]},
    {**PROMPT, "order": "label"},
    {**PROMPT, "order": [3, 4, 5]},
    {**PROMPT, "system": 3},
    {**PROMPT, "system": None},
    {**PROMPT, "summary": ["s"]},
]


@pytest.mark.parametrize("document", PROMPTS, ids=lambda value: ascii(value)[:40])
def test_prompts(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    complaint(lambda: bind_prompt(str(path), "films", ["yes", "no"], [], LLMParams()), str(path))


@pytest.mark.parametrize(
    "name", ["nobody", "evidence-99", "none.yaml", "", "../x.yaml", "x" * 300 + ".yaml", "a\x00.yaml"]
)
def test_prompts_that_are_not_there(name: str) -> None:
    complaint(lambda: bind_prompt(name, "films", ["yes", "no"], [], LLMParams()))


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
