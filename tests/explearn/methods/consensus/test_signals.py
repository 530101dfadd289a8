"""The signals: each is its method's own word score, from shared passes; and a word's features."""

import numpy as np
import pytest
import tiny
import torch

import explearn
from explearn import Example, UnsupportedError
from explearn.lens.hooks import count_passes
from explearn.lens.word_signals import SIGNALS, WordSignals
from explearn.methods.consensus.signals import batch_signals, compute_signals, text_signals
from explearn.methods.consensus.word_features import feature_names, word_matrix

EXAMPLES = tiny.examples()


def with_biases(kind, **compute):
    """Of three classes. Fresh models have no biases to speak of, so that what they add to a score would go unseen."""
    classifier = tiny.make_classifier(kind, 3, **compute)
    generator = torch.Generator().manual_seed(0)
    for parameter in classifier.model.parameters():
        if parameter.ndim == 1:
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return classifier


def signals_of(of, examples, targets=None, names=SIGNALS):
    """The signals of some texts in one batch, for these classes."""
    batch = tiny.batch(of, examples)
    wanted = None if targets is None else torch.tensor(targets)
    return [*text_signals(of, batch.encodings, *batch_signals(of, batch, wanted, names))]


@pytest.mark.parametrize("kind", [*tiny.ARCHITECTURES, "deberta-v2", "modernbert", "llama"])
def test_each_signal_is_its_method_s_own_word_score(kind):
    classifier = with_biases(kind)
    classifier.model.double()
    targets = [n % 3 for n in range(len(EXAMPLES))]
    actual = signals_of(classifier, EXAMPLES, targets)
    for column, name in enumerate(SIGNALS):
        expected = explearn.get_explainer(name).explain(classifier, EXAMPLES, targets)
        for signals, one in zip(actual, expected, strict=True):
            # Scores are kept in float32.
            np.testing.assert_allclose(signals.scores[:, column], one.scores, rtol=1e-5, atol=1e-9, err_msg=name)
            assert signals.probability == pytest.approx(one.probability, abs=1e-5)
            assert (signals.target, signals.predicted) == (one.target, one.predicted)
            assert (signals.example_id, signals.words) == (one.example_id, one.words)


@pytest.mark.parametrize("saved", [False, True])
def test_half_precision_gives_nearly_the_same(saved):
    """Products of bf16 and sums of fp32, or a model whose weights are bf16: 8 bits of a score."""
    half = with_biases("bert", precision="fp32" if saved else "bf16")
    if saved:
        half.model.to(torch.bfloat16)
    whole = signals_of(with_biases("bert"), EXAMPLES, [0] * 8)
    rough = signals_of(half, EXAMPLES, [0] * 8)
    for one, other in zip(whole, rough, strict=True):
        largest = np.abs(one.scores).max(0)
        assert (np.abs(one.scores - other.scores).max(0) < 0.1 * largest).all()


def test_a_signal_asked_for_alone_is_the_same():
    classifier = tiny.classifier("electra", 3)
    among = compute_signals(classifier, EXAMPLES)
    for column, name in enumerate(SIGNALS):
        alone = signals_of(classifier, EXAMPLES, names=[name])
        for one, all_of_them in zip(alone, among, strict=True):
            np.testing.assert_allclose(one.scores[:, column], all_of_them.scores[:, column], atol=1e-5, err_msg=name)
            assert np.isnan(np.delete(one.scores, column, axis=1)).all()


@pytest.mark.parametrize(
    ("names", "backward"), [(SIGNALS, 2), (("rollout",), 0), (("gae", "gradient"), 1), (("attn_lrp",), 1)]
)
def test_one_forward_pass_serves_all(names, backward):
    classifier = tiny.classifier()
    signals_of(classifier, EXAMPLES[:1])  # its head is measured once
    with count_passes(classifier.model) as passes:
        signals_of(classifier, EXAMPLES[:2], names=names)
    assert (passes.forward, passes.backward) == (2, 2 * backward)


