"""pAML and fAML: training, explaining, fine-tuning on single texts, files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from aml_cases import (
    CPU,
    DECISIVE,
    LEARNING,
    QUICK,
    TEXTS,
    examples,
    loss,
    one_word_classifier,
    refiner,
    trained,
    untrained,
)
from safetensors.torch import load_file, save_file

import explearn
from explearn.core.errors import DataError, ModelError, ParamsError, UnknownNameError, UnsupportedError
from explearn.core.storage import write_examples, write_json
from explearn.methods.aml.faml import FAML
from explearn.methods.aml.paml import PAML
from explearn.methods.aml.target_metric import MapJudge
from explearn.methods.aml.training import DivergedError
from explearn.methods.listed_task import ListedTask
from explearn_study.params import Params
from explearn_study.train import WorkspaceTask
from explearn_study.workspace import Workspace


class TestLearning:
    def test_it_finds_the_word_that_decides(self) -> None:
        of, paml = one_word_classifier(), trained()
        unseen = examples(40, seed=9, split="test")
        right = [a.words[int(a.scores.argmax())] in DECISIVE for a in paml.explain(of, unseen)]
        assert np.mean(right) > 0.8  # measured: 1.0 and 0.95 on two draws of texts; by chance one of five to nine
        assert all(((a.scores > 0) & (a.scores < 1)).all() for a in paml.explain(of, unseen))

    def test_the_checkpoint_is_that_of_the_best_epoch(self) -> None:
        of, paml = one_word_classifier(), trained()
        assert [epoch.epoch for epoch in paml.history] == list(range(21))
        best = max(epoch.metric for epoch in paml.history)
        validation = of.encode(examples(16, seed=2, split="validation"))
        judge = MapJudge(of, [paml.options.metric], paml.metric_options)
        y = torch.tensor(of.predict_proba(validation), dtype=torch.float32)
        scores = paml.attribute(of, validation, y).sigmoid().numpy()
        values = judge.values(validation, list(scores), y.argmax(-1).tolist())
        assert values.mean() == pytest.approx(best, abs=1e-5)
        assert best > paml.history[0].metric + 0.2

    @pytest.mark.parametrize("masking", ["soft", "hard", "random", "learned"])
    def test_every_masking_learns(self, masking: Any) -> None:
        of = one_word_classifier()
        # Hard masks need a small weight: with LEARNING's they end where nothing is kept.
        options = {**LEARNING, "size_weight": 0.1, "epochs": 2, "masking": masking}
        paml = PAML(**options).fit(ListedTask(of, examples(40, seed=1), examples(16, seed=2, split="validation")))
        first, last = (loss(epoch, paml.weights) for epoch in (paml.history[1], paml.history[-1]))
        assert last < first - 0.1
        learned = paml.model is not None and paml.model.mask_embedding is not None
        assert learned is (masking == "learned")
        if learned:
            assert not torch.equal(paml.model.mask_embedding, of.model.get_input_embeddings().weight[of.mask_token_id])

    def test_the_seed_decides_whatever_the_global_generator(self) -> None:
        of = one_word_classifier()
        found = []
        for seed in (5, 5, 6):
            torch.randn(3)
            paml = PAML(**QUICK, seed=seed).fit(ListedTask(of, examples(16, seed=1), examples(4, seed=2)))
            found.append(next(iter(paml.explain(of, ["the warm fox sleeps"]))).scores)
        assert np.array_equal(found[0], found[1])
        assert not np.array_equal(found[0], found[2])

    def test_the_classifier_stays_as_it_is(self) -> None:
        of = tiny.make_classifier("bert")
        before = of.fingerprint
        paml = PAML(**QUICK).fit(ListedTask(of, examples(16, seed=1), examples(4, seed=2)))
        list(refiner(paml).explain(of, tiny.TEXTS))
        del of.__dict__["fingerprint"]
        assert of.fingerprint == before
        assert tiny.hooks(of.model) == 0
        assert not of.model.training
        assert not any(p.requires_grad or p.grad is not None for p in of.model.parameters())

    def test_texts_are_drawn_by_seed_up_to_a_number(self, monkeypatch: pytest.MonkeyPatch) -> None:
        of = one_word_classifier()
        seen: list[int] = []
        monkeypatch.setattr(
            "explearn.methods.aml.paml.train",
            lambda *args, **kwargs: seen.extend([len(args[3].encodings), len(args[4].encodings)]) or [],
        )
        PAML(max_texts=5, validation_texts=3).fit(ListedTask(of, examples(16, seed=1), examples(8, seed=2)))
        assert seen == [5, 3]

    def test_without_texts(self) -> None:
        with pytest.raises(DataError, match="no text to watch the metric on"):
            PAML().fit(ListedTask(tiny.classifier("bert"), examples(2, seed=1), []))

    def test_texts_without_an_id(self) -> None:
        with pytest.raises(DataError, match=r"train text 1: got str; expected explearn\.Example"):
            PAML().fit(ListedTask(tiny.classifier("bert"), ["the warm fox"], examples(2, seed=1)))

    @pytest.mark.parametrize("protocol", ["default", "aml"])
    def test_training_that_diverges_is_said_to(self, protocol: Any) -> None:
        paml = PAML(**{**QUICK, "learning_rate": 1e30, "protocol": protocol})
        with pytest.raises(DivergedError, match=r"pAML: training diverged in epoch 1: .* not finite; a smaller"):
            paml.fit(ListedTask(one_word_classifier(), examples(32, seed=1), examples(4, seed=2)))
        with pytest.raises(ModelError, match="not trained"):
            list(paml.explain(one_word_classifier(), tiny.TEXTS))

    @pytest.mark.parametrize(
        ("option", "value"),
        [("masking", "softly"), ("size_weight", 1.5), ("metric", "comp"), ("layers", 0), ("percents", [])],
    )
    def test_an_option_s_bad_value(self, option: str, value: Any) -> None:
        with pytest.raises(ParamsError, match=f"{option}: got "):
            PAML(**{option: value})

    def test_nothing_to_learn(self) -> None:
        with pytest.raises(ParamsError, match="prediction_weight, size_weight and inverse_weight are all 0"):
            PAML(prediction_weight=0.0, size_weight=0.0, inverse_weight=0.0)

    def test_an_encoder_that_was_not_named(self) -> None:
        with pytest.raises(ParamsError, match="needs the name of the classifier's pretrained encoder"):
            PAML(backbone="encoder").fit(ListedTask(tiny.classifier("bert"), examples(2, seed=1), examples(2, seed=2)))

    def test_more_layers_than_the_encoder_has(self) -> None:
        with pytest.raises(ParamsError, match="layers: got 4; expected at most 3"):
            PAML(layers=4).fit(ListedTask(tiny.classifier("bert"), examples(2, seed=1), examples(2, seed=2)))


class TestModel:
    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_the_prediction_stands_behind_the_last_separator(self, kind: str) -> None:
        of = tiny.classifier(kind, 3)
        model = untrained(of).model
        assert model is not None
        batch = of.batch(of.encode(TEXTS))
        y = torch.rand(len(TEXTS), 3).softmax(-1)
        inputs = model.inputs(batch, y)
        for row, encoding in enumerate(batch.encodings):
            n = len(encoding)
            assert inputs.attention_mask[row].tolist() == [1] * (n + 1) + [0] * (batch.input_ids.shape[1] - n)
            z = model.prediction[0] + (y[row][:, None] * model.prediction[1:]).sum(0)
            torch.testing.assert_close(inputs.embeddings[row, n], z)
            words = model.backbone.get_input_embeddings()(batch.input_ids[row, :n])
            torch.testing.assert_close(inputs.embeddings[row, :n], words)
            if inputs.token_type_ids is not None:
                assert inputs.token_type_ids[row, n] == encoding.token_type_ids[-1]

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_without_the_prediction_it_sees_what_the_classifier_s_encoder_sees(self, kind: str) -> None:
        """With z masked out, the backbone's states are those of the plain encoder."""
        of = tiny.classifier(kind)
        model = untrained(of).model
        assert model is not None
        batch = of.batch(of.encode(TEXTS))
        inputs = model.inputs(batch, torch.rand(len(TEXTS), 2)).keywords()
        mask = torch.cat([batch.attention_mask, torch.zeros(len(TEXTS), 1, dtype=torch.int64)], dim=1)
        with torch.no_grad():
            found = model.backbone(**{**inputs, "attention_mask": mask}).last_hidden_state
            base = getattr(of.model, of.model.base_model_prefix)
            expected = base(**batch.model_inputs()).last_hidden_state
        real = batch.attention_mask.bool()
        torch.testing.assert_close(found[:, :-1][real], expected[real], atol=1e-4, rtol=1e-4)

    @pytest.mark.parametrize("kind", tiny.ARCHITECTURES)
    def test_a_text_that_fills_all_positions(self, kind: str) -> None:
        of = tiny.classifier(kind)
        text = " ".join(["fox"] * 100)
        (encoding,) = of.encode([text])
        assert len(encoding) == of.max_length
        for method in (untrained(of), refiner(untrained(of), steps=2)):
            (found,) = method.explain(of, [text])
            read = len({encoding.word_ids[i] for i in encoding.positions})
            assert np.isfinite(found.scores[:read]).all() and np.isnan(found.scores[read:]).all()
            assert found.unaligned == 100 - read


