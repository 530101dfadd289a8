"""Fine-tuning: from pretrained weights, by low-rank adapters, and from nothing; and what it never replaces."""

import functools
import sys
from itertools import product

import pytest
import tiny
import torch
from rounding import assert_close

from explearn import ComputeOptions, MissingExtraError, ModelError, ParamsError, load_classifier
from explearn.core.examples import Example
from explearn.core.validation import check_section
from explearn.predictors.finetune import finetune, from_scratch, load_encoder, remove_random_words, with_adapters
from explearn.predictors.heads.answers import ANSWER_LABELS
from explearn.predictors.params import FinetuneParams, LoraParams, ScratchParams

LABELS = ["no", "yes"]
COMPUTE = ComputeOptions(device="cpu")
RANK = 2
SIZES = ScratchParams(layers=2, heads=2, width=16, vocabulary=320)


def examples(texts):
    """Texts with "fox" are of one class, the others of the other."""
    return [
        Example(f"{split}-{i}", tuple(text.split()), LABELS["fox" in text], split, "t")
        for split, (i, text) in product(("train", "validation"), enumerate(texts))
    ]


FEW = examples(["the quick fox", "a lazy dog", "the fox sleeps", "slow delivery"])


class TestWhatIsReplaced:
    def test_no_folder_of_other_things(self, tmp_path):
        for name in ("thesis.txt", ".hidden", "classifier/thesis.txt"):
            place = tmp_path / name
            if place.parent != tmp_path:
                tiny.classifier().save_pretrained(place.parent)
            place.write_text("years of work", encoding="utf-8")
            with pytest.raises(ParamsError, match=rf"holds '{place.name}', which is not a saved classifier"):
                finetune(place.parent, FEW, LABELS, "nowhere", FinetuneParams(), COMPUTE, 1)
            assert place.read_text(encoding="utf-8") == "years of work"
            place.unlink()

    def test_no_encoder_by_what_is_made_of_it(self, tmp_path):
        encoder = tiny.save(tmp_path / "encoder")
        with pytest.raises(ParamsError, match=r"encoder: holds 'config\.json'"):
            finetune(encoder, FEW, LABELS, str(encoder), FinetuneParams(), COMPUTE, 1)

    def test_no_classifier_by_one_that_diverged(self, tmp_path, monkeypatch):
        import transformers

        params = FinetuneParams(epochs=1, batch_size=4)
        encoder = str(tiny.save(tmp_path / "encoder"))
        finetune(tmp_path / "c", FEW, LABELS, encoder, params, COMPUTE, 1)
        before = {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()}
        assert "checkpoints" not in before
        train = transformers.Trainer.train

        def diverging(self):
            done = train(self)
            self.model.classifier.weight.data.fill_(float("nan"))
            return done

        monkeypatch.setattr(transformers.Trainer, "train", diverging)
        with pytest.raises(ModelError, match=r"c: fine-tuning diverged: .* classifier\.weight .*learning rate below"):
            finetune(tmp_path / "c", FEW, LABELS, encoder, params, COMPUTE, 1)
        assert {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()} == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "encoder"]


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    """Kind -> the folder of an encoder and that of the classifier fine-tuned from it by adapters."""

    @functools.cache
    def of(kind):
        folder = tmp_path_factory.mktemp(kind)
        encoder = tiny.save(folder / "encoder", kind)
        params = FinetuneParams(epochs=2, batch_size=2, learning_rate=1e-2, lora=LoraParams(rank=RANK, alpha=4))
        finetune(folder / "classifier", examples(tiny.CORPUS), LABELS, str(encoder), params, COMPUTE, seed=1)
        return encoder, folder / "classifier"

    return of


