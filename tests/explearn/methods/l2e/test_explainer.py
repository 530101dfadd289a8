"""L2E: its losses and network, what a student learns from a teacher's lessons, and whom it explains."""

import math

import numpy as np
import pytest
import tiny
import torch

from explearn import Example
from explearn.methods.base.teachers import Lesson, Lessons
from explearn.methods.base.training import PATIENCE, seeded
from explearn.methods.l2e import student as module
from explearn.methods.l2e.explainer import L2E
from explearn.methods.l2e.params import L2EParams
from explearn.methods.l2e.student import (
    Student,
    attended,
    collate,
    inside,
    labelling_loss,
    ranking_loss,
    student_ids,
    student_lesson,
    token_scores,
)
from explearn.text.alignment import NO_WORD

CPU = torch.device("cpu")
SMALL = {"layers": 1, "width": 16}
FILLERS = ("the", "fox", "dog", "sea", "tide", "guide", "castle", "morning")
WEIGHTS = {"slow": -4.0, "warm": 4.0, **{word: 0.1 * (i + 1) for i, word in enumerate(FILLERS)}}
"""`slow` speaks against the class, `warm` for it, all else a little for it."""


class TestLosses:
    def test_labelling_by_hand(self):
        """Even logits: -log(1/5) whatever the level. A sure logit: 0 where right, the logit's size where wrong."""
        logits = torch.zeros(1, 4, 5)
        logits[0, 1, 4] = logits[0, 2, 0] = 100.0
        levels = torch.tensor([[0, 2, 2, -2]])
        known = torch.tensor([[True, True, True, False]])
        assert labelling_loss(logits, levels, known).item() == pytest.approx((math.log(5) + 0 + 100) / 3)

    def test_ranking_by_hand(self):
        """Pairs (0,1), (0,2), (1,2); the heavier one is 0, 0 and 2: v_k against the other's v."""
        values = [1.0, 0.0, -2.0]
        weights = [3.0, 1.0, 2.0]
        expected = [-math.log(math.exp(k) / (math.exp(k) + math.exp(o))) for k, o in ((1, 0), (1, -2), (-2, 0))]
        loss = ranking_loss(torch.tensor([values]), torch.tensor([weights]), torch.ones(1, 3, dtype=torch.bool))
        assert loss.item() == pytest.approx(sum(expected) / 3)

    def test_ranking_skips_padding_and_equal_weights_and_averages_over_texts(self):
        values = torch.tensor([[0.0, 1.0, 7.0], [5.0, 5.0, 5.0]], requires_grad=True)
        weights = torch.tensor([[2.0, 1.0, 9.0], [1.0, 1.0, 1.0]])
        known = torch.tensor([[True, True, False], [True, True, True]])
        # The second text has no pair; the first has one, wrongly ordered by 1.
        loss = ranking_loss(values, weights, known)
        assert loss.item() == pytest.approx(math.log(1 + math.e))
        loss.backward()
        assert values.grad is not None and values.grad[1].tolist() == [0, 0, 0]


def student(window):
    with seeded(0, CPU):
        return Student(20, 2, L2EParams(formulation="labelling", window=window, **SMALL)).eval()


class TestNetwork:
    def test_a_position_attends_to_those_near_it_and_to_the_label_tokens(self):
        real = torch.tensor([[True] * 5 + [False]])
        ends = torch.tensor([[0, 4]])
        expected = ["111110", "111010", "111110", "101110", "111110", "100010"]
        assert attended(real, ends, 1)[0, 0].int().tolist() == [list(map(int, row)) for row in expected]

    @pytest.mark.parametrize("window", [None, 2])
    def test_padding_changes_nothing_and_the_label_token_decides_too(self, window):
        made = student(window)
        alone = made(*collate([[20, 3, 4, 20]], CPU))
        together = made(*collate([[20, 3, 4, 20], [21, *range(9), 21]], CPU))
        torch.testing.assert_close(together[:1, :4], alone)
        assert not torch.allclose(made(*collate([[21, 3, 4, 21]], CPU))[0, 1:3], alone[0, 1:3])


class TestTexts:
    @pytest.mark.parametrize("text", ["the quick brown fox", ("the fox sleeps", "a dog")])
    @pytest.mark.parametrize("kind", ["bert", "roberta"])
    def test_label_tokens_stand_for_the_special_tokens_around_a_text(self, kind, text):
        (encoding,) = tiny.classifier(kind).encode([text])
        assert student_ids(encoding, 1, 1000) == ([1001, *encoding.input_ids[1:-1], 1001], 1)

    def test_every_piece_learns_its_word_s_level_or_magnitude(self):
        (encoding,) = tiny.classifier().encode(["unbelievably slow delivery"])
        weights = np.array([3.0, -2.0, 1.0])
        lesson = student_lesson(encoding, 0, weights, True, 1000, "labelling")
        assert (lesson.values.tolist(), lesson.weights.tolist()) == ([2, -2, 1], [3, -2, 1])
        pieces = [word for word in encoding.word_ids if word != NO_WORD]
        assert lesson.owner.tolist() == [NO_WORD, *pieces, NO_WORD] and pieces.count(0) > 1
        ranked = student_lesson(encoding, 0, weights, True, 1000, "ranking")
        assert ranked.values.tolist() == ranked.weights.tolist() == [3, 2, 1]

    def test_scores_by_hand(self):
        """Half high positive, half neutral: an expected level of 1. Strengths of 1 and 3: shares of 1/4 and 3/4."""
        outputs = torch.full((1, 1, 5), -100.0)
        outputs[0, 0, 2] = outputs[0, 0, 4] = 5.0
        assert token_scores(outputs, torch.tensor([[True]]), "labelling").item() == pytest.approx(1.0)
        values = torch.tensor([[[9.0], [0.0], [math.log(3)], [9.0]]])
        real = inside(torch.tensor([4]), 4)
        assert token_scores(values, real, "ranking")[0].tolist() == pytest.approx([0, 0.25, 0.75, 0])


