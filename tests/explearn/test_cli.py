import inspect
import shlex
from importlib import metadata
from itertools import chain

import pytest
import tiny
from cli_cases import complaint, explain, records, run
from typer.main import get_command

import explearn
from explearn import load_classifier
from explearn.cli.app import app
from explearn.methods.base.task import ListedTask
from explearn.methods.expnet.explainer import ExpNet


class TestMethods:
    def test_lists_every_method(self):
        result = run("methods")
        assert result.exit_code == 0
        for name in explearn.list_explainers():
            assert name in result.stdout
            assert explearn.get_info(name).summary in result.stdout

    def test_begins_with_what_works_at_once(self):
        said = run("methods").stdout
        parts = [said.index(part) for part in ("consensus", "lime", "needs training (explearn train)", "reader (")]
        assert parts == sorted(parts)

    def test_says_what_cannot_explain_a_classifier(self, tmp_path):
        folder = tiny.save(tmp_path / "model", "llama", 2)
        said = run("methods", "--classifier", folder).stdout
        works, refused = said.split("cannot explain this classifier")
        assert "attn_lrp (" in works and "decompx (" not in works and "decompx:" in refused

    def test_tells_all_about_one(self):
        result = run("methods", "raw_attention")
        assert result.exit_code == 0
        assert "mean_h A[l, h, CLS, j]" in result.stdout
        assert "Defaults: layer=-1" in result.stdout
        assert "frozen=False, criteria=['comp'], norm=" in run("methods", "ivra").stdout
        assert "unknown method 'rolout'; did you mean rollout?" in complaint(run("methods", "rolout"))


def test_the_version_is_said_and_help_begins_with_what_a_newcomer_wants():
    assert run("--version").stdout == f"explearn {metadata.version('explearn')}\n"
    shown = run("--help").stdout
    rows = [shown.index(f"\u2502 {name} ") for name in ("explain", "compare", "methods", "demo", "export", "annotate")]
    assert rows == sorted(rows)


