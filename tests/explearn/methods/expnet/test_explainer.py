"""ExpNet."""

import math

import numpy as np
import pytest
import tiny
import torch
from marker_cases import WIDTH, features, task
from sklearn.metrics import roc_auc_score

from explearn import ComputeOptions, DataError, ParamsError, TransformerPredictor, UnsupportedError
from explearn.lens.features import TokenFeatures, batch_features
from explearn.methods.expnet.explainer import ExpNet, TokenExamples, focal_loss

FEATURES = ("full", "task_to_token", "token_to_task", "hidden", "hidden_and_attention")


@pytest.mark.parametrize(
    ("logit", "label", "expected"),
    [
        # p = 1/2: alpha_t (1/2)^2 ln 2
        (0.0, 1.0, 0.6 * 0.25 * math.log(2)),
        (0.0, 0.0, 0.4 * 0.25 * math.log(2)),
        # p = 3/4
        (math.log(3), 1.0, 0.6 * 0.25**2 * math.log(4 / 3)),
        # sure and right: nothing; sure and wrong: -alpha_t log p, which is the logit's size
        (200.0, 1.0, 0.0),
        (-200.0, 1.0, 0.6 * 200),
    ],
)
def test_the_focal_loss_by_hand(logit, label, expected):
    logits = torch.tensor([logit], requires_grad=True)
    loss = focal_loss(logits, torch.tensor([label]))
    assert loss.tolist() == pytest.approx([expected], rel=1e-5, abs=1e-9)
    loss.sum().backward()
    assert logits.grad is not None and torch.isfinite(logits.grad).all()


