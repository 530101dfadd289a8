"""A language model's own reasons: as methods, and whether they can be trusted."""

import cli_cases
import numpy as np
import pytest
import reason_cases
import yaml
from chat_server import ChatServer, Reply
from reason_cases import PROMPT, InProcess, answer, reviews, verdict

import explearn
from explearn import LLMClassifier
from explearn.core.errors import UnsupportedError
from explearn.metrics.params import EvaluateParams
from explearn.metrics.reasons import judge_reasons, judge_trust
from explearn.predictors.llm.budget import BudgetError
from explearn.testing import make_classifier

TEXT = "a splendid film but slow"


@pytest.fixture
def server(monkeypatch):
    """The honest model."""
    with ChatServer(answer) as running:
        monkeypatch.setenv("EXPLEARN_LLM_BASE_URL", running.url)
        yield running


@pytest.mark.parametrize("seed", range(5))
def test_a_model_that_lies_about_its_reasons_is_told_from_an_honest_one(seed):
    assert verdict(honest=True, seed=seed) == "trusted"
    assert verdict(honest=False, seed=seed) == "not trusted"


def test_quoted_words_score_and_nothing_is_asked_twice(server, tmp_path):
    for _ in range(2):
        found = explearn.explain(LLMClassifier(PROMPT, tmp_path / "answers"), TEXT, "llm_rationale")
        assert found.words[found.scores.argmax()] == "splendid" and found.scores.sum() == 1
    assert len(server.requests) == 2
    assert b"splendid" not in (tmp_path / "answers").read_bytes()


def test_a_text_whose_reason_is_refused_is_left_out(server, tmp_path):
    def refusing(request):
        messages = request.body["messages"]
        if len(messages) == 3 and "superb" in messages[0]["content"]:
            return Reply(status=400, error="filtered")
        return answer(request)

    server.answer = refusing
    classifier = LLMClassifier(PROMPT, tmp_path / "answers")
    found = explearn.explain(classifier, [TEXT, "a superb film"], "llm_rationale")
    assert [attribution.words[1] for attribution in found] == ["splendid"]


def test_a_reason_counts_in_the_budget(server, tmp_path):
    with pytest.raises(BudgetError):
        explearn.explain(LLMClassifier({**PROMPT, "max_requests": 1}, tmp_path / "answers"), TEXT, "llm_rationale")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("quotes", "scores"),
    [
        (["slow", "splendid film"], [0, 0.5, 0.5, 0, 1]),
        (["Slow!", "gorgeous"], [0, 0, 0, 0, 1]),
        ([], [0] * 5),
        ("slow", [0] * 5),  # not a list
    ],
)
def test_ranked_quotes_fall_in_even_steps(server, tmp_path, monkeypatch, quotes, scores):
    monkeypatch.setattr(reason_cases, "reason", lambda *_: quotes)
    found = explearn.explain(LLMClassifier(PROMPT, tmp_path / "answers"), TEXT, "llm_ranking")
    np.testing.assert_allclose(found.scores, scores)


def test_reasons_that_quote_nothing_are_counted(server, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(reason_cases, "reason", lambda *_: ["gorgeous"])
    classifier = LLMClassifier(PROMPT, tmp_path / "answers")
    attributions = explearn.explain(classifier, [TEXT, "a witty film"], "llm_rationale")
    assert "2 of 2 reasons quote no word" in caplog.text
    figures = explearn.evaluate(classifier, attributions).figures["llm_rationale"]
    assert (figures["reason_empty"], figures["reason_margin"], figures["reason_gain"]) == (1, 0, 0)
    assert figures["reason_agreement"] is None


@pytest.mark.parametrize("name", ["llm_rationale", "llm_ranking"])
def test_other_classifiers_are_refused(name):
    with pytest.raises(UnsupportedError, match="asks a language model about its own answers"):
        explearn.explain(make_classifier(), "the quick fox", name)


def test_naming_all_words_gains_no_margin():
    classifier = explearn.FunctionPredictor(lambda texts: [[0.1, 0.9] if t else [0.9, 0.1] for t in texts], ["a", "b"])
    reason = explearn.explain(classifier, "all of it", "random")
    result = judge_reasons(classifier, [reason], lambda simulations: ["a"] * len(simulations))
    assert result.margin == [0] and result.informed == [1] and result.gain == [0]


def test_the_simulator_is_the_model_that_the_prompt_names(server, tmp_path):
    classifier = LLMClassifier({**PROMPT, "simulator": "other"}, tmp_path / "answers")
    attribution = explearn.explain(classifier, TEXT, "llm_rationale")
    explearn.evaluate(classifier, [attribution], metrics=["reason_gain"])
    simulations = []
    for request in server.requests:
        simulates = request.body["messages"][-1]["content"].startswith("A text classifier")
        assert request.body["model"] == ("other" if simulates else "m")
        simulations.append(simulates)
    assert sum(simulations) == 4  # two changed texts, each with and without the reason
    assert classifier.fingerprint == LLMClassifier(PROMPT, tmp_path / "answers").fingerprint


def test_few_texts_and_wide_intervals_decide_nothing():
    rng = np.random.default_rng(1)
    params = EvaluateParams()
    assert judge_trust(np.ones(19), np.ones(19), params) == "undecided"
    assert judge_trust(rng.normal(0.1, 0.4, 25), rng.normal(0.1, 0.4, 25), params) == "undecided"
    assert judge_trust(rng.normal(0.4, 0.1, 25), np.zeros(25), params) == "undecided"
    assert judge_trust(rng.normal(0.4, 0.1, 200), np.zeros(200), params) == "not trusted"


def test_compare_says_whether_to_trust_them(tmp_path):
    page = tmp_path / "page.html"
    model = InProcess(PROMPT, tmp_path / "answers")
    comparison = explearn.compare(model, reviews(20, seed=1), ["random", "llm_rationale", "llm_ranking"], out=page)
    assert "The model's own reasons can be trusted" in comparison.verdict
    assert {"llm_rationale", "llm_ranking"} < comparison.figures.keys()
    assert "Agreement over paraphrases" in page.read_text() and "Without the words that they name" in page.read_text()


def test_reasons_are_judged_by_whole_sentences_too(tmp_path):
    texts = [" . ".join(reviews(2, seed)) for seed in range(3)]
    options = explearn.CompareOptions(unit="sentence")
    model = InProcess(PROMPT, tmp_path / "answers")
    explearn.compare(model, texts, ["llm_rationale"], out=tmp_path / "page.html", options=options)
    assert "Without the sentences that they name" in (tmp_path / "page.html").read_text()
    assert "Agreement over paraphrases" not in (tmp_path / "page.html").read_text()


def test_the_command_says_when_texts_are_too_few(server, tmp_path):
    (tmp_path / "prompt.yaml").write_text(yaml.safe_dump(PROMPT))
    (tmp_path / "texts.txt").write_text("\n".join(reviews(2, seed=1)))
    arguments = ["--llm", tmp_path / "prompt.yaml", "--texts", tmp_path / "texts.txt"]
    arguments += ["--method", "llm_rationale", "--out", tmp_path / "page.html"]
    result = cli_cases.run("compare", *arguments)
    assert result.exit_code == 0, result.output
    assert "Whether the model's own reasons can be trusted is undecided" in result.output
    assert "2 texts are too few" in (tmp_path / "page.html").read_text()
