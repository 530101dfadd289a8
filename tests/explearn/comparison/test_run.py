"""`explearn compare`: one command from one's own texts and model to the page."""

import json
from itertools import chain
from pathlib import Path

import cli_cases
import pytest
import tiny
import torch
from comparison_cases import LABELS, TEXTS
from rounding import tolerance

import explearn
from explearn import (
    CompareOptions,
    ComputeOptions,
    DataError,
    ModelError,
    ParamsError,
    TextColumns,
    TransformerPredictor,
    UnsupportedError,
    load_classifier,
)
from explearn.comparison import explaining
from explearn.core.storage import read_attributions
from explearn.methods.perturbation.occlusion import Occlusion

METHODS = "random,input_x_gradient,occlusion"


def page_of(out):
    return out.read_text(encoding="utf-8")


def run(*arguments):
    done = cli_cases.run("compare", *arguments, "--device", "cpu")
    return done.exit_code, done.output


class TestWithoutLabelsOrMarks:
    @pytest.fixture(scope="class")
    @classmethod
    def comparison(cls, model, tmp_path_factory):
        out = tmp_path_factory.mktemp("plain") / "report.html"
        return explearn.compare(model, list(TEXTS), methods=METHODS, out=out)

    def test_every_method_has_the_metrics_that_need_neither(self, comparison):
        assert set(comparison.figures) == set(METHODS.split(","))
        for figures in comparison.figures.values():
            assert figures["texts"] == len(TEXTS) and figures["f1_topk"] is None
            for metric in ("aopc_comprehensiveness", "aopc_sufficiency", "infidelity", "consistency"):
                assert isinstance(figures[metric], float)

    def test_the_figures_are_those_of_the_metric_itself(self, comparison, model):
        classifier = load_classifier(model, device="cpu")
        attributions = explearn.get_explainer("occlusion").explain(classifier, list(TEXTS))
        expected = explearn.get_metric("aopc_comprehensiveness")(classifier, attributions).mean()
        shown = comparison.figures["occlusion"]["aopc_comprehensiveness"]
        assert shown == pytest.approx(expected, abs=tolerance())

    def test_the_page_says_what_is_missing(self, comparison):
        page = page_of(comparison.page)
        assert "No marks" in page and f" methods on {len(TEXTS)} texts." in page
        assert "No labels" in page
        assert "F1 of each method" not in page
        # The first screen shows no text of which nothing is known.
        first = page.partition("<nav")[0]
        assert "no method is clearly better" in first and "A text of" not in first and "underlined" not in first


class TestWithLabelsAndMarks:
    def test_accuracy_agreement_and_who_marked(self, model, table, tmp_path):
        masks = [json.dumps([0, 1, *[0] * (len(text.split()) - 2)]) for text in TEXTS]
        path = table(label=LABELS, mask=masks)
        out = tmp_path / "report.html"
        columns = TextColumns(label="label", rationales="mask:mask", marks_by="three nurses")
        comparison = explearn.compare(model, path, methods=METHODS, columns=columns, out=out)
        classifier = load_classifier(model, device="cpu")
        right = [label == given for label, given in zip(classifier.predict(TEXTS), LABELS, strict=True)]
        assert comparison.performance["test"]["accuracy"] == sum(right) / len(right)
        assert {figures["plausibility_texts"] for figures in comparison.figures.values()} == {sum(right)}
        assert "No marks" not in page_of(out) and "unknown (three nurses)" in page_of(out)


class TestForAnAuditor:
    def test_the_manifest_beside_the_page_is_checked(self, model, table, tmp_path, monkeypatch):
        def verify(path):
            done = cli_cases.run("verify", path)
            return done.exit_code, done.output.splitlines()

        monkeypatch.chdir(tmp_path)
        texts = table()
        code, said = run("--classifier", model, "--texts", texts, "--method", "occlusion", "--out", "pages/audit.html")
        assert code == 0, said
        manifest = json.loads(Path("pages/audit.json").read_text(encoding="utf-8"))
        page = page_of(Path("pages/audit.html"))
        fingerprint = load_classifier(model).fingerprint
        assert manifest["classifiers"] == {"t": {"name": model.as_posix(), "fingerprint": fingerprint}}
        assert fingerprint in page and manifest["made"]["Date"] in page and "all tasks" not in page.lower()
        assert manifest["parts"]["texts"]["paths"] == ["t.csv"]
        parts = "page, texts, models, code, versions, classifier"
        good = f"pages/audit.json: {parts} are unchanged."
        assert verify("pages/audit.html") == verify("pages") == (0, [good])
        texts.write_text(texts.read_text(encoding="utf-8") + "one more,yes\n", encoding="utf-8")
        Path("pages/audit.html").write_text(page.replace("0.", "1."), encoding="utf-8")
        lines = ["page: audit.html differs", "texts: t.csv differs", "pages/audit.json: 2 differences"]
        assert verify("pages/audit.html") == (1, lines)

    def test_only_a_page_of_explearn_is_replaced(self, model, tmp_path):
        out = tmp_path / "report.html"
        out.write_text("<!doctype html>\n<p>mine\n", encoding="utf-8")
        with pytest.raises(ParamsError, match="is not an output of explearn compare"):
            explearn.compare(model, list(TEXTS), methods="occlusion", out=out)
        assert "mine" in out.read_text(encoding="utf-8")
        out.write_text("")
        for _ in range(2):
            assert (explearn.compare(model, list(TEXTS), methods="occlusion", out=out).page or out).is_file()

    def test_nothing_is_lost_to_a_manifest(self, model, tmp_path):
        mine = tmp_path / "report.json"
        mine.write_text('{"mine": 1}', encoding="utf-8")
        for out in (tmp_path / "report.html", mine):
            with pytest.raises(ParamsError, match=r"report\.json"):
                explearn.compare(model, list(TEXTS), methods="occlusion", out=out)
        assert mine.read_text(encoding="utf-8") == '{"mine": 1}'


