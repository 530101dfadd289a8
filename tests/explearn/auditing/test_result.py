"""What a result tells and saves: its values, its table and its page."""

import json

import pandas as pd
from audit_cases import PLANTS, TEXTS, classifier

import explearn


def test_a_result_saves_its_values_and_not_what_it_was_made_from(tmp_path):
    audit = explearn.audit(classifier(PLANTS["word"][1]), TEXTS)
    saved = audit.save(tmp_path / "audit.html")
    assert (audit.page, saved.page) == (None, tmp_path / "audit.html")
    document = json.loads((tmp_path / "audit.findings.json").read_text(encoding="utf-8"))
    assert list(document) == list(audit.values())
    assert not {"origin", "page", "examples"} & set(document)
    assert document["findings"][0]["element"] == "‘alpha’"


def test_a_result_is_a_frame_with_a_row_a_finding(tmp_path):
    diff = explearn.diff(classifier(PLANTS["word"][1]), classifier(PLANTS["word"][1], "old"), TEXTS)
    diff.save(tmp_path / "diff.html")
    pd.testing.assert_frame_equal(diff.to_frame(), pd.read_csv(tmp_path / "diff.findings.csv"), check_dtype=False)
    assert list(diff.to_frame()["element"]) == [finding.element for finding in diff.findings]


def test_sentences_have_no_marks_of_bold_words(capsys):
    audit = explearn.audit(classifier(PLANTS["word"][1]), TEXTS)
    assert not any("**" in sentence for sentence in audit.sentences())
    assert str(audit).splitlines()[:-1] == audit.sentences() and ".save('audit.html')" in str(audit)
    audit.print()
    assert capsys.readouterr().out.splitlines() == audit.sentences()
