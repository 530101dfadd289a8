"""What a program or a user can hand over that cannot be used: of another kind, out of bounds, half of something."""

import json
import shutil

import pandas as pd
import pytest
import tiny
from saying import command_complaint, complaint

import explearn
from explearn import TextColumns, get_explainer
from explearn.methods.finding import find_explainers
from explearn.subject.texts import given_texts

HOSTILE = "\x1b[2Jcleared \x9b31m red \u202eturned \x07"


@pytest.mark.parametrize("name", [None, 3, "x" * 10_000, HOSTILE], ids=lambda v: ascii(v)[:20])
def test_names_of_methods(name):
    complaint(lambda: get_explainer(name), "unknown method")


# ---- texts, targets and tasks ----------------------------------------------------------------------------------------


TEXTS = [" \t\n", None, b"bytes", ["a", "list"], ("one", ""), ("one", "two", "three"), "a \ud800 film"]


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_texts(text):
    complaint(lambda: list(get_explainer("random").explain(tiny.classifier("bert", 3), ["a film", text])), "text 2")


def test_columns_that_are_numbers():
    table = pd.DataFrame([["a film", "good"]])
    (example,) = given_texts(table, columns=TextColumns(text="0", label="1")).examples
    assert (example.text, example.label) == ("a film", "good")
    complaint(lambda: given_texts(table), "got the columns 0, 1; expected a column 'text'")


@pytest.mark.parametrize("targets", [{"good": 1}, [], ["good", "good"], ["best"], [3], [None]], ids=ascii)
def test_targets(targets):
    complaint(lambda: list(get_explainer("random").explain(tiny.classifier("bert", 3), ["a film"], targets)))


TRAINING = [
    {"classifier": "a/folder"},
    {"classifier": len},
    {"texts": "a film"},
    {"texts": [("a", "b", "c")]},
    {"rationales": [[True, False], None]},
    {"rationales": [[True]]},
    {"rationales": {"train-2": [True]}},
]


@pytest.mark.parametrize("change", TRAINING, ids=ascii)
def test_what_nothing_can_be_learned_from(change):
    given = {"classifier": tiny.classifier("bert", 3), "texts": [("a film", "good")], **change}
    complaint(lambda: get_explainer("word_list").fit(**given))


# ---- classifiers, bundles and comparisons ----------------------------------------------------------------------------


def copied(folder, target, name, change):
    shutil.copytree(folder, target)
    document = json.loads((target / name).read_text(encoding="utf-8"))
    change(document)
    (target / name).write_text(json.dumps(document), encoding="utf-8")
    return target


@pytest.mark.parametrize("methods", ["", ",", "lime,lime", 3], ids=ascii)
def test_methods_to_compare(methods):
    complaint(lambda: find_explainers(methods, 13))


ARGUMENTS = [
    {"max_texts": 0},
    {"seed": "x"},
    {"out": "."},
    {"out": "x" * 300},
]


@pytest.mark.parametrize("change", ARGUMENTS, ids=ascii)
def test_arguments_of_a_comparison(tmp_path, monkeypatch, change):
    monkeypatch.chdir(tmp_path)
    given = {"classifier": tiny.classifier("bert", 3), "texts": ["a film"], "methods": "random", **change}
    further = {name: given.pop(name) for name in ("max_texts", "seed") if name in given}
    given["options"] = explearn.CompareOptions(**further)
    complaint(lambda: explearn.compare(**given))
    assert list(tmp_path.iterdir()) == []


# ---- options and commands --------------------------------------------------------------------------------------------

OPTIONS = [
    ("rollout", {"nonsense": 1}),
    ("lime", {"kernel_width": float("nan")}),
    ("solvex", {"metric": "accuracy"}),
    ("consensus", {"signals": ["nobody"]}),
]


@pytest.mark.parametrize(("method", "options"), OPTIONS, ids=lambda value: ascii(value)[:40])
def test_options_of_methods(method, options):
    complaint(lambda: explearn.get_explainer(method, **options))


COMMANDS = [
    ["nonsense"],
    ["methods", "\x1b[2J"],
    ["explain", "a", "--classifier", "/none/at/all"],
    ["explain", "a", "-o", "seed=4294967296", "--method", "random", "--classifier", "C"],
    ["explain", "a", "--target", "\x1b[2J", "--classifier", "C"],
    ["explain", "a", "-o", "samples=" + "9" * 5000, "--method", "lime", "--classifier", "C"],
    ["train", "reader", "-o", "seed=1", "--texts", "t.txt", "--out", "r", "--classifier", "C"],
    ["demo", "--out", "."],
    ["export", "--method", "rollout", "--out", ""],
    ["report"],
    ["annotate", "run", "--task", "films"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda value: ascii(" ".join(value))[:70])
def test_commands(arguments, tiny_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # in a checkout where the pipeline has run, `report` would succeed
    command_complaint(*(str(tiny_folder) if word == "C" else word for word in arguments))


def test_nothing_of_a_text_or_a_label_commands_the_terminal(tmp_path, tiny_folder):
    from cli_cases import explain

    def change(config):
        config["id2label"] = {"0": "a\x1b[31m", "1": "b\x1b[31m", "2": "c\x1b[31m"}
        config["label2id"] = {label: int(i) for i, label in config["id2label"].items()}

    folder = copied(tiny_folder, tmp_path / "c", "config.json", change)
    for more in ((), ("--json",)):
        result = explain(folder, "--method", "random", HOSTILE, *more, TERM="dumb")
        assert result.exit_code == 0, result.stderr
        for raw in ("\x1b[2J", "\x1b[31m", "\x9b", "\u202e", "\x07"):
            assert raw not in result.stdout, ascii(result.stdout)
    record = json.loads(result.stdout)
    written = explain(folder, "--method", "random", "a film", "--out", str(tmp_path / "\x1b[2J.html"))
    assert written.exit_code == 0 and "\x1b" not in written.stdout
    assert record["words"] == HOSTILE.split() and record["predicted"].endswith("\x1b[31m")
