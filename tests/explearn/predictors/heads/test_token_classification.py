"""A model that classifies tokens: its classes, which word is explained, methods, metrics and pages."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import tiny
import torch
from fakes import attribution as attribution_of

import explearn
from explearn import DataError, UnsupportedError, load_classifier
from explearn.metrics.faithfulness import faithfulness
from explearn.metrics.params import EvaluateParams
from explearn.predictors.heads.token_classification import TokenPredictor, at
from explearn.subject.texts import TextColumns, given_texts

TEXT = "she sells beautiful shells (unbelievably slow) while the guide sleeps ."
KINDS = ("bert", "roberta", "llama")
"""WordPiece, byte-level BPE, and a decoder."""


def by_hand(tagger, text):
    """Logits of transformers' own model at the first sub-token of each word that covers a letter, else its first."""
    encoded = tagger.tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
    offsets = encoded.pop("offset_mapping")[0].tolist()
    model = tagger.model
    with torch.inference_mode():
        logits = model.model(**encoded).logits[0].tolist()
    rows = []
    start = 0
    for word in text.split():
        begin = text.index(word, start)
        start = begin + len(word)
        inside = [i for i, (a, b) in enumerate(offsets) if max(a, begin) < min(b, start)]
        told = [i for i in inside if any(map(str.isalnum, text[offsets[i][0] : offsets[i][1]]))]
        rows.append(logits[(told or inside)[0]])
    return rows


@pytest.mark.parametrize("kind", KINDS)
class TestAnswers:
    def test_a_word_has_the_logits_of_its_first_sub_token_with_a_letter(self, kind):
        tagger = tiny.make_tagger(kind)
        expected = torch.tensor(by_hand(tagger, TEXT))
        for word, row in enumerate(expected):
            view = tagger.at(word)
            torch.testing.assert_close(view.logits(view.batch(view.read([TEXT])))[0], row, atol=1e-4, rtol=0)
        np.testing.assert_allclose(tagger.predict_words(TEXT), expected.softmax(-1), atol=1e-5)

    def test_other_words_deleted_it_stays_and_masked_it_is_found(self, kind):
        tagger = tiny.make_tagger(kind).at(5)
        (encoding,) = tagger.read([TEXT])
        shorter = encoding.delete(range(3, 11))
        assert shorter.read == {0, 1, 2, 5}
        model = tagger.model
        with torch.inference_mode():
            expected = model.model(input_ids=torch.tensor([shorter.input_ids])).logits[0, shorter.word_ids.index(5)]
        torch.testing.assert_close(tagger.logits(tagger.batch([shorter]))[0], expected, atol=1e-4, rtol=0)
        shortened = (encoding, encoding.keep([0]), encoding.mask([5], tagger.mask_token_id))
        assert all(actual.focus == (5, 6) for actual in shortened)

    def test_saved_and_loaded_it_is_the_same(self, kind, tmp_path):
        tagger = tiny.make_tagger(kind)
        tagger.save_pretrained(tmp_path / "m")
        loaded = load_classifier(tmp_path / "m", device="cpu")
        assert isinstance(loaded, TokenPredictor) and loaded.fingerprint == tagger.fingerprint
        np.testing.assert_allclose(loaded.predict_words(TEXT), tagger.predict_words(TEXT), atol=1e-6)


TAKE_APART = frozenset({"alti", "cam", "decompx", "full_lrp", "globenc", "lrp", "transformer_attribution"})
"""Methods that know the head of a classifier of texts alone."""


