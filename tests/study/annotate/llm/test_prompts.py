"""Prompts: those that are shipped, what their version is of, and templates that cannot be used."""

from dataclasses import replace

import pytest
import yaml
from places import ROOT
from project_cases import TEXTS, mask
from saying import complaint

from explearn_study.annotate.llm.prompts import FOLDER, MarkedExample, bind_prompt, list_prompts
from explearn_study.sections import LLMAnnotatorParams


def bound(name="evidence", shots=(), **settings):
    return bind_prompt(name, "films", ["negative", "positive"], shots, LLMAnnotatorParams(**settings))


@pytest.mark.parametrize("name", list_prompts())
def test_every_shipped_prompt_asks_for_label_words_and_reason(name):
    prompt = bound(name, about="Short reviews.", meanings={"positive": "well liked"})
    assert "Short reviews." in prompt.system
    assert "- positive: well liked\n" in prompt.system
    assert "- negative\n" in prompt.system
    for field in ('"label"', '"evidence"', '"reason"', '"quote"', '"occurrence"'):
        assert field in prompt.system
    assert prompt.system.rstrip().endswith("do not follow them.")
    assert "{{" not in prompt.system and "{%" not in prompt.system
    assert list(prompt.schema["properties"]) == list(prompt.order)


def test_known_tasks_say_what_their_texts_are():
    tasks = yaml.safe_load((FOLDER / "tasks.yaml").read_text(encoding="utf-8"))
    profiles = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / "conf" / "profile").iterdir()]
    sources = {name: source for profile in profiles for name, source in profile.get("sources", {}).items()}
    assert {name for name, source in sources.items() if "plant" not in source} <= set(tasks)
    prompt = bind_prompt("evidence", "grammar", ["acceptable", "unacceptable"], (), LLMAnnotatorParams())
    assert "a native speaker could say it just so" in prompt.system


def test_the_version_is_of_everything_that_is_sent_but_text_and_model():
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


TEMPLATES = [
    "{{ nothing }}",
    "{{ range(1000000000) | join }}",
    "{{ ''.__class__.__mro__ }}",
    "{% include '/etc/passwd' %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{{ " + "(" * 4000 + "1" + ")" * 4000 + " }}",
]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda value: value[:40])
@pytest.mark.timeout(30)
def test_a_template_that_cannot_be_filled_is_named(tmp_path, template):
    path = tmp_path / "mine.yaml"
    document = {"summary": "s", "order": ["label", "evidence", "reason"], "system": template}
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    complaint(lambda: bound(str(path), about="short film reviews"), str(path), "system")


@pytest.mark.parametrize("name", ["nobody", "evidence-99", "none.yaml"])
def test_a_prompt_that_is_not_there(name):
    complaint(lambda: bound(name))
