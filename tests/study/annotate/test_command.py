"""`explearn annotate run` and `calibrate`, from the command line to a server on loopback and back."""

import json
import logging
from collections import Counter
from unittest.mock import patch

from annotate_cases import ANSWERS
from chat_server import ChatServer, Reply, answer_json
from files import write_lines
from project_cases import KEY, TEXTS

from explearn.predictors.llm.server import client

BY_TEXT = {example.text: ANSWERS.get(example.id, ANSWERS["f-0"]) for example in TEXTS}


def by_text(request):
    return Reply(BY_TEXT[request.text])


class TestRun:
    def test_keeps_what_agrees_with_gold_and_marks_some_words(self, films):
        printed, _ = films.served(by_text, "run")
        assert films.kept() == {"f-0": "01010", "f-1": "0001010", "f-2": "00100110", "f-7": "01010"}
        for fate in (
            "4  kept",
            "1  label differs from gold",
            "1  no words marked",
            "1  all words marked",
            "1  too many words marked",
            "1  too many words that are not in the text",
            "1  answer cannot be read",
        ):
            assert fate in printed

    def test_each_text_is_sent_as_data_and_once_ever(self, films):
        """One string of a JSON object, whatever it holds; texts with the same words share an answer."""
        _, server = films.served(by_text, "run")
        asked = Counter(request.text for request in server.requests)
        assert set(asked) == {example.text for example in TEXTS[:10]}
        # What cannot be read is asked for once more.
        assert asked.pop(TEXTS[9].text) == 2 and set(asked.values()) == {1}
        for request in server.requests:
            system, question = request.body["messages"]
            assert set(json.loads(question["content"])) == {"text"}
            assert "do not follow them" in system["content"] and "Ignore the instructions" not in system["content"]

    def test_seeds_are_shown_balanced_over_labels(self, films):
        marks = {"f-0": "01010", "f-9": "0001", "f-7": "01000", "f-1": "0001010"}
        common = {"annotator": "ana", "kind": "human"}
        rows = [{"id": text, **common, "rationale": " ".join(digits)} for text, digits in marks.items()]
        write_lines(films.folder / "seeds.jsonl", rows)
        films.params(model="m", shots=3)
        _, server = films.served(by_text, "run")
        # People have marked the seeds, so they are not asked about.
        assert {request.text for request in server.requests}.isdisjoint({TEXTS[0].text, TEXTS[1].text, TEXTS[9].text})
        shots = server.requests[0].body["messages"][1:-1]
        answers = [json.loads(shot["content"]) for shot in shots[1::2]]
        assert [answer["label"] for answer in answers] == ["negative", "positive", "positive"]
        assert [tuple(quote.values()) for quote in answers[0]["evidence"]] == [("slow", 2), ("dull", 1)]

    def test_no_model_is_judged_on_a_text_equal_to_a_seed(self, films):
        common = {"annotator": "ana", "kind": "human"}
        write_lines(films.folder / "seeds.jsonl", [{"id": "f-0", **common, "rationale": "0 1 0 1 0"}])
        marks = {"f-7": "0 1 0 1 0", "f-1": "0 0 0 1 0 1 0"}  # f-7 has the words of f-0
        rows = [{"id": text, **common, "rationale": rationale} for text, rationale in marks.items()]
        write_lines(films.folder / "human.jsonl", rows)
        _, server = films.served(by_text, "calibrate", "--prompt", "evidence")
        asked = {request.text for request in server.requests}
        assert TEXTS[1].text in asked and TEXTS[0].text not in asked

    def test_answers_cut_short_are_asked_again_and_then_invalid(self, films):
        def answer(request):
            whole = BY_TEXT[request.text]
            cut = request.text == TEXTS[0].text or request.attempt == 0
            return Reply(whole[: len(whole) // 2] if cut else whole, finish="length" if cut else "stop")

        printed, server = films.served(answer, "run")
        assert "3  answer cannot be read" in printed  # f-0, f-7 with the same words, and f-9
        assert set(Counter(request.text for request in server.requests).values()) == {2}

    def test_a_text_that_the_server_refuses_is_not_asked_about_again(self, films):
        def answer(request):
            return Reply(status=400, error="too long") if "mess" in request.text else by_text(request)

        with ChatServer(answer) as server:
            assert "2  answer cannot be read" in films.succeed("run", server=server)
        assert "2  answer cannot be read" in films.succeed("run")

    def test_requests_are_under_way_together_but_no_more_than_asked_for(self, films):
        _, server = films.served(
            lambda request: Reply(BY_TEXT[request.text], delay=0.05), "run", EXPLEARN_LLM_CONCURRENCY="3"
        )
        assert server.most_in_flight == 3


class TestTrouble:
    def test_what_was_answered_before_the_budget_ended_is_kept(self, films):
        with ChatServer(by_text) as server:
            message = films.complaint("run", server=server, EXPLEARN_LLM_BUDGET_REQUESTS="4")
            assert "the budget of 4 requests does not cover another request" in message
            assert "run again: answers so far are kept" in message
            assert len(server.requests) == 4
            # The budget is of all runs.
            films.complaint("run", server=server, EXPLEARN_LLM_BUDGET_REQUESTS="4")
            assert len(server.requests) == 4
            assert "so far: " in films.succeed("run", server=server)
        # 9 texts, and the one whose answer cannot be read once more, or twice where the budget ended after its first.
        assert len(server.requests) in (10, 11)

    def test_texts_that_go_without_an_answer_are_named_and_asked_next_time(self, films):
        def answer(request):
            return Reply(status=500, error="out of order") if "mess" in request.text else by_text(request)

        with ChatServer(answer) as server, patch.object(client, "ATTEMPTS", 2):
            message = films.complaint("run", server=server)
        assert "1 of 9 texts have no answer" in message
        assert "asked 2 times (HTTP 500, out of order)" in message
        _, server = films.served(by_text, "run")
        assert [request.text for request in server.requests] == [TEXTS[8].text]

    def test_no_server_no_such_task_and_no_prepared_task(self, films):
        assert "EXPLEARN_LLM_BASE_URL: not set" in films.complaint("run")
        assert "unknown task 'flims'; did you mean films?" in films.complaint("run", "--task", "flims")
        for path in sorted((films.root / "data").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        assert "run `dvc repro prepare@films` first" in films.complaint("run")

    def test_the_key_is_in_no_file_and_no_log(self, films, caplog):
        """Of a server that sends it back in every place it can, and of one that refuses."""
        caplog.set_level(logging.DEBUG)
        echo = answer_json("positive", "warm", "funny", reason=f"Bearer {KEY}")
        with ChatServer(lambda _: Reply(echo, headers={"X-Key": KEY})) as server:
            films.succeed("calibrate", "--prompt", "evidence", server=server)
            films.succeed("run", server=server)
            films.succeed("sheet", "--out", films.root / "sheet.html")
        with ChatServer(lambda _: Reply(status=401, error=f"wrong key {KEY}", headers={"X-Key": KEY})) as server:
            films.params(model="n")
            assert "wrong key [key]; check" in films.complaint("run", server=server)
        written = [path for path in films.root.rglob("*") if path.is_file()]
        assert len(written) >= 7
        assert all(KEY.encode() not in path.read_bytes() for path in written)
        assert b"[key]" in (films.folder / "answers.sqlite").read_bytes()
        assert all(KEY not in record.getMessage() + repr(record.args) for record in caplog.records)


class TestDryRun:
    def test_says_what_a_run_would_take_and_asks_nothing(self, films):
        printed = films.succeed("run", "--dry-run", EXPLEARN_LLM_PRICES="1,5")
        assert "10 to be answered, 0 of them already are" in printed
        assert "requests:      9" in printed
        assert "cost:          about 0.0" in printed
        with ChatServer(by_text) as server:
            films.params(model="m", max_texts=4)
            films.succeed("run", server=server)
            films.params(model="m")
            count = len(server.requests)
            printed = films.succeed("run", "--dry-run", server=server)
            assert len(server.requests) == count
        assert "10 to be answered, 0 of them" not in printed
        assert "cost:          unknown; set EXPLEARN_LLM_PRICES" in printed

    def test_the_bound_on_the_cost_holds(self, films):
        """A server that takes all it may: as many tokens as there are bytes, and the longest answer."""

        def answer(request):
            sent = sum(len(message["content"].encode()) for message in request.body["messages"])
            return Reply(BY_TEXT[request.text], usage=(sent, request.body["max_tokens"]))

        printed = films.succeed("run", "--dry-run", EXPLEARN_LLM_PRICES="3,15")
        bound = float(printed.rpartition("at most ")[2].split()[0])
        printed, _ = films.served(answer, "run", EXPLEARN_LLM_PRICES="3,15")
        # One answer cannot be read and is asked for twice: a repeat, which the bound leaves out.
        money = float(printed.rpartition("cost ")[2])
        assert 0.5 * bound < money * 9 / 10 <= bound
