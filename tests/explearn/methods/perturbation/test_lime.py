import numpy as np
import pytest
import tiny
from lime.lime_text import LimeTextExplainer

import explearn

LONGEST = tiny.TEXTS[3]
"""Fourteen words, no two alike."""


def direct(
    text,
    classifier_fn,
    target,
    samples,
    seed,
    **options,
):
    """Weights of the words, by the library on the text itself, with its own choice of features."""
    explainer = LimeTextExplainer(split_expression=r"\s+", bow=False, mask_string="", random_state=seed, **options)
    words = len(text.split())
    explanation = explainer.explain_instance(
        text, classifier_fn, labels=(target,), num_features=words, num_samples=samples
    )
    weights = np.zeros(words)
    for word, weight in explanation.local_exp[target]:
        weights[word] = weight
    return weights


@pytest.mark.parametrize(("text", "target"), list(zip(tiny.TEXTS, (0, 1, 2, 0, 1), strict=True)))
def test_is_what_the_library_gives_for_strings(text, target):
    """BERT's tokenizer splits a word alike wherever it stands, so strings without words are sub-tokens without them."""
    of = tiny.classifier("bert", 3)

    def probabilities(strings):
        encoded = of.tokenizer(list(strings), padding=True, return_tensors="pt")
        return of.model(**encoded).logits.softmax(-1).double().numpy()

    (attribution,) = explearn.get_explainer("lime", samples=100, seed=3).explain(of, [text], [target])
    expected = direct(text, probabilities, target, 100, 3)
    np.testing.assert_allclose(attribution.scores, expected, atol=1e-6)
    assert np.abs(expected).max() > 1e-5


def by_words(of, text, removal, value):
    """A classifier_fn that finds the words left in each string, all different, and removes the others' sub-tokens."""
    (encoding,) = of.encode([text])

    def classifier_fn(strings):
        encodings = []
        for string in strings:
            gone = [i for i, word in enumerate(encoding.words) if word not in string.split()]
            encodings.append(tiny.without(of, encoding, gone, removal))
        return value(of.predict_proba(encodings))

    return classifier_fn


@pytest.mark.parametrize("removal", ["delete", "mask"])
@pytest.mark.parametrize(("output", "value"), [("probability", np.array), ("log_probability", np.log)])
@pytest.mark.parametrize("kind", tiny.KINDS_OF_TOKENIZER)
def test_is_what_the_library_gives_for_every_tokenizer(kind, output, value, removal):
    of = tiny.classifier(kind, 3)
    method = explearn.get_explainer("lime", samples=80, seed=1, output=output, removal=removal, kernel_width=10)
    (attribution,) = method.explain(of, [LONGEST])
    target = of.labels.index(attribution.target)
    words = max(of.encode([LONGEST])[0].word_ids) + 1
    seen = " ".join(LONGEST.split()[:words])
    expected = direct(seen, by_words(of, seen, removal, value), target, 80, 1, kernel_width=10)
    np.testing.assert_allclose(attribution.scores[:words], expected, atol=1e-5)


def test_a_pair_s_words_are_left_out_of_both_segments():
    """With one word for each segment, all four sets of words occur, and the regression is weighted by them."""
    of = tiny.classifier("bert")
    pair = ("slow", "refund")
    (attribution,) = explearn.get_explainer("lime", samples=60, seed=2).explain(of, [pair])
    (encoding,) = of.encode([pair])

    def classifier_fn(strings):
        kept = [np.isin(pair, string.split()) for string in strings]
        return of.predict_proba([encoding.delete(np.flatnonzero(~words).tolist()) for words in kept])

    expected = direct("slow refund", classifier_fn, of.labels.index(attribution.target), 60, 2)
    np.testing.assert_allclose(attribution.scores, expected, atol=1e-6)