class TestExplain:
    @pytest.mark.parametrize("method", ["attcat", "attn_lrp", "lime", "consensus"])
    def test_json_holds_what_the_library_gives(self, tiny_folder, method):
        lines = records(explain(tiny_folder, "--method", method, "--json", *tiny.TEXTS))
        classifier = explearn.load_classifier(tiny_folder, device="cpu")
        expected = [a.to_dict() for a in explearn.get_explainer(method).explain(classifier, tiny.TEXTS)]
        for a, b in zip(lines, expected, strict=True):
            assert a["scores"] == pytest.approx(b["scores"], abs=1e-5)
            for name in ("words", "tokens", "target", "predicted", "method", "aggregation", "signed", "unaligned"):
                assert a[name] == b[name]

    def test_texts_come_from_standard_input_a_line_each(self, tiny_folder):
        lines = records(explain(tiny_folder, "--json", stdin="lazy dog\nquick caf\u00e9\n"))
        assert [a["words"] for a in lines] == [["lazy", "dog"], ["quick", "caf\u00e9"]]

    def test_a_target_a_pair_and_options(self, tiny_folder):
        options = shlex.split("--json --method raw_attention -o layer=0 --target fair --pair 'no refund' slow")
        (line,) = records(explain(tiny_folder, *options))
        assert (line["target"], line["words"]) == ("fair", ["slow", "no", "refund"])
        classifier = explearn.load_classifier(tiny_folder, device="cpu")
        expected = explearn.explain(classifier, ("slow", "no refund"), "raw_attention", layer=0)
        assert line["scores"] == pytest.approx(expected.scores.tolist(), abs=1e-5)

    def test_a_question_s_answer_is_named(self, tmp_path):
        answerer = tiny.make_answerer()
        answerer.model.save_pretrained(tmp_path / "m")
        answerer.tokenizer.save_pretrained(tmp_path / "m")
        passage = "the lazy dog jumps and the fox sleeps"
        arguments = (tmp_path / "m", "--method", "occlusion", "--pair", passage, "who sleeps ?")
        (line,) = records(explain(*arguments, "--json"))
        first, end = line["focus"]
        answer = " ".join(line["words"][first:end])
        assert line["target"] == "answer" and answer and answer in passage
        assert explain(*arguments).stdout.startswith(f"occlusion (probability): {answer!r} is answer (p = ")

    def test_a_trained_explainer(self, tiny_folder, tmp_path):
        of = load_classifier(str(tiny_folder))
        marked = ListedTask(of, ["lazy dog"], labels=of.predict(["lazy dog"]), gold={"train-1": (True, False)})
        ExpNet(epochs=1, protocol="in_domain").learn(marked).save_pretrained(tmp_path / "marker")
        # Its folder says which method it is of.
        for options in ((), ("--method", "expnet")):
            (line,) = records(explain(tiny_folder, "--json", "--explainer", tmp_path / "marker", *options, "lazy dog"))
            assert line["method"] == "expnet" and all(0 < score < 1 for score in line["scores"])
        page = tmp_path / "page.html"
        beside = ("--method", "gae", "--method", "rollout", "--json", "--out", page)
        lines = records(explain(tiny_folder, "--explainer", tmp_path / "marker", *beside, "lazy dog"))
        assert [a["method"] for a in lines] == ["gae", "rollout", "expnet"]
        assert all(f"<b>{a['method']}</b>" in page.read_text(encoding="utf-8") for a in lines)

    def test_for_people_it_names_class_words_and_scores(self, tiny_folder):
        result = explain(tiny_folder, "lazy dog")
        assert result.exit_code == 0
        assert result.stdout.startswith("attn_lrp (logit): ")
        assert result.stdout.splitlines()[-1].startswith("attn_lrp: the default method for this classifier")
        assert "(p = 0." in result.stdout
        # Scores with signs have one before each word.
        assert result.stdout.splitlines()[1].split() == ["\N{MINUS SIGN}lazy", "\N{MINUS SIGN}dog"]

    def test_words_that_are_not_read_have_no_score_and_windows_read_them(self, tiny_folder):
        long = "lazy dog " * 40
        (cut,) = records(explain(tiny_folder, "--json", long))
        assert cut["unaligned"] == 36 and cut["scores"][-36:] == [None] * 36
        assert None not in cut["scores"][:-36]
        assert "36 of 80 words were not read" in explain(tiny_folder, long).stdout
        (read,) = records(explain(tiny_folder, "--json", "--windows", "20", long))
        assert read["windows"] > 1 and None not in read["scores"]

    def test_units_in_the_place_of_words(self, tiny_folder):
        (line,) = records(explain(tiny_folder, "--json", "--unit", "sentence", "Lazy dog. The fox slept."))
        assert (line["words"], line["unit"]) == (["Lazy dog.", "The fox slept."], "sentence")

    def test_several_targets_are_explained_each(self, tiny_folder):
        lines = records(explain(tiny_folder, "--json", "--target", "good", "--target", "bad", "lazy dog", "fox"))
        assert [line["target"] for line in lines] == ["good", "bad"] * 2
        assert [line["words"][0] for line in lines] == ["lazy", "lazy", "fox", "fox"]

    def test_options_may_come_from_the_environment(self, tiny_folder):
        result = run("explain", "--json", "lazy dog", EXPLEARN_CLASSIFIER=str(tiny_folder), EXPLEARN_DEVICE="cpu")
        assert len(records(result)) == 1

        assert "max-tokens: got '\u00b2'" in complaint(explain(tiny_folder, "a", EXPLEARN_MAX_TOKENS="\u00b2"))


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (
                ["--method", "raw_attention", "-o", "laier=1", "a"],
                "laier: no such parameter; did you mean layer?",
            ),
            (["--method", "raw_attention", "-o", "layer", "a"], "--option: got layer; expected NAME=VALUE"),
            (["--target", "faire", "a"], "unknown class 'faire'; did you mean fair?"),
            (["--method", "raw_attention", "-o", "layer=[1", "a"], "--option layer: got '[1'; expected a number"),
            (["--method", "raw_attention", "-o", "layer=9", "a"], "layer 9 does not exist: the model has 3"),
            (["--explainer", "nowhere", "a"], "nowhere: no such folder; expected that of a trained explainer"),
        ],
        ids=str,
    )
    def test_ends_with_one_sentence(self, tiny_folder, arguments, words):
        assert words in complaint(explain(tiny_folder, *arguments))

    def test_no_classifier(self):
        assert "--classifier: got none" in complaint(run("explain", "a", EXPLEARN_CLASSIFIER=""))

    def test_standard_input_that_is_no_utf_8(self, tiny_folder):
        assert "standard input, line 1: byte 5 is not valid UTF-8" in complaint(
            explain(tiny_folder, stdin=b"lazy \xff dog\n")
        )

    def test_the_name_of_a_file_is_no_text(self, tiny_folder, tmp_path):
        (tmp_path / "my.csv").write_text("text\na fine film\n", encoding="utf-8")
        said = complaint(explain(tiny_folder, "--method", "gae", tmp_path / "my.csv"))
        assert "the name of a file" in said and "use `--texts FILE`" in said

    def test_a_text_of_five_megabytes_and_nothing_is_written(self, tiny_folder, tmp_path):
        text = (b"lazy" * 17 + b"! ") * 71_429
        page = tmp_path / "a.html"
        table = tmp_path / "a.parquet"
        said = complaint(explain(tiny_folder, "--out", page, "--out", table, stdin=b"a dog\n" + text))
        assert "text 2: field 'text' has 5,000,029 characters; expected at most 1,000,000" in said
        assert not page.exists() and not table.exists()


