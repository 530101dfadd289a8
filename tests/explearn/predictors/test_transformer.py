"""A classifier predicts as its model does, and its fingerprint tells it from others."""

import logging

import numpy as np
import pytest
import tiny
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from rounding import assert_close, tolerance

import explearn
from explearn import ComputeOptions, DeviceError, Example, TransformerPredictor, load_classifier
from explearn.predictors.problems import label_maps

TEXTS = [*tiny.TEXTS, *tiny.PAIRS]


class TestPrediction:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_probabilities_are_those_of_the_model_alone(self, kind):
        """Each text by itself, without padding, against batches of a budget, in any order."""
        of = tiny.classifier(kind, 3)
        encodings = of.encode(TEXTS)
        probabilities = of.predict_proba(encodings)
        assert_close(probabilities, [tiny.alone(of, encoding) for encoding in encodings])
        np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-9)
        assert of.predict(TEXTS) == [("bad", "fair", "good")[i] for i in probabilities.argmax(1)]

    @settings(max_examples=10)
    @given(order=st.permutations(range(len(TEXTS))), budget=st.integers(1, 400))
    def test_order_and_budget_change_nothing(self, order, budget):
        of = tiny.make_classifier(max_tokens=budget)
        expected = tiny.classifier().predict_proba(of.encode(TEXTS))
        assert_close(of.predict_proba([TEXTS[i] for i in order]), expected[order])

    def test_bf16_stays_near_fp32_and_fp16_needs_a_gpu(self):
        of = tiny.classifier("bert", 3)
        encodings = tiny.classifier("bert", 3).encode(TEXTS)
        half = tiny.make_classifier("bert", 3, precision="bf16")
        assert half.dtype is torch.bfloat16
        assert_close(half.predict_proba(encodings), of.predict_proba(encodings), torch.bfloat16, roundings=8)
        with pytest.raises(DeviceError, match="fp16' needs a GPU; on a CPU use fp32, bf16 or auto"):
            tiny.make_classifier(precision="fp16")


class TestTexts:
    def test_a_text_a_pair_and_an_example_may_come_in_any_order(self):
        of = tiny.classifier()
        pair = Example("p", ("slow",), "no", "test", "t", ("no", "refund"))
        single = Example("s", ("lazy", "dog"), "no", "test", "t")
        encodings = of.read(["lazy dog", pair, ("slow", "no refund"), single])
        assert [e.example_id for e in encodings] == ["", "p", "", "s"]
        assert [e.words for e in encodings[:2]] == [("lazy", "dog"), ("slow", "no", "refund")]
        assert encodings[0].key == encodings[3].key and encodings[1].key == encodings[2].key

    def test_the_mask_token_or_else_the_unknown_token_stands_for_removed_pieces(self):
        of = tiny.make_classifier()
        assert of.tokenizer.convert_ids_to_tokens(of.mask_token_id) == "[MASK]"
        of.tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tiny.tokenizer("bert").backend_tokenizer, unk_token="[UNK]", pad_token="[PAD]"
        )
        assert of.tokenizer.convert_ids_to_tokens(of.mask_token_id) == "[UNK]"


@pytest.fixture
def short_of_memory(monkeypatch):
    """A device that holds 40 padded sub-tokens; the list gets the sizes of the passes that failed."""
    failed = []
    plain = TransformerPredictor.logits

    def logits(self, batch):
        if batch.input_ids.numel() > 40:
            failed.append(batch.input_ids.numel())
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return plain(self, batch)

    monkeypatch.setattr(TransformerPredictor, "logits", logits)
    return failed


@pytest.mark.parametrize("method", (None, "lime", "occlusion"))
def test_running_out_of_memory_halves_the_budget_and_changes_no_result(method, short_of_memory, caplog):
    def answers(of):
        if method is None:
            return of.predict_proba(tiny.TEXTS)
        attributions = tiny.quick(method).explain(of, tiny.TEXTS)
        return np.concatenate([a.scores for a in attributions])

    expected = answers(tiny.make_classifier(max_tokens=20))
    assert not short_of_memory
    of = tiny.make_classifier(max_tokens=1024)
    with caplog.at_level(logging.WARNING):
        np.testing.assert_allclose(answers(of), expected, atol=tolerance())
    assert short_of_memory and of.max_tokens < min(short_of_memory)
    assert "out of memory: batches have at most" in caplog.text


