"""`explearn.testing.tiny` with the other architectures, and what tests need of its classifiers."""

import functools
from contextlib import contextmanager
from itertools import product

import tokenizers
import torch
import transformers

from explearn import ComputeOptions, Example, TransformerPredictor, get_explainer
from explearn.lens.anatomy import TracedPass
from explearn.lens.attention import read_weights
from explearn.lens.watch import LayerGradients
from explearn.methods.registry import known_infos
from explearn.predictors.architectures import blocks_in_order
from explearn.predictors.heads.question_answering import QuestionPredictor
from explearn.predictors.heads.token_classification import TokenPredictor
from explearn.testing.tiny import (  # noqa: F401 (the tests take them from here)
    ARCHITECTURES,
    CORPUS,
    HEADS,
    HIDDEN,
    LABELS,
    LAYERS,
    PAIRS,
    POSITIONS,
    SIZES,
    TEXTS,
    TOKENIZERS,
    classifier,
    make_classifier,
    model,
    tokenizer,
)

MORE_ENCODERS = ("xlm-roberta", "deberta-v2", "mpnet", "modernbert", "eurobert")
DECODERS = ("gpt2", "llama", "mistral", "qwen2", "gemma")
MORE_DECODERS = (
    *("gemma2", "gemma3_text", "glm", "glm4", "arcee", "exaone4", "seed_oss", "smollm3", "ministral", "ministral3"),
    *("mixtral", "modernbert-decoder", "olmo2", "olmo3", "phi", "phi3", "phimoe", "qwen2_moe", "qwen3", "qwen3_moe"),
    *("gpt_neox", "stablelm", "starcoder2"),
)
SEEN = (
    *ARCHITECTURES,
    *("deberta-v2", "mpnet", "modernbert", "modernbert mean", "eurobert"),
    *DECODERS,
    *MORE_DECODERS,
)
"""Architectures whose attention is captured."""

_LOCAL = {"global_attn_every_n_layers": 3, "local_attention": 4}
_GROUPED = {"num_key_value_heads": HEADS // 2}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "decoder_sparse_step": 1}
SIZES |= {
    # As in DeBERTa v3: distances in buckets of growing size, shared projections, no positions in the embeddings.
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 6,
        "pos_att_type": ["c2p", "p2c"],
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "position_biased_input": False,
        "type_vocab_size": 0,
        "pooler_hidden_size": HIDDEN,
    },
    # The first layer sees all tokens, the others two to either side.
    "modernbert": _LOCAL,
    # Its head reads the mean of all tokens.
    "modernbert mean": {"model_type": "modernbert", **_LOCAL, "classifier_pooling": "mean"},
    "longformer": {"attention_window": [8] * LAYERS},
    "gpt2": {"n_layer": LAYERS, "n_head": HEADS, "n_embd": HIDDEN, "n_inner": 48, "bos_token_id": 0, "eos_token_id": 1},
    "llama": _GROUPED,
    "mistral": {**_GROUPED, "sliding_window": 4},
    "qwen2": {**_GROUPED, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    # Heads wider than the model's width by their number.
    **{kind: {**_GROUPED, "head_dim": 12} for kind in ("gemma", "qwen3")},
    **{kind: {**_GROUPED, "head_dim": 12, "sliding_window": 4} for kind in ("gemma2", "gemma3_text")},
    **{kind: {**_GROUPED, "head_dim": 8} for kind in ("glm", "glm4", "ministral3")},
    "ministral": {**_GROUPED, "head_dim": 8, "sliding_window": 4},
    "exaone4": {**_GROUPED, "sliding_window": 4},
    "modernbert-decoder": _LOCAL,
    **{kind: {**_GROUPED, "num_local_experts": 4} for kind in ("mixtral", "phimoe")},
    "qwen3_moe": {**_GROUPED, **_EXPERTS, "head_dim": 8},
    "qwen2_moe": {**_GROUPED, **_EXPERTS, "shared_expert_intermediate_size": 16},
    **dict.fromkeys(
        ("arcee", "eurobert", "olmo2", "olmo3", "phi3", "seed_oss", "smollm3", "stablelm", "starcoder2"), _GROUPED
    ),
}

QUICK = {
    "gradient_shap": {"samples": 3},
    "integrated_gradients": {"steps": 4},
    "sequential_ig": {"steps": 2},
    "lime": {"samples": 20},
    "kernel_shap": {"samples": 20},
    "shap": {"max_evals": 20},
    "deep_shap": {"references": 4},
    "slalom": {"samples": 20},
    "solvex": {"beam": 1},
}
"""Options that make costly methods quick."""
UNTRAINED = [info.name for info in known_infos() if not info.learned and info.family != "reason"]
"""Methods that need no training, and are not for language models alone."""

# For tensors this small a second thread costs more than it gives.
torch.set_num_threads(1)

KINDS_OF_TOKENIZER = ("bert", "roberta", "albert")
"""One architecture for each of WordPiece, byte-level BPE and Unigram."""


def quick(name):
    """A method by its name, with options that make it quick."""
    return get_explainer(name, **QUICK.get(name, {}))


def _decoder_files(begins):
    """Byte-level BPE with a padding token of its own, and `<s>` before each text, or nothing; no mask token."""
    bpe = tokenizers.ByteLevelBPETokenizer()
    special = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    bpe.train_from_iterator(
        CORPUS, vocab_size=400, min_frequency=1, show_progress=False, special_tokens=list(special.values())
    )
    made = tokenizers.Tokenizer.from_str(bpe.to_str())
    if begins:
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", bpe.token_to_id("<s>"))]
        )
    return {"tokenizer_object": made, **special}


