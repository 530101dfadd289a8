"""A prompt to a language model as a classifier, against a real server on loopback."""

import contextlib
import json
import logging
import math
import os
import signal
import sqlite3
from contextlib import ExitStack
from itertools import product

import cli_cases
import numpy as np
import openai._base_client
import pytest
import tiny
import torch
import yaml
from chat_server import ChatServer, Reply
from prompt_cases import PROMPT, place, reviewed, with_logprobs

import explearn
from explearn import LLMClassifier
from explearn.core.errors import DataError, ModelError, ParamsError, UnansweredError
from explearn.methods.registry import known_infos
from explearn.predictors.llm.budget import BudgetError
from explearn.predictors.llm.endpoint import RefusedError
from explearn.predictors.llm.store import open_store
from explearn.testing import check_predictor

KEY = "sk-secret-key"
TEXT = "a good film not bad"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setenv("EXPLEARN_LLM_API_KEY", KEY)
    monkeypatch.delenv("EXPLEARN_LLM_MODEL", raising=False)


def goodness(text):
    """The probability of `positive`."""
    return 1 / (1 + math.exp(3 * text.count("bad") - 2 * text.count("good")))


def honest(request):
    p = goodness(reviewed(request.body["messages"]))
    return with_logprobs(place({" Good": p, "bad": 1 - p}))


def sampling(request):
    """A server without log-probabilities; it answers `bad` to every fourth request."""
    if "logprobs" in request.body:
        return Reply(status=400, error="logprobs are not supported")
    return Reply(content="Bad." if request.attempt % 4 == 0 else "good, I think")


@pytest.fixture
def serve(monkeypatch):
    """Starts a server that the environment names."""
    with ExitStack() as stack:

        def start(answer=honest):
            server = stack.enter_context(ChatServer(answer))
            monkeypatch.setenv("EXPLEARN_LLM_BASE_URL", server.url)
            return server

        yield start


@pytest.fixture
def answers(tmp_path):
    return tmp_path / "answers"


@pytest.fixture
def prompted(answers):
    """The prompt, changed, as a classifier."""
    return lambda **changes: LLMClassifier({**PROMPT, **changes}, answers)


def test_probabilities_are_those_of_the_server(serve, prompted):
    serve()
    classifier = prompted()
    expected = [goodness(text) for text in (TEXT, "good")]
    assert classifier.predict_proba([TEXT, "good"])[:, 1] == pytest.approx(expected)
    assert (np.diff(classifier.intervals([TEXT])) == 0).all()


def test_without_log_probabilities_samples_give_an_interval(serve, prompted):
    server = serve(sampling)
    classifier = prompted(samples=12)
    assert classifier.predict_proba([TEXT])[0] == pytest.approx([3.5 / 13, 9.5 / 13])
    low, high = classifier.intervals([TEXT])[0, 1]
    assert (low, high) == pytest.approx((0.468, 0.911), abs=1e-3)  # Wilson's of 9 in 12
    assert len(server.requests) <= 12 + 8  # those with log-probabilities that were on their way


def test_a_server_that_ignores_the_wish_for_log_probabilities_is_sampled(serve, prompted):
    serve(lambda request: Reply(content="good"))
    p = prompted(samples=4).predict_proba([TEXT])
    assert p[0] == pytest.approx([0.1, 0.9])


def cut(answer, finish="length"):
    """An answer with another reason why it stopped."""
    return Reply(raw=answer.raw.replace(b'"finish_reason": "stop"', b'"finish_reason": "%s"' % finish.encode()))


SORRY = with_logprobs(place({"I": 0.99, "bad": 1e-8}), place({"'m": 1.0}), place({" sorry": 1.0}))
INVALID = Reply(raw=with_logprobs(place({"good": 0.9, "bad": 0.1})).raw.replace(b'"logprob": -', b'"logprob": 1'))
MISSING = {
    "nothing": with_logprobs(),
    "no content": Reply(None, finish="content_filter"),
    "no log-probabilities": Reply("good"),
    "an invalid number": INVALID,
    "a cut label": cut(with_logprobs(place({"go": 0.9, "bad": 0.1}))),
    "unended reasoning": cut(with_logprobs(place({"<think>": 1.0}), place({" good": 0.9, " bad": 0.1}))),
    "an apology": SORRY,
    "a refusal": Reply(status=400, error="filtered"),
    "a ban": Reply(status=403, error="filtered"),
}
"""Replies that say nothing of the labels."""


