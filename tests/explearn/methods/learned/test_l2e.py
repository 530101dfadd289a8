"""L2E: what a student learns from a teacher's lessons, and its files."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file

import explearn
from explearn.core.compute import ComputeOptions
from explearn.core.errors import DataError, ModelError, ParamsError, UnsupportedError
from explearn.core.records import Example
from explearn.core.storage import write_examples, write_json
from explearn.methods.base.task import Lesson, Lessons
from explearn.methods.base.training import descend
from explearn.methods.l2e.explainer import L2E
from explearn.methods.l2e.student import principal_embeddings
from explearn.model.classifier import Classifier
from explearn_study.params import Params
from explearn_study.teacher_files import teach
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace

CPU = ComputeOptions(device="cpu")


SMALL: dict[str, Any] = {"layers": 1, "heads": 2, "width": 16, "feedforward": 16, "dropout": 0.0, "patience": 30}


FILLERS = ("the", "fox", "dog", "sea", "tide", "guide", "castle", "morning")


WEIGHTS = {"slow": -4.0, "warm": 4.0, **{word: 0.1 * (i + 1) for i, word in enumerate(FILLERS)}}


def examples(count: int, split: str = "train") -> list[Example]:
    """Fillers with one of two telling words somewhere among them."""
    rng = np.random.default_rng(0 if split == "train" else 1)
    rows = []
    for number in range(count):
        words = list(rng.choice(FILLERS, 5))
        words.insert(int(rng.integers(6)), ("slow", "warm")[number % 2])
        rows.append(Example(f"{split}-{number}", tuple(words), "yes", split, "toy"))  # type: ignore[arg-type]
    return rows


def toy_lessons(rows: list[Example], split: str) -> list[Lesson]:
    """`slow` speaks against the class, `warm` for it, all else a little for it."""
    return [Lesson(row.id, "yes", np.array([WEIGHTS[word] for word in row.words])) for row in rows]


@functools.cache
def taught(formulation: str = "labelling", **options: Any) -> L2E:
    rows, validation = examples(64), examples(16, "validation")
    lessons = Lessons({"train": toy_lessons(rows, "train"), "validation": toy_lessons(validation, "validation")}, True)
    l2e = L2E(formulation=formulation, epochs=25, learning_rate=5e-3, batch_size=8, **{**SMALL, **options})  # type: ignore[arg-type]
    l2e.name = "l2e"
    return l2e.fit_lessons(tiny.classifier("bert"), [*rows, *validation], lessons)


class TestLearning:
    def test_levels_are_learned(self) -> None:
        l2e = taught()
        encodings = tiny.classifier("bert").encode(["sea warm fox dog the tide", "tide slow castle sea guide dog"])
        with_warm, with_slow = (of_text.tolist() for of_text in l2e.word_levels(encodings, [1, 1]))
        # Beside `warm` the others are below the mean of what speaks for the class.
        assert with_warm == [1, 2, 1, 1, 1, 1]
        assert with_slow[1] == -2 and min(with_slow[:1] + with_slow[2:]) > 0
        first, second = l2e.word_scores(encodings, [1, 1])
        assert first.argmax() == 1 and second.argmin() == 1 and second[1] < 0
        assert l2e.signed
        assert max(epoch.agreement or 0.0 for epoch in l2e.history) > 0.7

    @pytest.mark.parametrize("order", ["magnitude", "signed"])
    def test_ranking_puts_weight_first_whichever_its_sign_or_sends_it_to_the_end(self, order: str) -> None:
        l2e = taught("ranking", ranking_order=order)
        (found,) = l2e.word_scores(tiny.classifier("bert").encode(["tide slow castle sea"]), [1])
        assert (found.argmax() == 1) == (order == "magnitude")
        assert (found.argmin() == 1) == (order == "signed")
        assert found.sum() == pytest.approx(1) and not l2e.signed

    def test_the_local_student_learns_too(self) -> None:
        encodings = tiny.classifier("bert").encode(["tide slow castle sea"])
        found = taught(window=2).word_levels(encodings, [1])[0].tolist()
        assert found[1] == -2 and min(found[0], *found[2:]) > 0

    def test_sgd_learns(self) -> None:
        history = taught(optimizer="sgd", embeddings="random").history
        assert history[-1].loss < history[0].loss

    def test_training_stops_without_better_agreement_and_keeps_the_best(self) -> None:
        rows = examples(16)
        # On validation texts the teacher says the opposite of what it says in training.
        opposite = [Lesson(x.example_id, x.target, -x.weights) for x in toy_lessons(rows, "validation")]
        lessons = Lessons({"train": toy_lessons(rows, "train"), "validation": opposite}, True)
        options = {**SMALL, "patience": 2}
        l2e = L2E(epochs=40, learning_rate=5e-3, **options).fit_lessons(tiny.classifier("bert"), rows, lessons)
        agreements = [epoch.agreement or 0.0 for epoch in l2e.history]
        assert len(agreements) == int(np.argmax(agreements)) + 1 + 2 < 40

    def test_a_student_that_diverges_is_as_good_as_its_best_epoch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows, validation = examples(16), examples(8, "validation")
        lessons = Lessons(
            {"train": toy_lessons(rows, "train"), "validation": toy_lessons(validation, "validation")}, True
        )
        taken = 0

        def explode(loss: torch.Tensor, optimizer: torch.optim.Optimizer, *_: object) -> None:
            nonlocal taken
            descend(loss, optimizer)
            if (taken := taken + 1) == 8:
                optimizer.param_groups[0]["params"][0].data.fill_(torch.nan)

        monkeypatch.setattr("explearn.methods.l2e.training.descend", explode)
        options = {**SMALL, "patience": 2, "batch_size": 4}
        l2e = L2E(epochs=9, learning_rate=5e-3, **options).fit_lessons(
            tiny.classifier("bert"), [*rows, *validation], lessons
        )
        agreements = [epoch.agreement for epoch in l2e.history]
        assert agreements[0] is not None and agreements[1:] == [None, None]
        scores = l2e.word_scores(tiny.classifier("bert").encode(["the warm fox"]), [0])[0]
        assert np.isfinite(scores).all()

    def test_the_seed_decides(self) -> None:
        rows = examples(16)
        lessons = Lessons({"train": toy_lessons(rows, "train")}, True)

        def scores(seed: int) -> list[float]:
            l2e = L2E(epochs=2, seed=seed, **{**SMALL, "dropout": 0.2}).fit_lessons(
                tiny.classifier("bert"), rows, lessons
            )
            return l2e.word_scores(tiny.classifier("bert").encode(["the warm fox"]), [0])[0].tolist()

        torch.manual_seed(1)
        first = scores(5)
        torch.manual_seed(2)
        assert scores(5) == first
        assert scores(6) != first

    def test_max_texts_are_drawn(self) -> None:
        rows = examples(32)
        l2e = L2E(epochs=1, max_texts=10, **SMALL)
        l2e.fit_lessons(tiny.classifier("bert"), rows, Lessons({"train": toy_lessons(rows, "train")}, True))
        assert l2e.trained_on == {"train": 10, "validation": 0}
        assert l2e.history[0].agreement is None

    def test_embeddings_stay_where_they_are_not_trained(self) -> None:
        rows = examples(16)
        lessons = Lessons({"train": toy_lessons(rows, "train")}, True)
        l2e = L2E(epochs=1, train_embeddings=False, **SMALL).fit_lessons(tiny.classifier("bert"), rows, lessons)
        table = tiny.classifier("bert").model.get_input_embeddings().weight  # type: ignore[union-attr]
        assert l2e.student is not None
        assert torch.equal(l2e.student.embeddings.weight, principal_embeddings(table, 16))  # type: ignore[arg-type]

    def test_lessons_that_do_not_fit_their_texts(self) -> None:
        rows = examples(4)
        lessons = Lessons({"train": [Lesson("train-0", "yes", np.ones(3))]}, True)
        with pytest.raises(DataError, match="example 'train-0': 3 word scores for a text of 6 words"):
            L2E(**SMALL).fit_lessons(tiny.classifier("bert"), rows, lessons)
        with pytest.raises(DataError, match="explains no training text"):
            L2E(**SMALL).fit_lessons(tiny.classifier("bert"), rows, Lessons({"train": []}, True))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"formulation": "regression"}, "formulation: got 'regression'; expected"),
            ({"epochs": 0}, "epochs: got 0; expected"),
            ({"dropout": 1.0}, "dropout: got 1.0; expected"),
            ({"width": 30, "heads": 4}, "width 30 with 4 heads; expected an even multiple"),
            ({"teacher": "ensemble:lime"}, "teacher 'ensemble:lime': expected ensemble:NAME,NAME"),
        ],
    )
    def test_an_option_s_bad_value(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ParamsError, match=message):
            L2E(**options)


def quick(classifier: Classifier, **options: Any) -> L2E:
    """Trained for an epoch on made-up scores of the shared texts."""
    rows = [Example(f"t{i}", tuple(text.split()), "x", "train", "toy") for i, text in enumerate(tiny.TEXTS)]
    pairs = [
        Example(f"p{i}", tuple(a.split()), "x", "train", "toy", tuple(b.split())) for i, (a, b) in enumerate(tiny.PAIRS)
    ]
    every = [*rows, *pairs]
    lessons = [Lesson(x.id, classifier.labels[0], np.linspace(-1, 1, len(x.all_words))) for x in every]
    l2e = L2E(epochs=1, **{**SMALL, **options}).fit_lessons(classifier, every, Lessons({"train": lessons}, True))
    l2e.name = "l2e"
    return l2e


class TestExplaining:
    @pytest.mark.parametrize("classes", [2, 3])
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_every_architecture_single_texts_and_pairs(self, kind: str, classes: int) -> None:
        classifier = tiny.classifier(kind, classes)
        # Other tests share this model, and transformers leaves its own on one that was asked for its attention.
        before = tiny.hooks(classifier.model)
        l2e = quick(classifier)
        for texts in (tiny.TEXTS, tiny.PAIRS):
            found = list(l2e.explain(classifier, texts))
            encodings = classifier.encode(list(texts))
            targets = [classifier.labels.index(a.predicted) for a in found]
            for attribution, alone in zip(found, l2e.word_scores(encodings, targets), strict=True):
                assert attribution.target == attribution.predicted
                assert attribution.signed and attribution.aggregation == "max"
                np.testing.assert_allclose(attribution.scores, alone, atol=1e-5)
                assert np.abs(attribution.scores).max() <= 2
        assert tiny.hooks(classifier.model) == before

    def test_the_class_asked_for_is_what_the_student_is_told(self) -> None:
        classifier, l2e = tiny.classifier("bert"), quick(tiny.classifier("bert"))
        no, yes = (next(l2e.explain(classifier, ["the warm fox"], [target])) for target in ("no", "yes"))
        assert no.target == "no" and yes.target == "yes"
        assert not np.allclose(no.scores, yes.scores)

    @pytest.mark.parametrize("formulation", ["labelling", "ranking"])
    def test_bf16_is_near_fp32(self, formulation: str) -> None:
        l2e = quick(tiny.classifier("bert"), formulation=formulation)
        exact = [a.scores for a in l2e.explain(tiny.classifier("bert"), tiny.TEXTS, [0] * 5)]
        rough = [a.scores for a in l2e.explain(tiny.make_classifier("bert", precision="bf16"), tiny.TEXTS, [0] * 5)]
        for a, b in zip(exact, rough, strict=True):
            np.testing.assert_allclose(a, b, atol=0.05)

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    def test_cuda_agrees_with_the_cpu(self) -> None:
        gpu = tiny.make_classifier("bert", device="cuda")
        l2e = quick(gpu, window=2)
        there = [a.scores for a in l2e.explain(gpu, tiny.TEXTS)]
        here = [a.scores for a in l2e.explain(tiny.classifier("bert"), tiny.TEXTS)]
        for a, b in zip(there, here, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-3)

    def test_words_without_a_piece_do_not_end_it(self) -> None:
        classifier = tiny.classifier("bert")
        l2e = quick(classifier)
        long = " ".join(["fox"] * 60)
        cut, gap = l2e.explain(classifier, [long, "fox \u200b dog"])
        assert cut.read.tolist() == [True] * len(cut.tokens) + [False] * (60 - len(cut.tokens))
        assert gap.read.tolist() == [True, False, True]
        for attribution in (cut, gap):
            assert np.isfinite(attribution.scores[attribution.read]).all()
            assert len(attribution.scores) == len(attribution.words)

    def test_another_classifier_is_refused(self) -> None:
        other = tiny.make_classifier("bert", seed=1)
        with pytest.raises(UnsupportedError, match="has learned to explain another classifier"):
            list(quick(tiny.classifier("bert")).explain(other, ["fox"]))

    def test_an_untrained_one_says_so(self) -> None:
        encodings = tiny.classifier("bert").encode(["fox"])
        for use in (
            lambda: list(explearn.get_explainer("l2e").explain(tiny.classifier("bert"), ["fox"])),
            lambda: L2E().word_scores(encodings, [0]),
            lambda: L2E().word_levels(encodings, [0]),
            lambda: L2E().save_pretrained("nowhere"),
        ):
            with pytest.raises(ModelError, match="this L2E is not trained"):
                use()

    def test_a_student_that_ranks_knows_no_levels(self) -> None:
        classifier = tiny.classifier("bert")
        with pytest.raises(UnsupportedError, match="knows no levels"):
            quick(classifier, formulation="ranking").word_levels(classifier.encode(["fox"]), [0])


class TestFiles:
    def test_what_is_loaded_is_what_was_saved(self, tmp_path: Path) -> None:
        l2e = taught()
        l2e.save_pretrained(tmp_path / "l2e")
        again = explearn.get_explainer("l2e", path=str(tmp_path / "l2e"))
        assert isinstance(again, L2E)
        assert again.history == l2e.history and again.signed and again.trained_on == {"train": 64, "validation": 16}
        for a, b in zip(
            l2e.explain(tiny.classifier("bert"), tiny.TEXTS),
            again.explain(tiny.classifier("bert"), tiny.TEXTS),
            strict=True,
        ):
            np.testing.assert_array_equal(a.scores, b.scores)

    def test_an_earlier_explainer_is_replaced_and_nothing_else(self, tmp_path: Path) -> None:
        taught().save_pretrained(tmp_path / "l2e")
        (tmp_path / "l2e" / "config.json").write_text("damaged", encoding="utf-8")
        taught().save_pretrained(tmp_path / "l2e")
        explearn.get_explainer("l2e", path=str(tmp_path / "l2e"))
        folder = tiny.save(tmp_path / "mine", "bert", 2)
        before = sorted(path.name for path in folder.iterdir())
        with pytest.raises(ParamsError, match=r"mine: holds 'config.json' and no trained explainer; expected a"):
            taught().save_pretrained(folder)
        assert sorted(path.name for path in folder.iterdir()) == before

    @pytest.mark.parametrize("damage", ["config", "weights", "missing"])
    def test_damage_is_named(self, tmp_path: Path, damage: str) -> None:
        folder = tmp_path / "l2e"
        taught().save_pretrained(folder)
        if damage == "config":
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            write_json(folder / "config.json", {**config, "vocabulary": 3})
        elif damage == "weights":
            tensors = load_file(folder / "student.safetensors")
            del tensors["head.bias"]
            save_file(tensors, folder / "student.safetensors")
        else:
            (folder / "student.safetensors").unlink()
        with pytest.raises(ModelError, match=r"l2e: not a trained l2e"):
            L2E.from_pretrained(folder)


def test_training_from_a_task_s_files(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    tiny.save(workspace.classifier("toy"))
    classifier = Classifier.from_pretrained(workspace.classifier("toy"), CPU)
    splits = {"train": examples(12), "validation": examples(4, "validation")}
    for split in ("train", "validation", "test"):
        write_examples(workspace.examples("toy") / f"{split}.parquet", splits.get(split, []))
    source = {"kind": "embedded", "adapter": "corpus"}
    params = Params.of(
        {
            "profile": "mine",
            "tasks": ["toy"],
            "sources": {"toy": source},
            "explainer": "l2e",
            "explainers": ["l2e"],
            "teachers": {"occlusion": {}, "random": {}},
            "l2e": {"teacher": "ensemble:occlusion,random"},
        }
    )
    l2e = L2E(teacher="ensemble:occlusion,random", epochs=1, **SMALL)
    with pytest.raises(DataError, match="run the stage teach"):
        l2e.fit(WorkspaceTask(workspace, params, "toy", CPU))
    for name in params.teachers:
        teach(workspace.teacher("toy", name), explearn.get_explainer(name), {}, classifier, splits)
    l2e.fit(WorkspaceTask(workspace, params, "toy", CPU))
    assert l2e.trained_on == {"train": 12, "validation": 4}
    assert not l2e.signed
    tiny.save(workspace.classifier("toy"), seed=3)
    with pytest.raises(DataError, match="occlusion: explains another classifier than the one given"):
        l2e.fit(WorkspaceTask(workspace, params, "toy", CPU))