class TestFiles:
    def test_what_is_loaded_scores_the_same(self, tmp_path: Path) -> None:
        of, paml = one_word_classifier(), trained()
        paml.save_pretrained(tmp_path / "it")
        names = sorted(p.name for p in (tmp_path / "it").iterdir())
        assert names == ["aml.safetensors", "backbone", "config.json"]
        loaded = explearn.get_explainer("paml", path=str(tmp_path / "it"))
        assert isinstance(loaded, PAML)
        for a, b in zip(paml.explain(of, TEXTS), loaded.explain(of, TEXTS), strict=True):
            np.testing.assert_array_equal(a.scores, b.scores)
            assert b.method == "paml"
        assert (loaded.options.model_dump(), loaded.history, loaded.weights) == (
            paml.options.model_dump(),
            paml.history,
            paml.weights,
        )

    def test_a_learned_stand_in_is_kept(self, tmp_path: Path) -> None:
        of = one_word_classifier()
        paml = PAML(**QUICK, masking="learned").fit(ListedTask(of, examples(8, seed=1), examples(4, seed=2)))
        paml.save_pretrained(tmp_path / "it")
        loaded = PAML.from_pretrained(tmp_path / "it")
        for a, b in zip(refiner(paml).explain(of, TEXTS), refiner(loaded).explain(of, TEXTS), strict=True):
            np.testing.assert_allclose(a.scores, b.scores, atol=1e-6)

    def test_faml_is_loaded_from_paml_s_folder_with_options_of_its_own(self, tmp_path: Path) -> None:
        trained().save_pretrained(tmp_path / "it")
        found = explearn.get_explainer("faml", path=str(tmp_path / "it"), steps=1, scope="full")
        assert isinstance(found, FAML)
        assert (found.options.steps, found.options.scope, found.name) == (1, "full", "faml")
        assert len(list(found.explain(one_word_classifier(), tiny.TEXTS))) == len(tiny.TEXTS)
        with pytest.raises(UnknownNameError, match="did you mean steps"):
            explearn.get_explainer("faml", path=str(tmp_path / "it"), step=1)
        with pytest.raises(ParamsError, match="rank: got 0"):
            explearn.get_explainer("faml", path=str(tmp_path / "it"), rank=0)

    @pytest.mark.parametrize("name", ["config.json", "aml.safetensors", "backbone/config.json"])
    @pytest.mark.parametrize("keep", [None, 0.5])
    def test_a_file_that_is_missing_or_cut_short(self, tmp_path: Path, name: str, keep: float | None) -> None:
        trained().save_pretrained(tmp_path / "it")
        file = tmp_path / "it" / name
        content = file.read_bytes()
        file.unlink()
        if keep is not None:
            file.write_bytes(content[: int(keep * len(content))])
        for load in (PAML.from_pretrained, FAML.from_pretrained):
            with pytest.raises(ModelError, match="not a trained paml") as caught:
                load(tmp_path / "it")
            assert "\n" not in str(caught.value)

    def test_a_tokenizer_that_is_missing(self, tmp_path: Path) -> None:
        tiny.tokenizer("roberta").save_pretrained(tmp_path / "roberta")
        tiny.model("roberta").save_pretrained(tmp_path / "roberta")
        paml = PAML(**QUICK, backbone=str(tmp_path / "roberta"))
        paml.fit(ListedTask(one_word_classifier(), examples(8, seed=1), examples(4, seed=2))).save_pretrained(
            tmp_path / "it"
        )
        assert PAML.from_pretrained(tmp_path / "it").bridge is not None
        for file in (tmp_path / "it" / "backbone").glob("*token*"):
            file.unlink()
        with pytest.raises(ModelError, match="not a trained paml"):
            PAML.from_pretrained(tmp_path / "it")

    def test_weights_that_are_not_finite(self, tmp_path: Path) -> None:
        trained().save_pretrained(tmp_path / "it")
        file = tmp_path / "it" / "aml.safetensors"
        tensors = load_file(file)
        name = next(iter(tensors))
        save_file(tensors | {name: torch.full_like(tensors[name], torch.nan)}, file)
        with pytest.raises(ModelError, match=f"aml.safetensors: {re.escape(name)} holds a value that is not finite"):
            PAML.from_pretrained(tmp_path / "it")

    @pytest.mark.parametrize(
        "change", [{"options": {"epoch": 1}}, {"explainer": "ExpNet"}, {"history": [1]}, {"labels": None}]
    )
    def test_a_configuration_that_does_not_fit(self, tmp_path: Path, change: dict[str, Any]) -> None:
        trained().save_pretrained(tmp_path / "it")
        path = tmp_path / "it" / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
        with pytest.raises(ModelError, match="not a trained paml"):
            PAML.from_pretrained(tmp_path / "it")

    @pytest.mark.parametrize("name", ["paml", "faml"])
    def test_untrained(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="trained"):
            list(explearn.get_explainer(name).explain(tiny.classifier("bert"), tiny.TEXTS))
        with pytest.raises(ModelError, match="not trained; call fit"):
            PAML().save_pretrained(tmp_path / "it")

    def test_a_classifier_of_other_classes(self) -> None:
        with pytest.raises(UnsupportedError, match="a classifier of 2 classes"):
            list(trained().explain(tiny.classifier("bert", 3), tiny.TEXTS))

    def test_another_classifier_of_the_same_classes(self, tmp_path: Path) -> None:
        trained().save_pretrained(tmp_path)
        of = tiny.make_classifier("bert", seed=8)
        for method in (PAML.from_pretrained(tmp_path), FAML.from_pretrained(tmp_path, steps=0)):
            with pytest.raises(UnsupportedError, match="what another classifier looks at; train one"):
                list(method.explain(of, tiny.TEXTS))
            # The check of what explanations depend on asks for it.
            method.any_classifier = True
            assert len(list(method.explain(of, tiny.TEXTS))) == len(tiny.TEXTS)
            with pytest.raises(UnsupportedError, match="a model that answers questions has none"):
                list(method.explain(tiny.make_answerer(), tiny.PAIRS))


