"""`explearn annotate rank`: a language model's ranking of words becomes scores that the judge takes."""

import json

import pytest
from chat_server import Reply
from project_cases import example, make_explained

from explearn.comparison.score_files import match_scores, read_scores

TEXTS = [
    example(0, "a warm , warm film", "positive", "test"),
    example(1, "slow and dull", "positive", "test"),
    example(2, "It is neither", "negative", "test"),
    example(3, "not explained", "negative", "test"),
]
PREDICTED = ["positive", "negative", "negative"]

RANKED = {
    TEXTS[0].text: ["film", "warm", "splendid", "warm", "warm"],
    TEXTS[1].text: ["dull", "Slow", "and"],
}


def by_text(request):
    label = request.body["response_format"]["json_schema"]["schema"]["properties"]["label"]["enum"][0]
    if (words := RANKED.get(request.text)) is None:
        return Reply('{"label": "' + label + '", "ranking": ["It", "i', finish="length")
    return Reply(json.dumps({"label": label, "ranking": words}))


@pytest.fixture
def explained(tmp_path):
    project = make_explained(tmp_path, TEXTS, PREDICTED)
    project.params(model="m")
    return project


def test_of_n_words_in_the_text_the_first_has_1_and_the_last_1_nth(explained):
    """Each `warm` takes its first free place; a third one and `splendid` have none; a cut answer ranks nothing."""
    out = explained.root / "llm_ranking.jsonl"
    printed, server = explained.served(by_text, "rank", "--out", out)
    assert len(server.requests) == 4  # the one that cannot be read is asked twice, the text not explained never
    rows = explained.rows(str(out))
    third = 1 / 3
    assert [row["scores"] for row in rows] == [
        pytest.approx([0, 2 * third, 0, third, 1]),
        pytest.approx([2 * third, third, 1]),
        [0, 0, 0],
    ]
    assert [row["target"] for row in rows] == PREDICTED
    assert "3 texts; 2 of 8 words named are not in the text" in printed and "1 answers cannot be read" in printed
    before = out.read_bytes()
    assert "so far: 4 requests" in explained.succeed("rank", "--out", out) and out.read_bytes() == before


def test_the_model_is_told_the_predicted_class_alone(explained):
    _, server = explained.served(by_text, "rank", "--out", "scores.jsonl")
    for request in server.requests:
        predicted = PREDICTED[[text.text for text in TEXTS].index(request.text)]
        system = request.body["messages"][0]["content"]
        assert f"has given it the label {predicted}" in system and f'is one of "{predicted}", spelt' in system


def test_the_judge_takes_the_file_beside_its_methods(explained):
    out = explained.root / "llm_ranking.jsonl"
    explained.served(by_text, "rank", "--out", out)
    records, _ = read_scores([out])
    predicted = {text.id: (label, 0.9) for text, label in zip(TEXTS, PREDICTED, strict=False)}
    read = {text.id: range(len(text.words)) for text in TEXTS[:3]}
    matched = match_scores("given_llm_ranking", records["given_llm_ranking"], TEXTS[:3], predicted, read)
    assert [one.scores.argmax() for one in matched] == [4, 2, 0] and not matched[0].signed


def test_a_dry_run_asks_nothing_and_a_run_without_predictions_is_refused(explained):
    assert "3 to be answered" in explained.succeed("rank", "--out", "scores.jsonl", "--dry-run")
    (explained.root / "data" / "attributions" / "films" / "random.parquet").unlink()
    assert "random.parquet" in explained.complaint("rank", "--out", "scores.jsonl")
