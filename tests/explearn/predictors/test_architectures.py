"""The table of docs/explearn/architectures.md is what the methods' own checks say; lengths."""

from itertools import chain
from types import SimpleNamespace

import pytest
import tiny

import explearn
from explearn import UnsupportedError
from explearn.lens.attention import layer_count
from explearn.predictors.architectures import architecture, max_length, reads

COLUMNS = (
    ("raw_attention", "attention_mean", "rollout"),
    ("attention_flow",),
    ("gae", "mgae", "cam", "grad_cam", "cat", "attcat"),
    ("attn_lrp", "gim", "libragrad"),
    ("lrp", "alti", "globenc", "decompx"),
    ("full_lrp", "transformer_attribution"),
)
ANYTHING = {"gradient", "perturbation", "chance"}
NOTHING = {"learned", "reason"}
KINDS = (*tiny.ARCHITECTURES, *tiny.MORE_ENCODERS, "modernbert mean", *tiny.DECODERS, *tiny.MORE_DECODERS, "longformer")


def explains(name, of):
    try:
        explearn.get_explainer(name).check(of)
    except UnsupportedError:
        return False
    return True


def row(kind):
    """| token read | columns | Marker, IvRA with cons or sim, SMaT | IvRA with comp or suff |"""
    of = tiny.classifier(kind)
    cells = []
    for names in COLUMNS:
        (same,) = {explains(name, of) for name in names}
        cells.append("yes" if same else "-")
    try:
        layer_count(of.model)
        captured = True
    except UnsupportedError:
        captured = False
    gates = captured and architecture(of.model.config).attention == "projections"
    cells += ["yes" if actual else "-" for actual in (captured, gates)]
    return f"| {reads(of.model)} | {' | '.join(cells)} |"


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_says_what_explains_an_architecture(repository, kind):
    lines = (repository / "docs" / "explearn" / "architectures.md").read_text(encoding="utf-8").splitlines()
    rows = [line.removeprefix("| ").partition(" | ") for line in lines if line.startswith("| ")]
    assert [f"| {cells}" for kinds, _, cells in rows if kind in kinds.split(", ")] == [row(kind)]


def test_every_method_is_in_a_column_or_explains_anything(repository):
    methods = [explearn.get_info(name) for name in explearn.list_explainers()]
    told = set(chain(*COLUMNS))
    inside = {info.name for info in methods if info.family not in ANYTHING | NOTHING}
    assert told == inside
    of = tiny.classifier("longformer")
    assert all(explains(info.name, of) for info in methods if info.family in ANYTHING)


@pytest.mark.parametrize(
    ("model_type", "positions", "limit", "expected"),
    [
        ("bert", 514, 512, 512),
        ("roberta", 512, 512, 510),  # RoBERTa's positions start at the padding index + 1
        ("bert", 514, int(1e30), 514),  # the tokenizer names no limit
        ("bert", 514, "many", 514),
        ("deberta-v2", -1, int(1e30), 512),  # nor does the model
    ],
)
def test_the_longest_text_fits_positions_and_tokenizer(model_type, positions, limit, expected):
    config = SimpleNamespace(model_type=model_type, pad_token_id=1, max_position_embeddings=positions)
    assert max_length(config, SimpleNamespace(model_max_length=limit)) == expected