def test_a_task_is_trained_from_its_files(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    of = one_word_classifier()
    of.model.save_pretrained(workspace.classifier("a"))
    of.tokenizer.save_pretrained(workspace.classifier("a"))
    for split, count in (("train", 8), ("validation", 4), ("test", 4)):
        write_examples(workspace.examples("a") / f"{split}.parquet", examples(count, seed=count, split=split))
    write_json(workspace.examples("a") / "task.json", {"labels": of.labels, "dropped": {}, "unused_ids": []})
    params = Params.of(
        {
            "profile": "test",
            "tasks": ["a"],
            "sources": {"a": {"kind": "embedded", "adapter": "corpus"}},
            "explainer": "faml",
            "explainers": ["paml"],
            "refiners": ["faml"],
        }
    )
    paml = PAML(**QUICK, trials=1).fit(WorkspaceTask(workspace, params, "a", CPU))
    assert len(paml.history) == 2
    assert workspace.study("a", "paml").is_file()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"explainers": ["paml", "faml"]}, "'faml' has no training of its own; name it under refiners"),
        ({"refiners": ["paml"]}, "'paml' starts from no trained explainer"),
        (
            {"explainers": ["expnet_in_domain"], "refiners": ["faml"]},
            "starts from 'paml', which is not under explainers",
        ),
        ({"baselines": {"costly": {"faml": {}}}}, "name it under refiners"),
    ],
)
def test_a_refiner_in_the_wrong_place(change: dict[str, Any], words: str) -> None:
    given = {
        "profile": "test",
        "tasks": ["a"],
        "sources": {"a": {"kind": "embedded", "adapter": "corpus"}},
        "explainer": "paml",
        "explainers": ["paml"],
        **change,
    }
    with pytest.raises(ValueError, match=words):
        Params.of(given)
