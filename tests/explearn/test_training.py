"""`explearn train` and `explearn.train`: from texts to an explainer that explains, and that a comparison judges."""

import csv
import json
from itertools import chain

import cli_cases
import pytest
import tiny

import explearn
from explearn import DataError, ExplearnError, ParamsError, TextColumns, training
from explearn.methods.base.task import ListedTask
from explearn.methods.consensus.explainer import Consensus
from explearn.text.equal import text_hash

WORDS = ("warm", "funny", "sequel", "slow", "delivery", "refund", "friendly", "castle", "beautiful", "fox", "broken")
TEXTS = [f"the {a} , and {b} of the {c} ." for a, b, c in zip(WORDS, WORDS[2:], WORDS[3:], strict=False)]
OTHERS = ["a broken castle", "slow friendly fox"]
FAST = {"samples": 4, "epochs": 1, "width": 8}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("model"), "bert", 2)


def run(*arguments):
    return cli_cases.run(*arguments, "--device", "cpu")


def test_the_command_trains_what_explain_and_compare_take(folder, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    changed = [f"{text.title()}.." for text in TEXTS]
    (tmp_path / "all.txt").write_text("\n".join([*changed, *OTHERS]), encoding="utf-8")
    options = list(chain(*(("-o", f"{name}={value}") for name, value in FAST.items())))
    given = ("--classifier", folder, "--texts")
    trained = run("train", "reader", *given, tmp_path / "texts.txt", "--out", tmp_path / "reader", *options)
    assert trained.exit_code == 0, trained.output
    explained = run("explain", "--classifier", folder, "--explainer", tmp_path / "reader", "--json", OTHERS[0])
    assert json.loads(explained.stdout)["method"] == "reader"
    beside = ("--method", "random", "--explainer", tmp_path / "reader", "--out", tmp_path / "report.html")
    compared = run("compare", *given, tmp_path / "all.txt", *beside)
    assert compared.exit_code == 0, compared.output
    assert f"{len(TEXTS)} texts left out, from which a trained explainer has learned" in compared.output
    assert "2 methods on 2 of 2 texts" in compared.output
    refused = run("compare", *given, tmp_path / "texts.txt", *beside)
    assert refused.exit_code == 2 and "has learned from all" in refused.output


def test_marker_without_marks_learns_what_the_shipped_consensus_says():
    classifier = tiny.classifier()
    trained = explearn.train("marker", classifier, TEXTS, epochs=1)
    assert trained.trained_on == Consensus().trained_on
    (attribution,) = trained.explain(classifier, OTHERS[:1])
    assert all(0 <= score <= 1 for score in attribution.scores)


def test_marker_with_marks_learns_from_them(tmp_path):
    classifier = tiny.classifier()
    labels = classifier.predict(TEXTS)
    with (tmp_path / "marked.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [
                ("text", "label", "marks"),
                *((text, label, "[0, 1, 0, 0, 0, 0, 0, 0, 0]") for text, label in zip(TEXTS, labels, strict=True)),
            ]
        )
    columns = TextColumns(label="label", rationales="mask:marks")
    trained = explearn.train("marker", classifier, tmp_path / "marked.csv", columns=columns, epochs=1)
    assert (trained.name, trained.options.protocol) == ("marker_in_domain", "in_domain")


@pytest.mark.parametrize(
    ("method", "given", "sentence"),
    [
        ("gae", {}, "'gae' has nothing to train"),
        ("faml", {}, "it starts from a trained paml"),
        ("consensus", {}, "learns from the marks of other tasks"),
        ("ivra", {}, "'ivra' adds its criteria to the task's loss"),
        ("readere", {}, "did you mean reader"),
        (
            "reader",
            {"texts": [{"text": "a b", "m": "[1,0]"}], "columns": TextColumns(rationales="mask:m")},
            "leave them",
        ),
    ],
)
def test_what_cannot_be_trained_is_one_sentence(method, given, sentence):
    with pytest.raises(ExplearnError, match=sentence):
        explearn.train(method, tiny.classifier(), **{"texts": TEXTS, **given})


def test_a_folder_of_something_else_is_refused_before_the_training(tmp_path):
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ExplearnError, match=r"holds 'mine\.txt', which is not a trained explainer"):
        explearn.train("reader", tiny.classifier(), TEXTS, out=tmp_path)


