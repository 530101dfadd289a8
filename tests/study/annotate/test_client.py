"""The client against a real server on loopback, faults included."""

from __future__ import annotations

import asyncio
import email.utils
import logging
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from chat_server import ChatServer, Reply, Request, answer_json

from explearn.core.errors import ParamsError
from explearn_study.annotate.llm import client as client_module
from explearn_study.annotate.llm.budget import Budget, BudgetError, Meter, Price, Spent, parse_prices
from explearn_study.annotate.llm.client import (
    ChatClient,
    Completion,
    Form,
    NoAnswerError,
    RefusedError,
    UnreachableError,
)
from explearn_study.annotate.llm.endpoint import Endpoint, EndpointError

KEY = 'sk-Zx"9/secret+key'
MESSAGES = [{"role": "system", "content": "Mark."}, {"role": "user", "content": '{"text": "a warm film"}'}]
SCHEMA = {"type": "object", "properties": {}}
GOOD = answer_json("positive", "warm")

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_WAIT", 0.01)


def ask(
    answer: Callable[[Request], Reply],
    times: int = 1,
    *,
    key: str = KEY,
    budget: Budget | None = None,
    prices: dict[str, Price] | None = None,
    **options: Any,
) -> tuple[list[Completion | Exception], ChatServer, Meter]:
    """Ask `times` times at once; results, the server and the meter."""
    meter = Meter(budget or Budget(), prices or {})

    async def all_of_them(endpoint: Endpoint) -> list[Completion | Exception]:
        async with ChatClient(endpoint, "m", meter, **options) as client:
            asked = [client.complete(MESSAGES, SCHEMA, max_tokens=50, temperature=0.0) for _ in range(times)]
            return list(await asyncio.gather(*asked, return_exceptions=True))

    with ChatServer(answer) as server:
        endpoint = Endpoint.from_environment({"EXPLEARN_LLM_BASE_URL": server.url, "EXPLEARN_LLM_API_KEY": key})
        with endpoint.redacted_logs():
            return asyncio.run(all_of_them(endpoint)), server, meter


def replies(*sequence: Reply) -> Callable[[Request], Reply]:
    """These replies one after the other, the last for all that come later."""
    return lambda request: sequence[min(request.number, len(sequence) - 1)]


def only(results: Sequence[Completion | Exception]) -> Completion:
    (result,) = results
    if isinstance(result, Exception):
        raise result
    return result


def test_a_request_is_what_the_protocol_asks_for() -> None:
    results, server, meter = ask(lambda _: Reply(GOOD, usage=(7, 5)))
    assert only(results) == Completion(GOOD, "stop", Spent(1, 7, 5))
    (request,) = server.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["messages"] == MESSAGES
    assert (request.body["model"], request.body["max_tokens"], request.body["temperature"]) == ("m", 50, 0.0)
    form = request.body["response_format"]
    assert (form["type"], form["json_schema"]["schema"], form["json_schema"]["strict"]) == ("json_schema", SCHEMA, True)
    assert meter.spent == Spent(1, 7, 5)


@pytest.mark.parametrize(
    "fault",
    [
        Reply(status=500, error="boom"),
        Reply(status=503, error="loading", headers={"Retry-After": "0"}),
        Reply(status=429, error="slow down"),
        Reply(status=408, error="late"),
        Reply(GOOD, drop=True),
        Reply(GOOD, delay=5.0),
        Reply(GOOD, drip=0.2),
        Reply(raw=b'{"choices": [{"mess'),
        Reply(raw=b"<html>a proxy's page</html>"),
        Reply(raw=b'{"choices": []}'),
        Reply(raw=b"[]"),
        Reply(raw=b'{"error": "in a reply of status 200"}'),
        Reply(raw=b'{"choices": [{"index": 0, "message": {"content": [1]}}]}'),
    ],
    ids=lambda reply: (
        f"{reply.status}-{reply.error or reply.raw or ('drop' if reply.drop else 'drip' if reply.drip else 'timeout')}"
    ),
)
class TestPassingFaults:
    def test_are_asked_again(self, fault: Reply) -> None:
        results, server, _ = ask(replies(fault, fault, Reply(GOOD)), timeout=0.5)
        assert only(results).content == GOOD
        assert only(results).spent.requests == len(server.requests) == 3

    def test_end_in_one_sentence_when_they_do_not_pass(self, fault: Reply) -> None:
        ((result,), server, _) = ask(lambda _: fault, timeout=0.3, attempts=3)
        assert isinstance(result, NoAnswerError)
        assert str(result).startswith("model 'm': no answer, asked 3 times (")
        assert "\n" not in str(result)
        assert len(server.requests) == 3


