"""An audit on functions whose reasons are known: what is planted is found and confirmed, what is not is not."""

import hashlib
import json

import pytest
from audit_cases import PLANTS, TEXTS, classifier, sentences
from cli_cases import run

import explearn
from explearn.auditing.reading import halves
from explearn.core.errors import DataError, ExplearnError, ModelError, ParamsError
from explearn.subject.texts import given_texts


@pytest.mark.parametrize("kind", PLANTS)
def test_what_is_planted_is_among_the_first_three(kind):
    element, rule, plants = PLANTS[kind]
    texts = sentences(plants=plants)
    if kind == "place":
        texts = [f"alpha {text}" if number % 2 else f"{text} alpha" for number, text in enumerate(texts)]
    findings = explearn.audit(classifier(rule), texts).findings.confirmed.of_class("yes")
    assert element in [finding.element for finding in findings[:3]]
    finding = next(finding for finding in findings if finding.element == element)
    assert finding.low is not None and finding.effect is not None and finding.low <= finding.effect


def test_an_answer_by_chance_has_no_reasons():
    def by_chance(words):
        return hashlib.sha256(" ".join(words).encode()).digest()[0] < 128

    findings = explearn.audit(classifier(by_chance), sentences()).findings
    assert len(findings) > 40
    assert len(findings.confirmed) <= 0.05 * len(findings)


def test_a_word_that_only_goes_with_the_answer_is_refuted():
    texts = sentences(plants=["alpha gamma", ""])
    findings = explearn.audit(classifier(PLANTS["word"][1]), texts).findings
    (companion,) = [finding for finding in findings if finding.element == "‘gamma’" and finding.target == "yes"]
    assert "word counts" in companion.source
    assert not companion.confirmed


def test_effects_are_the_changes_of_the_probability():
    findings = explearn.audit(classifier(PLANTS["word"][1]), sentences(plants=["alpha", ""])).findings
    first = findings[0]
    assert (first.element, first.target, first.confirmed) == ("‘alpha’", "yes", True)
    assert first.taken_out == pytest.approx(0.7) and first.put_in == pytest.approx(0.7)
    assert next(iter(findings.to_frame()["element"])) == "‘alpha’"


@pytest.mark.parametrize("wrong", [0, 12])
def test_groups_are_ranked_only_where_they_differ_beyond_chance(wrong):
    texts = sentences(plants=["alpha", ""])
    labels = ["no" if number % 2 or number < 2 * wrong else "yes" for number in range(len(texts))]
    groups = ["first" if number < len(texts) // 2 else "second" for number in range(len(texts))]
    # A right answer more or less in the second half, which is chance.
    labels[-1] = "yes"
    audit = explearn.audit(classifier(PLANTS["word"][1]), texts, labels, groups)
    said = audit.sentences()[-1]
    first, second = audit.groups
    assert (audit.groups_p_value < 0.05) is bool(wrong)
    assert ("most often for second" in said) is bool(wrong) and ("least for first" in said) is bool(wrong)
    assert f"{first.accuracy_low:.3f} to {first.accuracy_high:.3f}" in said
    assert f"p = {audit.groups_p_value:.2g}" in said and f"{second.accuracy:.3f}" in said


def test_false_alarms_come_first_with_the_words_that_cause_them(tmp_path):
    def rule(words):
        return "alpha" in words or "*" in words

    benign = [f"{text} *" if number % 4 else text for number, text in enumerate(sentences()[:40])]
    audit = explearn.audit(classifier(rule), TEXTS, benign=benign, passes="no", out=tmp_path / "audit.html")
    alarms = audit.false_alarms
    assert (alarms.texts, alarms.alarms, alarms.share) == (40, 30, 0.75)
    assert alarms.low < 0.75 < alarms.high
    cause = alarms.causes[0]
    assert (cause.element, cause.wrong, cause.mended) == ("‘*’", 30, 30)
    assert "30 false alarms on 40 texts that should be no" in audit.sentences()[0]
    assert "without ‘*’, 30 of 30 wrong answers" in audit.sentences()[0]
    # The figures of the other texts are theirs alone.
    assert audit.texts == len(TEXTS) and not audit.errors
    without = explearn.audit(classifier(rule), TEXTS)
    assert without.false_alarms is None and without.rates == audit.rates
    assert not explearn.audit(classifier(rule), TEXTS, benign=sentences(), passes="no").false_alarms.causes
    with pytest.raises(ParamsError, match="passes: got none"):
        explearn.audit(classifier(rule), TEXTS, benign=benign)
    with pytest.raises(ModelError, match="safe"):
        explearn.audit(classifier(rule), TEXTS, benign=benign, passes="safe")


def test_errors_and_groups():
    texts = sentences(plants=["alpha", "", "alpha", ""])
    # Of the texts with alpha every other one is no "yes" by its label.
    labels = ["yes" if number % 4 == 0 else "no" for number in range(len(texts))]
    groups = ["large"] * (len(texts) - 6) + ["small"] * 6
    audit = explearn.audit(classifier(PLANTS["word"][1]), texts, labels, groups)
    cause = next(cause for cause in audit.errors if cause.element == "‘alpha’")
    assert (cause.target, cause.wrong, cause.mended, cause.right_lost) == ("yes", 40, 40, cause.right)
    assert audit.accuracy == pytest.approx(0.75)
    assert [(group.group, group.texts, group.small) for group in audit.groups] == [
        ("large", len(texts) - 6, False),
        ("small", 6, True),
    ]
    assert "Without ‘alpha’, 40 of 40 wrong answers “yes” would be right" in " ".join(audit.sentences())
    assert not audit.differences
    assert "Of 2 groups: no confirmed finding occurs often enough in a group" in " ".join(audit.sentences())


@pytest.mark.parametrize("missing", [None, float("nan"), " "])
def test_texts_without_a_group_are_counted_and_not_compared(missing, tmp_path):
    texts = sentences(plants=["alpha", ""])
    years = [1990, 2000.0, " 1990 ", missing] * 40
    labels = ["yes", "no"] * 80
    audit = explearn.audit(classifier(PLANTS["word"][1]), texts, labels, years)
    assert [(group.group, group.texts, group.accuracy) for group in audit.groups] == [
        ("1990", 80, 1.0),
        ("2000", 40, 1.0),
        ("no group", 40, None),
    ]
    assert {difference.group for difference in audit.differences} <= {"1990", "2000"}
    assert "Of 2 groups" in " ".join(audit.sentences())
    assert "least for" not in " ".join(audit.sentences()), "both are right alike"
    assert "40 texts without a group" in " ".join(audit.sentences())
    audit.save(tmp_path / "audit.html")


def test_a_group_has_one_name_in_every_format(tmp_path):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"text": sentences(plants=["alpha", ""]), "year": [1990, 2000, None, 2000] * 40})
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    table.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    for texts in (table, tmp_path / "t.csv", tmp_path / "t.parquet", tmp_path / "t.jsonl"):
        audit = explearn.audit(classifier(PLANTS["word"][1]), texts, groups="year")
        assert [(group.group, group.texts) for group in audit.groups] == [("1990", 40), ("2000", 80), ("no group", 40)]


