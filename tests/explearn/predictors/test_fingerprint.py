"""A fingerprint tells classifiers apart that say different things of a text, whatever in them differs."""

import tiny
import torch

import explearn
from explearn import ComputeOptions, TransformerPredictor, load_classifier


def classifier(limit=tiny.POSITIONS - 2, lowercase=True, **config):
    words = tiny.tokenizer("bert", limit)
    if not lowercase:
        words = type(words)(vocab=words.get_vocab(), do_lower_case=False, model_max_length=limit)
    return TransformerPredictor(tiny.model("bert", 2, **config), words, ComputeOptions(device="cpu"), "bert")


def test_the_same_model_has_the_same_one_also_after_texts_were_read_and_it_was_saved(tmp_path):
    before = classifier().fingerprint
    used = classifier()
    used.predict_proba(tiny.TEXTS)
    used.save_pretrained(tmp_path)
    assert before == used.fingerprint == load_classifier(tmp_path, device="cpu").fingerprint


def test_configuration_and_tokenizer_count_though_the_weights_are_the_same():
    changed = [
        classifier(),
        classifier(hidden_act="relu"),
        classifier(problem_type="multi_label_classification"),
        classifier(layer_norm_eps=0.1),
        classifier(limit=20),
        classifier(lowercase=False),
    ]
    expected = changed[0].model.state_dict()
    for predictor in changed[1:]:
        for name, value in predictor.model.state_dict().items():
            assert torch.equal(value, expected[name])
    assert len({predictor.fingerprint for predictor in changed}) == len(changed)


def test_new_names_of_classes_do_not_count():
    plain = classifier()
    assert plain.renamed({"no": "bad"}).fingerprint == plain.fingerprint


def test_of_a_function_its_mask_and_its_empty_text_count():
    different = [{}, {"mask": "UNK"}, {"empty": "nothing"}, {"name": "another"}]
    predictors = [explearn.FunctionPredictor(lambda texts: [[1, 0]], ["a", "b"], **options) for options in different]
    assert len({predictor.fingerprint for predictor in predictors}) == 4
