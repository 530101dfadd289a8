"""`explearn annotate calibrate`."""

import json
from unittest.mock import patch

import krippendorff
import numpy as np
import pytest
from annotate_cases import ANSWERS
from chat_server import ChatServer, Reply, answer_json
from files import write_lines
from places import ROOT as REPOSITORY
from project_cases import TEXTS

from explearn import Example, Rationale
from explearn.core.documents import read_json
from explearn.text.quotes import quote_evidence
from explearn_study.annotate import command

AUTHOR = "llm-author"
READER = "llm-reader"


def corpus_task(task):
    """Labels, examples (all as validation texts), and text -> annotator -> mask of the shipped corpus."""
    corpus = REPOSITORY / "data" / "corpus"
    rows = [json.loads(line) for line in (corpus / f"{task}.jsonl").open(encoding="utf-8")]
    examples = [Example(row["id"], tuple(row["words"]), row["label"], "validation", task) for row in rows]
    marks = {row["id"]: {} for row in rows}
    for line in (corpus / f"{task}.rationales.jsonl").open(encoding="utf-8"):
        row = json.loads(line)
        marks[row["id"]][row["annotator"]] = tuple(map(bool, row["rationale"]))
    return sorted({row["label"] for row in rows}), examples, marks


class TestCalibrate:
    def test_the_shipped_marks_replayed_give_the_figures_computed_directly(self, new_project):
        """The second annotator as the model, the first as people; alpha is that of data/corpus/README.md."""
        task = "civility"
        labels, examples, marks = corpus_task(task)
        both = [e for e in examples if {AUTHOR, READER} <= marks[e.id].keys()]
        native = [Rationale(e.id, AUTHOR, "human", marks[e.id][AUTHOR]) for e in both]
        project = new_project(task, labels, examples, native)
        replay = {e.text: answer_json(e.label, *quote_evidence(e.words, marks[e.id][READER])) for e in both}
        server = ChatServer(lambda request: Reply(replay[request.text]))
        with server, patch.object(command, "JUDGED_TEXTS", 10_000):
            project.succeed("calibrate", "--model", "m", "--prompt", "evidence", server=server)
        document = read_json(project.root / "reports" / "annotation" / f"{task}.json")["best"]
        author = np.concatenate([marks[e.id][AUTHOR] for e in both])
        reader = np.concatenate([marks[e.id][READER] for e in both])
        hits = (author & reader).sum()
        chosen = reader.sum()
        marked = author.sum()
        assert document["texts"] == len(both) == 85
        assert document["precision"] == pytest.approx(hits / chosen, abs=1e-12)
        assert document["recall"] == pytest.approx(hits / marked, abs=1e-12)
        assert document["f1"] == pytest.approx(2 * hits / (chosen + marked), abs=1e-12)
        direct = krippendorff.alpha(np.stack([author, reader]).astype(int), level_of_measurement="nominal")
        assert document["alpha"] == pytest.approx(direct, abs=1e-12)
        assert document["alpha"] == pytest.approx(0.78, abs=0.005)
        assert (document["label_accuracy"], document["invalid_rate"], document["hallucination_rate"]) == (1.0, 0.0, 0.0)

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
        with ChatServer(lambda _: Reply(ANSWERS["f-0"])) as server:
            films.params(model="m", shots=0)
            films.succeed("calibrate", "--prompt", "evidence", server=server)
        assert {request.text for request in server.requests} == {TEXTS[11].text}

    def test_a_dry_run_asks_nothing(self, films):
        printed = films.succeed("calibrate", "--model", "a", "--model", "b", "--dry-run")
        # Two texts, two models, every shipped prompt.
        assert "20 to be answered" in printed