def _decoder_tokenizer(begins):
    return transformers.PreTrainedTokenizerFast, functools.partial(_decoder_files, begins)


# Whose tokenizer an architecture has here is no part of what is tested.
TOKENIZERS |= {
    **dict.fromkeys(("xlm-roberta", "deberta-v2"), TOKENIZERS["albert"]),
    **dict.fromkeys(("mpnet", "longformer"), TOKENIZERS["roberta"]),
    **dict.fromkeys(("modernbert", "modernbert mean", "eurobert", "big_bird"), TOKENIZERS["bert"]),
    **dict.fromkeys(("gpt2", "qwen2"), _decoder_tokenizer(begins=False)),
    **dict.fromkeys(("llama", "mistral", "gemma", *MORE_DECODERS), _decoder_tokenizer(begins=True)),
}


def double(kind="bert", classes=2):
    """A new classifier in float64, so that rounding hides nothing."""
    of = make_classifier(kind, classes)
    of.model.double()
    return of


def examples():
    """The texts and pairs as examples of a test split."""
    rows = [Example(f"text-{number}", tuple(text.split()), "yes", "test", "t") for number, text in enumerate(TEXTS)]
    for number, (one, two) in enumerate(PAIRS):
        rows.append(Example(f"pair-{number}", tuple(one.split()), "yes", "test", "t", tuple(two.split())))
    return rows


def batch(of, texts=TEXTS):
    """Some texts in one padded batch."""
    return of.batch(of.read(list(texts)))


def without(of, encoding, words, removal):
    """A text without some words, deleted or masked."""
    if removal == "delete":
        return encoding.delete(words)
    return encoding.mask(words, of.mask_token_id)


def alone(of, encoding):
    """Probabilities as the model itself gives them to one text, without padding."""
    inputs = {"input_ids": torch.tensor([encoding.input_ids])}
    if encoding.token_type_ids:
        inputs["token_type_ids"] = torch.tensor([encoding.token_type_ids])
    with torch.inference_mode():
        return of.model(**inputs).logits.double().softmax(-1)[0].numpy()


def score(name, of, texts, targets=None, **options):
    """The scores of a method, of every sub-token of some texts in one padded batch; targets by index."""
    wanted = None if targets is None else torch.tensor(targets)
    explainer = get_explainer(name, **options)
    return explainer.score_batch(of, batch(of, texts), wanted)


