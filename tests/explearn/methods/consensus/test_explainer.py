"""The consensus of signals: learning from other tasks' marks, the shipped weights, files, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from explearn import DataError, Example
from explearn.lens.word_signals import SIGNALS, WordSignals
from explearn.methods.consensus.explainer import Consensus
from explearn.methods.consensus.model import INVERSE_PENALTY, MarkedText, fit_model, platt, task_rows
from explearn.methods.consensus.params import ConsensusParams
from explearn.methods.consensus.word_features import feature_names
from explearn.metrics.significance import mean_interval
from explearn.testing import check_explainer


def marked_text(number, generator, told_by="gae", words=12):
    """A text of which the two words with the highest scores of one signal are marked."""
    scores = generator.normal(size=(words, len(SIGNALS))).astype(np.float32)
    mask = np.zeros(words, dtype=bool)
    mask[np.argsort(-scores[:, SIGNALS.index(told_by)])[:2]] = True
    return MarkedText(WordSignals(str(number), ("word",) * words, "yes", 0.9, scores, "yes"), mask.tolist())


def task_texts(seed, count=60, **options):
    generator = np.random.default_rng(seed)
    return [marked_text(number, generator, **options) for number in range(count)]


def found_share(scores, texts):
    """Share of the marked words that are among the two with the highest scores of their text."""
    hits = [np.isin(np.flatnonzero(text.mask), np.argsort(-s)[:2]) for s, text in zip(scores, texts, strict=True)]
    return float(np.concatenate(hits).mean())


class SignalTask:
    """A task of which only what the consensus asks for is there."""

    rationale_split = "train"
    skill: float | None = None

    def __init__(self, name, texts, others=(), label="yes"):
        self.name = name
        self.texts = texts
        self.others = others
        self.label = label
        self.gold = {text.signals.example_id: text.mask for text in texts}

    def examples(self, split=None):
        return [Example(t.signals.example_id, t.signals.words, self.label, "train", self.name) for t in self.texts]

    def signals(self, split):
        return [text.signals for text in self.texts]


def fitted(**options):
    others = (SignalTask("first", task_texts(1)), SignalTask("second", task_texts(2)))
    task = SignalTask("target", [], others)
    return Consensus(**options).learn(task)


class TestLearning:
    def test_it_chooses_the_marked_words_of_a_task_that_it_has_not_seen(self):
        consensus = fitted()
        assert found_share([consensus.word_probabilities(t.signals) for t in task_texts(3)], task_texts(3)) > 0.9

    def test_it_does_without_a_signal_by_those_that_agree_with_it(self):
        """Two signals say the same; with one missing, the other is enough."""
        gae = SIGNALS.index("gae")
        lrp = SIGNALS.index("attn_lrp")
        texts = task_texts(1)
        for text in texts:
            text.signals.scores[:, lrp] = text.signals.scores[:, gae]
        model = fit_model({"one": texts}, ConsensusParams(), {"one": 1.0})
        actual = []
        for text in texts:
            scores = text.signals.scores.copy()
            scores[:, gae] = np.nan
            actual.append(model.logits(model.features(replace(text.signals, scores=scores))))
        assert found_share(actual, texts) > 0.9

    def test_tasks_weigh_the_same_whatever_their_size(self):
        texts = task_texts(1)
        options = ConsensusParams(copies=0)
        once = fit_model({"one": texts, "two": task_texts(2)}, options, {"one": 1.0, "two": 1.0})
        twice = fit_model({"one": texts + texts, "two": task_texts(2)}, options, {"one": 1.0, "two": 1.0})
        np.testing.assert_allclose(twice.coefficients, once.coefficients, atol=0.05)

    def test_texts_with_a_wrong_prediction_teach_nothing(self):
        other = SignalTask("other", task_texts(1), label="no")
        task = SignalTask("target", [], (other,))
        with pytest.raises(DataError, match=r"none of the tasks other has a text with both marks and a right pred"):
            Consensus().learn(task)

    def test_intervals_are_those_of_leaving_each_text_out(self):
        """Its influence is to first order what the weights move without a text."""
        consensus = fitted()
        texts = task_texts(1, 75) + task_texts(2, 75, told_by="gradient")
        bounds = consensus.notes()["intervals"]
        assert tuple(bounds) == feature_names(ConsensusParams().signals)
        assert any(low > 0 for name, (low, _) in bounds.items() if name.startswith("gae"))
        options = ConsensusParams(copies=0, signals=["gae"], word_features=False)
        rows = task_rows("one", texts, options, 1.0, np.random.default_rng(0))
        model = fit_model({"one": texts}, options, {"one": 1.0})
        without = []
        for left_out in range(len(texts)):
            share = rows.weight * (rows.text != left_out)
            x = (rows.x - model.mean) / model.scale
            regression = LogisticRegression(C=INVERSE_PENALTY, solver="newton-cholesky").fit(x, rows.y, share)
            without.append(regression.coef_[0])
        values = model.coefficients + (len(texts) - 1) * (np.mean(without, axis=0) - without)
        expected = [mean_interval(column, 0.95) for column in values.T]
        np.testing.assert_allclose(model.intervals.T, expected, atol=0.1 * np.ptp(expected, axis=1).max())

    def test_the_seed_alone_decides(self):
        one = fitted()
        two = fitted()
        assert one.model.intervals is not None and two.model.intervals is not None
        assert one.model.intervals.tolist() == two.model.intervals.tolist()
        assert fitted(seed=1).model.coefficients.tolist() != one.model.coefficients.tolist()


class TestCalibration:
    @pytest.mark.parametrize(("scale", "shift", "expected"), [(1, 0, (1, 0)), (2, 5, (0.5, -2.5))])
    def test_probabilities_are_brought_back_to_the_marks(self, scale, shift, expected):
        """Logits 0 and ln 3, with marks at one half and at three quarters of them: slope 1, offset 0."""
        logits = scale * np.repeat([0.0, np.log(3)], 4) + shift
        marks = np.array([0, 0, 1, 1, 0, 1, 1, 1], dtype=bool)
        assert platt(logits, marks, np.ones(8)) == pytest.approx(expected, abs=1e-4)

    def test_the_order_of_words_stays_even_where_they_do_not_carry_over(self):
        logits = np.repeat([0.0, 1.0], 4)
        marks = np.array([1, 1, 1, 0, 0, 0, 0, 1], dtype=bool)
        slope, offset = platt(logits, marks, np.ones(8))
        assert slope == 0.01
        assert np.mean(1 / (1 + np.exp(-(slope * logits + offset)))) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(("mark", "said"), [(True, "every word is marked"), (False, "no word is marked")])
def test_marks_of_one_class_only(mark, said):
    texts = [MarkedText(text.signals, [mark] * 12) for text in task_texts(1, 5)]
    task = SignalTask("target", [], (SignalTask("other", texts),))
    with pytest.raises(DataError, match=f"task 'other': {said} in its 5 texts"):
        Consensus().learn(task)


class TestExplaining:
    @pytest.mark.parametrize("word_features", [True, False])
    def test_what_is_asked_of_every_method(self, word_features):
        kinds = ["bert", "albert"] if word_features else ["distilbert"]
        check_explainer(Consensus(word_features=word_features), architectures=kinds)

    def test_the_shipped_weights_learned_from_the_corpus_alone(self):
        consensus = Consensus()
        assert consensus.trained_on == ["reviews", "grammar", "civility", "topics"]
        assert consensus.model.names == feature_names(ConsensusParams().signals)
