"""Architectures that nobody listed: explained right, or refused by name.

References: transformers' own `inputs_embeds`, autograd, one text at a time, words left out by hand.
"""

import copy
import functools

import numpy as np
import pytest
import tiny
import torch
import transformers
from cli_cases import run
from saying import complaint

import explearn
from explearn import ComputeOptions, TransformerPredictor
from explearn.methods.aml.paml import PAML
from explearn.methods.registry import known_infos
from explearn.predictors.architectures import ARCHITECTURES

TEXTS = ["unbelievably slow delivery", "the lazy fox", "a warm funny sequel that nobody asked for"]
TARGETS = [1, 0, 1]
AT_WORDS = {
    *("consensus", "gradient", "input_x_gradient", "integrated_gradients"),
    *("gradient_shap", "sequential_ig", "deep_lift", "deep_shap"),
}
BY_ANSWERS = {"random", "every_word", "occlusion", "lime", "shap", "kernel_shap", "slalom", "solvex", "hierarchical"}

_BLOCKS = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
_TWO_SIDES = {
    **dict.fromkeys(("encoder_layers", "encoder_attention_heads", "decoder_layers", "decoder_attention_heads"), 2),
    **{"d_model": 32, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "scale_embedding": True},
}
_LIMIT = {"max_position_embeddings": tiny.POSITIONS}
_GPT = {"n_layer": 2, "n_head": 4, "n_embd": 32, "n_positions": tiny.POSITIONS}
SIZES = {
    # Two readers of the same words, the second one position later.
    "bart": {**_TWO_SIDES, **_LIMIT, "decoder_start_token_id": 2, "eos_token_id": 2},
    "mbart": {**_TWO_SIDES, **_LIMIT, "eos_token_id": 2},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
    # Segments are looked up in the table of words.
    "xlm": {"n_layers": 2, "n_heads": 4, "emb_dim": 32, **_LIMIT},
    # What was looked up is scaled in place.
    "ctrl": {**_GPT, "dff": 48},
    # The head reads the last position, padding or not; words are looked up in columns.
    "xlnet": {"n_layer": 2, "n_head": 4, "d_model": 32, "d_inner": 48},
    # Padding changes what is said of a text.
    "convbert": {**_BLOCKS, **_LIMIT, "embedding_size": 32},
    "nystromformer": {**_BLOCKS, **_LIMIT, "num_landmarks": 4, "segment_means_seq_len": 4},
    "funnel": {"block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48},
    "data2vec-text": {**_BLOCKS, **_LIMIT},
    "bloom": {"n_layer": 2, "n_head": 4, "hidden_size": 32},
    # Refused at the words: their table gives a pair, and they have no gradients.
    "ibert": {**_BLOCKS, **_LIMIT},
    "reformer": {"attn_layers": ["local"], "axial_pos_embds": False, "hidden_size": 32, "attention_head_size": 8}
    | {"feed_forward_size": 48, "is_decoder": False, "num_attention_heads": 4, **_LIMIT},
}
READS_AS = {
    **dict.fromkeys(("bart", "mbart", "data2vec-text", "ibert"), "roberta"),
    **dict.fromkeys(("ctrl", "bloom"), "qwen2"),
}
REFUSED = {"ibert": "does not look its words up in a table", "reformer": "has no gradients at its embeddings"}
SEES_PADDING = ("xlnet", "convbert", "nystromformer")
ENCODER_DECODERS = ("bart", "mbart", "t5")
KINDS = list(SIZES)
EXPLAINED = [kind for kind in KINDS if kind not in REFUSED]


def made(kind):
    words = tiny.tokenizer(READS_AS.get(kind, "bert"))
    names = {0: "no", 1: "yes"}
    tokens = {"vocab_size": len(words), "pad_token_id": words.pad_token_id}
    if kind == "t5":
        tokens["eos_token_id"] = words.sep_token_id
    settings = transformers.CONFIG_MAPPING[kind](
        **tokens, **SIZES[kind], id2label=names, label2id={name: index for index, name in names.items()}
    )
    with torch.inference_mode(False), torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.AutoModelForSequenceClassification.from_config(settings).eval()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.dim() > 1:
                    weight.normal_(0, 0.25)
    return model, words


@functools.cache
def classifier(kind):
    return TransformerPredictor(*made(kind), ComputeOptions(device="cpu"), kind)


def untrained():
    """Methods that explain without training."""
    return [*tiny.UNTRAINED, *(info.name for info in known_infos() if info.ready)]


def scores(of, name, texts, targets):
    method = tiny.quick(name)
    return [actual.token_scores for actual in method.explain(of, texts, targets)]


def assert_close(actual, expected):
    expected = np.asarray(expected)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-4 * max(0.1, float(np.abs(expected).max())))


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_explains_or_says_why_not(kind):
    assert ARCHITECTURES.get(kind) is None or ARCHITECTURES[kind].attention is None
    of = classifier(kind)
    for name in untrained():
        if name in BY_ANSWERS or (name in AT_WORDS and kind not in REFUSED):
            actual = scores(of, name, TEXTS, TARGETS)
            assert all(len(row) and np.isfinite(row).all() for row in actual), name
            continue
        method = tiny.quick(name)
        said = complaint(lambda method=method: method.explain(of, TEXTS), f"'{kind}' model")
        assert said.startswith(name)
        assert name not in AT_WORDS - {"consensus"} or REFUSED[kind] in said


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_s_scores_do_not_depend_on_the_others_in_its_batch(kind):
    of = classifier(kind)
    alone = np.concatenate([of.predict_proba([text]) for text in TEXTS])
    np.testing.assert_allclose(of.predict_proba(TEXTS), alone, atol=1e-5)
    for name in ("occlusion", *(() if kind in REFUSED else ("input_x_gradient", "integrated_gradients"))):
        together = scores(of, name, TEXTS, TARGETS)
        for row, text, target in zip(together, TEXTS, TARGETS, strict=True):
            assert_close(row, scores(of, name, [text], [target])[0])