def without(reply):
    """A server that gives this reply to texts with `odd`."""
    return lambda request: reply if "odd" in str(request.body["messages"]) else honest(request)


def kept(path):
    """The answers in a file, by key."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return {key: json.loads(answer) for key, answer in connection.execute("SELECT key, answer FROM answers")}


@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_answer_is_no_value_and_is_not_asked_for_again(kind, serve, prompted, answers):
    server = serve(without(MISSING[kind]))
    for _ in range(2):
        with pytest.raises(UnansweredError, match=r"1 of 3 texts \(text 2\) names a label"):
            prompted().predict(["good", "odd", "bad"])
        asked = len(server.requests)
    assert asked == 3 and prompted().answered(["good", "odd", "bad"]).all()
    assert prompted().predict_proba(["good", "bad"])[:, 1] == pytest.approx([goodness("good"), goodness("bad")])
    readings = [answer for answer in kept(answers).values() if answer is not False]
    assert readings.count(None) == (0 if kind == "an apology" else 1)
    shares = prompted().shares(["good", "odd"])
    assert shares[0] == pytest.approx(1) and not shares[1] > 1e-7
    assert np.isnan(prompted().intervals(["odd"])).all()


@pytest.mark.parametrize("kind", [kind for kind in MISSING if kind != "no log-probabilities"])
def test_a_missing_first_answer_does_not_change_to_samples(kind, serve, prompted):
    server = serve(without(MISSING[kind]))
    with pytest.raises(UnansweredError, match="1 of 3 texts"):
        prompted().predict(["odd", "good", "bad"])
    asked_twice = kind in ("a refusal", "a ban")  # since the server might have refused everything
    assert len(server.requests) == 3 + asked_twice
    assert prompted().predict(["good"]) == ["positive"]


def test_a_server_that_refuses_everything_is_not_asked_about_all_texts(serve, prompted):
    server = serve(lambda request: Reply(status=403, error="go away"))
    with pytest.raises(RefusedError, match="HTTP 403, go away; check EXPLEARN_LLM_API_KEY"):
        prompted().predict([f"good {number}" for number in range(60)])
    assert len(server.requests) == 10


def test_a_smaller_least_share_accepts_an_answer_that_was_kept(serve, prompted):
    server = serve(without(with_logprobs(place({"Sure": 0.6, "good": 0.3, "bad": 0.1}))))
    with pytest.raises(UnansweredError):
        prompted().predict(["odd"])
    assert prompted(least_share=0.4).predict_proba(["odd"])[0] == pytest.approx([0.25, 0.75])
    assert len(server.requests) == 1
    assert prompted().fingerprint != prompted(least_share=0.4).fingerprint


def test_samples_that_seldom_name_a_label_are_no_answer(serve, prompted):
    serve(lambda request: Reply("good" if request.attempt % 4 == 0 else "Hm"))
    with pytest.raises(UnansweredError):
        prompted(samples=8).predict([TEXT])
    classifier = prompted(samples=8, least_share=0.2)
    assert classifier.shares([TEXT]) == pytest.approx(0.25)
    assert classifier.predict_proba([TEXT])[0] == pytest.approx([0.5 / 3, 2.5 / 3])


@pytest.mark.parametrize(
    "refusal", ["top_logprobs must be between 0 and 5, got 20", "top_logprobs is too large", "5 logprobs at most"]
)
def test_as_many_log_probabilities_are_asked_for_as_a_server_allows(refusal, serve, prompted):
    def strict(request):
        return Reply(status=400, error=refusal) if request.body["top_logprobs"] > 5 else honest(request)

    server = serve(strict)
    assert prompted().predict_proba(["good"])[0, 1] == pytest.approx(goodness("good"))
    assert [request.body["top_logprobs"] for request in server.requests] == [20, 5]


@pytest.mark.parametrize("entry", [[1.0], [0.9, [1.0]], [0.9, [0.5, "x"]], [0.9, [2.0, -1.0]], 1, {"a": 1}])
def test_a_kept_answer_of_another_shape_is_refused(entry, serve, prompted, answers):
    serve()
    prompted().predict(["good"])
    with contextlib.closing(sqlite3.connect(answers)) as connection, connection:
        connection.execute("UPDATE answers SET answer = ? WHERE answer != 'false'", [json.dumps(entry)])
    with pytest.raises(DataError, match=r"answers: got .*; expected an answer about 2 labels"):
        prompted().predict(["good"])


@pytest.mark.parametrize("answer", [with_logprobs(place({"Sure": 1.0})), Reply("")])
def test_answers_without_any_label_are_an_error_before_all_texts_are_asked(answer, serve, prompted):
    server = serve(lambda request: answer)
    with pytest.raises(ModelError, match="the first 64 texts names a label"):
        prompted().predict([f"a film {number}" for number in range(200)])
    assert len(server.requests) == 64


def test_label_words_must_be_told_apart(prompted):
    with pytest.raises(ParamsError, match="label_words"):
        prompted(label_words={"a": "1", "b": "10"})


@pytest.fixture
def decoder(tmp_path):
    """A tiny decoder that prefers 7 and 9, as one that follows instructions does: its folder, and its completions."""
    model = tiny.language_model(seed=7, tie_word_embeddings=False)
    tokenizer = tiny.tokenizer("gpt2", 64)
    words = tokenizer.convert_tokens_to_ids(["7", "9"])
    with torch.no_grad():
        model.lm_head.weight /= 4 * model.lm_head.weight.std()
        model.transformer.ln_f.bias[0] = 25.0
        model.lm_head.weight[:, 0] = 0.0
        model.lm_head.weight[words, 0] = 1.0
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")

    @torch.inference_mode()
    def complete(request):
        ids = tokenizer(request.body["messages"][-1]["content"], return_tensors="pt").input_ids
        p = model(ids).logits[0, -1].double().softmax(-1)
        likeliest = p.topk(request.body["top_logprobs"]).indices.tolist()
        return with_logprobs(place({tokenizer.decode([token]): p[token].item() for token in likeliest}))

    return tmp_path / "model", complete


def test_a_served_and_an_in_process_decoder_agree(serve, answers, decoder):
    folder, complete = decoder
    serve(complete)
    prompt = {"template": "the review: {text} ! it was:", "label_words": {"slow": "7", "quick": "9"}}
    local = explearn.load_classifier(folder, completion={**prompt, "mask": " unn"})
    served = LLMClassifier({"model": "m", **prompt, "mask": "unn", "max_requests": 5000}, answers)
    text = "slow and all is over"
    assert served.predict_proba([text]) == pytest.approx(local.predict_proba([text]), abs=1e-5)
    for method in (info.name for info in known_infos() if info.family == "perturbation"):
        if explearn.get_explainer(method).needs_model:
            continue
        options = {"level": "word"} if method == "shap" else {"removal": "delete"}
        both = [explearn.explain(model, text, method, **options) for model in (local, served)]
        assert abs(both[0].scores).max() > 1e-3
        np.testing.assert_allclose(both[1].scores, both[0].scores, atol=1e-5, err_msg=method)


def test_nothing_is_asked_twice(serve, prompted):
    server = serve()
    prompted().predict(["good", TEXT])
    again = prompted()
    again.predict([TEXT, "good"])
    assert len(server.requests) == 2
    other = prompted(version="2")
    other.predict([TEXT])
    assert len(server.requests) == 3 and other.fingerprint != again.fingerprint


def test_the_budget_covers_all_runs(serve, prompted):
    server = serve()
    prompted(max_requests=3).predict(["good", "bad"])
    with pytest.raises(BudgetError):
        prompted(max_requests=3).predict(["good film", "bad film"])
    assert len(server.requests) == 3
    prompted(max_requests=4).predict(["good film", "bad film"])
    assert len(server.requests) == 4


def test_the_budget_in_money_is_never_exceeded(serve, prompted, monkeypatch):
    monkeypatch.setenv("EXPLEARN_LLM_PRICES", "10000,0")  # an answer costs 0.2, and 1 to 1.5 at the worst
    server = serve()
    with pytest.raises(BudgetError):
        prompted(max_money=1.7).predict(["good", "bad", "fine", "poor"])
    assert len(server.requests) == 2


def test_the_budget_is_shown_before_the_first_request(serve, prompted, caplog):
    seen = []
    serve(lambda request: seen.append(len(caplog.records)) or honest(request))
    prompted(max_requests=7).predict(["good"])
    assert seen == [1] and "at most 7 requests" in caplog.text


def test_ctrl_c_sends_no_further_request(serve, prompted, answers, request):
    # A process that a shell started in the background ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def interrupting(request):
        if request.number == 0:
            os.kill(os.getpid(), signal.SIGINT)
        return Reply(raw=honest(request).raw, delay=0.2)

    server = serve(interrupting)
    with pytest.raises(KeyboardInterrupt):
        prompted().predict([f"good {number}" for number in range(60)])
    assert len(server.requests) <= 8
    with open_store(answers) as store:
        assert store.spent.requests == len(server.requests)


@pytest.mark.parametrize("answer", [honest, sampling])
def test_it_is_as_every_predictor(answer, serve, prompted):
    serve(answer)
    check_predictor(prompted(samples=4), ["the quick brown fox", "a good film"])


def test_pairs_need_a_place_in_the_template(serve, prompted):
    server = serve(lambda request: with_logprobs(place({"good": 0.6, "bad": 0.4})))
    pair = ("a film", "another")
    with pytest.raises(DataError, match="pair"):
        prompted().predict([pair])
    prompted(template="First: {text} Second: {pair}").predict([pair])
    assert [request.body["messages"][0]["content"] for request in server.requests] == ["First: a film Second: another"]


def test_keys_and_texts_are_in_no_log_and_no_file(serve, prompted, answers, caplog):
    caplog.set_level(logging.DEBUG)
    logging.getLogger("openai").setLevel(logging.DEBUG)
    refusal = Reply(status=401, error=f"wrong key {KEY}")
    serve(lambda request: refusal if "poor" in str(request.body) else honest(request))
    classifier = prompted()
    classifier.predict([TEXT])
    with pytest.raises(explearn.ExplearnError) as caught:
        classifier.predict(["a poor film"])
    written = caplog.text + str(caught.value) + repr(classifier)
    files = list(answers.parent.glob("answers*"))
    assert answers in files
    for file in files:
        written += file.read_bytes().decode("latin-1")
    assert KEY not in written and "film" not in written


@pytest.fixture
def prompt_file(tmp_path):
    path = tmp_path / "prompt.yaml"
    path.write_text(yaml.safe_dump(PROMPT), encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.txt"
    texts = [f"{first} film is {end}" for first, end in product(range(20), ("good", "bad"))]
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def run(*arguments):
    result = cli_cases.run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_explain_takes_a_prompt(serve, prompt_file):
    serve()
    arguments = ["explain", "--llm", prompt_file, "--method", "occlusion", "--json", TEXT]
    attribution = json.loads(run(*arguments))
    assert attribution["target"] == "negative"
    p = goodness(TEXT)
    assert attribution["scores"][1] == pytest.approx((1 - p) - (1 - goodness("a film not bad")), abs=1e-5)
    assert prompt_file.with_name("prompt.yaml.answers").exists()


def test_compare_takes_a_prompt(serve, prompt_file, table, tmp_path):
    server = serve()
    page = tmp_path / "page.html"
    arguments = ["compare", "--llm", prompt_file, "--texts", table, "--method", "occlusion", "--out", page]
    assert "occlusion" in run(*arguments) and page.exists()
    asked = len(server.requests)
    run(*arguments)
    assert len(server.requests) == asked


def test_a_record_is_made_and_verified_by_a_prompt(serve, prompt_file, tmp_path, caplog):
    server = serve()
    page = tmp_path / "record.html"
    run("record", "--llm", prompt_file, "--out", page, TEXT)
    assert "at most 1,000 requests" in caplog.text
    made = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert made["classifier"]["name"] == "m" and made["method"]["name"] == "hierarchical"
    assert server.requests
    served = server.served
    assert "confirmed" in run("verify", "--llm", prompt_file, page)
    assert server.served == served


def test_audit_and_diff_take_a_prompt(serve, prompt_file, table, tmp_path, caplog):
    serve()
    page = tmp_path / "audit.html"
    assert "‘good’" in run("audit", "--llm", prompt_file, "--texts", table, "--out", page)
    assert page.exists() and "at most 1,000 requests" in caplog.text
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump({**PROMPT, "label_words": {"negative": "good", "positive": "bad"}}))
    of_both = ["diff", "--llm", prompt_file, "--texts", table, "--out", tmp_path / "diff.html"]
    arguments = [*of_both, "--fail-above", "0", "--against-llm"]
    run(*arguments, prompt_file)
    assert cli_cases.run(*arguments, other).exit_code == 1


def test_a_reader_is_trained_for_a_prompt(serve, prompt_file, table, tmp_path):
    server = serve()
    classifier = LLMClassifier(prompt_file)
    texts = table.read_text(encoding="utf-8").splitlines()
    explearn.explain(classifier, texts, "occlusion")
    occluded = server.served
    assert classifier.answered(["0 film is", "0 film was"]).tolist() == [True, False]
    folder = tmp_path / "reader"
    options = [f"--option={option}" for option in ("epochs=1", "samples=8", "width=8")]
    run("train", "reader", "--llm", prompt_file, "--texts", table, "--out", folder, *options)
    # Of 8 answers a text, those to the whole text and to the 4 without one word are there.
    assert server.served - occluded <= 3 * len(texts)
    assert explearn.explain(classifier, TEXT, explearn.load(folder)).method == "reader"


def test_a_prompt_and_a_classifier_at_once_are_refused(prompt_file):
    result = cli_cases.run("explain", "--llm", prompt_file, "--classifier", "x", TEXT)
    assert result.exit_code == 2 and "expected one of them" in result.output


class TestWithoutAnAnswer:
    """What is measured where the server refuses some texts, or some texts without some of their words."""

    @pytest.fixture
    def filtered(self, serve):
        """Starts a server that refuses texts for which a test holds."""

        def start(is_refused):
            def answer(request):
                if is_refused(reviewed(request.body["messages"])):
                    return Reply(status=400, error="filtered")
                return honest(request)

            return serve(answer)

        return start

    def test_explain_leaves_a_text_out_and_names_it(self, filtered, prompted, caplog):
        filtered(lambda text: "odd" in text)
        texts = ["a good film", "an odd film", "a bad film"]
        found = explearn.explain(prompted(), texts, "occlusion")
        assert [attribution.words for attribution in found] == [("a", "good", "film"), ("a", "bad", "film")]
        assert "occlusion: 1 of 3 texts left out" in caplog.text and "text 2" in caplog.text
        assert "requests were refused" in caplog.text and "HTTP 400, filtered" in caplog.text
        with pytest.raises(UnansweredError):
            explearn.explain(prompted(), texts[1], "occlusion")

    @pytest.mark.parametrize("method", ["occlusion", "hierarchical", "lime", "kernel_shap", "shap", "solvex"])
    def test_no_score_comes_from_a_copy_without_an_answer(self, method, filtered, prompted):
        filtered(lambda text: "odd" in text and "film" not in text)
        classifier = prompted(max_requests=10_000)
        with pytest.raises(UnansweredError):
            explearn.explain(classifier, "an odd film", method)
        (found,) = explearn.explain(classifier, ["an odd film", "a good film"], method)
        assert found.words == ("a", "good", "film")

    def test_the_words_of_an_only_sentence_are_scored_without_an_answer_to_no_text(self, filtered, prompted):
        filtered(lambda text: not text)
        found = explearn.explain(prompted(), "a good film", "hierarchical")
        without = goodness("a film")
        assert found.scores == pytest.approx([0, goodness("good") - without, 0], abs=1e-6)

    def test_the_command_shows_the_other_texts(self, filtered, prompt_file):
        filtered(lambda text: "odd" in text)
        arguments = ["explain", "--llm", prompt_file, "--method", "occlusion", "--method", "hierarchical", "--json"]
        shown = run(*arguments, "a good film", "an odd film").splitlines()
        assert len(shown) == 2
        assert {json.loads(line)["words"][1] for line in shown} == {"good"}

    def test_compare_leaves_texts_out_and_says_of_which_class(self, filtered, prompted, tmp_path, caplog):
        filtered(lambda text: "odd" in text or text.startswith("3 is"))
        texts = [f"{number} film is {end}" for number in range(8) for end in ("good", "bad")]
        labels = ["positive", "negative"] * 8
        texts[2] += " odd"
        texts[5] += " odd"
        texts[7] += " odd"
        comparison = explearn.compare(prompted(), texts, "random,occlusion", labels=labels, out=tmp_path / "page.html")
        # Of the texts with 3, one is refused as it is; the other without `film`, which only occlusion asks for.
        assert len(comparison.example_ids) == 12
        assert "3 of 16 texts left out, to which m gives no answer: 2 of negative, 1 of positive" in caplog.text
        page = (tmp_path / "page.html").read_text()
        assert "2 of negative, 1 of positive" in page
        assert "1 of 13 texts left out, to which there is no answer without some words" in page
        assert comparison.figures["occlusion"]["aopc_comprehensiveness"] is not None

    def test_a_figure_is_a_mean_over_the_texts_that_have_answers(self, filtered, prompted):
        filtered(lambda text: text == "good")  # of `a good film not bad`, the word that matters most alone
        classifier = prompted()
        texts = [TEXT, "a poor film not bad"]
        values = []
        for text in texts:
            attribution = explearn.explain(classifier, text, "occlusion", targets="positive")
            values.append(attribution)
        evaluation = explearn.evaluate(classifier, values, metrics=["sufficiency", "comprehensiveness"])
        by_text = evaluation.by_text["sufficiency"]["occlusion"]
        assert np.isnan(by_text).tolist() == [True, False]
        assert not np.isnan(evaluation.by_text["comprehensiveness"]["occlusion"]).any()

    def test_compare_draws_others_in_their_place(self, filtered, prompted):
        filtered(lambda text: "odd" in text)
        texts = [f"{number} film is {end}" for number in range(20) for end in ("good", "bad odd")]
        options = explearn.CompareOptions(max_texts=10)
        classifier = prompted()
        comparison = explearn.compare(classifier, texts, "occlusion", out=None, options=options)
        assert len(comparison.example_ids) == 10
        assert not classifier.answered(texts).all()  # texts that are not drawn cost nothing

    def test_audit_and_diff_leave_out_texts_and_interventions(self, filtered, prompt_file, tmp_path, caplog):
        def is_refused(text):
            return "odd" in text or text == "7 film is"

        filtered(is_refused)
        texts = [f"{first} film is {end}" for first, end in product(range(24), ("good", "bad"))]
        texts[0] += " odd"
        path = tmp_path / "texts.csv"
        path.write_text("text,label\n" + "\n".join(f"{text},positive" for text in texts), encoding="utf-8")
        classifier = LLMClassifier({**PROMPT, "max_requests": 100_000}, tmp_path / "answers")
        options = explearn.AuditOptions(columns=explearn.TextColumns(label="label"))
        audit = explearn.audit(classifier, path, method="occlusion", options=options)
        assert audit.texts == 47 and audit.hint.startswith(
            "1 of 48 texts left out, to which m gives no answer: 1 of positive"
        )
        assert audit.findings.confirmed
        assert not any(math.isnan(finding.effect) for finding in audit.findings if finding.effect is not None)
        other = LLMClassifier({**PROMPT, "version": "2", "max_requests": 100_000}, tmp_path / "answers")
        changes = explearn.diff(classifier, other, path, options=options, method="occlusion")
        assert changes.texts == 47 and "1 of 48 texts left out" in changes.hint
        assert not any(math.isnan(change.difference) for change in changes.findings)

    def test_a_record_says_nothing_of_changes_without_an_answer(self, filtered, prompt_file):
        filtered(lambda text: text == "a good film not")  # which would be positive
        record = explearn.record(LLMClassifier(prompt_file), TEXT, "random")
        without = {element.word: element.without for element in record.elements}
        assert without.pop("bad", None) is None and all(without.values())
        assert len(record.change.edits) == 2 and "bad" in {edit.word for edit in record.change.edits}

    def test_a_reader_learns_from_the_answers_that_there_are(self, filtered, prompt_file, table):
        filtered(lambda text: not text or "odd" in text)
        texts = [*table.read_text(encoding="utf-8").splitlines(), "an odd film"]
        options = {"epochs": 1, "samples": 8, "width": 8}
        reader = explearn.train("reader", LLMClassifier(prompt_file), texts, **options)
        assert np.isfinite(explearn.explain(LLMClassifier(prompt_file), TEXT, reader).scores).all()
