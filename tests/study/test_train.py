"""A task of the pipeline as a learned explainer sees it."""

import pytest
import tiny

import explearn
from explearn import ComputeOptions, DataError, Example, load_classifier
from explearn.methods.l2e.explainer import L2E
from explearn_study.example_files import write_examples, write_rationales
from explearn_study.params import Params
from explearn_study.teacher_files import teach
from explearn_study.train import WorkspaceTask, fit_explainer
from explearn_study.workspace import Workspace

TASK = "toy"


def test_a_student_learns_from_the_files_of_its_teachers(tmp_path):
    workspace = Workspace(tmp_path)
    tiny.save(workspace.classifier(TASK))
    classifier = load_classifier(workspace.classifier(TASK), ComputeOptions(device="cpu"))
    splits = {}
    for split, count in (("train", 12), ("validation", 4), ("test", 0)):
        splits[split] = [Example(f"{split}-{i}", ("fox", "dog", "sea"), "yes", split, TASK) for i in range(count)]
        write_examples(workspace.examples(TASK) / f"{split}.parquet", splits[split])
    teacher = "ensemble:occlusion,random"
    params = Params.model_validate(
        {
            "profile": "mine",
            "tasks": [TASK],
            "sources": {TASK: {"kind": "embedded", "adapter": "corpus"}},
            "explainer": "l2e",
            "methods": {"l2e": {"options": {"teacher": teacher}}},
            "learned": {"from_teachers": [{"method": "l2e", "teacher": ""}]},
            "teachers": {"occlusion": {}, "random": {}},
        }
    )
    task = WorkspaceTask(workspace, params, TASK, ComputeOptions(device="cpu"))
    reader = L2E(teacher=teacher, epochs=1, layers=1, width=16)
    with pytest.raises(DataError, match="run the stage teach"):
        reader.learn(task)
    for name in params.teachers:
        teach(workspace.teacher(TASK, name), explearn.get_explainer(name), classifier, splits)
    reader.learn(task)
    assert reader.trained_on == {"train": 12, "validation": 4} and not reader.signed


def test_a_method_that_learns_from_marks_is_not_trained_where_there_are_none(tmp_path):
    workspace = Workspace(tmp_path)
    for split in ("train", "validation", "test"):
        write_examples(workspace.examples(TASK) / f"{split}.parquet", [Example(split, ("fox",), "yes", split, TASK)])
    write_rationales(workspace.rationales(TASK), [])
    params = Params.model_validate(
        {
            "profile": "mine",
            "tasks": [TASK],
            "sources": {TASK: {"kind": "embedded", "adapter": "corpus"}},
            "methods": {"word_list": {}},
            "learned": {"from_features": ["word_list"]},
        }
    )
    fit_explainer(workspace, params, TASK, "word_list", ComputeOptions(device="cpu"), 13)
    assert workspace.refusal(TASK, "word_list") == "no marked word in toy"