class TestRetryAfter:
    @pytest.mark.parametrize("as_date", [False, True])
    def test_is_waited_for(self, as_date: bool) -> None:
        value = email.utils.formatdate(time.time() + 2, usegmt=True) if as_date else "1"
        start = time.monotonic()
        results, _, _ = ask(replies(Reply(status=429, headers={"Retry-After": value}), Reply(GOOD)))
        assert only(results).content == GOOD
        assert time.monotonic() - start >= 0.9

    def test_holds_for_every_request_to_the_model(self) -> None:
        """After the refusal nothing is sent until the pause is over, whoever was refused."""
        sent: list[float] = []

        def answer(request: Request) -> Reply:
            sent.append(time.monotonic())
            limited = Reply(status=429, headers={"Retry-After": "1"})
            return limited if request.number == 1 else Reply(GOOD, delay=0.05)

        results, _, _ = ask(answer, 12)
        assert all(isinstance(result, Completion) for result in results)
        pauses = [later - earlier for earlier, later in zip(sorted(sent), sorted(sent)[1:], strict=False)]
        assert max(pauses) >= 0.9

    def test_of_too_long_a_pause_ends_the_run(self) -> None:
        ((result,), server, _) = ask(lambda _: Reply(status=429, headers={"Retry-After": "86400"}))
        assert isinstance(result, EndpointError)
        assert "asks for a pause of 86,400 s" in str(result)
        assert len(server.requests) == 1

    @pytest.mark.parametrize("value", ["soon", "-3", "nan", "inf seconds", ""])
    def test_that_makes_no_sense_is_passed_over(self, value: str) -> None:
        results, _, _ = ask(replies(Reply(status=429, headers={"Retry-After": value}), Reply(GOOD)))
        assert only(results).content == GOOD


