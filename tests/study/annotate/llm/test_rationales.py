"""The stage rationalise with a language model."""

import contextlib
import subprocess

import yaml
from chat_server import ChatServer, Reply, answer_json
from files import write_lines
from places import ROOT as REPOSITORY
from project_cases import KEY, NATIVE, TEXTS, digits
from stage_cases import COMMANDS
from typer.testing import CliRunner

from explearn.core.documents import read_json
from explearn_study.example_files import read_rationales


def run(project, server=None, **environment):
    with contextlib.chdir(project.root):
        given = {**project.environment(server), "EXPLEARN_SEED": None, **environment}
        result = CliRunner().invoke(COMMANDS["rationalise"], ["--task", project.task], env=given)
    assert KEY not in result.output + result.stderr
    return result


def succeed(project, server=None, **environment):
    result = run(project, server, **environment)
    assert result.exit_code == 0, result.output


def outputs(project):
    folder = project.root / "data" / "rationales"
    return by_annotator(read_rationales(folder / "films.parquet")), read_json(folder / "films.json")


def by_annotator(rationales):
    return {(r.example_id, r.annotator): digits(r.mask) for r in rationales}


def first_word(request):
    label = next(e.label for e in TEXTS if e.text == request.text)
    return Reply(answer_json(label, request.text.split()[0]))


HUMAN = by_annotator(NATIVE)


class TestStage:
    def test_people_s_marks_and_the_model_s_come_together(self, films):
        with ChatServer(first_word) as server:
            succeed(films, server)
        actual, figures = outputs(films)
        by_model = {text: marks for (text, name), marks in actual.items() if name == "llm:m"}
        # f-5 is one word, all of it marked; validation has people's marks; test is not asked about.
        assert set(by_model) == {f"f-{n}" for n in range(10)} - {"f-5"}
        assert all(marks.startswith("1") and marks.count("1") == 1 for marks in by_model.values())
        assert {key: marks for key, marks in actual.items() if key[1] != "llm:m"} == HUMAN
        assert figures["kinds"] == {"human": 4, "llm": 9}
        assert figures["mean_length"] == 1.0
        llm = figures["llm"]
        assert (llm["texts"], llm["fates"]["kept"], llm["fates"]["all_words"]) == (10, 9, 1)
        assert llm["prompt"] == "evidence-1"

    def test_with_all_answers_there_no_server_is_needed_and_nothing_changes(self, films):
        with ChatServer(first_word) as server:
            succeed(films, server)
        before = {path: path.read_bytes() for path in films.root.rglob("*") if path.is_file()}
        succeed(films)
        assert {path: path.read_bytes() for path in films.root.rglob("*") if path.is_file()} == before

    def test_without_llm_nobody_is_asked(self, films):
        films.rationales({})
        succeed(films)
        actual, figures = outputs(films)
        assert actual == HUMAN
        assert "llm" not in figures

    def test_decisions_take_the_place_of_all_marks_of_their_text(self, films):
        films.rationales({})
        rows = [
            {"id": "f-10", "annotator": "judge", "kind": "human", "rationale": [1, 0, 0, 0, 0]},
            {"id": "f-99", "annotator": "judge", "kind": "human", "rationale": [1]},  # a text the profile does not draw
        ]
        write_lines(films.folder / "adjudicated.jsonl", rows)
        succeed(films)
        actual, figures = outputs(films)
        assert actual == {**{key: m for key, m in HUMAN.items() if key[0] != "f-10"}, ("f-10", "judge"): "10000"}
        # Agreement stays that of the annotators before the decision.
        assert (figures["alpha_texts"], figures["adjudicated"]) == (2, 1)
        assert figures["mean_length_by_split"]["validation"] == 2.0

    def test_the_environment_names_the_model_where_the_parameters_do_not(self, films):
        films.params()
        assert "no model named" in run(films).stderr
        with ChatServer(first_word) as server:
            succeed(films, server, EXPLEARN_LLM_MODEL="e")
        assert {name for _, name in outputs(films)[0]} == {"ana", "ben", "llm:e"}


def test_dvc_sees_what_people_add_and_not_the_answers():
    """The pipeline depends on data/annotations; a run that adds answers must not make its own stage stale."""
    stages = yaml.safe_load((REPOSITORY / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert "data/annotations" in stages["rationalise"]["deps"]
    assert (REPOSITORY / "data" / "annotations" / "README.md").is_file()
    listed = (REPOSITORY / ".dvcignore").read_text(encoding="utf-8").splitlines()
    assert "/data/annotations/*/answers.sqlite*" in listed
    for name, ignored in (("answers.sqlite", 1), ("human.jsonl", 1), (".answers.sqlite.partial-lock", 0)):
        done = subprocess.run(
            ["git", "check-ignore", "--quiet", f"data/annotations/films/{name}"], cwd=REPOSITORY, check=False
        )
        assert done.returncode == ignored, name