def test_only_models_that_see_padding_are_asked_without():
    assert {kind for kind in KINDS if classifier(kind).same_length} == set(SEES_PADDING)
    assert not tiny.classifier().same_length


@pytest.mark.parametrize("kind", SEES_PADDING)
def test_no_batch_of_a_training_is_padded_where_padding_shows(kind, tmp_path, monkeypatch):
    """AML's texts go through such a classifier without padding, too."""
    of = classifier(kind)
    assert of.same_length
    lengths = []

    def batch(encodings):
        lengths.append({len(encoding) for encoding in encodings})
        return TransformerPredictor.batch(of, encodings)

    monkeypatch.setattr(of, "batch", batch)
    texts = [*TEXTS, "slow fox"]
    backbone = str(tiny.save(tmp_path / "bert", "bert", 2))
    PAML(epochs=1, batch_size=4, backbone=backbone).fit(of, texts, validation=texts)
    assert lengths and all(len(actual) == 1 for actual in lengths)


NORMS = {"bloom": "transformer.word_embeddings_layernorm", "funnel": "funnel.embeddings.layer_norm"}


@pytest.mark.parametrize("kind", EXPLAINED)
def test_gradients_and_their_integral_by_hand(kind):
    of = classifier(kind)
    (encoding,) = of.encode(TEXTS[:1])
    here = encoding.positions
    words, gradient, _ = at_embeddings(of, encoding, 1.0)
    assert_close(scores(of, "gradient", TEXTS[:1], [1])[0], gradient.norm(dim=-1)[here])
    assert_close(scores(of, "input_x_gradient", TEXTS[:1], [1])[0], (words * gradient).sum(-1)[here])
    points, weights = np.polynomial.legendre.leggauss(4)
    total = torch.zeros(())
    for point, weight in zip((points + 1) / 2, weights / 2, strict=True):
        words, gradient, start = at_embeddings(of, encoding, float(point))
        total = total + weight * ((words - start) * gradient).sum(-1)
    assert_close(scores(of, "integrated_gradients", TEXTS[:1], [1])[0], total[here])


