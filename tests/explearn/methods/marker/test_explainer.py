"""Marker: what it reads of a word, what it learns from, and whom it explains. The paper's method is in test_expnet."""

import json

import numpy as np
import pytest
import tiny
import torch
from listed import listed
from marker_cases import features, task

from explearn import DataError, ModelError, ParamsError
from explearn.lens.features import batch_features
from explearn.methods.consensus.model import MarkedText, fit_model
from explearn.methods.consensus.params import ConsensusParams
from explearn.methods.consensus.signals import signals_of
from explearn.methods.marker import targets as targets_module
from explearn.methods.marker.explainer import Marker
from explearn.methods.marker.network import WITHOUT_MARKS, Regime, TrainingWords, shift_in, train_network
from explearn.methods.marker.params import MarkerParams
from explearn.methods.marker.targets import curriculum_for
from explearn_study.feature_files import read_features, write_features


def trained(of=None, **options):
    return Marker(**{"protocol": "in_domain", "epochs": 2, **options}).learn(task(of=of))


def planted(count, seed, by):
    """Words that are evidence where a column of the word `by` places further on is large."""
    x = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed)) * 3 - 5
    texts = torch.arange(count) // 50
    return TrainingWords(x, texts, (shift_in(texts)(x, by)[:, 2] > -4).float(), torch.ones(count))


def right(network, words):
    """Share of the words for which the network finds whether they are marked."""
    with torch.inference_mode():
        marked = network(words.inputs, shift_in(words.texts)) > 0
    return float((marked == words.targets.bool()).float().mean())


def learn(words, regime=WITHOUT_MARKS, **options):
    return train_network(words, MarkerParams(**options), regime, torch.device("cpu"))


class TestNetwork:
    @pytest.mark.parametrize("by", [0, 1, -1])
    def test_it_finds_the_input_that_tells_evidence_in_the_word_or_beside_it(self, by):
        network, history = learn(planted(2000, 1, by=by), epochs=40)
        assert right(network, planted(500, 2, by=by)) > 0.93
        assert history[-1]["loss"] < history[0]["loss"] / 2

    def test_only_with_reach_it_looks_two_words_away(self):
        words = planted(1000, 1, by=2)
        for reach, least, most in ((0, 0.3, 0.8), (1, 0.85, 1.0)):
            network, _ = learn(words, Regime(0.0, 0.0, reach), epochs=40, learning_rate=0.01)
            assert least <= right(network, words) <= most

    def test_weights_decide_between_texts_that_disagree(self):
        targets = torch.cat([torch.ones(100), torch.zeros(100)])
        weights = torch.cat([torch.full((100,), 1.8), torch.full((100,), 0.2)])
        words = TrainingWords(torch.zeros(200, 2), torch.zeros(200, dtype=torch.long), targets, weights)
        network, _ = learn(words, epochs=400, learning_rate=0.02)
        with torch.inference_mode():
            assert network(words.inputs, shift_in(words.texts))[9].sigmoid().item() == pytest.approx(0.9, abs=0.03)


class TestInDomain:
    def test_it_takes_the_marks_of_the_texts_predicted_right(self):
        of = tiny.classifier()
        wrong = next(label for label in of.labels if label != of.predict(["a dog"])[0])
        labelled = [("the fox", of.predict(["the fox"])[0]), ("a dog", wrong)]
        mine = listed(of, labelled, gold={"train-1": (False, True), "train-2": (True, False)}, name="toy")
        curriculum = curriculum_for(mine, MarkerParams(protocol="in_domain"))
        assert {key: text.targets.tolist() for key, text in curriculum.texts.items()} == {"train-1": [0, 1]}
        marker = Marker(protocol="in_domain", epochs=1).learn(mine)
        assert (marker.trained_on, marker.trained_classifier) == (["toy"], of.fingerprint)
        assert marker.layers == [0, 1, 2]

    @pytest.mark.parametrize(
        ("mark", "said"),
        [(None, "no text has both a rationale"), (False, "no word is marked"), (True, "every word is")],
    )
    def test_marks_that_teach_nothing(self, mark, said):
        gold = {} if mark is None else {f"train-{number}": (mark,) * 5 for number in range(1, 9)}
        with pytest.raises(DataError, match=f"task 'mine', split 'train': {said}"):
            Marker(protocol="in_domain").learn(task(gold=gold, name="mine"))

    def test_it_reads_the_layers_that_the_task_has(self):
        marker = Marker(protocol="in_domain", epochs=1).learn(task(layers=[0, -1]))
        assert marker.layers == [0, 2]
        assert len(marker.explain(tiny.classifier(), tiny.TEXTS)) == len(tiny.TEXTS)


