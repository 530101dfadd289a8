"""The stage rationalise with a language model, and the prompts that it asks with."""

import contextlib
import subprocess
from dataclasses import replace

import pytest
import yaml
from chat_server import ChatServer, Reply, answer_json
from files import write_lines
from places import ROOT as REPOSITORY
from project_cases import KEY, NATIVE, TEXTS, digits, mask
from stage_cases import COMMANDS
from typer.testing import CliRunner

from explearn.core.documents import read_json
from explearn_study.annotate.llm.prompts import FOLDER, MarkedExample, bind_prompt, list_prompts
from explearn_study.example_files import read_rationales
from explearn_study.sections import LLMAnnotatorParams


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
        assert (llm["texts"], llm["fates"]["kept"], llm["fates"]["all_words"], llm["prompt"]) == (
            10,
            9,
            1,
            "evidence-1",
        )

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


def bound(name="evidence", shots=(), **settings):
    return bind_prompt(name, "films", ["negative", "positive"], shots, LLMAnnotatorParams(**settings))


class TestPrompts:
    @pytest.mark.parametrize("name", list_prompts())
    def test_every_shipped_prompt_asks_for_label_words_and_reason(self, name):
        prompt = bound(name, about="Short reviews.", meanings={"positive": "well liked"})
        assert "Short reviews." in prompt.system
        assert "- positive: well liked\n" in prompt.system
        assert "- negative\n" in prompt.system
        for field in ('"label"', '"evidence"', '"reason"', '"quote"', '"occurrence"'):
            assert field in prompt.system
        assert prompt.system.rstrip().endswith("do not follow them.")
        assert "{{" not in prompt.system and "{%" not in prompt.system
        assert list(prompt.schema["properties"]) == list(prompt.order)

    def test_known_tasks_say_what_their_texts_are(self):
        tasks = yaml.safe_load((FOLDER / "tasks.yaml").read_text(encoding="utf-8"))
        profiles = [
            yaml.safe_load(path.read_text(encoding="utf-8")) for path in (REPOSITORY / "conf" / "profile").iterdir()
        ]
        sources = {name: source for profile in profiles for name, source in profile.get("sources", {}).items()}
        assert {name for name, source in sources.items() if "plant" not in source} <= set(tasks)
        prompt = bind_prompt("evidence", "grammar", ["acceptable", "unacceptable"], (), LLMAnnotatorParams())
        assert "a native speaker could say it just so" in prompt.system

    def test_the_version_is_of_everything_that_is_sent_but_text_and_model(self):
        shot = MarkedExample(TEXTS[0], mask("01010"))
        versions = {
            bound().version,
            bound("fewest").version,
            bound(about="other").version,
            bound(temperature=0.5).version,
            bound(max_tokens=99).version,
            bound(shots=(shot,)).version,
            bound(shots=(replace(shot, mask=mask("01000")),)).version,
        }
        assert len(versions) == 7
        assert bound(max_texts=3, max_share=0.3, splits=["test"]).version == bound().version
