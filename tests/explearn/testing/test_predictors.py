"""`check_predictor` passes every predictor of ours, and says what is wrong with one that breaks a rule."""

import json
from dataclasses import replace

import pytest
import tiny
import torch
from doc_examples import run_example

import explearn
from explearn import DataError, Encoding, FunctionPredictor, load_classifier
from explearn.testing import check_predictor

WordWeights = run_example("CONTRIBUTING.md", "predictor")["WordWeights"]


def asked(texts):
    return [[0.2, 0.8] if "fox" in text else [0.6, 0.4] for text in texts]


def values(texts):
    return [[len(str(text)), 0.5] for text in texts]


OURS = {
    **{kind: lambda kind=kind: tiny.classifier(kind, 3) for kind in (*tiny.ARCHITECTURES, "gpt2", "llama")},
    "one output": lambda: tiny.classifier("bert", 1),
    "function": lambda: FunctionPredictor(asked, ["a", "b"]),
    "function with a mask": lambda: FunctionPredictor(asked, ["a", "b"], mask="[UNK]", kind="multi_label"),
    "function with values": lambda: FunctionPredictor(values, ["a", "b"], kind="regression"),
    "token": lambda: tiny.make_tagger().at(0),
    "token of a decoder": lambda: tiny.make_tagger("llama").at(1),
    "question": tiny.make_answerer,
    "versus": lambda: explearn.versus(tiny.classifier("bert", 3), "fair"),
    "probability": lambda: explearn.explaining(tiny.classifier("bert", 3), "probability"),
    "versus of a function": lambda: explearn.versus(FunctionPredictor(asked, ["a", "b"]), "a"),
}


@pytest.mark.parametrize("name", OURS)
def test_ours_pass(name):
    check_predictor(OURS[name]())


@pytest.mark.parametrize("multi_label", [False, True])
def test_zero_shot_labels_pass(multi_label, tmp_path):
    model = tiny.model("bert", 3)
    model.config.id2label = {0: "contradiction", 1: "neutral", 2: "entailment"}
    model.config.label2id = {label: index for index, label in model.config.id2label.items()}
    model.save_pretrained(tmp_path)
    tiny.tokenizer("bert").save_pretrained(tmp_path)
    labels = ["slow delivery", "dog"]
    check_predictor(load_classifier(tmp_path, labels=labels, multi_label=multi_label, device="cpu"))


@pytest.mark.parametrize("template", ["the review: {text} ! it was", "{text} so {pair} ? it was"])
def test_prompts_pass(template, tmp_path):
    tiny.language_model("gpt2", max_position_embeddings=80).save_pretrained(tmp_path)
    tiny.tokenizer("gpt2", 80).save_pretrained(tmp_path)
    prompt = {"template": template, "label_words": {"slow": " slow", "quick": " quick"}}
    (tmp_path / "completion.json").write_text(json.dumps(prompt), encoding="utf-8")
    check_predictor(load_classifier(tmp_path, device="cpu"))


# ---- each rule, broken -----------------------------------------------------------------------------------------------


def broken(**members):
    """The predictor of CONTRIBUTING, with other members."""
    return type("Broken", (WordWeights,), members)()


def count_words(predictor, batch):
    """Logits by the words of the encodings, which are other units where those are explained."""
    rows = []
    for encoding in batch.encodings:
        words = [encoding.words[index] for index in encoding.word_ids]
        rows.append([0.0, float(words.count("fox"))])
    return torch.tensor(rows)


def count_tokens(predictor, batch):
    return torch.tensor([[0.0, float(predictor.tokens(encoding).count("fox"))] for encoding in batch.encodings])


def count_padding(predictor, batch):
    return torch.full((len(batch), 2), float(batch.input_ids.shape[1]))


def draw(predictor, batch):
    return torch.rand(len(batch), 2)


def by_id(predictor, batch):
    return torch.tensor([[0.0, float(len(encoding.example_id))] for encoding in batch.encodings])


def logits_changed(change):
    return lambda predictor, batch: change(WordWeights.logits(predictor, batch))