def planted(texts, seed):
    """Twelve tokens a text; column 3 is large where there is evidence, the others are noise."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(texts * 12, generator=generator) < 0.3).float()
    x = torch.rand(len(labels), 8, generator=generator)
    x[:, 3] = 0.5 * labels + 0.4 * torch.rand(len(labels), generator=generator)
    return TokenExamples(x, labels, np.full(texts, 12))


def learned(data, **options):
    marker = ExpNet(**options)
    marker._train(data, torch.device("cpu"), None)
    return marker


def scores(marker, x):
    return marker.score(TokenFeatures(x[None], None, torch.zeros(1, 2)))[0]


class TestLearning:
    def test_it_finds_the_column_that_marks_evidence(self):
        marker = learned([planted(150, seed=1)], learning_rate=1e-2)
        unseen = planted(50, seed=2)
        probabilities = scores(marker, unseen.features)
        assert roc_auc_score(unseen.labels, probabilities) > 0.99
        assert ((probabilities >= marker.threshold) == unseen.labels.bool()).float().mean() > 0.98
        assert len(marker.history) == 50 and marker.history[-1]["loss"] < marker.history[0]["loss"] / 4


class TestTrainingTokens:
    def test_every_piece_of_a_marked_word_is_evidence(self):
        rows = [
            features("a", [0, 0, 1, -1, 2, 2, 2]),
            features("cut", [0, 1]),
            features("wrong", [0, 1], predicted="no"),
            features("unmarked", [0, 1]),
            features("vanished", []),
        ]
        masks = {"a": (1, 0, 1), "cut": (0, 1, 1, 1), "wrong": (1, 1), "vanished": (1,)}
        labels = dict.fromkeys((row.example_id for row in rows), "yes")
        tokens = ExpNet().token_examples(rows, masks, labels, tiny.HEADS)
        assert tokens.labels.tolist() == [1, 1, 0, 0, 1, 1, 1, 0, 1]
        assert tokens.lengths.tolist() == [7, 2]
        with pytest.raises(DataError, match="no text has both a rationale and a right prediction"):
            ExpNet().token_examples(rows[2:], masks, labels, tiny.HEADS)

    @pytest.mark.parametrize("chosen", FEATURES)
    def test_each_variant_takes_its_columns_of_the_last_layer(self, chosen):
        row = features("a", [0, 1, 2], hidden=True)
        tokens = ExpNet(features=chosen).token_examples([row], {"a": (1, 0, 0)}, {"a": "yes"}, tiny.HEADS)
        last = row.attention[:, WIDTH - 8 :]
        assert row.hidden is not None
        expected = {
            "full": last,
            "task_to_token": last[:, :4],
            "token_to_task": last[:, 4:],
            "hidden": row.hidden,
            "hidden_and_attention": np.concatenate([row.hidden, last], axis=1),
        }[chosen]
        np.testing.assert_array_equal(tokens.features, expected)


def sized(**config):
    return TransformerPredictor(tiny.model("bert", **config), tiny.tokenizer("bert"), ComputeOptions())


class TestProtocols:
    def test_the_held_out_task_changes_nothing(self):
        others = [task(name="a"), task(14, name="b")]
        one = ExpNet(epochs=1).learn(task(name="mine", others=others))
        bare = ExpNet(epochs=1).learn(task(gold={}, name="mine", others=others))
        assert one.trained_on == bare.trained_on == ["a", "b"]
        assert one.history == bare.history
        assert one.encoder == {"layer": 2, "layers": tiny.LAYERS, "heads": tiny.HEADS}

    def test_a_single_task_cannot_be_left_out(self):
        with pytest.raises(ParamsError, match="needs another task than 'a' with marks; add one"):
            ExpNet().learn(task(name="a"))

    def test_tasks_of_two_architectures_do_not_mix(self):
        fewer = sized(num_attention_heads=2)
        with pytest.raises(ParamsError, match=r"classifiers of 'a' .*'heads': 4.* and 'b' .*'heads': 2.* differ"):
            ExpNet().learn(task(others=[task(name="a"), task(of=fewer, name="b")]))


class TestExplaining:
    @pytest.mark.parametrize("chosen", FEATURES)
    @pytest.mark.parametrize("kind", ["bert", "roberta"])
    def test_scores_are_the_network_s_output_on_the_features(self, kind, chosen, tmp_path):
        of = tiny.classifier(kind)
        marker = ExpNet(features=chosen)
        (row,) = task(1, of=of).features("train", hidden=True)[1]
        data = marker.token_examples([row], {"train-1": (1, 0, 0, 0, 0)}, {"train-1": row.predicted}, tiny.HEADS)
        marker._train([data], of.device, None)
        marker.encoder = {"layer": 2, "layers": tiny.LAYERS, "heads": tiny.HEADS, "hidden_size": tiny.HIDDEN}
        marker.save_pretrained(tmp_path / "it")
        marker = ExpNet.from_pretrained(tmp_path / "it")
        texts = [*tiny.TEXTS, *tiny.PAIRS]
        for attribution, text in zip(marker.explain(of, texts), texts, strict=True):
            (encoding,) = of.encode([text])
            alone = batch_features(of, of.batch([encoding]), [2], hidden=True)
            x = marker._select(alone.attention[0], alone.hidden[0])[encoding.positions]
            np.testing.assert_allclose(attribution.token_scores, marker.network(x).squeeze(-1).sigmoid(), atol=1e-5)
            owners = np.array([encoding.word_ids[i] for i in encoding.positions])
            for word, score in enumerate(attribution.scores):
                assert score == attribution.token_scores[owners == word].max()

    def test_it_explains_classifiers_it_has_never_seen_of_the_same_shape(self):
        marker = ExpNet(protocol="in_domain", epochs=2).learn(task())
        for attribution in marker.explain(tiny.make_classifier("bert", 3, seed=7), tiny.TEXTS):
            assert ((attribution.scores > 0) & (attribution.scores < 1)).all()
        assert len(marker.explain(sized(hidden_size=16), tiny.TEXTS)) == len(tiny.TEXTS)
        with pytest.raises(UnsupportedError, match="with 3 layers, the classifier has 2"):
            marker.explain(sized(num_hidden_layers=2), tiny.TEXTS)