def test_a_word_that_was_not_read_has_no_signal():
    text = Example("cut", ("lazy", "\u200b", "dog", *["castle"] * 60), "yes", "test", "t")
    (actual,) = compute_signals(tiny.classifier(), [text])
    assert actual.read.tolist() == [True, False, True, *[True] * 42, *[False] * 18]
    assert np.isfinite(actual.scores[actual.read]).all()


def test_an_architecture_that_nobody_listed_has_its_gradient():
    unlisted = tiny.make_classifier()
    unlisted.model.config.model_type = "unheard-of"
    column = SIGNALS.index("gradient")
    actual = zip(compute_signals(unlisted, EXAMPLES), compute_signals(tiny.classifier(), EXAMPLES), strict=True)
    for one, other in actual:
        np.testing.assert_allclose(one.scores[:, column], other.scores[:, column], atol=1e-5)
        assert np.isnan(np.delete(one.scores, column, axis=1)).all()
    with pytest.raises(UnsupportedError, match="has none of the signals gae, attn_lrp; it has gradient"):
        signals_of(unlisted, EXAMPLES, names=["gae", "attn_lrp"])


def text(**columns):
    """A text of four words; signals that are not given are missing."""
    scores = np.full((4, len(SIGNALS)), np.nan, dtype=np.float32)
    for name, values in columns.items():
        scores[:, SIGNALS.index(name)] = values
    return WordSignals("a", ("The", "castle", "...", "(gleamed)."), "yes", 0.75, scores, "yes")


class TestFeatures:
    def column(self, given, name):
        actual = word_matrix(given)[:, feature_names().index(name)].tolist()
        return actual

    def test_ranks_share_their_place_among_equals_and_so_do_numbers_equal_up_to_rounding(self):
        """Places 0, 1 and 2 shared by two: (0 + .5) / 4, twice (1.5 + .5) / 4, (3 + .5) / 4."""
        assert self.column(text(gae=[5, 2, 2, 1]), "gae_rank") == [0.875, 0.5, 0.5, 0.125]
        rounded = text(gae=[0.3, 0.30000001, 0.3, 0.29999999])
        assert self.column(rounded, "gae_rank") == [0.5] * 4 and self.column(rounded, "gae_z") == [0] * 4

    def test_a_missing_signal_is_neutral_and_not_in_the_mean(self):
        given = text(gae=[1, 2, 3, 4], rollout=[1, 2, 4, 3])
        assert self.column(given, "gradient_z") == [0] * 4
        assert self.column(given, "gradient_rank") == [0.5] * 4
        assert self.column(given, "mean_rank") == [0.125, 0.375, 0.75, 0.75]

    def test_a_word_that_was_not_read_is_left_out_and_nothing_read_is_neutral(self):
        given = text(gae=[1, 2, np.nan, 3])
        assert self.column(given, "gae_rank") == pytest.approx([1 / 6, 0.5, 0.5, 5 / 6])
        assert self.column(given, "gae_z")[2] == 0
        # Of each signal z, rank and share, then the mean rank, then rank and z of four neighbours.
        assert word_matrix(text(), word_features=False).tolist() == [[0, 0.5, 0] * len(SIGNALS) + [0.5] + [0] * 8] * 4

    def test_the_words_themselves(self):
        given = text(gae=[1, 2, 3, 4])
        expected = {
            "length": [3, 6, 3, 7],
            "stop_word": [1, 0, 0, 0],
            "punctuation": [0, 0, 1, 0],
            "position": [0, 0.25, 0.5, 0.75],
            "log_words_to_15": [np.log(4)] * 4,
            "capital": [1, 0, 0, 0],
            "probability": [0.75] * 4,
        }
        for name, values in expected.items():
            assert self.column(given, name) == pytest.approx(values), name
        many = WordSignals("a", ("word",) * 40, "yes", 0.5, np.zeros((40, len(SIGNALS)), np.float32), "yes")
        assert self.column(many, "log_words_to_15")[0] == pytest.approx(np.log(15))
