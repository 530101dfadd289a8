"""Word scores from elsewhere, beside those of our methods."""

from dataclasses import replace

import pytest
from comparison_cases import TEXTS
from fakes import attribution
from files import write_lines
from rounding import tolerance

import explearn
from explearn import DataError, Example, ParamsError, load_classifier
from explearn.comparison.score_files import match_scores, read_scores


@pytest.fixture
def records(model):
    """What `explearn explain --json` writes of the texts."""
    classifier = load_classifier(model, device="cpu")
    return [a.to_dict() for a in explearn.get_explainer("occlusion").explain(classifier, list(TEXTS))]


def compare(model, *scores):
    options = explearn.CompareOptions(scores=scores)
    return explearn.compare(model, list(TEXTS), "occlusion", out=None, options=options)


def test_what_explain_wrote_gets_the_figures_of_the_method_itself(model, tmp_path, records):
    actual = compare(model, write_lines(tmp_path / "theirs.jsonl", records)).figures
    for metric in ("aopc_comprehensiveness", "aopc_sufficiency", "log_odds", "infidelity"):
        assert actual["given_occlusion"][metric] == pytest.approx(actual["occlusion"][metric], abs=tolerance())


def test_no_field_of_a_record_is_lost():
    example = Example("t-1", ("a", "b"), "", "test", "texts")
    record = replace(attribution("ab", [1.0, 2.0], example_id="t-1"), completeness_error=0.25, spans=((0, 1), (2, 3)))
    (matched,) = match_scores("given_x", [("row 1", record)], [example], {"t-1": ("yes", 0.75)}, {"t-1": [0, 1]})
    expected = replace(record, method="given_x", target="yes", predicted="yes", probability=0.75)
    assert matched.to_dict() == expected.to_dict()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"scores": [1.0]}, r"row 2, field 'scores' has 1 entries; expected 6, one per word"),
        (
            {"scores": [1, 1, None, 1, 1, 1]},
            r"row 2, field 'scores', word 2 \('delivery'\): got null; expected a number",
        ),
        ({"words": [*"abcdef"]}, r"text 'texts-2' .* has none; expected a record"),
        ({"id": "texts-1"}, r"row 2, field 'words': not those of text 'texts-1'"),
    ],
)
def test_what_does_not_fit_is_named(model, tmp_path, records, change, sentence):
    records[1] = {**records[1], **change}
    with pytest.raises(DataError, match=sentence):
        compare(model, write_lines(tmp_path / "theirs.jsonl", records))


def test_other_scores_of_the_same_text_are_told(model, tmp_path, records):
    plain = [{**record, "id": ""} for record in records]
    compare(model, write_lines(tmp_path / "twice.jsonl", [*plain, plain[0]]))
    other = {**plain[0], "scores": [2.0] * len(plain[0]["scores"])}
    with pytest.raises(DataError, match=rf"row {len(plain) + 1}: text 'texts-1' already has scores at .*, row 1"):
        compare(model, write_lines(tmp_path / "twice.jsonl", [*plain, other]))


def test_names_that_clash_are_numbered(tmp_path, records):
    methods = ["A+", "A-", "a_2", "方法", "別の", "A+"]
    rows = [{**records[0], "method": method} for method in methods]
    found, infos = read_scores(
        [write_lines(tmp_path / "mix.jsonl", rows[:4]), write_lines(tmp_path / "b.jsonl", rows[4:5])]
    )
    assert list(found) == list(infos) == ["given_a", "given_a_2", "given_a_2_2", "given_method", "given_method_2"]
    assert [of[0][1].method for of in found.values()] == methods[:5] and "A-" in infos["given_a_2"].summary
    with pytest.raises(ParamsError, match=r"scores of 'A\+' are in .*mix"):
        read_scores([tmp_path / "mix.jsonl", write_lines(tmp_path / "b.jsonl", rows[5:])])


def test_one_method_in_two_files(model, tmp_path, records):
    files = [write_lines(tmp_path / name, records) for name in ("a.jsonl", "b.jsonl")]
    with pytest.raises(ParamsError, match=r"scores of 'occlusion' are in .*a\.jsonl too"):
        compare(model, *files)
