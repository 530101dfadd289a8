"""pAML: G and its backbones, training, explaining, files."""

import numpy as np
import pytest
import tiny
import torch
from aml_cases import (
    DECISIVE,
    LEARNING,
    QUICK,
    TEXTS,
    examples,
    loss,
    one_word_classifier,
    refiner,
    task_of,
    trained,
    untrained,
)

import explearn
from explearn import DataError, ModelError, ParamsError, UnsupportedError
from explearn.methods.aml.attribution_model import EncoderModel, StatesModel
from explearn.methods.aml.faml import FAML
from explearn.methods.aml.loss import DivergedError
from explearn.methods.aml.paml import PAML


class TestLearning:
    def test_it_finds_the_word_that_decides(self):
        classifier = one_word_classifier()
        paml = trained()
        attributions = paml.explain(classifier, examples(40, seed=9, split="test"))
        right = [a.words[int(a.scores.argmax())] in DECISIVE for a in attributions]
        assert np.mean(right) > 0.8  # by chance one of five to nine
        assert all(((a.scores > 0) & (a.scores < 1)).all() for a in attributions)

    def test_training_that_diverges_is_said_to(self):
        paml = PAML(**{**QUICK, "head_learning_rate": 1e30})
        with pytest.raises(DivergedError, match=r"pAML: training diverged in epoch 1: .* not finite; a smaller"):
            paml.learn(task_of(one_word_classifier(), 32))
        with pytest.raises(ModelError, match="not trained"):
            paml.explain(one_word_classifier(), tiny.TEXTS)

    def test_what_cannot_be_trained_with_is_refused(self):
        classifier = tiny.classifier()
        with pytest.raises(DataError, match="no text to watch the metric on"):
            PAML().learn(task_of(classifier, 2, 0))
        with pytest.raises(UnsupportedError, match="answers questions; expected a classifier of texts"):
            PAML().fit(tiny.make_answerer(), tiny.PAIRS, validation=tiny.PAIRS)
        with pytest.raises(ParamsError, match="which one the classifier was fine-tuned from is not known"):
            PAML().learn(task_of(classifier))


class TestModel:
    def test_a_score_is_the_mean_of_the_classes_weighed_by_the_prediction(self):
        classifier = one_word_classifier()
        model = untrained(classifier).model
        assert isinstance(model, StatesModel)
        inputs = model.prepare(classifier, tiny.batch(classifier, tiny.TEXTS[:3]))
        torch.testing.assert_close(inputs.logits, classifier.logits(inputs.batch))
        no, yes, mixed = (
            model(classifier, inputs, torch.tensor([row] * 3)) for row in ([1.0, 0.0], [0.0, 1.0], [0.25, 0.75])
        )
        torch.testing.assert_close(mixed, 0.25 * no + 0.75 * yes)
        assert not torch.allclose(no, yes)

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_an_encoder_s_prediction_stands_behind_the_last_separator(self, kind, tmp_path):
        """And where it is masked out, the encoder's states are those of a plain one."""
        classifier = tiny.classifier(kind, 3)
        model = untrained(classifier, backbone=tiny.save_encoder(tmp_path / "encoder", kind)).model
        assert isinstance(model, EncoderModel)
        batch = tiny.batch(classifier, TEXTS)
        y = torch.rand(len(TEXTS), 3).softmax(-1)
        inputs = model.backbone_inputs(batch, y)
        for row, encoding in enumerate(batch.encodings):
            n = len(encoding)
            assert inputs["attention_mask"][row].tolist() == [1] * (n + 1) + [0] * (batch.input_ids.shape[1] - n)
            z = model.prediction[0] + (y[row][:, None] * model.prediction[1:]).sum(0)
            torch.testing.assert_close(inputs["inputs_embeds"][row, n], z)
            if "token_type_ids" in inputs:
                assert inputs["token_type_ids"][row, n] == encoding.token_type_ids[-1]
        mask = torch.cat([batch.attention_mask, torch.zeros(len(TEXTS), 1, dtype=torch.int64)], dim=1)
        with torch.no_grad():
            states = model.backbone(**{**inputs, "attention_mask": mask}).last_hidden_state
            expected = model.backbone(**batch.model_inputs()).last_hidden_state
        real = batch.attention_mask.bool()
        torch.testing.assert_close(states[:, :-1][real], expected[real], atol=1e-4, rtol=1e-4)

    @pytest.mark.parametrize("kind", ["bert", "albert"])
    def test_a_text_that_fills_all_positions(self, kind):
        classifier = tiny.classifier(kind)
        text = " ".join(["fox"] * 100)
        (encoding,) = classifier.encode([text])
        read = len({encoding.word_ids[i] for i in encoding.positions})
        for method in (untrained(classifier), refiner(untrained(classifier), steps=2)):
            (attribution,) = method.explain(classifier, [text])
            assert np.isnan(attribution.scores).tolist() == [False] * read + [True] * (100 - read)

    @pytest.mark.parametrize("kind", ["bert", "albert", "gpt2", "gemma"])
    def test_scores_depend_on_the_target_and_not_on_the_batch(self, kind):
        classifier = tiny.classifier(kind, 3)
        paml = untrained(classifier)
        for attribution, text in zip(paml.explain(classifier, TEXTS), TEXTS, strict=True):
            (alone,) = paml.explain(classifier, [text])
            np.testing.assert_allclose(attribution.scores, alone.scores, atol=2e-4)
            assert attribution.predicted == attribution.target
        first, last = (paml.explain(classifier, [TEXTS[0]], [target])[0].scores for target in (0, 2))
        assert not np.isclose(first, last, atol=1e-7).any()