class TestForms:
    """What a server does not take is left out, and the run keeps to what it takes."""

    @pytest.mark.parametrize(
        ("takes", "refusal", "form"),
        [
            (
                lambda body: body.get("response_format", {}).get("type") != "json_schema",
                "json_schema is not supported",
                Form("json_object"),
            ),
            (lambda body: "response_format" not in body, "unknown field response_format", Form("prompt")),
            (
                lambda body: "max_tokens" not in body,
                "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
                Form(limit="max_completion_tokens"),
            ),
            (lambda body: "temperature" not in body, "'temperature' does not support 0", Form(temperature=False)),
        ],
    )
    @pytest.mark.parametrize("status", [400, 422, 501])
    def test_the_first_that_is_accepted_holds(self, takes: Any, refusal: str, form: Form, status: int) -> None:
        def answer(request: Request) -> Reply:
            return Reply(GOOD) if takes(request.body) else Reply(status=status, error=refusal)

        results, server, _ = ask(answer, 5)
        assert all(isinstance(result, Completion) for result in results)
        refused = [request for request in server.requests if not takes(request.body)]
        assert refused == server.requests[: len(refused)]
        assert len(server.requests) == len(refused) + 5
        expected = form.options(SCHEMA, 50, 0.0)
        assert expected.items() <= server.requests[-1].body.items()
        assert {"response_format", "temperature", "max_tokens"} & set(server.requests[-1].body) <= set(expected)

    def test_a_refusal_after_an_acceptance_is_about_the_text(self) -> None:
        results, server, _ = ask(replies(Reply(GOOD), Reply(status=400, error="context length exceeded")), 2)
        assert sorted(type(result).__name__ for result in results) == ["Completion", "RefusedError"]
        assert len(server.requests) == 2

    def test_a_server_that_refuses_everything_is_quoted(self) -> None:
        ((result,), server, _) = ask(lambda _: Reply(status=400, error="no such\nthing " + "x" * 500))
        assert isinstance(result, RefusedError)
        assert str(result).startswith("model 'm': HTTP 400, no such thing xxx")
        assert len(str(result)) < 260
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(status=401, error="bad key"), "HTTP 401, bad key; check EXPLEARN_LLM_API_KEY"),
        (Reply(status=403, error="not yours"), "HTTP 403, not yours; check EXPLEARN_LLM_API_KEY"),
        (Reply(status=404, error="no model m"), "check EXPLEARN_LLM_BASE_URL and the model's name"),
        (Reply(status=429, error="pay up", code="insufficient_quota"), "the account has no quota left (pay up)"),
    ],
    ids=lambda value: str(getattr(value, "status", "")),
)
def test_a_wrong_key_model_or_account_ends_the_run_at_once(reply: Reply, words: str) -> None:
    ((result,), server, _) = ask(lambda _: reply)
    assert isinstance(result, EndpointError)
    assert words in str(result)
    assert len(server.requests) == 1


def spend(url: str, times: int = 1, **options: Any) -> tuple[list[Any], float]:
    """What `times` requests at once come to at an address, and the seconds that they take."""

    async def complete() -> list[Any]:
        async with ChatClient(Endpoint(url), "m", Meter(), **options) as client:
            asked = [client.complete(MESSAGES, SCHEMA, max_tokens=50, temperature=0.0) for _ in range(times)]
            return list(await asyncio.gather(*asked, return_exceptions=True))

    start = time.monotonic()
    return asyncio.run(complete()), time.monotonic() - start


def test_nobody_at_the_address_ends_the_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_WAIT", 0.5)
    with ChatServer(lambda _: Reply(GOOD)) as server:
        url = server.url
    results, seconds = spend(url, 8)
    assert all(isinstance(result, UnreachableError) for result in results)
    assert f"nobody answers at {url}" in str(results[0]) and "EXPLEARN_LLM_BASE_URL" in str(results[0])
    assert seconds < 5


class TestPatience:
    def test_a_server_that_accepts_and_never_answers(self) -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
            results, seconds = spend(url, 8, timeout=0.4, patience=1.0)
        assert all(isinstance(result, UnreachableError) for result in results)
        assert "answered nothing for 1 s (timed out)" in str(results[0])
        assert seconds < 3

    def test_pauses_and_repeats_count(self) -> None:
        busy = Reply(status=503, error="loading", headers={"Retry-After": "0.4"})
        start = time.monotonic()
        ((result,), server, _) = ask(lambda _: busy, timeout=0.5, patience=1.0, attempts=100)
        assert isinstance(result, EndpointError | UnreachableError) and "--patience" in str(result)
        assert time.monotonic() - start < 3 and len(server.requests) > 1

    def test_begins_anew_with_every_answer(self) -> None:
        """Ten texts one after the other take longer than the patience; none waits that long."""
        results, _, _ = ask(lambda request: Reply(GOOD, delay=0.15), 10, timeout=0.5, patience=0.5)
        assert all(isinstance(result, Completion) for result in results)

        async def one_by_one(endpoint: Endpoint) -> None:
            async with ChatClient(endpoint, "m", Meter(), timeout=0.5, patience=0.5) as client:
                for pause in (0.0, 0.7, 0.7):
                    await asyncio.sleep(pause)
                    await client.complete(MESSAGES, SCHEMA, max_tokens=50, temperature=0.0)

        with ChatServer(lambda _: Reply(GOOD)) as server:
            asyncio.run(one_by_one(Endpoint(server.url)))


