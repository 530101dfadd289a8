"""Sentence embeddings: similarities of two texts, and linear heads, with the values of sentence-transformers."""

from itertools import combinations, product
from math import factorial

import numpy as np
import pytest
import tiny
import torch
import transformers
from rounding import assert_close
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier

import explearn
from explearn import DataError, ModelError, Problem, SimilarityPredictor, UnsupportedError
from explearn.lens.perturb import parts, randomised
from explearn.predictors.loading import embedded_encoder
from explearn.predictors.pretrained import as_predictor
from explearn.testing import check_predictor

sentence_transformers = pytest.importorskip("sentence_transformers")

PAIR = ("the quick brown fox sleeps", "a lazy dog and a quick fox")
SHORT = ("quick brown fox", "lazy fox")
TEXTS = [*tiny.TEXTS, *tiny.CORPUS]


def encoder(kind):
    """A transformer without a head, with random weights."""
    config = tiny.model(kind).config
    with torch.inference_mode(False), torch.random.fork_rng():
        torch.manual_seed(0)
        return transformers.AutoModel.from_config(config).eval()


def embedder(tmp_path, kind="bert", pooling="mean", dense=False, normalised=False, **options):
    """A SentenceTransformer of a tiny random encoder."""
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    encoder(kind).save_pretrained(tmp_path)
    tiny.tokenizer(kind).save_pretrained(tmp_path)
    first = Transformer(str(tmp_path))
    modules = [first, Pooling(tiny.HIDDEN, pooling)]
    if dense:
        torch.manual_seed(1)
        modules.append(Dense(tiny.HIDDEN, 12))
    if normalised:
        modules.append(Normalize())
    return sentence_transformers.SentenceTransformer(modules=modules, device="cpu", **options)


