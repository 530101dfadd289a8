"""The client against a real server on loopback, faults included."""

import asyncio
import logging
import traceback
from unittest.mock import patch

import openai._base_client
import pytest
from chat_server import ChatServer, Reply, answer_json

from explearn.predictors.llm.budget import BudgetError, Meter, Price, Spent
from explearn.predictors.llm.endpoint import Endpoint, EndpointError
from explearn.predictors.llm.server import client as client_module
from explearn.predictors.llm.server.client import ChatAnswer, ChatClient, NoAnswerError, RefusedError, RequestFormat

KEY = 'sk-Zx"9/secret+key'
MESSAGES = [{"role": "system", "content": "Mark."}, {"role": "user", "content": '{"text": "a warm film"}'}]
SCHEMA = {"type": "object", "properties": {}}
GOOD = answer_json("positive", "warm")

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)


def ask(
    answer,
    times=1,
    *,
    key=KEY,
    timeout=60.0,
    attempts=6,
    **budget,
):
    """Ask `times` times at once; return the results, the server and the meter."""
    meter = Meter(**budget)

    async def ask_all(endpoint):
        async with ChatClient(endpoint, meter) as client:
            requests = [client.complete("m", MESSAGES, SCHEMA, max_tokens=50, temperature=0.0) for _ in range(times)]
            return list(await asyncio.gather(*requests, return_exceptions=True))

    with ChatServer(answer) as server, patch.object(client_module, "ATTEMPTS", attempts):
        given = {"BASE_URL": server.url, "API_KEY": key, "TIMEOUT": str(timeout)}
        endpoint = Endpoint.from_environment({f"EXPLEARN_LLM_{name}": value for name, value in given.items()})
        return asyncio.run(ask_all(endpoint)), server, meter


def replies(*sequence):
    """Give these replies one after the other, the last for all that come later."""
    return lambda request: sequence[min(request.number, len(sequence) - 1)]


def only(results):
    (result,) = results
    if isinstance(result, Exception):
        raise result
    return result


def test_every_status_of_success_is_one_but_none_without_an_answer():
    results, _, meter = ask(lambda _: Reply(GOOD, status=201, usage=(7, 5)))
    assert only(results).content == GOOD and meter.spent == Spent(1, 7, 5)
    ((result,), server, _) = ask(lambda _: Reply(status=204, raw=b""), attempts=2)
    assert isinstance(result, NoAnswerError) and len(server.requests) == 2


def test_a_request_is_what_the_protocol_asks_for():
    results, server, meter = ask(lambda _: Reply(GOOD, usage=(7, 5)))
    assert only(results) == ChatAnswer(GOOD, "stop", Spent(1, 7, 5))
    (request,) = server.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body["messages"] == MESSAGES
    assert (request.body["model"], request.body["max_tokens"], request.body["temperature"]) == ("m", 50, 0.0)
    form = request.body["response_format"]
    assert (form["type"], form["json_schema"]["schema"], form["json_schema"]["strict"]) == ("json_schema", SCHEMA, True)
    assert meter.spent == Spent(1, 7, 5)


FAULTS = {
    "HTTP 500": Reply(status=500, error="boom"),
    "HTTP 429": Reply(status=429, error="slow down"),
    "a broken connection": Reply(GOOD, drop=True),
    "a piece now and then": Reply(GOOD, drip=0.5),
    "half a reply": Reply(raw=b'{"choices": [{"mess'),
    "content of another kind": Reply(raw=b'{"choices": [{"index": 0, "message": {"content": [1]}}]}'),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_passing_faults_are_asked_again_and_others_end_in_one_sentence(fault):
    results, server, meter = ask(replies(fault, fault, Reply(GOOD)), timeout=1.0)
    assert only(results).content == GOOD
    assert only(results).spent.requests == len(server.requests) == meter.spent.requests == 3
    ((result,), server, _) = ask(lambda _: fault, timeout=0.3, attempts=2)
    assert isinstance(result, NoAnswerError) and len(server.requests) == 2
    assert str(result).startswith("model 'm': no answer, asked 2 times (") and "\n" not in str(result)


class TestRequestFormats:
    """What a server does not take is left out, and the run keeps to what it takes."""

    @pytest.mark.parametrize(
        ("field", "taken", "refusal", "request_format"),
        [
            ("response_format", "json_object", "json_schema is not supported", RequestFormat("json_object")),
            ("response_format", None, "unknown field response_format", RequestFormat("prompt")),
            (
                "max_tokens",
                None,
                "no max_tokens; max_completion_tokens",
                RequestFormat(limit="max_completion_tokens"),
            ),
            ("temperature", None, "'temperature' does not support 0", RequestFormat(temperature=False)),
        ],
    )
    def test_the_first_that_is_accepted_holds(self, field, taken, refusal, request_format):
        def takes(body):
            return field not in body or (taken is not None and taken in str(body[field]))

        results, server, _ = ask(lambda r: Reply(GOOD) if takes(r.body) else Reply(status=400, error=refusal), 5)
        assert all(isinstance(result, ChatAnswer) for result in results)
        accepted = [request.body for request in server.requests if takes(request.body)]
        assert len(accepted) == 5
        expected = request_format.options(SCHEMA, 50, 0.0)
        assert all(expected.items() <= body.items() for body in accepted)
        assert {"response_format", "temperature", "max_tokens"} & set(accepted[-1]) <= set(expected)

    def test_a_refusal_after_an_acceptance_is_about_the_text(self):
        def answer(request):
            return Reply(GOOD) if request.number == 0 else Reply(status=400, error="too long", delay=0.3)

        results, server, _ = ask(answer, 2)
        assert sorted(type(result).__name__ for result in results) == ["ChatAnswer", "RefusedError"]
        assert len(server.requests) == 2

    def test_a_server_that_refuses_everything_is_quoted(self):
        ((result,), server, _) = ask(lambda _: Reply(status=400, error="no such\nthing " + "x" * 500))
        assert isinstance(result, RefusedError)
        assert str(result).startswith("model 'm': HTTP 400, no such thing xxx")
        assert len(str(result)) < 260
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(status=401, error="bad key"), "HTTP 401, bad key; check EXPLEARN_LLM_API_KEY"),
        (Reply(status=404, error="no model m"), "check EXPLEARN_LLM_BASE_URL and the model's name"),
        (Reply(status=429, error="pay up", code="insufficient_quota"), "the account has no quota left (pay up)"),
    ],
    ids=lambda value: str(getattr(value, "status", "")),
)
def test_a_wrong_key_model_or_account_ends_the_run(reply, words):
    ((result,), _, _) = ask(lambda _: reply)
    assert isinstance(result, EndpointError)
    assert words in str(result)