def test_a_model_of_sparse_attention_reads_long_texts_with_it_and_short_ones_without():
    sizes = {"num_hidden_layers": 2, "block_size": 2, "num_random_blocks": 1, "max_position_embeddings": 64}
    texts = [" ".join(["lazy dog and fox"] * 5), "lazy dog"]
    words = tiny.tokenizer("bert")
    expected = []
    for text in texts:
        model = tiny.model("big_bird", **sizes)  # transformers switches a model at its first short text
        with torch.inference_mode():
            expected.append(model(**words(text, return_tensors="pt")).logits.softmax(-1)[0].double().numpy())
    of = TransformerPredictor(tiny.model("big_bird", **sizes), words, ComputeOptions(device="cpu"))
    assert_close(of.predict_proba(texts[1:]), expected[1:])
    assert_close(of.predict_proba([*texts, texts[0]]), [*expected, expected[0]])


@pytest.mark.parametrize("blocks", (1, 2, 3))
def test_a_funnel_reads_texts_that_are_shorter_than_it_can(blocks):
    words = tiny.tokenizer("bert")
    config = transformers.FunnelConfig(
        vocab_size=len(words), block_sizes=[1] * blocks, d_model=32, n_head=4, d_head=8, d_inner=48,
        pad_token_id=words.pad_token_id, initializer_range=0.5,
    )  # fmt: skip
    torch.manual_seed(0)
    of = TransformerPredictor(transformers.FunnelForSequenceClassification(config), words, ComputeOptions(device="cpu"))
    texts = ["lazy", "the quick brown fox jumps over", "the lazy dog"]
    assert_close(of.predict_proba(texts[1:2])[0], tiny.alone(of, of.encode(texts)[1]))
    assert_close(of.predict_proba(texts), [of.predict_proba([text])[0] for text in texts])
    for name in ("lime", "solvex", "input_x_gradient"):
        assert all(len(a.scores) for a in explearn.get_explainer(name).explain(of, ["lazy"]))


def classifier(limit=tiny.POSITIONS - 2, lowercase=True, **config):
    words = tiny.tokenizer("bert", limit)
    if not lowercase:
        words = type(words)(vocab=words.get_vocab(), do_lower_case=False, model_max_length=limit)
    return TransformerPredictor(tiny.model("bert", 2, **config), words, ComputeOptions(device="cpu"), "bert")


class TestFingerprint:
    def test_is_the_same_after_texts_were_read_it_was_saved_and_its_classes_renamed(self, tmp_path):
        of = classifier()
        before = of.fingerprint
        of.predict_proba(tiny.TEXTS)
        of.save_pretrained(tmp_path)
        assert before == classifier().fingerprint == load_classifier(tmp_path, device="cpu").fingerprint
        assert before == of.renamed({"no": "bad"}).fingerprint

    def test_configuration_and_tokenizer_count_though_the_weights_are_the_same(self):
        changed = [
            classifier(),
            classifier(hidden_act="relu"),
            classifier(problem_type="multi_label_classification"),
            classifier(layer_norm_eps=0.1),
            classifier(limit=20),
            classifier(lowercase=False),
        ]
        assert len({predictor.fingerprint for predictor in changed}) == len(changed)

    @pytest.mark.parametrize(
        "change",
        [
            lambda of: of.model.classifier.weight.data[0, 0].add_(1e-3),
            lambda of: of.model.bert.embeddings.LayerNorm.bias.data[3].fill_(7),
            lambda of: of.model.register_buffer("steps", torch.tensor(3)),
            lambda of: of.model.config.update(label_maps(of.labels[::-1])),
        ],
        ids=["weight", "norm", "buffer", "labels"],
    )
    def test_is_that_of_weights_buffers_and_labels(self, change):
        of = tiny.make_classifier()
        change(of)
        assert of.fingerprint != tiny.classifier().fingerprint


def test_a_classifier_is_frozen_from_the_start():
    of = TransformerPredictor(tiny.model("bert").train(), tiny.tokenizer("bert"), ComputeOptions("cpu"))
    assert not any(p.requires_grad or p.grad is not None for p in of.model.parameters())
    assert not any(module.training for module in of.model.modules()) and tiny.hooks(of.model) == 0