def at_embeddings(of, encoding, share):
    """Word embeddings e, (n, d), the logit's gradient at b + share (e - b), and b, with padding for the words.

    Behind the norm, where there is one right behind the table.
    """
    model = of.model
    inputs = of.batch([encoding]).model_inputs()
    ids = inputs.pop("input_ids")
    pad = torch.tensor([[of.pad_token_id]])
    table = model.base_model.encoder.embed_tokens if of.name in ENCODER_DECODERS else model.get_input_embeddings()
    norm = model.get_submodule(NORMS[of.name]) if of.name in NORMS else torch.nn.Identity()
    with torch.no_grad():
        # Cloned: CTRL changes in place what it is given.
        words = norm(table(ids))
        neutral = norm(table(pad))
        start = torch.where(torch.tensor(encoding.special)[None, :, None], words, neutral)
    point = (start + share * (words - start)).requires_grad_()
    with torch.enable_grad():
        if of.name in ENCODER_DECODERS:
            logit = encoder_decoder_logits(model, ids, table, point)[0, 1]
        elif of.name == "xlm":  # its segments come from the table of words; given none, it reads none
            segments = table(inputs.pop("token_type_ids"))
            logit = model(inputs_embeds=point + segments, **inputs).logits[0, 1]
        elif of.name in NORMS:
            hook = norm.register_forward_hook(lambda *_: point)
            logit = model(input_ids=ids, **inputs).logits[0, 1]
            hook.remove()
        else:
            logit = model(inputs_embeds=point.clone(), **inputs).logits[0, 1]
        (gradient,) = torch.autograd.grad(logit, point)
    return words[0], gradient[0], start[0]


def encoder_decoder_logits(model, ids, table, point):
    """Encoder and decoder called with embeddings, the decoder's one later; the head at the last end of the text."""
    first = {"bart": model.config.decoder_start_token_id, "mbart": int(ids[0, -1]), "t5": model.config.pad_token_id}
    start = table(torch.tensor([[first[model.config.model_type]]]))
    decoded = torch.cat([start, point[:, :-1]], dim=1)
    states = model.base_model(inputs_embeds=point, decoder_inputs_embeds=decoded)[0]
    return model.classification_head(states[:, -1])


@pytest.mark.parametrize("kind", ["bart", "xlnet", "data2vec-text", "bloom", "ibert"])
def test_saved_and_explained_on_the_command_line(kind, tmp_path):
    model, shared = made(kind)
    model.save_pretrained(tmp_path)
    words = copy.deepcopy(shared)
    words.model_max_length = int(1e30)  # as of tokenizers that say none
    words.save_pretrained(tmp_path)
    long = " ".join(["funny"] * 900)
    done = run("explain", "--classifier", str(tmp_path), "--method", "random", "--json", long)
    assert done.exit_code == 0, done.output


def test_a_text_with_the_end_of_texts_in_it_is_refused():
    of = classifier("bart")
    complaint(lambda: of.encode(["a film", "a </s> film"]), "text 2: holds the token", "'bart' model")
    tiny.classifier("roberta").encode(["a </s> film"])  # no head there looks for it


def test_a_model_that_cannot_read_texts(monkeypatch):
    of = TransformerPredictor(*made("bloom"), ComputeOptions(device="cpu"), "mine")

    def fail(*_, **__):
        raise ValueError("Input language unknown")

    monkeypatch.setattr(of.model, "forward", fail)
    said = complaint(lambda: of.predict(TEXTS), "mine: its model cannot read a text (Input language unknown)")
    assert said == complaint(lambda: explearn.get_explainer("gradient").explain(of, TEXTS))