@pytest.mark.parametrize("name", sorted(tiny.UNTRAINED))
def test_methods_explain_the_word_or_say_why_not(name):
    tagger = tiny.make_tagger()
    explainer = tiny.quick(name)
    if name in TAKE_APART:
        with pytest.raises(UnsupportedError, match="classifies tokens"):
            explainer.explain(tagger.at(3), [TEXT])
        return
    (attribution,) = explainer.explain(tagger.at(3), [TEXT])
    probabilities = tagger.predict_words(TEXT)[3]
    assert attribution.focus == (3, 4) and np.isfinite(attribution.scores).all()
    assert attribution.target == attribution.predicted == tagger.labels[probabilities.argmax()]
    assert attribution.probability == pytest.approx(probabilities.max(), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_and_relevance_reach_the_word_on_each_model(kind):
    tagger = tiny.make_tagger(kind)
    for name in ("attn_lrp", "gae", "attcat", "integrated_gradients", "rollout"):
        one, other = (explearn.explain(tagger.at(token), TEXT, name).scores for token in (2, 7))
        assert np.abs(one).max() > 0 and not np.allclose(one, other)
        if kind == "llama":
            # A decoder's word sees none behind it.
            assert np.allclose(one[3:], 0) and np.abs(other[3:8]).max() > 0


def test_occlusion_is_the_drop_by_masking_each_word_the_classified_one_too():
    tagger = tiny.make_tagger()
    view = tagger.at(2)
    (encoding,) = view.read([TEXT])
    p = view.predict_proba([encoding, *(encoding.mask([i], tagger.mask_token_id) for i in range(11))])
    best = p[0].argmax()
    masked = explearn.explain(tagger.at("beautiful"), TEXT, "occlusion")
    assert masked.scores == pytest.approx(p[0, best] - p[1:, best], abs=1e-5)
    deleted = explearn.explain(view, TEXT, "occlusion", removal="delete")
    assert deleted.scores[2] == 0 and np.count_nonzero(deleted.scores) == 10


def test_targets_and_other_outputs_are_of_the_word():
    tagger = tiny.make_tagger()
    view = tagger.at(3)
    logits = by_hand(tagger, TEXT)[3]
    p = tagger.predict_words(TEXT)[3]
    given = explearn.explain(view, TEXT, "input_x_gradient", "bad")
    assert given.target == "bad" and given.probability == pytest.approx(p[0], abs=1e-5)
    versus = explearn.explain(explearn.versus(view, "bad"), TEXT, "input_x_gradient", "good")
    assert versus.value == pytest.approx(logits[2] - logits[0], abs=1e-4)
    chosen = explearn.explain(explearn.explaining(view, "probability"), TEXT, "attn_lrp", "fair")
    assert chosen.value == pytest.approx(p[1], abs=1e-5)


def test_the_word_in_larger_and_smaller_units():
    tagger = tiny.make_tagger().at(5)
    tokens = explearn.explain(tagger, TEXT, "occlusion", unit="token")
    assert tokens.focus_text and tokens.focus_text in TEXT.split()[5]
    half = len(TEXT.split("(", maxsplit=1)[0])
    parts = explearn.explain(tagger, TEXT, "occlusion", unit=lambda text: [(0, half - 1), (half, len(text))])
    assert parts.focus == (1, 2) and np.isfinite(parts.scores).all()


def test_faithfulness_takes_out_other_words_alone():
    view = tiny.make_tagger().at(2)
    (encoding,) = view.read([TEXT])
    (target,) = view.predict([TEXT])
    scores = np.arange(11, 0, -1, dtype=np.float32)  # best first: the top fifth are the words 0 and 1
    scores[2] = 20
    attribution = replace(attribution_of(encoding.words, scores, target=target), focus=(2, 3))
    params = EvaluateParams(percents=[20], headline_percent=20)
    values = faithfulness(view, {"a": encoding}, {"m": [attribution]}, params)["m"].values
    p = view.predict_proba([encoding, encoding.delete([0, 1]), encoding.keep([0, 1])])[:, view.label_index(target)]
    assert values["comprehensiveness"][0] == pytest.approx(p[0] - p[1], abs=1e-6)
    assert values["sufficiency"][0] == pytest.approx(p[0] - p[2], abs=1e-6)


def test_shown_it_is_marked():
    attribution = explearn.explain(tiny.make_tagger().at(1), TEXT, "random")
    assert "&#x27;sells&#x27; is" in attribution.to_html() and attribution.to_html().count(' focus"') == 1
    assert "of 'sells'" in str(attribution)


def test_a_table_names_the_word_of_each_text():
    rows = [{"text": "the quick fox", "word": "fox"}, {"text": "the dog and the cat", "word": 3}]
    columns = TextColumns(token="word")
    read = given_texts(rows, columns=columns).examples
    tagger = tiny.make_tagger()
    assert [encoding.focus for encoding in tagger.read(read)] == [(2, 3), (3, 4)]
    expected = [tagger.predict_words(row["text"])[word] for row, word in zip(rows, (2, 3), strict=True)]
    np.testing.assert_allclose(tagger.predict_proba(read), expected, atol=1e-5)
    names = {"random", "lime", "attn_lrp"}
    assert set(explearn.compare(tagger, rows, columns=columns, methods=list(names), out=None).figures) == names
    with pytest.raises(DataError, match="row 1, field 'word': the text: token: got 'cat', which is none"):
        given_texts([{"text": "the dog", "word": "cat"}], columns=columns)


def test_learned_methods_train_on_words_but_for_aml():
    view = tiny.make_tagger().at(1)
    texts = [f"{first} {second} sleeps" for first, second in product(("the", "a", "our"), ("dog", "fox", "guide"))]
    trained = explearn.train("reader", view, texts)
    (attribution,) = trained.explain(view, texts[:1])
    assert attribution.focus == (1, 2) and np.isfinite(attribution.scores).all()
    with pytest.raises(UnsupportedError, match="classifies tokens; expected a classifier of texts"):
        explearn.train("paml", view, texts)


@pytest.mark.parametrize(
    ("token", "text", "said"),
    [
        (None, "the dog", r"text 1: token: got none; expected .*: 0 the (bad|fair|good), 1 dog "),
        ("the", "the dog and the fox", "occurs 2 times, as the words 0, 3"),
    ],
)
def test_a_word_that_is_not_told(token, text, said):
    tagger = tiny.make_tagger()
    with pytest.raises(DataError, match=said):
        explearn.explain(tagger if token is None else tagger.at(token), text, "random")


def test_windows_and_other_classifiers_are_refused():
    with pytest.raises(UnsupportedError, match="window by window"):
        explearn.explain(tiny.make_tagger().at(1), TEXT, "random", windows=4)
    with pytest.raises(UnsupportedError, match="classifies no tokens; a token is for"):
        at(tiny.classifier(), 1)