def examples(count, split="train"):
    """Fillers with one of two telling words somewhere among them."""
    rng = np.random.default_rng(0 if split == "train" else 1)
    rows = []
    for number in range(count):
        words = list(rng.choice(FILLERS, 5))
        words.insert(int(rng.integers(6)), ("slow", "warm")[number % 2])
        rows.append(Example(f"{split}-{number}", tuple(words), "yes", split, "toy"))
    return rows


def lessons_of(train, validation=[], sign=1.0):  # noqa: B006
    """`sign`: of what the teacher says on validation texts."""

    def lessons(rows, sign):
        return [Lesson(row.id, "yes", sign * np.array(list(map(WEIGHTS.get, row.words)))) for row in rows]

    return Lessons({"train": lessons(train, 1.0), "validation": lessons(validation, sign)}, True)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "BATCH_TEXTS", 8)


def taught(**options):
    rows = examples(64)
    validation = examples(16, "validation")
    reader = L2E(**{**SMALL, "epochs": 25, "learning_rate": 5e-3, **options})
    return reader.fit_lessons(tiny.classifier(), [*rows, *validation], lessons_of(rows, validation))


@pytest.mark.usefixtures("small_batches")
class TestLearning:
    @pytest.mark.parametrize("window", [None, 2])
    def test_levels_are_learned(self, window):
        reader = taught(window=window)
        encodings = tiny.classifier().encode(["sea warm fox dog the tide", "tide slow castle sea guide dog"])
        (first, with_warm), (second, with_slow) = reader.read_words(tiny.classifier(), encodings, [1, 1])
        # Next to `warm` the others are below the mean of what speaks for the class.
        assert with_warm.tolist() == [1, 2, 1, 1, 1, 1]
        assert with_slow[1] == -2 and np.delete(with_slow, 1).min() > 0
        assert first.argmax() == 1 and second.argmin() == 1 and second[1] < 0
        assert reader.signed
        assert max(epoch["agreement"] or 0.0 for epoch in reader.history) > 0.7

    def test_ranking_puts_weight_first_whichever_its_sign(self):
        reader = taught(formulation="ranking")
        encodings = tiny.classifier().encode(["tide slow castle sea"])
        ((scores, _),) = reader.read_words(tiny.classifier(), encodings, [1])
        assert scores.argmax() == 1 and scores.sum() == pytest.approx(1) and not reader.signed

    def test_training_stops_without_better_agreement_and_keeps_the_best(self):
        rows = examples(16)
        opposite = lessons_of(rows, rows, sign=-1.0)
        reader = L2E(epochs=40, learning_rate=5e-3, **SMALL).fit_lessons(tiny.classifier(), rows, opposite)
        agreements = [epoch["agreement"] or 0.0 for epoch in reader.history]
        assert len(agreements) == int(np.argmax(agreements)) + 1 + PATIENCE < 40


def quick(classifier, **options):
    """Trained for an epoch on made-up scores of the shared texts."""
    every = tiny.examples()
    lessons = [Lesson(x.id, classifier.labels[0], np.linspace(-1, 1, len(x.all_words))) for x in every]
    return L2E(epochs=1, **{**SMALL, **options}).fit_lessons(classifier, every, Lessons({"train": lessons}, True))


class TestExplaining:
    @pytest.mark.parametrize("kind", tiny.KINDS_OF_TOKENIZER)
    def test_single_texts_and_pairs_are_scored_as_alone(self, kind):
        classifier = tiny.classifier(kind, 3)
        reader = quick(classifier)
        for texts in (tiny.TEXTS, tiny.PAIRS):
            attributions = reader.explain(classifier, texts)
            targets = [classifier.labels.index(attribution.predicted) for attribution in attributions]
            alone = reader.read_words(classifier, classifier.encode(list(texts)), targets)
            for attribution, (scores, _) in zip(attributions, alone, strict=True):
                assert attribution.target == attribution.predicted and attribution.signed
                np.testing.assert_allclose(attribution.scores, scores, atol=1e-5)
                assert np.abs(attribution.scores).max() <= 2

    def test_the_student_is_given_the_class_to_explain(self):
        classifier = tiny.classifier()
        reader = quick(tiny.classifier())
        no, yes = (reader.explain(classifier, ["the warm fox"], [target])[0] for target in ("no", "yes"))
        assert (no.target, yes.target) == ("no", "yes")
        assert not np.allclose(no.scores, yes.scores)

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    def test_cuda_agrees_with_the_cpu(self):
        gpu = tiny.make_classifier(device="cuda")
        reader = quick(gpu, window=2)
        there = [a.scores for a in reader.explain(gpu, tiny.TEXTS)]
        here = [a.scores for a in reader.explain(tiny.classifier(), tiny.TEXTS)]
        for a, b in zip(there, here, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-3)