def test_an_answer_to_a_text_without_a_label_is_neither_right_nor_wrong():
    texts = sentences(plants=["alpha", ""])
    labels = ["yes", "no", None, ""] * 40
    audit = explearn.audit(classifier(PLANTS["word"][1]), texts, labels)
    assert (audit.accuracy, audit.labelled, audit.errors) == (1.0, 80, [])
    assert "100 % of its answers to the 80 texts with a label are right" in audit.sentences()[0]
    comparison = explearn.compare(classifier(PLANTS["word"][1]), texts[:8], "occlusion", labels=labels[:8], out=None)
    assert (comparison.performance["test"]["accuracy"], comparison.performance["test"]["texts"]) == (1.0, 4)
    assert "4 texts without a label" in " ".join(comparison.remarks)


def test_numbers_as_labels_are_those_in_the_names_of_the_classes():
    def stars(texts):
        return [[0.1, 0.9] if "alpha" in text.split() else [0.8, 0.2] for text in texts]

    texts = sentences(plants=["alpha", ""])
    predictor = explearn.FunctionPredictor(stars, ["1 star", "2 stars"])
    assert explearn.audit(predictor, texts, [2, 1] * 80).accuracy == 1.0
    assert explearn.audit(predictor, texts, [1, 0] * 80).accuracy == 1.0


def test_equal_texts_are_in_one_half():
    texts = sentences()
    examples = given_texts([*texts, *(f"{text.upper()}!" for text in texts)]).examples
    searched, held_out = (set(half) for half in halves(examples, 13))
    assert len(searched) == len(held_out) == len(texts)
    assert all((number in searched) == (number + len(texts) in searched) for number in range(len(texts)))


def test_a_group_in_which_a_word_counts_otherwise_is_told():
    def rule(words):
        return "alpha" in words and "delta" not in words

    texts = [f"{text} delta" if number % 2 else text for number, text in enumerate(sentences(plants=["alpha"]))]
    groups = ["with" if number % 2 else "without" for number in range(len(texts))]
    audit = explearn.audit(classifier(rule), texts, groups=groups)
    difference = next(row for row in audit.differences if row.element == "‘alpha’")
    assert difference.differs
    assert (difference.group, difference.inside) == ("with", pytest.approx(0.0))
    assert difference.outside == pytest.approx(0.7)