class TestFilesOfOthers:
    def test_an_output_takes_no_place_of_another_kind_of_file(self, tiny_folder, tmp_path):
        notes = tmp_path / "notes.html"
        notes.write_text("<!doctype html>\n<p>mine\n")
        table = tmp_path / "mine.csv"
        table.write_text("text,label\na fox,yes\n")
        for file in (notes, table):
            before = file.read_text()
            assert f"{file}: exists and is not an output" in complaint(explain(tiny_folder, "--out", file, "fox"))
            assert file.read_text() == before
            file.unlink()
            for text in ("fox", "dog"):  # then one of its own kind takes its place
                assert explain(tiny_folder, "--out", file, text).exit_code == 0 and text in file.read_text()

    def test_compare_keeps_the_texts_that_it_reads(self, tiny_folder, tmp_path):
        texts = tmp_path / "t.txt"
        texts.write_text("a fox\n")
        arguments = ("--classifier", str(tiny_folder), "--texts", str(texts), "--out", str(texts))
        assert "which is read here" in complaint(run("compare", *arguments))
        assert texts.read_text() == "a fox\n"


def commands(group, path="explearn"):
    """All commands by what is typed."""
    if not hasattr(group, "commands"):
        return {path: group}
    below = {}
    for name, command in group.commands.items():
        below |= commands(command, f"{path} {name}")
    return below


@pytest.mark.parametrize(("typed", "command"), commands(get_command(app)).items(), ids=str)
def test_every_command_shows_an_example_that_can_be_typed(typed, command):
    *_, example = inspect.cleandoc(command.help).split("\n\n")
    assert example.startswith(typed)
    with command.make_context(typed, shlex.split(example.removeprefix(typed))):
        pass  # it takes these arguments and options
    assert run(*typed.split()[1:], "-h").exit_code == 0


def test_an_option_has_one_spelling_everywhere():
    parameters = chain(*(one.params for one in commands(get_command(app)).values()))
    spellings = set(chain(*(parameter.opts for parameter in parameters)))
    assert not spellings & {"--methods", "--output", "--output-file", "--random-state", "--label-names", "--labels"}


class TestNamesOfClasses:
    def test_label_0_gets_a_name(self, tiny_folder):
        names = ("--class-name", "good=praise", "--class-name", "bad=blame")
        (line,) = records(explain(tiny_folder, *names, "--target", "blame", "--json", "lazy dog"))
        assert line["target"] == "blame" and line["predicted"] in ("praise", "blame")
        said = complaint(explain(tiny_folder, "--class-name", "LABEL_0=praise", "lazy dog"))
        assert said.startswith("--class-name: got LABEL_0; expected one of the classes of")

    def test_the_fingerprint_stays_so_that_trained_explainers_fit(self, tiny_folder):
        classifier = load_classifier(tiny_folder, device="cpu")
        renamed = classifier.renamed({"good": "praise"}).renamed({"praise": "applause"})
        assert "applause" in renamed.labels and renamed.fingerprint == classifier.fingerprint
        with pytest.raises(explearn.ExplearnError, match="got the label 'bad' twice"):
            classifier.renamed({"good": "bad"})