class TestBudget:
    WORST = client_module.worst_input_tokens(MESSAGES, SCHEMA) + 50

    @pytest.mark.parametrize("faults", [0, 3])
    def test_no_request_is_sent_beyond_it(self, faults: int) -> None:
        answer = replies(*[Reply(status=500)] * faults, Reply(GOOD))
        results, server, meter = ask(answer, 30, budget=Budget(requests=10))
        assert len(server.requests) == meter.spent.requests == 10
        refused = [result for result in results if isinstance(result, BudgetError)]
        assert len(refused) == 30 - (10 - faults)
        assert "the budget of 10 requests does not cover another request" in str(refused[0])

    def test_tokens_are_never_exceeded_whatever_an_answer_takes(self) -> None:
        """Each request may take WORST; the budget is kept though many are under way."""
        budget = 5 * self.WORST + 10
        _, server, meter = ask(lambda _: Reply(GOOD, usage=(self.WORST - 50, 50)), 20, budget=Budget(tokens=budget))
        assert (len(server.requests), meter.spent.tokens) == (5, 5 * self.WORST)

    def test_what_an_answer_did_not_take_is_free_for_the_next(self) -> None:
        results, _, meter = ask(
            lambda _: Reply(GOOD, usage=(10, 5), delay=0.01), 20, budget=Budget(tokens=3 * self.WORST)
        )
        assert all(isinstance(result, Completion) for result in results)
        assert meter.spent.tokens == 20 * 15

    def test_money_is_counted_by_the_model_s_price(self) -> None:
        """100 tokens read at 20 and 50 written at 100 for a million cost 0.007."""
        price = Price(20.0, 100.0)
        budget = Budget(money=2 * 0.007 + price.cost(self.WORST - 50, 50) + 1e-9)
        results, server, meter = ask(lambda _: Reply(GOOD, usage=(100, 50)), 6, budget=budget, prices={"m": price})
        assert sum(isinstance(result, Completion) for result in results) == len(server.requests) == 3
        assert meter.spent.money == pytest.approx(3 * 0.007)

    @pytest.mark.parametrize("reply", [Reply(GOOD, usage=None), Reply(GOOD, delay=2.0)], ids=["uncounted", "timeout"])
    def test_a_request_whose_tokens_are_not_known_counts_as_its_worst_case(self, reply: Reply) -> None:
        _, _, meter = ask(lambda _: reply, timeout=0.3, attempts=1)
        assert meter.spent.tokens == self.WORST

    def test_a_budget_in_money_needs_a_price(self) -> None:
        with pytest.raises(ParamsError, match=r"--price: got none for 'other'"):
            Meter(Budget(money=1.0), {"m": Price(1, 1)}).price("other")

    def test_prices_are_for_a_model_or_for_all(self) -> None:
        found = parse_prices(["0.5,1.5", "org/m:free=0,0"])
        assert found == {"": Price(0.5, 1.5), "org/m:free": Price(0.0, 0.0)}

    @pytest.mark.parametrize("value", ["m", "m=1", "m=1,2,3", "m=a,b", "m=-1,2", "1,nan", "m=1,inf", ""])
    def test_a_price_that_is_none(self, value: str) -> None:
        with pytest.raises(ParamsError, match="expected MODEL=INPUT,OUTPUT or INPUT,OUTPUT"):
            parse_prices([value])