class TestBackbones:
    def test_another_tokenizer_learns_too(self, tmp_path):
        classifier = one_word_classifier()
        other = tiny.model("roberta")
        for parameter in other.parameters():
            if parameter.dim() == 2:
                parameter.data.mul_(0.2)
        other.base_model.save_pretrained(tmp_path / "backbone")
        tiny.tokenizer("roberta").save_pretrained(tmp_path / "backbone")
        paml = PAML(**{**LEARNING, "backbone": str(tmp_path / "backbone")}, epochs=3).learn(task_of(classifier, 40))
        assert loss(paml.history[-1], paml.weights) < loss(paml.history[1], paml.weights) - 0.05
        paml.save_pretrained(tmp_path / "it")
        loaded = PAML.from_pretrained(tmp_path / "it")
        assert isinstance(loaded.model, EncoderModel) and loaded.model.tokenizer is not None
        for method, again in ((paml, loaded), (refiner(paml), refiner(loaded))):
            for a, b in zip(method.explain(classifier, TEXTS), again.explain(classifier, TEXTS), strict=True):
                np.testing.assert_allclose(a.scores, b.scores, atol=1e-6)
        config = tmp_path / "it" / "backbone" / "config.json"
        whole = config.read_text()
        config.write_text(whole[:20])
        with pytest.raises(ModelError, match="not a trained paml"):
            PAML.from_pretrained(tmp_path / "it")
        config.write_text(whole)
        for file in config.parent.glob("*token*"):
            file.unlink()
        with pytest.raises(ModelError, match="not a trained paml"):
            PAML.from_pretrained(tmp_path / "it")

    def test_a_decoder_is_refused(self, tmp_path):
        with pytest.raises(ModelError, match="'llama' model reads from left to right; expected an encoder"):
            PAML(backbone=tiny.save_encoder(tmp_path, "llama")).learn(task_of(tiny.classifier()))

    def test_a_backbone_that_reads_less_than_the_classifier(self, tmp_path):
        classifier = tiny.classifier()
        short = tiny.save_encoder(tmp_path / "short", "bert", max_position_embeddings=12)
        with pytest.raises(ModelError, match="reads 12 sub-tokens a text, the classifier 46"):
            PAML(backbone=short).learn(task_of(classifier))
        # With a tokenizer of its own it may, and what it does not read is counted.
        short = tiny.save_encoder(tmp_path / "other", "roberta", max_position_embeddings=12)
        paml = PAML(**{**QUICK, "backbone": short}).learn(task_of(classifier))
        for method in (paml, refiner(paml, steps=1)):
            long, brief = method.explain(classifier, [" ".join(tiny.TEXTS[:2]), "fox"])
            assert long.unaligned > 0 and brief.unaligned == 0
            assert len(set(long.scores[-long.unaligned :].tolist())) == 1


class TestFilesOfFAML:
    def test_it_is_loaded_from_paml_s_folder_with_options_of_its_own(self, tmp_path):
        trained().save_pretrained(tmp_path)
        faml = explearn.load(tmp_path, "faml", steps=1)
        assert isinstance(faml, FAML) and " from trained paml" in repr(faml)
        assert (faml.options.steps, faml.metrics[0]) == (1, "aopc_difference")
        other = tiny.make_classifier(seed=8)
        with pytest.raises(UnsupportedError, match="trained for another classifier; train one"):
            faml.explain(other, tiny.TEXTS)
        assert len(faml.explain(other, tiny.TEXTS, other_models=True)) == len(tiny.TEXTS)
        with pytest.raises(ParamsError, match=r"faml: step: no such parameter; did you mean steps\?"):
            explearn.load(tmp_path, "faml", step=1)
        (tmp_path / "aml.safetensors").unlink()
        with pytest.raises(ModelError, match="not a trained paml"):
            FAML.from_pretrained(tmp_path)

    def test_without_a_trained_paml(self):
        with pytest.raises(ModelError, match="fAML starts from a trained pAML"):
            explearn.get_explainer("faml").explain(tiny.classifier(), tiny.TEXTS)