def test_a_killed_audit_goes_on_where_it_was(tmp_path):
    rule = PLANTS["word"][1]
    texts = sentences(plants=["alpha", ""])
    asked = 0
    limit = 2500

    def predict_proba(some):
        nonlocal asked
        asked += len(some)
        if asked > limit:
            raise OSError("killed")
        return [[0.1, 0.9] if rule(text.split()) else [0.8, 0.2] for text in some]

    function = explearn.FunctionPredictor(predict_proba, ["no", "yes"], name="planted")
    options = explearn.AuditOptions(work=tmp_path / "work")
    with pytest.raises(ModelError, match="killed"):
        explearn.audit(function, texts, options=options)
    asked, limit = 0, 10**9
    resumed = explearn.audit(function, texts, options=options)
    first_part = asked
    asked = 0
    assert resumed.findings == explearn.audit(function, texts).findings
    assert 0 < first_part < asked


def test_the_page_is_whole_and_escaped(tmp_path):
    hostile = "<script>alert(1)</script>"
    texts = sentences(plants=[hostile, ""])
    page = tmp_path / "audit.html"
    explearn.audit(classifier(lambda words: hostile in words), texts, out=page)
    html = page.read_text(encoding="utf-8")
    assert hostile not in html and "&lt;script&gt;alert(1)" in html
    assert "What this classifier leans on" in html
    document = json.loads(page.with_suffix(".findings.json").read_text(encoding="utf-8"))
    assert document["findings"][0]["confirmed"]
    rows = page.with_suffix(".findings.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + len(document["findings"])
    assert run("verify", page).exit_code == 3  # the function is not given
    page.with_suffix(".findings.csv").write_text("element,\n", encoding="utf-8")
    assert run("verify", page).exit_code == 1
    page.write_text("mine", encoding="utf-8")
    with pytest.raises(ParamsError, match="is not an output of explearn audit"):
        explearn.audit(classifier(lambda words: hostile in words), texts, out=page)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": TEXTS[:10]}, "got 10; expected at least 40"),
        ({"texts": sentences()}, "answers 'no' for all 160 texts"),
        ({"labels": ["maybe"] * len(TEXTS)}, "maybe"),
        ({"groups": ["a"] * (len(TEXTS) - 1) + ["b"]}, "'b' has one text"),
        ({"groups": ["a", "b"]}, "groups: got 2 for 160 texts"),
        ({"options": explearn.AuditOptions(patterns=["("])}, "not a regular expression"),
        ({"options": explearn.AuditOptions(patterns=["x*"])}, "matches the empty text"),
    ],
)
def test_bad_input_is_a_sentence(arguments, message):
    with pytest.raises(ExplearnError, match=message.replace("(", r"\(") if message != "(" else r"\("):
        explearn.audit(classifier(PLANTS["word"][1]), **{"texts": TEXTS, **arguments})


def test_a_pattern_that_takes_for_ever_is_stopped():
    texts = ["a" * 40 + " !", *TEXTS]
    with pytest.raises(ParamsError, match="takes more than 1 second"):
        explearn.audit(classifier(PLANTS["word"][1]), texts, options=explearn.AuditOptions(patterns=["(a|aa|a?a)+$"]))


def test_a_pattern_is_a_finding():
    options = explearn.AuditOptions(patterns=["alp.a"])
    findings = explearn.audit(classifier(PLANTS["word"][1]), TEXTS, options=options).findings
    assert "the pattern ‘alp.a’" in [finding.element for finding in findings.confirmed]


def test_claims_that_cannot_be_tested_are_named_with_their_texts(tmp_path):
    options = explearn.AuditOptions(patterns=["zebra"])
    page = tmp_path / "audit.html"
    audit = explearn.audit(classifier(PLANTS["word"][1]), TEXTS, options=options, out=page)
    # In these texts every word is frequent: without "function words" nothing would be left.
    assert {finding.element for finding in audit.findings.untested} == {"the pattern ‘zebra’", "function words"}
    assert "4 claims had too few texts to be tested" in " ".join(audit.sentences())
    assert "the pattern ‘zebra’ for no (0 texts)" in page.read_text(encoding="utf-8")


def test_texts_of_a_table_and_two_segments():
    rows = [{"text": text, "from": "web" if number % 3 else "mail"} for number, text in enumerate(TEXTS)]
    audit = explearn.audit(classifier(PLANTS["word"][1]), rows, groups="from")
    assert [group.group for group in audit.groups] == ["mail", "web"]
    with pytest.raises(DataError, match="expected a column"):
        explearn.audit(classifier(PLANTS["word"][1]), rows, groups="missing")

    def of_pairs(pairs):
        return [[0.1, 0.9] if "alpha" in second.split() else [0.8, 0.2] for _, second in pairs]

    pairs = [("a question", text) for text in TEXTS]
    findings = explearn.audit(explearn.FunctionPredictor(of_pairs, ["no", "yes"]), pairs).findings
    assert "‘alpha’" in [finding.element for finding in findings[:3]]
