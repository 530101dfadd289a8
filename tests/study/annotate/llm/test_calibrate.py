"""`explearn annotate calibrate`."""

import pytest
from annotate_cases import ANSWERS
from chat_server import ChatServer, Reply, answer_json
from files import write_lines
from project_cases import TEXTS

from explearn.core.documents import read_json


class TestCalibrate:
    def test_compares_models_and_prompts_and_picks_the_cheapest_of_the_best(self, films):
        """People mark warm, bright, kind and cold, grey, mean. One model finds five of them, one two, one none."""

        def answer(request):
            good = request.text.startswith("warm")
            label, words = ("positive", ["warm", "bright", "kind"]) if good else ("negative", ["cold", "mean"])
            model = request.body["model"]
            if model == "babble":
                return Reply("no idea")
            if model == "half":
                words = words[:1]
            wordy = "smallest set" in request.body["messages"][0]["content"]
            return Reply(answer_json(label, *words), usage=(100, 200 if wordy else 20))

        models = ["--model", "good", "--model", "half", "--model", "babble"]
        with ChatServer(answer) as server:
            prompts = ["--prompt", "evidence", "--prompt", "fewest"]
            printed = films.succeed("calibrate", *models, *prompts, server=server, EXPLEARN_LLM_PRICES="1,2")
        document = read_json(films.root / "reports" / "annotation" / "films.json")
        figures = {(c["model"], c["prompt"]): c for c in document["candidates"]}
        assert len(figures) == 6
        good = figures["good", "evidence-1"]
        assert (good["precision"], good["recall"]) == (1.0, pytest.approx(5 / 6))
        assert good["f1"] == pytest.approx(10 / 11)
        assert figures["half", "evidence-1"]["f1"] == pytest.approx(2 * 2 / (2 + 6))
        assert figures["babble", "fewest-1"]["invalid_rate"] == 1.0
        assert figures["babble", "fewest-1"]["f1"] == 0.0
        assert good["money"] == pytest.approx((2 * 100 * 1 + 2 * 20 * 2) / 1e6)
        assert (document["best"]["model"], document["best"]["prompt"]) == ("good", "evidence-1")
        assert "the best, by F1 and then by cost, is bold" in printed

    def test_seeds_are_not_judged_on(self, films):
        seed = {"id": "f-10", "annotator": "ana", "kind": "human", "rationale": [1, 0, 1, 0, 1]}
        write_lines(films.folder / "seeds.jsonl", [seed])
        films.params(model="m", shots=0)
        _, server = films.served(lambda _: Reply(ANSWERS["f-0"]), "calibrate", "--prompt", "evidence")
        assert {request.text for request in server.requests} == {TEXTS[11].text}

    def test_a_dry_run_asks_nothing(self, films):
        printed = films.succeed("calibrate", "--model", "a", "--model", "b", "--dry-run")
        # Two texts, two models, every shipped prompt.
        assert "20 to be answered" in printed