def save(folder, kind="bert", classes=2, seed=0, **config):
    """Save model and tokenizer as `save_pretrained` does."""
    model(kind, classes, seed, **config).save_pretrained(folder)
    tokenizer(kind).save_pretrained(folder)
    return folder


def save_encoder(folder, kind="bert", reads_as=None, **config):
    """Save an encoder without a head, and return its folder; `reads_as`: whose tokenizer it has."""
    model(kind, **config).base_model.save_pretrained(folder)
    tokenizer(reads_as or kind).save_pretrained(folder)
    return str(folder)


def language_model(kind="gpt2", seed=1, **config):
    """A generative model."""
    settings = model(kind, **config).config
    settings.architectures = None
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return transformers.AutoModelForCausalLM.from_config(settings).eval()


def make_answerer(kind="bert"):
    """A model for extractive question answering."""
    config = model(kind).config
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = transformers.AutoModelForQuestionAnswering.from_config(config).eval()
    return QuestionPredictor.around(made, tokenizer(kind), ComputeOptions(device="cpu"), kind)


def make_tagger(kind="bert", **config):
    """A model for token classification with the classes of LABELS[3]."""
    settings = model(kind, 3, **config).config
    with torch.inference_mode(False), torch.random.fork_rng():
        torch.manual_seed(0)
        made = transformers.AutoModelForTokenClassification.from_config(settings).eval()
    return TokenPredictor.around(made, tokenizer(kind), ComputeOptions(device="cpu"), kind)


@functools.cache
def long_classifier(kind):
    """One whose texts may have 2,000 sub-tokens: nothing is cut."""
    return TransformerPredictor(
        model(kind, max_position_embeddings=2002), tokenizer(kind, 2000), ComputeOptions(device="cpu"), kind
    )


def trace(module, batch):
    """The intermediates of every block, and the logits, of a classifier that is run block by block."""
    run = TracedPass.run(module, batch)
    return [run.block(layer) for layer in range(len(run.calls))], run.logits


def hooks(module):
    """Return how many hooks a model and its parts hold, besides those that transformers leaves to capture outputs."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    count = 0
    for part, kind in product(module.modules(), kinds):
        for hook in getattr(part, kind).values():
            count += not getattr(hook, "__module__", "").startswith("transformers.")
    return count


@contextmanager
def eager(module):
    """The model's own attention, written out: the reference for captured attention."""
    before = module.config._attn_implementation
    module.set_attn_implementation("eager")
    try:
        yield
    finally:
        module.set_attn_implementation(before)


def eager_attentions(of, batch):
    """Attention matrices of all layers, (batch, heads, queries, keys) each."""
    with eager(of.model), torch.inference_mode():
        return list(of.model(**batch.model_inputs(), output_attentions=True).attentions)


def eager_gradients(of, text, target):
    """Gradients of a class's logit at the attention matrices and the blocks' inputs that the model itself returns."""
    batch = of.batch(of.encode([text]))
    table = of.model.get_input_embeddings()
    made = []

    def begin(_module, _inputs, output):
        made.append(output.detach().requires_grad_())
        return made[0]

    inputs = []
    blocks = blocks_in_order(of.model.base_model)
    handles = [table.register_forward_hook(begin)]
    handles += [b.register_forward_pre_hook(lambda _m, args: inputs.append(args[0])) for b in dict.fromkeys(blocks)]
    try:
        with eager(of.model), torch.enable_grad():
            output = of.model(**batch.model_inputs(), output_attentions=True)
            wanted = [*output.attentions, *inputs]
            gradient = torch.autograd.grad(output.logits[0, target], wanted)
    finally:
        for handle in handles:
            handle.remove()
    layers = len(blocks)
    return LayerGradients(
        output.logits.detach(),
        torch.tensor([target]),
        tuple(a.detach() for a in output.attentions),
        tuple(gradient[:layers]),
        tuple(x.detach() for x in inputs),
        tuple(gradient[layers:]),
        read_weights(of.model, batch),
    )
