"""All commands on a scikit-learn pipeline, and `explearn.verify`, which runs no code that a file names."""

import json

import cli_cases
import joblib
import pytest
import saying
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import explearn

NAMES = {"bug": "crash", "feature": "wish", "money": "refund"}
TEXTS = [f"the {word} of page {i} again" for i in range(14) for word in NAMES.values()]
LABELS = list(NAMES) * 14
TEXT = "a crash of the page"


def pipeline(c=10.0):
    return make_pipeline(TfidfVectorizer(), LogisticRegression(C=c)).fit(TEXTS, LABELS)


CODE = """
import pathlib
import joblib
new = joblib.load(pathlib.Path(__file__).with_name("new.joblib"))
old = joblib.load(pathlib.Path(__file__).with_name("old.joblib"))
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A folder with the pages of each command, made in Python and on the command line."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "models.py").write_text(CODE, encoding="utf-8")
    (folder / "t.csv").write_text("text\n" + "\n".join(TEXTS), encoding="utf-8")
    new, old = pipeline(), pipeline(0.01)
    joblib.dump(new, folder / "new.joblib")
    joblib.dump(old, folder / "old.joblib")
    explearn.compare(new, TEXTS, "quick", out=folder / "compare_python.html")
    explearn.audit(new, TEXTS, out=folder / "audit_python.html")
    explearn.diff(new, old, TEXTS, out=folder / "diff_python.html")
    explearn.record(new, TEXT, comparison=folder / "compare_python.json", out=folder / "record_python.html")
    named = ("--classifier", f"{folder}/models.py:new", "--out")
    listed = ("--texts", folder / "t.csv")
    for arguments in (
        ("explain", TEXT, *named, folder / "explain.html"),
        ("compare", *listed, "--method", "quick", *named, folder / "compare.html"),
        ("audit", *listed, *named, folder / "audit.html"),
        ("diff", *listed, "--against", f"{folder}/models.py:old", *named, folder / "diff.html"),
        ("record", TEXT, "--comparison", folder / "compare.json", *named, folder / "record.html"),
    ):
        code, said = run(*arguments)
        assert code == 0, said
    return folder


def run(*arguments):
    done = cli_cases.run(*arguments)
    return done.exit_code, done.output


COMMANDS = ("compare", "audit", "diff", "record")


@pytest.mark.parametrize("page", ["explain", *COMMANDS, *(f"{command}_python" for command in COMMANDS)])
def test_a_page_about_a_pipeline_holds_for_it_and_for_no_other(pages, page):
    document = pages / f"{page}.html"
    found = explearn.verify(document, pipeline())
    assert not found.differences and not found.missing and "classifier" in str(found)
    assert "fitted attributes" in document.read_text(encoding="utf-8") or page == "explain"
    (difference,) = explearn.verify(document, pipeline(0.01)).differences
    assert "fingerprint" in difference
    code, said = run("verify", document, "--classifier", f"{pages}/models.py:new")
    assert code == 0 and "classifier" in said, said
    assert run("verify", document, "--classifier", f"{pages}/models.py:old")[0] == 1


def test_without_the_classifier_a_page_is_not_checked_against_it_and_a_record_not_at_all(pages):
    found = explearn.verify(pages / "compare.html")
    assert not found.differences and "is checked if it is given (--classifier)" in str(found.missing)
    assert run("verify", pages / "compare.html")[0] == 3
    saying.complaint(lambda: explearn.verify(pages / "record.html"), "--classifier: got none")
    saying.complaint(
        lambda: explearn.record(pipeline(0.01), TEXT, comparison=pages / "compare.json"), "another classif"
    )


def test_a_file_of_code_belongs_to_what_is_checked_and_its_place_stays_private(pages):
    manifest = json.loads((pages / "compare.json").read_text(encoding="utf-8"))
    (path,) = manifest["parts"]["models"]["files"]
    assert path.endswith("models.py") and manifest["classifiers"]["t"]["name"] is None
    record = json.loads((pages / "record.json").read_text(encoding="utf-8"))
    assert record["classifier"]["name"] == "models.py:new"


def test_code_that_a_manifest_names_is_not_run(pages, tmp_path):
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w')", encoding="utf-8")
    manifest = json.loads((pages / "explain.json").read_text(encoding="utf-8"))
    manifest["classifiers"]["texts"]["name"] = f"{tmp_path}/evil.py:model"
    (tmp_path / "explain.json").write_text(json.dumps(manifest), encoding="utf-8")
    found = explearn.verify(tmp_path / "explain.json")
    assert "cannot be loaded" in str(found.missing) and not ran.exists()
