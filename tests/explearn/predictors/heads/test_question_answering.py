"""A model that answers questions in the place of a classifier: its classes, its answer, methods and training."""

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch

from explearn import ComputeOptions, DataError, UnsupportedError
from explearn.core.examples import Example
from explearn.methods.ivra.explainer import IvRA
from explearn.predictors.finetune import evaluate_classifier, finetune
from explearn.predictors.heads.answers import ANSWER_LABELS, ANSWER_WORDS
from explearn.predictors.heads.question_answering import QuestionPredictor
from explearn.predictors.params import FinetuneParams
from explearn.predictors.predictor import read_labelled
from explearn.predictors.pretrained import as_predictor, load_classifier
from explearn.text.alignment import NO_WORD

QUESTIONS = (
    ("who sleeps ?", "the lazy dog jumps and the quick fox sleeps all afternoon"),
    ("our guide was ?", "a warm friendly guide and a beautiful castle"),
    ("slow ?", "unbelievably slow delivery"),
    ("what ?", "shells"),
)


def example(number, question, passage, answer, split="train"):
    words = question.split()
    pair = passage.split()
    sought = answer.split()
    start = next(i for i in range(len(pair)) if pair[i : i + len(sought)] == sought) + len(words)
    label = ANSWER_LABELS[0]
    return Example(f"q{number}", tuple(words), label, split, "facts", tuple(pair), (start, start + len(sought)))


def examples(split="train"):
    answers = ("the quick fox", "castle", "delivery", "shells")
    return [example(i, *texts, answer, split) for i, (texts, answer) in enumerate(zip(QUESTIONS, answers, strict=True))]


def tuned(folder, rows, **params):
    """Fine-tune a tiny encoder, in this folder, to answer questions; its epochs."""
    encoder = str(tiny.save(folder / "encoder"))
    compute = ComputeOptions(device="cpu")
    return finetune(folder / "made", rows, ANSWER_LABELS, encoder, FinetuneParams(**params), compute, 13)


def by_hand(answerer, question, passage):
    """log p of every span, by first and last word of the passage: softmax over words' first, and last, pieces."""
    encoded = answerer.tokenizer(
        question, passage, return_tensors="pt", return_offsets_mapping=True, truncation=True, max_length=46
    )
    offsets = encoded.pop("offset_mapping")[0].tolist()
    places = {}
    starts = np.cumsum([0] + [len(word) + 1 for word in passage.split()])
    for place, (segment, (a, b)) in enumerate(zip(encoded.sequence_ids(0), offsets, strict=True)):
        if segment == 1 and b > a:
            covered = int(np.searchsorted(starts, b - 1, side="right")) - 1
            places.setdefault(covered, []).append(place)
    model = answerer.model
    with torch.inference_mode():
        output = model.model(**encoded)
    start = output.start_logits[0, [p[0] for p in places.values()]].log_softmax(-1)
    end = output.end_logits[0, [p[-1] for p in places.values()]].log_softmax(-1)
    count = len(places)
    return {(i, j): float(start[i] + end[j]) for i in range(count) for j in range(i, min(count, i + ANSWER_WORDS))}


class TestSpans:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_the_two_logits_are_of_the_marked_span_and_of_the_best_other(self, kind):
        answerer = tiny.make_answerer(kind)
        for texts in QUESTIONS:
            spans = by_hand(answerer, *texts)
            (encoding,) = answerer.read([texts])
            shift = encoding.pair_start or 0
            own = encoding.focus[0] - shift, encoding.focus[1] - 1 - shift
            assert own == max(spans, key=lambda span: spans[span])
            best = max((value for span, value in spans.items() if span != own), default=-30.0)
            logits = answerer.logits(answerer.batch([encoding]))[0].tolist()
            assert logits == pytest.approx([spans[own], best], abs=1e-4)

    def test_the_true_answer_is_right_where_it_is_the_model_s(self):
        answerer = tiny.make_answerer()
        rows = examples()
        encodings, labels = read_labelled(answerer, rows)
        right = answerer.predict_proba(encodings).argmax(1) == np.array(labels)
        own = [encoding.focus == row.focus for encoding, row in zip(answerer.read(rows), rows, strict=True)]
        assert right.tolist() == own
        actual = evaluate_classifier(answerer, rows)
        assert actual["accuracy"] == np.mean(own) and actual["majority_rate"] is None

    def test_saved_and_loaded_it_is_the_same(self, tmp_path):
        answerer = tiny.make_answerer()
        answerer.save_pretrained(tmp_path / "m")
        loaded = load_classifier(tmp_path / "m", device="cpu")
        assert isinstance(loaded, QuestionPredictor) and loaded.labels == list(ANSWER_LABELS)
        assert loaded.fingerprint == answerer.fingerprint
        answers = [answerer.answer(texts) for texts in QUESTIONS]
        assert [loaded.answer(texts) for texts in QUESTIONS] == answers
        assert all(answer in passage for answer, (_, passage) in zip(answers, QUESTIONS, strict=True))


TAKE_APART = frozenset(
    {"alti", "attcat", "attn_lrp", "cam", "cat", "decompx", "full_lrp", "gae", "gim", "globenc", "grad_cam"}
    | {"libragrad", "lrp", "mgae", "transformer_attribution"}
)
"""Methods that need a classification head."""


