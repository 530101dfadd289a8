"""What a comparison says while it works, and what it refuses before it begins."""

import json
import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import tiny
from comparison_cases import TEXTS

import explearn
from explearn import CompareOptions, DataError, ParamsError
from explearn.comparison import explaining
from explearn.comparison.explaining import ComparedTexts
from explearn.methods.perturbation.occlusion import Occlusion
from explearn.metrics.runs import read_run
from explearn.subject import subject
from explearn.subject.subject import make_subject
from explearn.subject.texts import given_texts

SECONDS = 0.5


class Heavy(Occlusion):
    """Occlusion that loads for half a second, once a process."""

    about = Occlusion.about.model_copy(update={"name": "heavy"})
    loaded = False

    def score_texts(self, *given):
        if not Heavy.loaded:
            time.sleep(SECONDS)
        Heavy.loaded = True
        return super().score_texts(*given)


def test_what_a_method_loads_is_no_cost_of_a_text(model, tmp_path):
    explearn.register(Heavy)
    lines = []
    work = tmp_path / "work"
    options = CompareOptions(tell=lines.append)
    explearn.compare(model, list(TEXTS), methods="heavy", out=None, work=work, options=options)
    cost = read_run(work / "heavy.parquet").cost
    (seconds,) = re.findall(r"^heavy +([\d.]+) s", "\n".join(lines), re.M)
    assert float(seconds) == pytest.approx(cost.seconds, abs=0.06) and cost.seconds < SECONDS


def test_words_that_are_not_read_are_told_once(model, caplog):
    long = " ".join(["fox"] * 100)
    read = tiny.POSITIONS - 4  # [CLS], [SEP], and two positions that the tokenizer's limit leaves free
    lines = []
    with caplog.at_level(logging.WARNING):
        explearn.compare(
            model,
            [long, *TEXTS],
            methods="random,rollout",
            out=None,
            options=CompareOptions(tell=lines.append),
        )
    told = [line for line in lines if "not read" in line]
    assert told == [
        f"{100 - read} words in 1 text not read, because beyond {read + 2} sub-tokens or without known characters: "
        "no method scores them"
    ]
    assert "not read" not in caplog.text
    # It holds for the comparison alone.
    with caplog.at_level(logging.WARNING):
        list(explearn.get_explainer("random").explain(explearn.load_classifier(model), [long]))
    assert "not read" in caplog.text


def test_scores_that_fit_no_text_are_refused_before_any_method_runs(model, tmp_path, monkeypatch):
    path = tmp_path / "theirs.jsonl"
    path.write_text(json.dumps({"words": ["x"], "scores": [1]}), encoding="utf-8")

    def never(*_):
        raise AssertionError("a method ran")

    monkeypatch.setattr(explaining, "explain_timed", never)
    with pytest.raises(DataError, match="scores of 'theirs': text 'texts-1'"):
        explearn.compare(
            model, list(TEXTS), methods="random", options=CompareOptions(scores=[path]), out=tmp_path / "r.html"
        )


def test_a_folder_that_holds_something_else_stays_as_it_is(model, tmp_path, monkeypatch):
    project = tmp_path / "project"
    project.mkdir()
    (project / "params.yaml").write_text("mine: 1\n", encoding="utf-8")
    monkeypatch.setattr(subject, "as_predictor", lambda *_: pytest.fail("the model was loaded"))
    with pytest.raises(ParamsError, match=r"holds 'params.yaml', which is not a part of a working folder"):
        explearn.compare(model, list(TEXTS), methods="random", work=project, out=tmp_path / "r.html")
    assert (project / "params.yaml").read_text(encoding="utf-8") == "mine: 1\n"


def test_a_folder_in_which_another_comparison_works_is_waited_for(model, tmp_path, capsys):
    """Two in one folder would judge each other's files."""
    work = tmp_path / "work"
    begun = threading.Event()
    go = threading.Event()

    def hold(*_):
        begun.set()
        assert go.wait(60)

    def compare(count, tell):
        out = tmp_path / f"{count}.html"
        explearn.compare(
            model, list(TEXTS[:count]), methods="occlusion", work=work, out=out, options=CompareOptions(tell=tell)
        )

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(compare, 6, hold)
        assert begun.wait(60)
        second = pool.submit(compare, 3, print)
        said = ""
        end = time.monotonic() + 60
        while "another run is writing it" not in said and time.monotonic() < end:
            said += capsys.readouterr().err
            time.sleep(0.1)
        assert "work: another run is writing it; waiting until it has finished" in said and not second.done()
        go.set()
        first.result()
        second.result()
    assert {path.name for path in tmp_path.glob("*.html")} == {"3.html", "6.html"}


@pytest.mark.parametrize(("budget", "said"), [("0.001s", True), ("10h", False)])
def test_a_budget_that_does_not_suffice_is_said(model, budget, said):
    lines = []
    methods = "rollout,gae,random"
    comparison = explearn.compare(
        model, list(TEXTS), methods=methods, budget=budget, out=None, options=CompareOptions(tell=lines.append)
    )
    assert comparison.left_out == ({"gae": "no time for it within the budget"} if said else {})
    assert any(line.startswith("The budget of 0.001 s does not suffice: ") for line in lines) == said
    assert any(line.startswith(f"{2 if said else 3} methods on 6 of 6 texts, classes no, yes\n") for line in lines)


SPACED = "  def  f(x):\n\treturn x \n"


@pytest.mark.parametrize("unit", ("word", "token", "sentence", re.compile(r"\w+")))
def test_a_classifier_compares_the_text_that_it_is_given(unit):
    classifier = tiny.classifier("roberta")
    texts = ComparedTexts(make_subject("compare", classifier, given_texts([SPACED])), 1, unit)
    (encoding,) = texts.encodings.values()
    assert encoding.input_ids == classifier.encode([SPACED])[0].input_ids
    assert texts.explained[0].text == SPACED