def test_a_list_of_methods_holds_trained_ones(tmp_path):
    classifier = tiny.classifier()
    trained = explearn.train("reader", classifier, TEXTS, **FAST)
    work = tmp_path / "work"
    first = explearn.compare(classifier, OTHERS, methods=["random", trained], out=None, work=work)
    assert set(first.figures) == {"random", "reader"}
    other = explearn.train("reader", classifier, TEXTS, **{**FAST, "seed": 14})
    lines = []
    options = explearn.CompareOptions(tell=lines.append)
    explearn.compare(classifier, OTHERS, ["random", other], out=None, work=work, options=options)
    # Trained anew it is another method, whose kept scores are of no use.
    assert [line.split()[0] for line in lines if "of an earlier run" in line] == ["random"]
    with pytest.raises(DataError, match="learned from all"):
        explearn.compare(classifier, TEXTS, methods=["random", trained], out=None)


def test_a_classifier_is_fine_tuned_from_a_table(tmp_path):
    encoder = tiny.save_encoder(tmp_path / "encoder")
    table = tmp_path / "labelled.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *((text, f"kind {i % 2}") for i, text in enumerate(TEXTS))])
    given = ("--texts", table, "--encoder", encoder, "--out", tmp_path / "classifier", "-o")
    done = run("finetune", *given, "epochs=1")
    assert done.exit_code == 0, done.output
    assert "epoch 1: loss" in done.output
    assert explearn.load_classifier(tmp_path / "classifier").labels == ["kind 0", "kind 1"]
    assert "epoch: no such parameter" in run("finetune", *given, "epoch=1").output


@pytest.mark.parametrize(
    ("labels", "given"),
    [(["yes"] * 8, "8 texts with 1 label"), (["yes", "no", "no"], "3 texts with 2 labels")],
)
def test_what_no_classifier_can_learn_from(labels, given, tmp_path):
    with pytest.raises(DataError, match=f"texts: got {given}; expected 5 different texts, with 2 labels at least"):
        explearn.finetune("embedded", TEXTS[: len(labels)], tmp_path / "classifier", labels=labels)


def test_equal_texts_are_trained_on_or_held_out_together(tmp_path, monkeypatch, caplog):
    copies = [*TEXTS, *(f"{text.upper()} !" for text in TEXTS), *(text.replace(" .", ".") for text in TEXTS)]
    halves = []
    monkeypatch.setattr(training, "run_finetune", lambda out, examples, *more: halves.extend(examples))
    explearn.finetune("embedded", copies, tmp_path, labels=[f"kind {number % 2}" for number in range(len(copies))])
    sides = {split: {text_hash(one) for one in halves if one.split == split} for split in ("train", "validation")}
    assert len(sides["train"]) + len(sides["validation"]) == len(TEXTS) and sides["validation"]
    assert not sides["train"] & sides["validation"]
    assert f"{2 * len(TEXTS)} of {3 * len(TEXTS)} texts repeat another one" in caplog.text


def test_texts_without_a_label_are_no_training_texts(tmp_path):
    labels = ["yes", "no", None, "yes", "no", "yes", "no", float("nan")]
    sentence = r"2 of 8 texts have none \(texts-3 and texts-8\)"
    with pytest.raises(DataError, match=sentence):
        explearn.finetune("embedded", TEXTS, tmp_path, labels=labels)
    with pytest.raises(DataError, match=sentence):
        explearn.train("ivra", tiny.classifier(), TEXTS, labels=labels)


def test_a_list_of_texts_and_labels_in_pairs_is_sent_to_the_argument_labels(tmp_path):
    with pytest.raises(ParamsError, match="list, which has no columns; its labels and groups are arguments"):
        explearn.finetune("embedded", [(text, "yes") for text in TEXTS], tmp_path)


def test_the_reader_holds_out_no_text_equal_to_one_that_it_learns_from():
    texts = [f"{text}{end}" for end in ("", "!", " ?") for text in TEXTS]
    reader = explearn.get_explainer("reader", **FAST)
    task = ListedTask(tiny.classifier(), texts, ["a text of its own"])
    learned, held_out = reader._split(task)
    assert len(learned) + len(held_out) == len(texts) + 1
    assert held_out and not set(map(text_hash, learned)) & set(map(text_hash, held_out))


def test_fit_reads_words_as_explain_does_and_a_comparison_leaves_its_texts_out():
    classifier = tiny.classifier()
    texts = ["我喜欢这部电影", "a\n\nb  c"]
    marks = []
    for text in texts:
        marks.append([True] + [False] * (len(explearn.explain(classifier, text, "random").words) - 1))
    word_list = explearn.get_explainer("word_list").fit(classifier, texts, marks, labels=["yes"] * 2)
    comparison = explearn.compare(classifier, [*texts, "an unseen text"], word_list, out=None)
    assert len(comparison.example_ids) == 1
    with pytest.raises(DataError, match="has learned from all 2 of them"):
        explearn.compare(classifier, texts, word_list, out=None)
