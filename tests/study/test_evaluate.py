"""A classifier's twin: for which models there is one."""

import pytest
import tiny

from explearn import ComputeOptions, EvaluateOptions, UnsupportedError, load_classifier
from explearn_study.evaluate import judge_twin
from explearn_study.params import Params
from explearn_study.workspace import Workspace


def test_a_prompted_model_has_none(tmp_path):
    prompt = {"template": "{text} :", "label_words": {"no": " slow", "yes": " warm"}}
    tiny.language_model().save_pretrained(tmp_path / "model")
    tiny.tokenizer("gpt2").save_pretrained(tmp_path / "model")
    model = load_classifier(tmp_path / "model", completion=prompt, device="cpu")
    source = {"kind": "embedded", "adapter": "corpus"}
    params = Params.model_validate(
        {"profile": "mine", "tasks": ["a"], "sources": {"a": source}, "methods": {"random": {}}}
    )
    with pytest.raises(UnsupportedError, match=r"evaluate\.twin: this model has no classification head"):
        judge_twin(Workspace(tmp_path), params, "a", model, {}, EvaluateOptions(), ComputeOptions())