@pytest.mark.parametrize("name", sorted(tiny.UNTRAINED))
def test_methods_explain_the_answer_or_say_why_not(name):
    answerer = tiny.make_answerer()
    explainer = tiny.quick(name)
    if name in TAKE_APART:
        with pytest.raises(UnsupportedError, match="no classification head"):
            explainer.explain(answerer, QUESTIONS[:2])
        return
    explained = explainer.explain(answerer, QUESTIONS)
    for texts, encoding, actual in zip(QUESTIONS, answerer.read(QUESTIONS), explained, strict=True):
        assert actual.target == actual.predicted == "answer" and actual.unaligned == 0
        assert actual.words == tuple(" ".join(texts).split())
        # The words of the answer stay where they are and have no score.
        inside = list(range(*encoding.focus))
        assert inside and np.flatnonzero(np.isnan(actual.scores)).tolist() == inside


def ivra(answerer, *criteria):
    schedule = {"epochs": 2, "batch_size": 3, "validation_texts": 4, "accuracy_tolerance": 1.0, "learning_rate": 1e-4}
    explainer = IvRA(criteria=list(criteria), schedule=schedule)
    return explainer.fit(answerer, examples(), validation=examples("validation"))


class TestIvRA:
    def test_it_is_trained_for_answers_and_explains_them(self, tmp_path):
        answerer = tiny.make_answerer()
        before = answerer.fingerprint
        criteria = {"comp", "suff", "cons"}
        trained = ivra(answerer, *criteria)
        assert answerer.fingerprint == before and isinstance(trained.classifier, QuestionPredictor)
        assert set(trained.history[1]["losses"]) == {"task", *criteria}
        assert set(trained.history[0]["criteria"]) == criteria
        trained.save_pretrained(tmp_path / "ivra")
        again = IvRA.from_pretrained(tmp_path / "ivra")
        own = load_classifier(tmp_path / "ivra/classifier", device="cpu")
        for encoding, actual in zip(own.read(QUESTIONS), again.explain(own, QUESTIONS), strict=True):
            free = any(word != NO_WORD for word in encoding.word_ids)
            others = np.delete(actual.scores, range(*encoding.focus))
            assert others.sum() == pytest.approx(1.0 if free else 0.0, abs=1e-5) and actual.target == "answer"

    def test_the_task_s_loss_is_that_of_both_ends_of_the_true_answer(self):
        answerer = tiny.make_answerer()
        (row,) = examples()[1:2]
        encodings, labels = read_labelled(answerer, [row])
        spans = by_hand(answerer, *QUESTIONS[1])
        loss = answerer.loss(answerer.logits(answerer.batch(encodings)), torch.tensor(labels))
        assert float(loss) == pytest.approx(-spans[7, 7], abs=1e-4)

    def test_simulatability_is_refused_before_training(self):
        with pytest.raises(UnsupportedError, match="student"):
            ivra(tiny.make_answerer(), "sim")


def test_a_loaded_model_with_its_tokenizer_answers_questions():
    answerer = tiny.make_answerer()
    taken = as_predictor((answerer.model.model, answerer.tokenizer))
    assert isinstance(taken, QuestionPredictor)
    assert taken.answer(QUESTIONS[0]) == answerer.answer(QUESTIONS[0])


def test_finetuning_learns_where_answers_are(tmp_path):
    names = ("fox", "dog", "guide", "sequel")
    places = ("castle", "shore", "box", "tide")
    rows = [
        example(
            16 * i + 4 * j + k, f"where is the {names[i]} ?",
            f"{names[(i + 1) % 4]} {places[k]} {names[i]} {places[j]}", places[j],
            "validation" if (i + j + k) % 5 == 0 else "train",
        )
        for i in range(4) for j in range(4) for k in range(4) if j != k
    ]  # fmt: skip
    settings = {"epochs": 60, "patience": 60, "learning_rate": 5e-3, "batch_size": 8, "max_length": 32, "warmup": 0.1}
    history = tuned(tmp_path, rows, **settings)
    assert history[0].accuracy < 0.6
    made = load_classifier(tmp_path / "made", device="cpu")
    assert evaluate_classifier(made, [row for row in rows if row.split == "train"])["accuracy"] > 0.8
    assert isinstance(made, QuestionPredictor) and made.answer(rows[0]) in places


def test_answers_out_of_reach_are_not_trained_on_and_count_as_wrong(tmp_path):
    reached = example(0, "what ?", "shells", "shells")
    cut = example(1, "what ?", "the quick brown fox jumps over the lazy dog and shells", "shells")
    checked = replace(cut, id="v", split="validation")
    (epoch,) = tuned(tmp_path, [reached, cut, checked], epochs=1, max_length=10)
    assert epoch.accuracy == 0.0 and epoch.train_loss < 20 < epoch.validation_loss
    with pytest.raises(DataError, match="no answer is within 10 sub-tokens"):
        tuned(tmp_path, [cut, checked], epochs=1, max_length=10)


def test_words_are_not_removed_at_random(tmp_path):
    with pytest.raises(UnsupportedError, match=r"a question may lose its answer .*; leave out random_removal"):
        tuned(tmp_path, [*examples("train"), *examples("validation")], random_removal="delete")


class TestBadInput:
    def test_a_text_alone(self):
        with pytest.raises(DataError, match="text 2 has one segment; expected a question and a passage"):
            tiny.make_answerer().read([QUESTIONS[0], "the quick brown fox"])

    def test_an_example_without_an_answer(self):
        row = Example("a", ("who",), "answer", "train", "facts", ("a", "fox"))
        with pytest.raises(DataError, match="example 'a' has no answer"):
            read_labelled(tiny.make_answerer(), [row])