def encoded(change):
    """A function that encodes texts as the example does, and changes each encoding."""
    return lambda predictor, texts: [change(encoding) for encoding in WordWeights.encode(predictor, texts)]


def refuse(message):
    def encode(predictor, texts):
        if any(isinstance(text, tuple) for text in texts):
            raise DataError(message)
        return WordWeights.encode(predictor, texts)

    return encode


class EachTimeAnother(WordWeights):
    calls = 0

    @property
    def fingerprint(self):
        self.calls += 1
        return f"v{self.calls}"


class AnyLabel(WordWeights):
    """It takes a class that there is not for its first one."""

    def label_index(self, target):
        return {"positive": 1, 1: 1}.get(target, 0)


class BareError(WordWeights):
    def label_index(self, target):
        return {"negative": 0, 0: 0, "positive": 1, 1: 1}[target]


def of_no_word(encoding):
    return replace(encoding, word_ids=(-1,) * len(encoding), characters=((0, 0),) * len(encoding))


def beyond(encoding):
    return replace(encoding, characters=tuple((start, end + 1) for start, end in encoding.characters))


FAULTS = {
    "no name": (lambda: broken(name=""), "name is ''"),
    "labels that are no list": (lambda: broken(labels="ab"), "labels are 'ab'; expected a list"),
    "labels of one name": (lambda: broken(labels=["a", "a"]), "got the label 'a' twice"),
    "no problem": (lambda: broken(problem="softmax"), "problem is 'softmax'; expected one of explearn.Problem"),
    "three binary labels": (lambda: broken(labels=["a", "b", "c"]), "has 3 labels; expected two"),
    "no fingerprint": (lambda: broken(fingerprint=""), "fingerprint is ''"),
    "another fingerprint": (EachTimeAnother, "the fingerprint is another one the second time"),
    "any label": (AnyLabel, "is taken; expected UnknownNameError"),
    "a bare error": (BareError, "KeyError"),
    "strings": (lambda: broken(encode=lambda _, texts: list(texts)), "encode gave str; expected an explearn.Encoding"),
    "too few": (lambda: broken(encode=lambda _, texts: []), "encode gave 0 encodings of 4 texts"),
    "no words": (lambda: broken(encode=encoded(of_no_word)), "no sub-token covers ['the', 'quick', 'brown', 'fox']"),
    "cut": (lambda: broken(encode=encoded(lambda e: e.only([i < 2 for i in range(len(e))]))), "['brown', 'fox']"),
    "characters": (lambda: broken(encode=encoded(beyond)), "characters 0 to 4 of a word of 3"),
    "only ids": (
        lambda: broken(encode=encoded(lambda e: Encoding(e.input_ids, segments=e.segments))),
        "encode gave 0 special for 4 input_ids",
    ),
    "unlocated": (lambda: broken(encode=refuse("pairs are not read")), "a message that begins with “text 1”"),
    "half": (lambda: broken(logits=logits_changed(torch.Tensor.half)), "logits are torch.float16; expected float32"),
    "not finite": (lambda: broken(logits=logits_changed(lambda x: x / 0)), "a logit that is not finite"),
    "one class": (lambda: broken(logits=logits_changed(lambda x: x[:, :1])), "logits of shape (1, 1)"),
    "draws": (lambda: broken(logits=draw), "all texts together"),
    "padding": (lambda: broken(logits=count_padding), "all texts together, text 'the quick brown fox'"),
    "reads the id": (lambda: broken(logits=by_id), "the same input with another id"),
    "reads words": (lambda: broken(logits=count_words), "or in other units"),
    "reads tokens": (lambda: broken(logits=count_tokens), "or in other units"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault):
    make, message = FAULTS[fault]
    with pytest.raises(AssertionError) as caught:
        check_predictor(make())
    assert message in str(caught.value)


def test_a_predictor_of_single_texts_passes_where_it_refuses_pairs_by_number():
    check_predictor(broken(encode=refuse("text 1: is a pair; expected one text")))
    with pytest.raises(AssertionError, match="takes neither the single texts nor the pairs"):
        check_predictor(broken(encode=refuse("text 1: is a pair; expected one text")), texts=[])
