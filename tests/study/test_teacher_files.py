"""Word scores of teachers for students: written shard by shard, read as lessons."""

import numpy as np
import pytest
import tiny

import explearn
from explearn import DataError, Example
from explearn.methods.base.explainer import Explainer, TextScores
from explearn.methods.base.teachers import members, scaled_ranks
from explearn_study.teacher_files import read_lessons, teach
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


def lessons(tmp_path, name="teacher", classifier=None):
    folders = [Workspace(tmp_path).teacher(TASK, member) for member in members(name)]
    return read_lessons(folders, (classifier or tiny.classifier()).fingerprint)


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
    with pytest.raises(DataError, match="teacher: explains another classifier than the one given; run the stage teach"):
        lessons(tmp_path, classifier=tiny.make_classifier(seed=1))


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
