"""What tests of gradient methods share."""

import functools

import numpy as np
import tiny

import explearn

OUTPUTS = {
    "logit": lambda logits: logits,
    "probability": lambda logits: logits.softmax(-1),
    "log_probability": lambda logits: logits.log_softmax(-1),
}


BASELINES = ("pad", "mask", "zero")


METHODS = (
    "gradient",
    "input_x_gradient",
    "integrated_gradients",
    "gradient_shap",
    "deep_lift",
    "sequential_ig",
    "deep_shap",
)


TEXTS = [*tiny.TEXTS, *tiny.PAIRS]


FEW = [tiny.TEXTS[1], tiny.TEXTS[2], tiny.PAIRS[0]]


CASES = [
    ("bert", 2, "logit"),
    ("bert", 3, "probability"),
    ("roberta", 3, "logit"),
    ("distilbert", 3, "log_probability"),
    ("albert", 3, "log_probability"),
    ("electra", 3, "logit"),
]


def embedded(of, text, output="logit"):
    """A text's encoding, its word embeddings, and the function from those to outputs, without padding."""
    (encoding,) = of.encode([text])
    batch = of.batch([encoding])
    inputs = {name: value for name, value in batch.model_inputs().items() if name != "input_ids"}
    embeddings = of.model.get_input_embeddings()(batch.input_ids).detach()

    def forward(rows):
        repeated = {name: value.expand(len(rows), -1) for name, value in inputs.items()}
        return OUTPUTS[output](of.model(inputs_embeds=rows, **repeated).logits)

    return encoding, embeddings, forward


def empty(of, encoding, embeddings, baseline):
    """The baseline of a text, written out: special tokens stay."""
    ids = {"pad": of.tokenizer.pad_token_id, "mask": of.tokenizer.mask_token_id, "zero": 0}
    vector = of.model.get_input_embeddings().weight[ids[baseline]] * (baseline != "zero")
    start = embeddings.clone()
    for position in encoding.positions:
        start[0, position] = vector
    return start


def close(actual, expected):
    expected = expected.detach()
    np.testing.assert_allclose(actual, expected, atol=1e-6 * max(1.0, float(expected.abs().max())))


@functools.cache
def double_classifier(kind, classes=3):
    """In float64, where padding and batches do not show in the last digits; its padding embedding is not zero."""
    of = tiny.make_classifier(kind, classes)
    of.model.double()
    weight = of.model.get_input_embeddings().weight
    weight[of.tokenizer.pad_token_id] = weight[10].flip(0)
    return of


def explained(name, of, texts, targets=None, **options):
    attributions = explearn.get_explainer(name, **options).explain(of, texts, targets)
    return [(text, attribution, of.labels.index(attribution.target)) for text, attribution in zip(texts, attributions)]  # noqa: B905
