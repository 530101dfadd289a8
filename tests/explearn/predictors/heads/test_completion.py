"""Classification by completion: a generative model, a prompt and label words in the place of a classifier."""

import functools
import json

import numpy as np
import pytest
import tiny
import torch
import transformers
import yaml
from cli_cases import run
from learned_cases import all_trained, short_task
from rounding import assert_close

import explearn
from explearn import (
    ComputeOptions,
    DataError,
    ModelError,
    ParamsError,
    UnsupportedError,
    load_classifier,
)
from explearn.methods.ivra.explainer import IvRA
from explearn.predictors.heads.completion import COMPLETION_FILE
from explearn.predictors.predictor import reads_single_texts
from explearn.text.alignment import NO_WORD
from explearn_apps.onnx import export_onnx
from explearn_study.importing import import_classifier
from explearn_study.sections import ClassifierParams

POSITIONS = 160
PROMPT = {
    "instruction": "is it slow or quick?",
    "shots": [{"text": "the lazy dog sleeps", "label": "slow"}, {"text": "a quick fox", "label": "quick"}],
    "separator": " . ",
    "template": "the review: {text} ! it was",
    "label_words": {"slow": " slow", "quick": " quick"},
}
TEXT = "unbelievably slow delivery and a dog"


def tokenizer(kind):
    return tiny.tokenizer(kind, POSITIONS)


def read_back(of, ids):
    """The text of some ids, its white space made single blanks."""
    return " ".join(of.tokenizer.decode(list(ids)).split())