class TestAdapters:
    @pytest.mark.parametrize("kind", ["bert", "gpt2"])
    def test_they_and_the_head_alone_are_trained(self, kind, adapted):
        before, after = (
            load_classifier(folder, device="cpu").model.base_model.state_dict() for folder in adapted(kind)
        )
        changed = 0
        for name, weight in before.items():
            difference = (after[name] - weight).double()
            if weight.ndim == 2 and "embeddings" not in name and not name.startswith(("wte", "wpe", "pooler")):
                # B A of rank r: no larger singular value than the first r.
                values = torch.linalg.svdvals(difference)
                assert values[0] > 1e-4 and values[RANK] < 1e-3 * values[0], name
                changed += 1
            elif "pooler" not in name:
                assert not difference.any(), name
        assert before.keys() == after.keys() and changed >= 4 * tiny.LAYERS

    @pytest.mark.parametrize("kind", ["bert", "deberta-v2", "gpt2", "llama"])
    def test_merged_weights_give_the_logits_of_the_adapters(self, kind):
        of = tiny.make_classifier(kind)
        batch = of.batch(of.encode(tiny.TEXTS))
        model = with_adapters(of.model, LoraParams(rank=RANK))
        trained = [name for name, value in model.named_parameters() if value.requires_grad]
        assert trained and all("lora_" in name or "modules_to_save" in name for name in trained)
        with torch.no_grad():
            for name, value in model.named_parameters():
                if "lora_B" in name:
                    value.normal_(std=0.2)
            expected = model.eval()(**batch.model_inputs()).logits
            plain = model.merge_and_unload().eval()
            assert type(plain) is type(of.model) and not any("lora" in name for name, _ in plain.named_parameters())
            assert_close(plain(**batch.model_inputs()).logits, expected)

    def test_the_classifier_loads_without_peft(self, adapted, monkeypatch):
        _, folder = adapted("bert")
        assert not list(folder.glob("adapter*"))
        monkeypatch.setitem(sys.modules, "peft", None)
        assert load_classifier(folder, device="cpu").predict(["slow"])[0] in LABELS
        with pytest.raises(MissingExtraError, match=r"needs the package peft, .* pip install 'explearn\[lora\]'"):
            with_adapters(tiny.make_classifier().model, LoraParams())

    def test_maps_may_be_named(self):
        model = with_adapters(tiny.make_classifier().model, LoraParams(targets=["query"]))
        adapters = [name for name, _ in model.named_parameters() if "lora_A" in name]
        assert len(adapters) == tiny.LAYERS and all(".query." in name for name in adapters)
        with pytest.raises(ParamsError, match=r"finetune\.lora\.targets: got 'q_proj'; expected .*'query'"):
            with_adapters(tiny.make_classifier().model, LoraParams(targets=["q_proj"]))


def test_a_classifier_starts_from_its_own_head_whatever_the_order_of_its_classes(tmp_path):
    classifier = tiny.save(tmp_path / "classifier")
    before = load_classifier(classifier, device="cpu")
    params = FinetuneParams(epochs=1, learning_rate=1e-9)
    finetune(tmp_path / "twin", FEW, before.labels[::-1], str(classifier), params, COMPUTE, 1)
    after = load_classifier(tmp_path / "twin", device="cpu")
    assert after.labels == before.labels
    assert_close(after.predict_proba(tiny.TEXTS), before.predict_proba(before.encode(tiny.TEXTS)))


class TestRandomRemoval:
    @pytest.mark.parametrize("removal", ["delete", "mask"])
    def test_half_of_the_training_texts_and_a_copy_of_each_validation_text(self, removal, tmp_path, monkeypatch):
        shortened = []

        def counting(encoding, *settings):
            shortened.append((encoding.example_id, settings[0]))
            return remove_random_words(encoding, *settings)

        monkeypatch.setattr("explearn.predictors.finetune.remove_random_words", counting)
        encoder = str(tiny.save(tmp_path / "encoder"))
        params = FinetuneParams(epochs=10, patience=10, batch_size=4, random_removal=removal)
        finetune(tmp_path / "c", FEW, LABELS, encoder, params, COMPUTE, 1)
        assert {way for _, way in shortened} == {removal}
        names = [name for name, _ in shortened]
        assert sorted(name for name in names if name.startswith("validation")) == [f"validation-{i}" for i in range(4)]
        assert 10 < len(names) - 4 < 30


class TestFromScratch:
    def test_a_decoder_is_trained_and_saved_as_any_classifier(self, tmp_path):
        texts = [*map(" ".join, product(("the fox", "a dog"), ("sleeps", "is slow", "runs", "was quick", "sells")))]
        params = FinetuneParams(epochs=12, learning_rate=1e-2, max_length=24, scratch=SIZES)
        history = finetune(tmp_path / "c", examples(texts * 4), LABELS, "scratch", params, COMPUTE, seed=1)
        assert history[-1].accuracy == 1.0
        of = load_classifier(tmp_path / "c", device="cpu")
        assert of.model.config.model_type == "gpt2" and of.max_length == 24
        assert of.predict(["the fox sells", "a dog sells"]) == ["yes", "no"]

    def test_what_cannot_be(self):
        with pytest.raises(ModelError, match="encoder 'scratch' has no weights before fine-tuning"):
            load_encoder("scratch", LABELS, 24)
        with pytest.raises(ModelError, match="made for classes"):
            from_scratch(SIZES, tiny.CORPUS, list(ANSWER_LABELS), 24)
        with pytest.raises(ParamsError, match="expected a multiple of their number"):
            check_section(ScratchParams, {"width": 30, "heads": 4})