class TestEndpoint:
    @pytest.mark.parametrize(
        ("environment", "words"),
        [
            ({}, "EXPLEARN_LLM_BASE_URL: not set"),
            ({"EXPLEARN_LLM_BASE_URL": "localhost:80"}, "expected http(s)://HOST/PATH"),
            ({"EXPLEARN_LLM_BASE_URL": "ftp://h/v1"}, "expected http(s)://HOST/PATH"),
            ({"EXPLEARN_LLM_BASE_URL": "http://h:x/v1"}, "not an address"),
            ({"EXPLEARN_LLM_BASE_URL": f"http://me:{KEY}@h/v1"}, "EXPLEARN_LLM_BASE_URL"),
            ({"EXPLEARN_LLM_BASE_URL": "http://me:sk-secret@h/v1"}, "the key in EXPLEARN_LLM_API_KEY"),
            ({"EXPLEARN_LLM_BASE_URL": "http://h/v1?key=sk-secret"}, "the key in EXPLEARN_LLM_API_KEY"),
            ({"EXPLEARN_LLM_BASE_URL": "http://h", "EXPLEARN_LLM_API_KEY": "sk-secret\nx"}, "EXPLEARN_LLM_API_KEY"),
            ({"EXPLEARN_LLM_BASE_URL": "http://h", "EXPLEARN_LLM_API_KEY": "sk-secret é"}, "EXPLEARN_LLM_API_KEY"),
            ({"EXPLEARN_LLM_BASE_URL": "http://h", "EXPLEARN_LLM_API_KEY": "abc"}, "fewer than 4 characters"),
        ],
    )
    def test_settings_that_cannot_be_used_are_named_and_no_key_is_shown(
        self, environment: dict[str, str], words: str
    ) -> None:
        with pytest.raises(ParamsError) as caught:
            Endpoint.from_environment(environment)
        assert words in str(caught.value)
        for secret in ("secret", "abc"):
            assert secret not in "".join(traceback.format_exception(caught.value)).partition("ParamsError")[2]

    def test_no_key_is_needed(self) -> None:
        results, server, _ = ask(lambda _: Reply(GOOD), key="")
        assert only(results).content == GOOD
        assert "sk-" not in str(server.requests[0].headers)

    def test_other_libraries_variables_play_no_part(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY"):
            monkeypatch.setenv(name, "http://elsewhere.invalid")
        _, server, _ = ask(lambda _: Reply(GOOD), key="")
        assert "elsewhere" not in str(server.requests[0].headers)


class TestTheKey:
    """A server that sends the key back in every place it can."""

    ECHO = f"your key is {KEY}"

    @pytest.mark.parametrize(
        "reply",
        [
            Reply(status=status, error=f"your key is {KEY}", headers={"X-Echo": KEY, "Retry-After": "0"})
            for status in (400, 401, 404, 429, 500)
        ]
        + [
            Reply(raw=f"<html>{KEY}</html>".encode(), headers={"X-Echo": KEY}),
            Reply(status=500, raw=KEY.encode()),
            Reply(status=418, raw=KEY.encode()),
            Reply(GOOD, drop=True, headers={"X-Echo": KEY}),
            Reply(GOOD, delay=2.0),
        ],
        ids=str,
    )
    def test_is_in_no_error_and_no_log(self, reply: Reply, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        ((result,), _, _) = ask(lambda _: reply, attempts=2, timeout=0.3)
        assert isinstance(result, Exception)
        seen: BaseException | None = result
        while seen is not None:
            assert KEY not in str(seen) + repr(seen) + repr(vars(seen))
            assert not hasattr(seen, "request")
            seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
        assert KEY not in "".join(traceback.format_exception(result))
        assert caplog.records
        for record in caplog.records:
            assert KEY not in record.getMessage() + repr(record.args) + str(record.exc_info)

    def test_is_blacked_out_of_an_answer(self) -> None:
        results, _, _ = ask(lambda _: Reply(f"{KEY} and sk-Zx%229%2Fsecret%2Bkey"))
        assert only(results).content == "[key] and [key]"

    def test_is_in_no_description_of_the_endpoint(self) -> None:
        endpoint = Endpoint.from_environment({"EXPLEARN_LLM_BASE_URL": "https://h/v1", "EXPLEARN_LLM_API_KEY": KEY})
        assert KEY not in f"{endpoint} {endpoint!r} {endpoint.key} {endpoint.key!r}"
