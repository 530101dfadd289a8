import numpy as np
import pytest
import tiny

import explearn
from explearn import ComputeOptions, DataError, Example, load_classifier
from explearn.methods.base.explainer import Explainer, TextScores
from explearn.methods.base.teachers import members, scaled_ranks
from explearn.methods.l2e.explainer import L2E
from explearn_study.example_files import write_examples
from explearn_study.params import Params
from explearn_study.teacher_files import read_lessons, teach
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace

TASK = "toy"


class Teacher(Explainer):
    """Scores a sub-token by its id, and counts the texts it explained."""

    signed = True

    def __init__(self):
        super().__init__()
        self.name = "teacher"
        self.explained = []

    def score_texts(self, classifier, encodings, targets):
        self.explained += [e.example_id for e in encodings]
        return [TextScores(np.array(e.input_ids, float) - 50, np.array([0.0, 1.0]), 1, 0.0) for e in encodings]


def examples(count, split="train"):
    return [Example(f"{split}-{i}", ("fox", "dog", "sea"), "yes", split, TASK) for i in range(count)]


def run(folder, teacher, splits):
    teach(folder, teacher, tiny.classifier(), splits, shard_texts=4)


def lessons(tmp_path, name="teacher"):
    return read_lessons(
        [Workspace(tmp_path).teacher(TASK, one) for one in members(name)], tiny.classifier().fingerprint
    )


@pytest.fixture
def folder(tmp_path):
    return Workspace(tmp_path).teacher(TASK, "teacher")


def test_what_is_read_is_what_the_method_says(tmp_path, folder):
    splits = {"train": examples(9), "validation": examples(3, "validation")}
    run(folder, Teacher(), splits)
    actual = lessons(tmp_path)
    assert actual.signed
    for split, rows in splits.items():
        expected = list(Teacher().explain(tiny.classifier(), rows))
        assert [lesson.example_id for lesson in actual.by_split[split]] == [row.id for row in rows]
        for lesson, attribution in zip(actual.by_split[split], expected, strict=True):
            assert lesson.target == "yes"
            np.testing.assert_array_equal(lesson.weights, attribution.scores)


def test_a_run_that_was_ended_is_taken_up_where_it_stopped(tmp_path, folder):
    class Interrupted(Teacher):
        def explain(self, *arguments, **options):
            if len(self.explained) >= 8:
                raise KeyboardInterrupt
            return super().explain(*arguments, **options)

    splits = {"train": examples(10), "validation": examples(3, "validation")}
    with pytest.raises(KeyboardInterrupt):
        run(folder, Interrupted(), splits)
    with pytest.raises(DataError, match="there are no word scores of this teacher"):
        lessons(tmp_path)
    second = Teacher()
    run(folder, second, splits)
    assert second.explained == ["train-8", "train-9", "validation-0", "validation-1", "validation-2"]
    assert len(lessons(tmp_path).by_split["train"]) == 10


def test_a_teacher_of_another_classifier_is_refused(tmp_path, folder):
    run(folder, Teacher(), {"train": examples(4)})
    other = tiny.make_classifier(seed=1).fingerprint
    with pytest.raises(DataError, match="teacher: explains another classifier than the one given; run the stage teach"):
        read_lessons([Workspace(tmp_path).teacher(TASK, "teacher")], other)


class TestEnsemble:
    def test_ranks_by_hand(self):
        weights = np.array([-3.0, 1.0, 0.0, 1.0])
        # |w|: 4th, 2.5th, 1st, 2.5th of 4.
        assert scaled_ranks(weights, signed=True).tolist() == [-1.0, 0.625, 0.0, 0.625]
        assert scaled_ranks(weights, signed=False).tolist() == [0.25, 0.875, 0.5, 0.875]

    @pytest.mark.parametrize(("second", "signed"), [("input_x_gradient", True), ("rollout", False)])
    def test_is_the_mean_of_its_members_ranks(self, tmp_path, second, signed):
        splits = {"train": examples(5)}
        for name in ("occlusion", second):
            run(Workspace(tmp_path).teacher(TASK, name), explearn.get_explainer(name), splits)
        actual = lessons(tmp_path, f"ensemble:occlusion,{second}")
        assert actual.signed is signed
        a, b = (lessons(tmp_path, name).by_split["train"] for name in ("occlusion", second))
        for lesson, one, other in zip(actual.by_split["train"], a, b, strict=True):
            expected = (scaled_ranks(one.weights, signed) + scaled_ranks(other.weights, signed)) / 2
            np.testing.assert_allclose(lesson.weights, expected)


def test_a_student_learns_from_the_files_of_its_teachers(tmp_path):
    workspace = Workspace(tmp_path)
    tiny.save(workspace.classifier(TASK))
    classifier = load_classifier(workspace.classifier(TASK), ComputeOptions(device="cpu"))
    splits = {"train": examples(12), "validation": examples(4, "validation")}
    for split in ("train", "validation", "test"):
        write_examples(workspace.examples(TASK) / f"{split}.parquet", splits.get(split, []))
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