class TestGoingOn:
    def test_finished_methods_are_not_computed_again(self, model, tmp_path, monkeypatch):
        out = tmp_path / "report.html"
        work = tmp_path / "work"
        begun = []
        real = explaining.explain_timed

        def counting(explainer, *arguments, **more):
            begun.append(explainer.name)
            if len(begun) == 3:
                raise KeyboardInterrupt
            return real(explainer, *arguments, **more)

        monkeypatch.setattr(explaining, "explain_timed", counting)
        with pytest.raises(KeyboardInterrupt):
            explearn.compare(model, list(TEXTS), methods=METHODS, out=out, work=work)
        assert not out.exists()
        finished = begun[:2]
        stopped = begun[2]
        lines = []
        comparison = explearn.compare(
            model, list(TEXTS), methods=METHODS, out=out, work=work, options=CompareOptions(tell=lines.append)
        )
        assert begun[3:] == [stopped]
        assert len(comparison.figures) == 3
        assert [line.split()[0] for line in lines if "of an earlier run" in line] == finished
        kept = {path.name for path in work.iterdir() if not path.name.startswith(".")}
        assert kept == {"plan.json", "work.json", *(f"{name}.parquet" for name in comparison.figures)}
        # What it cost is that of the earlier call.
        assert all(isinstance(figures["throughput"], float) for figures in comparison.figures.values())

    def test_other_texts_in_the_same_folder_are_computed_anew(self, model, tmp_path):
        work = tmp_path / "work"
        before = explearn.compare(model, list(TEXTS[:3]), methods="rollout", out=None, work=work)
        after = explearn.compare(model, list(TEXTS[3:]), methods="rollout", out=None, work=work)
        fresh = explearn.compare(model, list(TEXTS[3:]), methods="rollout", out=None)
        name = "aopc_comprehensiveness"
        assert after.figures["rollout"][name] == fresh.figures["rollout"][name]
        assert before.figures["rollout"][name] != after.figures["rollout"][name]