BUILDS = {
    "BERT, mean": {},
    "BERT, cls, dot": {"pooling": "cls", "similarity_fn_name": "dot"},
    "RoBERTa, dense, normalised": {"kind": "roberta", "dense": True, "normalised": True},
    "MPNet": {"kind": "mpnet"},
    "DistilBERT": {"kind": "distilbert"},
    "Qwen 2, last token": {"kind": "qwen2", "pooling": "lasttoken"},
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_the_similarity_is_the_library_s(build, tmp_path):
    model = embedder(tmp_path, **build)
    of = as_predictor(model)
    assert of.problem is Problem.REGRESSION and of.labels == ["similarity"]
    # Of different lengths, in one batch.
    pairs = [PAIR, ("lazy", "a warm funny sequel that nobody asked for"), (PAIR[1], PAIR[0])]
    one, other = zip(*pairs, strict=True)
    expected = model.similarity_pairwise(model.encode(one), model.encode(other)).numpy()
    assert_close(of.predict_logits(of.read(pairs))[:, 0], expected)


def test_words_of_both_texts_are_scored(tmp_path):
    of = as_predictor(embedder(tmp_path))
    words = tuple(" ".join(PAIR).split())
    for method in ("input_x_gradient", "integrated_gradients", "occlusion", "kernel_shap", "random"):
        attribution = explearn.explain(of, PAIR, tiny.quick(method))
        assert attribution.words == words and np.isfinite(attribution.scores).all(), method
        assert attribution.pair_start == 5, method


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_similarity_is_a_predictor_of_pairs(kind, tmp_path):
    check_predictor(as_predictor(embedder(tmp_path, kind)), texts=[], pairs=[PAIR, SHORT])


def without(pair, removed):
    """Return a pair without some words, numbered through both texts."""
    texts = []
    number = 0
    for text in pair:
        kept = []
        for word in text.split():
            if number not in removed:
                kept.append(word)
            number += 1
        texts.append(" ".join(kept))
    return tuple(texts)


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    """A SentenceTransformer, and by set of removed words its own similarity of SHORT."""
    model = embedder(tmp_path_factory.mktemp("game"))
    values = {}
    for removed in product((False, True), repeat=5):
        numbers = frozenset(np.flatnonzero(removed).tolist())
        one, other = without(SHORT, numbers)
        values[numbers] = float(model.similarity(model.encode([one]), model.encode([other])))
    return model, values


def test_word_scores_are_the_exact_shapley_values_of_the_library_s_similarity(game):
    model, values = game
    expected = []
    for player in range(5):
        others = set(range(5)) - {player}
        value = 0.0
        for size in range(5):
            weight = factorial(size) * factorial(4 - size) / factorial(5)
            for coalition in combinations(sorted(others), size):
                gone = frozenset(others - set(coalition))
                value += weight * (values[gone] - values[gone | {player}])
        expected.append(value)
    method = explearn.get_explainer("kernel_shap", removal="delete")
    attribution = explearn.explain(as_predictor(model), SHORT, method)
    np.testing.assert_allclose(attribution.scores, expected, atol=1e-4)
    assert sum(expected) == pytest.approx(values[frozenset()] - values[frozenset(range(5))], abs=1e-6)


def test_interactions_between_two_texts_are_differences_of_the_library_s_similarity(game):
    model, values = game
    of = as_predictor(model)
    matrix = explearn.interaction_matrix(of, SHORT)
    for i, j in product(range(3), range(2)):
        pair = {i, 3 + j}
        expected = values[frozenset()] - values[frozenset({i})] - values[frozenset({3 + j})] + values[frozenset(pair)]
        assert matrix[i, j] == pytest.approx(expected, abs=1e-5)
        # The exact Shapley interaction, over all sets of the other words.
        others = set(range(5)) - pair
        exact = 0.0
        for size in range(4):
            weight = factorial(size) * factorial(3 - size) / factorial(4)
            for coalition in combinations(sorted(others), size):
                gone = frozenset(others - set(coalition))
                exact += weight * (values[gone] - values[gone | {i}] - values[gone | {3 + j}] + values[gone | pair])
        found = explearn.interactions(of, SHORT, explearn.explain(of, SHORT))
        (interaction,) = (one for one in found if set(one.positions) == pair)
        assert interaction.value == pytest.approx(exact, abs=1e-5)


def test_a_phrase_in_both_texts_makes_them_similar():
    model = sentence_transformers.SentenceTransformer(str(embedded_encoder()), device="cpu").train()
    pair = ("she bought a purple bicycle after the meeting", "rain fell on his purple bicycle all night")
    words = [text.split() for text in pair]
    for method in (None, "integrated_gradients"):
        attribution = explearn.explain(model, pair, method)
        assert attribution.method == (method or "occlusion")
        for text, side in zip(words, (attribution.scores[:8], attribution.scores[8:]), strict=True):
            assert {text[index] for index in np.argsort(side)[-2:]} == {"purple", "bicycle"}, method
    matrix = explearn.interaction_matrix(model, pair)
    assert matrix.shape == (8, 8)
    # The object stays as it came.
    assert model.training and all(parameter.requires_grad for parameter in model.parameters())
    two = np.argsort(matrix, axis=None)[-2:]
    assert {(words[0][i], words[1][j]) for i, j in (divmod(place, 8) for place in two.tolist())} == {
        ("purple", "purple"),
        ("bicycle", "bicycle"),
    }


def test_what_is_no_pair_or_looks_at_attention_is_refused(tmp_path):
    of = as_predictor(embedder(tmp_path))
    with pytest.raises(DataError, match="text 1: is one text"):
        explearn.explain(of, "lazy")
    with pytest.raises(UnsupportedError, match="apart from each other"):
        explearn.explain(of, PAIR, "raw_attention")
    with pytest.raises(UnsupportedError, match="saves no embeddings"):
        of.save_pretrained(tmp_path / "saved")
    with pytest.raises(DataError, match="single text"):
        explearn.interaction_matrix(tiny.classifier(), "lazy fox")


def test_gradients_are_refused_where_only_the_direction_of_embeddings_counts(tmp_path):
    of = as_predictor(embedder(tmp_path, "modernbert"))
    with pytest.raises(UnsupportedError, match="only the direction"):
        explearn.explain(of, PAIR, "input_x_gradient")
    assert np.isfinite(explearn.explain(of, PAIR).scores).all()


def test_an_encoder_of_transformers_is_read_by_its_mean_and_cosine():
    model, words = encoder("bert"), tiny.tokenizer("bert")
    of = SimilarityPredictor.around(model, words)
    means = [model(**words(text, return_tensors="pt")).last_hidden_state[0].mean(0) for text in PAIR]
    expected = torch.nn.functional.cosine_similarity(*means, dim=0)
    assert_close(of.predict_logits(of.read([PAIR]))[0, 0], expected.item())


# ---- heads -----------------------------------------------------------------------------------------------------------


class SetFit:
    """Stands for a SetFit model, by what is public of it."""

    def __init__(self, body, head, labels=None, normalize_embeddings=False):
        self.model_body = body
        self.model_head = head
        self.labels = labels
        self.normalize_embeddings = normalize_embeddings

    def predict_proba(self, inputs, as_numpy=False):
        vectors = self.model_body.encode(inputs, normalize_embeddings=self.normalize_embeddings)
        rows = self.model_head.predict_proba(vectors)
        return np.stack(rows, axis=1) if isinstance(rows, list) else np.asarray(rows)


class SetFitHead(torch.nn.Module):
    """Stands for SetFit's own head, by what is public of it."""

    temperature, eps, multitarget = 0.5, 1e-5, False

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(tiny.HIDDEN, 3)

    @torch.no_grad()
    def predict_proba(self, vectors):
        return (self.linear(torch.as_tensor(vectors)) / (self.temperature + self.eps)).softmax(-1)


def labels_of(classes):
    return [number % classes for number in range(len(TEXTS))]


def fitted(body, classes):
    return LogisticRegression(C=10).fit(body.encode(TEXTS), labels_of(classes))


HEADS = {
    "two classes, a pair": (lambda body: (body, fitted(body, 2)), Problem.BINARY, ["0", "1"]),
    "three classes, a pair": (lambda body: (body, fitted(body, 3)), Problem.SINGLE_LABEL, ["0", "1", "2"]),
    "three classes of SetFit": (
        lambda body: SetFit(body, fitted(body, 3), ["bad", "fair", "good"]),
        Problem.SINGLE_LABEL,
        ["bad", "fair", "good"],
    ),
    "SetFit's own head": (lambda body: SetFit(body, SetFitHead()), Problem.SINGLE_LABEL, ["0", "1", "2"]),
    "two labels of SetFit, normalised": (
        lambda body: SetFit(
            body,
            MultiOutputClassifier(LogisticRegression()).fit(
                body.encode(TEXTS, normalize_embeddings=True), np.array([labels_of(2), labels_of(3)]).T > 0
            ),
            ["rude", "slow"],
            normalize_embeddings=True,
        ),
        Problem.MULTI_LABEL,
        ["rude", "slow"],
    ),
}


@pytest.mark.parametrize(("make", "problem", "labels"), HEADS.values(), ids=HEADS)
def test_a_head_gives_the_library_s_probabilities(make, problem, labels, tmp_path):
    given = make(embedder(tmp_path))
    of = as_predictor(given)
    assert of.problem is problem and of.labels == labels
    if isinstance(given, tuple):
        body, head = given
        expected = head.predict_proba(body.encode(TEXTS))
    else:
        expected = given.predict_proba(TEXTS, as_numpy=True)
    if expected.ndim == 3:
        expected = expected[..., 1]
    assert_close(of.predict_proba(TEXTS), expected)


@pytest.mark.parametrize("kind", ["bert", "modernbert", "qwen2"])
def test_gradients_and_attention_explain_a_head(kind, tmp_path):
    body = embedder(tmp_path, kind, "lasttoken" if kind == "qwen2" else "mean")
    of = as_predictor((body, fitted(body, 3)))
    for name in tiny.UNTRAINED:
        method = tiny.quick(name)
        try:
            (attribution,) = method.explain(of, [TEXTS[1]])
        except UnsupportedError as error:
            assert name not in ("attn_lrp", "gae", "attcat", "input_x_gradient", "integrated_gradients", "occlusion"), (
                error
            )
            continue
        assert np.isfinite(attribution.scores).all(), name
    versus = explearn.versus(of, "0")
    logits = of.predict_logits(of.read([TEXTS[1]]))[0]
    assert_close(versus.predict_logits(versus.read([TEXTS[1]]))[0], logits[1:] - logits[0])


def test_gradients_of_a_head_are_those_of_the_library_s_encoder(tmp_path):
    """input x gradient, against autograd through the SentenceTransformer itself."""
    body = embedder(tmp_path)
    head = fitted(body, 3)
    text = TEXTS[0]
    expected_target = int(head.predict(body.encode([text]))[0])
    table = body[0].auto_model.get_input_embeddings()
    kept = []

    def keep(_module, _inputs, output):
        kept.append(output.detach().requires_grad_())
        return kept[-1]

    handle = table.register_forward_hook(keep)
    vector = body(body.preprocess([text]))["sentence_embedding"]
    handle.remove()
    logit = vector @ torch.tensor(head.coef_[expected_target], dtype=torch.float32)
    (gradient,) = torch.autograd.grad(logit.sum(), kept[-1])
    expected = (gradient * kept[-1]).sum(-1)[0, 1:-1].detach().numpy()
    method = explearn.get_explainer("input_x_gradient", output="logit")
    attribution = explearn.explain(as_predictor((body, head)), text, method)
    assert attribution.target == str(expected_target)
    np.testing.assert_allclose(attribution.scores, expected, rtol=1e-4, atol=1e-6)


def test_a_copy_with_random_weights_has_another_head(tmp_path):
    body = embedder(tmp_path, dense=True)
    of = as_predictor((body, fitted(body, 3)))
    changed = randomised(of, seed=0, chosen=["head"])
    assert changed.fingerprint != of.fingerprint
    assert parts(of)["layer 1"] and not np.allclose(changed.predict_proba(TEXTS), of.predict_proba(TEXTS))


def test_heads_that_are_not_linear_and_other_values_are_refused(tmp_path):
    body = embedder(tmp_path)
    with pytest.raises(ModelError, match="is no linear head"):
        as_predictor((body, KNeighborsClassifier(2).fit(body.encode(TEXTS), labels_of(2))))
    # Shares of three sigmoids.
    with pytest.raises(ModelError, match="its parts give"):
        as_predictor((body, OneVsRestClassifier(LogisticRegression(C=10)).fit(body.encode(TEXTS), labels_of(3))))
    with pytest.raises(ModelError, match="its parts give"):
        as_predictor(embedder(tmp_path, prompts={"query": "lazy dog: "}, default_prompt_name="query"))
    with pytest.raises(ModelError, match="with pooling 'max'"):
        as_predictor(embedder(tmp_path, pooling="max"))
    with pytest.raises(ModelError, match="its similarity is euclidean"):
        as_predictor(embedder(tmp_path, similarity_fn_name="euclidean"))