def save(folder, kind, prompt=PROMPT, **config):
    tiny.language_model(kind, max_position_embeddings=POSITIONS, **config).save_pretrained(folder)
    tokenizer(kind).save_pretrained(folder)
    if prompt is not None:
        (folder / COMPLETION_FILE).write_text(json.dumps(prompt), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    @functools.cache
    def of(kind):
        return save(tmp_path_factory.mktemp("models") / kind, kind)

    return of


@pytest.fixture(scope="module")
def prompted(folders):
    return functools.cache(lambda kind: load_classifier(folders(kind), device="cpu"))


@functools.cache
def written_out(kind, text):
    """The prompt's ids and the label words' logits, by transformers alone."""
    before = (
        "is it slow or quick? . the review: the lazy dog sleeps ! it was slow . the review: a quick fox ! it was quick"
    )
    prompt = f"{before} . the review: {text} ! it was"
    read = tokenizer(kind)
    ids = read(prompt)["input_ids"]
    with torch.inference_mode():
        model = tiny.language_model(kind, max_position_embeddings=POSITIONS)
        logits = model(input_ids=torch.tensor([ids])).logits[0, -1]
    words = [read(prompt + word)["input_ids"][len(ids)] for word in (" slow", " quick")]
    return ids, logits[words].double().numpy()


@pytest.mark.parametrize("kind", (*tiny.DECODERS, "gemma2"))
def test_probabilities_are_the_softmax_of_the_label_words_next_token_logits(kind, prompted):
    of = prompted(kind)
    assert of.labels == ["slow", "quick"]
    texts = [TEXT, "lazy", "a warm funny sequel that nobody asked for"]
    encodings = of.encode(texts)
    actual = of.predict_proba(encodings)  # of different lengths, in one batch
    for encoding, text, probabilities in zip(encodings, texts, actual, strict=True):
        ids, logits = written_out(kind, text)
        assert list(encoding.input_ids) == ids
        expected = np.exp(logits) / np.exp(logits).sum()
        assert_close(probabilities, expected)


def test_only_the_words_of_the_text_are_scored_and_masked(prompted):
    of = prompted("gpt2")
    (encoding,) = of.encode([TEXT])
    assert encoding.words == tuple(TEXT.split())
    read = [of.tokenizer.decode([encoding.input_ids[i]]) for i in encoding.positions]
    assert "".join(read).strip() == TEXT
    masked = encoding.mask(range(len(encoding.words)), of.mask_token_id)
    changed = [i for i, (a, b) in enumerate(zip(encoding.input_ids, masked.input_ids, strict=True)) if a != b]
    assert changed == [i for i, word in enumerate(encoding.word_ids) if word != NO_WORD]
    assert read_back(of, masked.input_ids).count("<unk>") == len(changed)
    assert read_back(of, encoding.delete(range(6)).input_ids).endswith("the review: ! it was")


@pytest.mark.parametrize("kind", ("gpt2", "llama"))
def test_every_method_of_decoders_explains_or_refuses_by_name(kind, prompted):
    of = prompted(kind)
    headed = tiny.classifier(kind)
    for name in tiny.UNTRAINED:
        method = tiny.quick(name)
        try:
            method.explain(headed, [])
        except UnsupportedError as error:
            with pytest.raises(UnsupportedError, match=str(error)[:30]):
                method.explain(of, [])
            continue
        attributions = method.explain(of, [TEXT, "a quick fox"], [1, 0])
        assert [a.words for a in attributions] == [tuple(TEXT.split()), ("a", "quick", "fox")], name
        assert all(np.isfinite(a.scores).all() for a in attributions), name


def test_a_pair_goes_into_its_slots(folders):
    prompt = {"template": "{text} so {pair} ? it is", "label_words": {"no": " slow", "yes": " quick"}}
    of = load_classifier(folders("gpt2"), device="cpu", completion=prompt)
    assert not reads_single_texts(of)
    (encoding,) = of.encode([("the fox sleeps", "a dog")])
    assert encoding.words == ("the", "fox", "sleeps", "a", "dog") and encoding.pair_start == 3
    assert read_back(of, encoding.input_ids) == "the fox sleeps so a dog ? it is"
    with pytest.raises(DataError, match="text 1: does not fit the template"):
        of.encode(["the fox"])


def test_long_texts_are_cut_and_the_prompt_is_not(prompted):
    of = prompted("gpt2")
    long = " ".join(["slow"] * 300)
    (encoding,) = of.encode([long])
    assert len(encoding) == of.max_length
    assert read_back(of, encoding.input_ids).endswith("slow slow ! it was")
    attribution = explearn.explain(of, long, "occlusion")
    assert len(attribution.words) == 300 and 0 < attribution.unaligned < 300 and np.isnan(attribution.scores[-1])
    windowed = explearn.explain(of, long, "input_x_gradient", windows=40)
    assert windowed.windows > 1 and np.isfinite(windowed.scores).all()


def test_a_prompt_longer_than_the_model_reads_is_refused(folders):
    shots = [{"text": "the lazy dog sleeps " * 40, "label": "slow"}]
    of = load_classifier(folders("gpt2"), device="cpu", completion={**PROMPT, "shots": shots})
    with pytest.raises(DataError, match=r"text 1: the prompt takes \d+ of the 160 sub-tokens"):
        of.encode(["slow"])


@pytest.mark.parametrize("kind", ("gpt2", "mistral"))
def test_saved_and_loaded_it_is_the_same_classifier(kind, prompted, tmp_path):
    of = prompted(kind)
    of.save_pretrained(tmp_path / "saved")
    again = load_classifier(tmp_path / "saved", device="cpu")
    assert again.fingerprint == of.fingerprint
    np.testing.assert_array_equal(again.predict_proba([TEXT]), of.predict_proba(of.encode([TEXT])))
    # Another prompt is another classifier.
    other = load_classifier(tmp_path / "saved", device="cpu", completion={**PROMPT, "instruction": ""})
    assert other.fingerprint != of.fingerprint


PROBLEMS = {
    "two slots": ({"template": "{text} {text} it was"}, ParamsError, "expected {text} once"),
    "the same word": ({"label_words": {"slow": " slow", "quick": " slow dog"}}, ModelError, "share their first token"),
    "a blank in the template": (
        {"template": "{text} it was ", "label_words": {"slow": "slow", "quick": "quick"}},
        ModelError,
        "joins with the end of the template",
    ),
    "a label without a word": ({"shots": [{"text": "a dog", "label": "dull"}]}, ParamsError, "'dull' has no word"),
    "a mask of many tokens": ({"mask": "a quick fox"}, ModelError, "expected a text of one token"),
}


@pytest.mark.parametrize(("change", "kind", "said"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_prompt_that_cannot_be_is_refused(change, kind, said, folders):
    with pytest.raises(kind, match=said):
        load_classifier(folders("gpt2"), device="cpu", completion={**PROMPT, **change})


def test_a_classifier_that_was_never_prompted_is_not_given_a_prompt(tmp_path):
    folder = tiny.save(tmp_path / "bert", "bert", 2)
    words = {label: f" {label}" for label in load_classifier(folder, device="cpu").labels}
    with pytest.raises(ModelError, match="has a head of its own, for no, yes"):
        load_classifier(folder, device="cpu", completion={"template": "{text} was", "label_words": words})


def test_a_masked_last_word_is_not_taken_for_padding(tmp_path):
    folder = save(tmp_path / "gpt2", "gpt2", prompt=None)
    words = transformers.AutoTokenizer.from_pretrained(folder)
    words.pad_token = words.unk_token = words.eos_token
    words.save_pretrained(folder)
    prompt = {"template": "review: {text}", "label_words": {"slow": " slow", "quick": " quick"}}
    with pytest.raises(ModelError, match="the template ends with the text"):
        load_classifier(folder, completion=prompt)
    of = load_classifier(folder, device="cpu", completion={**prompt, "template": "review: {text} it was"})
    (encoding,) = of.encode([TEXT])
    masked = encoding.mask(range(6), of.mask_token_id)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([masked.input_ids])).logits[0, -1, of.completion.ids]
    assert_close(of.predict_proba([masked])[0], logits.double().softmax(0))


def test_bias_of_the_output_layer_counts(tmp_path):
    model = tiny.language_model("phi", max_position_embeddings=POSITIONS)
    torch.nn.init.normal_(model.lm_head.bias)
    model.save_pretrained(tmp_path)
    tokenizer("phi").save_pretrained(tmp_path)
    of = load_classifier(tmp_path, device="cpu", completion=PROMPT)
    (encoding,) = of.encode([TEXT])
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([encoding.input_ids])).logits[0, -1, of.completion.ids]
    assert_close(of.predict_proba([encoding])[0], logits.double().softmax(0))


def test_the_command_line_takes_the_prompt_from_a_file(tmp_path):
    folder = save(tmp_path / "gpt2", "gpt2", prompt=None)
    (tmp_path / "prompt.yaml").write_text(yaml.safe_dump(PROMPT), encoding="utf-8")
    common = ["explain", "--device", "cpu", "--classifier", str(folder), "--json", "--method", "raw_attention", TEXT]
    done = run(*common, "--completion", str(tmp_path / "prompt.yaml"))
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["words"] == TEXT.split() and record["target"] in PROMPT["label_words"]
    without = run(*common)
    assert without.exit_code == 2 and "generative model without a classification head" in without.stderr


def test_a_task_s_classifier_may_be_a_prompted_model(tmp_path):
    folder = save(tmp_path / "gpt2", "gpt2", prompt=None)
    given = ClassifierParams.model_validate(
        {"name": str(folder), "labels": {"slow": "negative", "quick": "positive"}, "completion": PROMPT}
    )
    import_classifier(tmp_path / "c", given, "films", ["negative", "positive"], ComputeOptions(device="cpu"))
    imported = load_classifier(tmp_path / "c", device="cpu")
    assert imported.labels == ["negative", "positive"]
    of = load_classifier(folder, device="cpu", completion=PROMPT)
    np.testing.assert_array_equal(imported.predict_proba([TEXT]), of.predict_proba(of.encode([TEXT])))


def test_learned_methods_train_on_a_prompted_model(prompted, tmp_path):
    of = prompted("gpt2")
    encoder = tiny.save_encoder(tmp_path / "encoder")
    trained = all_trained(short_task(of), tmp_path / "paml", backbone=encoder)
    ivra, _ = trained["ivra"]
    ivra.save_pretrained(tmp_path / "ivra")
    own = load_classifier(tmp_path / "ivra" / "classifier", device="cpu")
    assert own.completion is not None and own.labels == of.labels
    trained["ivra"] = IvRA.from_pretrained(tmp_path / "ivra"), own
    for method, classifier in trained.values():
        attributions = method.explain(classifier, tiny.TEXTS)
        assert [len(a.scores) for a in attributions] == [len(text.split()) for text in tiny.TEXTS]
        assert all(np.isfinite(a.scores).all() for a in attributions)
    with pytest.raises(UnsupportedError, match="classifies by a prompt"):
        export_onnx(tmp_path / "reader.onnx", explainer=trained["reader"][0], classifier=of)
    assert not (tmp_path / "reader.onnx").exists()