def test_nobody_at_the_address_ends_the_run_at_once():
    with ChatServer(lambda _: Reply(GOOD)) as server:
        url = server.url

    async def complete():
        async with ChatClient(Endpoint(url), Meter()) as client:
            await client.complete("m", MESSAGES, SCHEMA, max_tokens=50, temperature=0.0)

    with pytest.raises(EndpointError, match=f"no server answers at {url} .*EXPLEARN_LLM_BASE_URL"):
        asyncio.run(complete())


class TestBudget:
    @pytest.fixture
    def worst(self):
        """Tokens that a request may take, of which 50 are written."""
        _, _, meter = ask(lambda _: Reply(GOOD, usage=None))
        assert meter.spent.output_tokens == 50
        return meter.spent.input_tokens + 50

    @pytest.mark.parametrize("faults", [0, 3])
    def test_no_request_is_sent_beyond_it(self, faults):
        answer = replies(*[Reply(status=500)] * faults, Reply(GOOD))
        results, server, meter = ask(answer, 30, requests=10)
        assert len(server.requests) == meter.spent.requests == 10
        refused = [result for result in results if isinstance(result, BudgetError)]
        assert len(refused) == 30 - (10 - faults)
        assert "the budget of 10 requests does not cover another request" in str(refused[0])

    def test_money_is_never_exceeded_whatever_an_answer_takes(self, worst):
        """Each request may take its worst case; the budget is kept though many are under way."""
        reply, price = Reply(GOOD, usage=(worst - 50, 50)), Price(1e6, 1e6)
        _, server, meter = ask(lambda _: reply, 20, money=5 * worst + 10, prices={"m": price})
        assert (len(server.requests), meter.spent.money) == (5, 5 * worst)

    def test_money_is_counted_by_the_model_s_price(self, worst):
        """100 tokens read at 20 and 50 written at 100 for a million cost 0.007."""
        price = Price(20.0, 100.0)
        money = 2 * 0.007 + price.cost(worst - 50, 50) + 1e-9
        results, server, meter = ask(lambda _: Reply(GOOD, usage=(100, 50)), 6, money=money, prices={"m": price})
        assert sum(isinstance(result, ChatAnswer) for result in results) == len(server.requests) == 3
        assert meter.spent.money == pytest.approx(3 * 0.007)

    def test_a_request_without_an_answer_counts_as_its_worst_case(self, worst):
        _, _, meter = ask(lambda _: Reply(GOOD, delay=4.0), timeout=0.3, attempts=1)
        assert meter.spent.input_tokens + meter.spent.output_tokens == worst


def test_no_key_is_needed_and_other_libraries_variables_play_no_part(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "http://elsewhere.invalid")
    results, server, _ = ask(lambda _: Reply(GOOD), key="")
    assert only(results).content == GOOD
    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer -" and "elsewhere" not in str(headers)


class TestTheKey:
    """A server that sends the key back in every place it can."""

    @pytest.mark.parametrize(
        "reply",
        [
            *(Reply(status=n, error=f"your key is {KEY}", headers={"X-Echo": KEY}) for n in (307, 401, 429)),
            Reply(raw=f"<html>{KEY}</html>".encode(), headers={"X-Echo": KEY}),
            Reply(GOOD, drop=True, headers={"X-Echo": KEY}),
            Reply(GOOD, delay=4.0),
        ],
        ids=str,
    )
    def test_is_in_no_error_and_no_log(self, reply, caplog):
        caplog.set_level(logging.DEBUG)
        ((result,), _, _) = ask(lambda _: reply, attempts=2, timeout=0.3)
        assert isinstance(result, Exception)
        seen = result
        while seen is not None:
            assert KEY not in str(seen) + repr(seen) + repr(vars(seen))
            assert not hasattr(seen, "request")
            seen = seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)
        assert KEY not in "".join(traceback.format_exception(result))
        assert all(KEY not in record.getMessage() + str(record.exc_info) for record in caplog.records)

    def test_is_blacked_out_of_an_answer(self):
        results, _, _ = ask(lambda _: Reply(f"{KEY} and sk-Zx%229%2Fsecret%2Bkey"))
        assert only(results).content == "[key] and [key]"