class TestUniversal:
    def test_no_mark_of_the_task_plays_a_part(self):
        others = [task(name="one"), task(14, name="other"), task(gold={}, name="bare")]
        without = Marker(epochs=2).learn(task(gold={}, name="mine", others=others))
        with_marks = Marker(epochs=2).learn(task(name="mine", others=others))
        assert without.trained_on == with_marks.trained_on == ["one", "other"]
        assert without.history == with_marks.history

    def test_targets_are_the_consensus_on_training_and_validation_texts(self):
        other = task(name="other")
        of = tiny.classifier()
        pair = ("the fox", of.predict(["the fox"])[0])
        mine = listed(of, [pair], [pair], others=[other])
        curriculum = curriculum_for(mine, MarkerParams())
        assert curriculum.trained_on == ["other"] and sorted(curriculum.texts) == ["train-1", "validation-1"]
        texts = [MarkedText(row, other.gold[row.example_id]) for row in signals_of(other, "train")]
        model = fit_model({"other": texts}, ConsensusParams(), {"other": 1.0})
        for row in signals_of(mine, "train"):
            expected = 1 / (1 + np.exp(-model.logits(model.features(row))))
            np.testing.assert_allclose(curriculum.texts[row.example_id].targets, expected, atol=1e-6)
        assert curriculum.calibration == pytest.approx(model.calibration, abs=1e-4)

    @pytest.mark.parametrize("protocol", ["universal", "few_shot"])
    def test_no_other_task_has_marks(self, protocol):
        message = f"{protocol} learns from marked texts of other tasks than 'mine'"
        with pytest.raises(ParamsError, match=message):
            Marker(protocol=protocol, marks=3).learn(task(name="mine", others=[task(gold={}, name="bare")]))


class TestFewShot:
    OPTIONS = MarkerParams(protocol="few_shot", marks=3)

    def mine(self):
        return task(marked=8, name="mine", others=[task(name="other")])

    @staticmethod
    def by_people(curriculum):
        return {key for key, text in curriculum.texts.items() if set(text.targets.tolist()) == {0.0, 1.0}}

    def test_marks_of_some_texts_and_the_consensus_on_the_others(self, monkeypatch):
        monkeypatch.setattr(targets_module, "CONSENSUS_TEXTS", 1.0)
        curriculum = curriculum_for(self.mine(), self.OPTIONS)
        marked = self.by_people(curriculum)
        assert len(curriculum.texts) == 12 and len(marked) == 3
        assert {int(key.split("-")[1]) for key in marked} <= set(range(1, 9))
        # Three marks against the weight of one: three quarters.
        assert sum(curriculum.texts[key].weight for key in marked) == pytest.approx(0.75)
        assert sum(text.weight for text in curriculum.texts.values()) == pytest.approx(1.0)

    def test_with_all_marks_it_is_in_domain(self):
        few = Marker(protocol="few_shot", marks=8, epochs=2).learn(self.mine())
        own = Marker(protocol="in_domain", epochs=2).learn(self.mine())
        assert few.history == own.history and few.trained_on == own.trained_on == ["mine"]


class TestExplaining:
    @pytest.mark.parametrize("kind", tiny.KINDS_OF_TOKENIZER)
    def test_scores_are_the_network_s_output_on_the_word(self, kind):
        of = tiny.classifier(kind)
        marker = trained(of)
        marker.calibration = (0.7, -0.4)
        texts = [*tiny.TEXTS, *tiny.PAIRS]
        for attribution, text in zip(marker.explain(of, texts), texts, strict=True):
            (encoding,) = of.encode([text])
            attention = batch_features(of, of.batch([encoding])).attention[0]
            owners = np.array(encoding.word_ids)
            words = sorted(set(owners[owners >= 0].tolist()))
            x = torch.stack([(attention[owners == word].amax(0) + 1e-5).log() for word in words])
            expected = (0.7 * marker.network(x, shift_in(torch.zeros(len(x)))) - 0.4).sigmoid()
            np.testing.assert_allclose(attribution.scores[words], expected, atol=1e-5)
            shown = owners[encoding.positions]
            for word in set(shown[shown >= 0].tolist()):
                np.testing.assert_array_equal(attribution.token_scores[shown == word], attribution.scores[word])

    def test_stored_features_give_the_scores_of_explain(self, tmp_path):
        of = tiny.classifier()
        marker = trained(of)
        examples = task(of=of).examples("train")
        write_features(tmp_path / "them.parquet", of, examples)
        rows = read_features(tmp_path / "them.parquet")
        for row, attribution in zip(rows, marker.explain(of, examples), strict=True):
            # The file holds attention in float16.
            np.testing.assert_allclose(
                marker.score_features(row, len(attribution.words)), attribution.scores, atol=1e-3
            )
        unread = np.isnan(marker.score_features(features("cut", [0, 2]), 4))
        assert unread.tolist() == [False, True, False, True]

    def test_the_class_plays_no_part(self):
        of = tiny.classifier("bert", 3)
        marker = trained(of)
        one, other = (marker.explain(of, tiny.TEXTS, [target] * len(tiny.TEXTS)) for target in ("bad", "good"))
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
            assert (a.target, b.target) == ("bad", "good")


class TestFiles:
    def test_a_configuration_that_does_not_fit(self, tmp_path):
        trained().save_pretrained(tmp_path / "it")
        path = tmp_path / "it" / "config.json"
        written = json.loads(path.read_text())
        for change in (
            {"explainer": "ExpNet"},
            {"options": {"hidden": 7}},
            {"options": {"hidden": 65536}},
            {"layers": [[0]]},
            {"calibration": [1.0]},
            {"trained_classifier": None},
        ):
            path.write_text(json.dumps({**written, **change}))
            with pytest.raises(ModelError, match="not a trained marker"):
                Marker.from_pretrained(tmp_path / "it")