class TestTheCommand:
    def test_a_line_a_method_and_the_page(self, model, table, tmp_path):
        out = tmp_path / "page.html"
        named = list(chain(*(("--method", name) for name in METHODS.split(","))))
        code, said = run("--classifier", model, "--texts", table(), *named, "--out", out)
        assert code == 0, said
        for name in METHODS.split(","):
            assert sum(line.startswith(f"{name} ") and "comprehensiveness" in line for line in said.splitlines()) == 1
        assert said.splitlines()[-1] == str(out)
        assert "<h1" in page_of(out)

    def test_classes_are_renamed_and_values_of_labels_mapped_each_by_its_own_option(self, model, table, tmp_path):
        out = tmp_path / "page.html"
        stars = table(label=["1", "5"] * (len(TEXTS) // 2) + ["5"] * (len(TEXTS) % 2))
        names = ("--class-name", "yes=praise", "--label-name", "5=praise", "--label-name", "1=no")
        given = ("--classifier", model, "--texts", stars, "--label-column", "label", "--method", "occlusion")
        code, said = run(*given, *names, "--out", out)
        assert code == 0, said
        assert "classes no, praise" in said and "accuracy 0." in page_of(out)
        assert cli_cases.run("verify", out).exit_code == 0
        manifest = json.loads(out.with_suffix(".json").read_text())
        assert [of["name"] for of in manifest["classifiers"].values()] == [str(model)]
        code, said = run(*given, *names[:4], "--out", out)
        assert code == 2 and "--label-name VALUE=CLASS, or rename the classes with --class-name" in said

    @pytest.mark.parametrize(
        ("columns", "arguments", "sentence"),
        [
            ({}, ["--text-column", "review"], "field 'review': missing; expected a column 'review', got text"),
            (
                {"label": [f"{'long ' * 9}{n}" for n in range(6)]},
                ["--label-column", "label"],
                "long ...; expected every",
            ),
            ({}, ["--method", "ivra"], "'ivra' needs training"),
            ({}, ["--budget", "soon"], "expected a time such as 90s"),
            ({}, ["--rationales", "gold"], "expected FORMAT:COLUMN"),
            ({}, ["--label-name", "5=yes"], "label names: got 5, but no label column that has such values"),
            ({}, ["--class-name", "5=yes"], "--class-name: got 5; expected one of the classes of"),
        ],
    )
    def test_bad_input_is_one_sentence_and_exit_code_2(
        self,
        model,
        table,
        tmp_path,
        columns,
        arguments,
        sentence,
    ):
        code, said = run("--classifier", model, "--texts", table(**columns), "--out", tmp_path / "r.html", *arguments)
        assert code == 2
        assert sentence in said
        assert len(said.strip().splitlines()) == 1
        assert not (tmp_path / "r.html").exists()


class TestOtherHeads:
    """Models whose answer is not one class of several."""

    @pytest.fixture(scope="class")
    @classmethod
    def multi_label(cls):
        made = tiny.model("bert", 3, problem_type="multi_label_classification")
        with torch.no_grad():
            made.classifier.bias.copy_(torch.tensor([3.0, -3.0, 4.0]))
        return TransformerPredictor(made, tiny.tokenizer("bert"), ComputeOptions(device="cpu"), "multi")

    def test_each_text_is_judged_by_its_most_probable_label(self, multi_label, tmp_path):
        asked = list(explearn.get_explainer("random").explain(multi_label, TEXTS[:1]))
        assert len(asked) == 2, "two labels hold"
        comparison = explearn.compare(
            multi_label, list(TEXTS), methods="random,attcat,occlusion", out=None, work=tmp_path / "work"
        )
        assert {figures["texts"] for figures in comparison.figures.values()} == {len(TEXTS)}
        written = read_attributions(tmp_path / "work" / "attcat.parquet")
        assert [a.target for a in written] == multi_label.predict(list(TEXTS))

    def test_a_value_is_refused(self, tmp_path):
        made = TransformerPredictor(tiny.model("bert", 1, problem_type="regression"), tiny.tokenizer("bert"))
        with pytest.raises(UnsupportedError, match=r"regression.*expected classes"):
            explearn.compare(made, list(TEXTS), methods="occlusion", out=tmp_path / "r.html")


def test_the_consensus_is_compared_with_the_weights_that_come_with_it(model, tmp_path):
    comparison = explearn.compare(model, list(TEXTS), methods="random,consensus", out=tmp_path / "r.html")
    assert isinstance(comparison.figures["consensus"]["aopc_comprehensiveness"], float)
    page = page_of(comparison.page)
    assert "Not trained here" in page
    # Nothing was trained here.
    assert "One training run" not in page and "Weights of the consensus" not in page


class Hasty(Occlusion):
    """Occlusion of short texts."""

    about = Occlusion.about.model_copy(update={"name": "hasty"})

    def score_texts(self, classifier, encodings, targets):
        if any(len(encoding.words) > 8 for encoding in encodings):
            raise UnsupportedError("hasty: a text has more than 8 words")
        return super().score_texts(classifier, encodings, targets)


def test_a_method_that_refuses_one_of_the_texts_is_left_out(model, tmp_path):
    explearn.register(Hasty)
    lines = []
    out = tmp_path / "report.html"
    # It is tried on the first texts; the long one comes after these.
    texts = ["the quick brown fox"] * 10 + ["she sells sea shells by the sea shore all afternoon"]
    comparison = explearn.compare(
        model, texts, methods="random,occlusion,hasty", out=out, options=CompareOptions(tell=lines.append)
    )
    assert set(comparison.figures) == {"random", "occlusion"}
    assert "hasty: left out: hasty: a text has more than 8 words" in lines
    assert "a text has more than 8 words" in page_of(out)
    for methods in ("hasty", "random,hasty", "random"):
        with pytest.raises(UnsupportedError, match=r"left to judge but random scores.* such as consensus"):
            explearn.compare(model, texts, methods=methods, out=tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


def test_without_a_page_nothing_is_written(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    comparison = explearn.compare(model, list(TEXTS), METHODS)
    assert comparison.page is None and list(tmp_path.iterdir()) == []
    assert comparison.counts == f"3 methods on {len(TEXTS)} texts"
    assert comparison.figures.keys() == comparison.infos.keys()
    assert comparison.verdict


def test_labels_of_a_list_are_checked(model):
    for labels, error, sentence in (
        (["no"], ParamsError, r"labels: got 1 for 6 texts"),
        (["maybe"] * 6, ModelError, r"its classes are no, yes, the texts' labels are 'maybe'"),
    ):
        with pytest.raises(error, match=sentence):
            explearn.compare(model, list(TEXTS), labels=labels)
    with pytest.raises(DataError, match="text 2: field 'text' is empty"):
        explearn.compare(model, ["good", " "])
