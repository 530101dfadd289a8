"""Whatever the bytes: adapters, importers and answers give what they promise, or one clear sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from fuzz_cases import a_file, any_text, fuzz, json_values, one_sentence, rows
from hypothesis import given
from hypothesis import strategies as st
from parameter_cases import BASE
from saying import check_sentence

from explearn.core.escape import printable
from explearn.core.records import Example
from explearn.text.params import SourceParams
from explearn_study.annotate.llm.answers import InvalidAnswerError, parse_answer
from explearn_study.params import load_params
from explearn_study.sections import RationaleFile
from explearn_study.sources import load_task
from explearn_study.sources.rationale_files import COLUMNS as RATIONALE_COLUMNS
from explearn_study.sources.rationale_files import import_rationales

TEXTS = [Example("a", ("one", "two"), "yes", "train", "t"), Example("b", ("three",), "no", "train", "t", ("four",))]


@fuzz
@given(st.sampled_from([*BASE, "finetune", "evaluate", "rationales", "baselines", "expnet", "seed"]), st.data())
def test_parameters(name: str, data: st.DataObject) -> None:
    keys = st.sampled_from(["films", "kind", "path", "llm", "epochs", "quick", "rollout", "of", "hidden", "x"])
    values = {**BASE, name: data.draw(json_values(keys))}
    with a_file("params.yaml", yaml.safe_dump(values, allow_unicode=False)) as path, one_sentence():
        load_params(path)


ADAPTERS: dict[str, tuple[str, ...]] = {
    "custom": ("id", "text", "label"),
    "squad": ("id", "question", "context", "answers", "text", "answer_start"),
    "hatexplain": ("id", "tokens", "label", "labels", "annotators", "annotator_id", "rationales", "text"),
    "corpus": ("id", "task", "split", "words", "label", "annotations", "annotator", "rationale"),
}


@pytest.mark.parametrize("adapter", ADAPTERS)
@fuzz
@given(data=st.data())
def test_rows(adapter: str, data: st.DataObject) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in data.draw(st.lists(rows(*ADAPTERS[adapter]), max_size=4)))
    columns = {"id": "id", "text": "text"} if adapter == "custom" else {}
    source = SourceParams.model_validate({"kind": "files", "adapter": adapter, "columns": columns})
    with a_file("films.jsonl", lines) as path, one_sentence():
        actual = load_task("films", source, path.parent, 13)
        assert all(example.words and example.label in actual.labels for example in actual.examples)


@pytest.mark.parametrize("form", ["mask", "marked", "spans"])
@fuzz
@given(drawn=st.lists(rows(*RATIONALE_COLUMNS), min_size=1, max_size=3))
def test_rationales(form: Any, drawn: list[dict[str, Any]]) -> None:
    lines = "".join(json.dumps({"id": "a", **row}) + "\n" for row in drawn)
    spec = RationaleFile(path="m.jsonl", format=form, annotator="ana", kind="human")
    with a_file("m.jsonl", lines) as path, one_sentence():
        for actual in import_rationales(path, spec, TEXTS):
            assert len(actual.mask) == 2


@fuzz
@given(any_text | json_values(st.sampled_from(["label", "evidence", "quote", "reason"])).map(json.dumps))
def test_answers_of_a_language_model(content: str) -> None:
    try:
        parsed = parse_answer(content, "stop", ["yes", "no"])
    except InvalidAnswerError as error:
        check_sentence(printable(str(error)))
    else:
        assert parsed.label in ("yes", "no")
