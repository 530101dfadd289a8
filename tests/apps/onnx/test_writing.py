"""A classifier and its explainer in one ONNX graph give what PyTorch gives."""

import json
import re
import shlex
import subprocess
import sys
import time

import numpy as np
import onnx_cases
import pytest
import tiny
from cli_cases import run
from doc_examples import check_example
from saying import complaint

import explearn
from explearn import (
    Attribution,
    ExplearnError,
    MissingExtraError,
    ModelError,
    ParamsError,
    UnsupportedError,
)
from explearn.testing import check_predictor
from explearn_apps.onnx import OnnxExplainer, OnnxPredictor, export_onnx, writing
from explearn_apps.onnx.metadata import count_nodes

onnx = pytest.importorskip("onnx")

CASES = {
    # Name -> architecture, method, its options, the classifier's configuration.
    "bert marker": ("bert", "marker_in_domain", {}, {"num_hidden_layers": 1}),
    "roberta paper": ("roberta", "expnet", {}, {"num_hidden_layers": 1}),
    "bert reader": (
        "bert",
        "reader",
        {"marked": "in_domain", "aim": 0.3},
        {"classes": 3, "problem_type": "multi_label_classification", "num_hidden_layers": 1},
    ),
}
BATCHES = (
    ["lazy"],
    [*tiny.TEXTS],
    [*tiny.TEXTS, *tiny.TEXTS, " ".join(tiny.TEXTS), "\u200b\u200b a \u200b fox \u00e9\u00e9\u00e9"],
    [*tiny.PAIRS, ("slow", " ".join(tiny.CORPUS)), (" ".join(tiny.CORPUS), "slow")],
)
"""Of one text, of several lengths, beyond the classifier's length and with words of no sub-token, and of pairs."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An ONNX file with what it was exported from, by name of the case; each is exported once."""
    done = {}

    def find(name):
        if name not in done:
            kind, method, options, config = CASES[name]
            of = onnx_cases.classifier(kind, **config)
            explainer = onnx_cases.explainer(method, of, **options)
            path = tmp_path_factory.mktemp("onnx") / "model.onnx"
            done[name] = export_onnx(path, explainer=explainer, classifier=of), of, explainer
        return done[name]

    return find


EXACT = [
    "words",
    "tokens",
    "target",
    "predicted",
    "method",
    "aggregation",
    "signed",
    "unaligned",
    "spans",
    "pair_start",
]


def same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        for name in (*EXACT, "pair_start"):
            assert getattr(one, name) == getattr(other, name), name
        np.testing.assert_allclose(one.scores, other.scores, rtol=0, atol=1e-4)
        np.testing.assert_allclose(one.token_scores, other.token_scores, rtol=0, atol=1e-4)
        assert one.probability == pytest.approx(other.probability, abs=1e-4)
        certificates = [a.certificate and a.certificate.model_dump(exclude={"words"}) for a in (one, other)]
        assert certificates[0] == pytest.approx(certificates[1], abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_graph_explains_as_pytorch_does(made, name):
    path, of, explainer = made(name)
    reader = OnnxExplainer(path, threads=1)
    for texts in BATCHES:
        same(reader.explain(texts), explainer.explain(of, texts))
    several = [[0, of.labels[-1]]] * len(tiny.TEXTS)
    same(reader.explain(tiny.TEXTS, several), explainer.explain(of, tiny.TEXTS, several))
    pattern = re.compile("[^ ]+ [^ ]+")
    same(reader.explain(tiny.TEXTS[:2], unit=pattern), explainer.explain(of, tiny.TEXTS[:2], unit=pattern))
    small = OnnxExplainer(path, threads=1, max_tokens=30)
    same(small.explain(BATCHES[2]), explainer.explain(of, BATCHES[2]))


@pytest.mark.slow
def test_both_questions_are_in_one_file(made):
    path, of, explainer = made("bert reader")
    explainer.save_pretrained(path.parent / "trained")
    for aim in (0.0, 0.3, 1.0):
        other = explearn.load(path.parent / "trained", aim=aim)
        found = OnnxExplainer(path, threads=1, aim=aim).explain(tiny.TEXTS)
        same(found, other.explain(of, tiny.TEXTS))
        assert all((one.certificate is not None) == (aim == 1) for one in found)
    plain = made("bert marker")[0]
    with pytest.raises(ParamsError, match="has not learned which words are marked; expected no `aim`"):
        OnnxExplainer(plain, aim=0)


@pytest.mark.parametrize("name", ["roberta paper", pytest.param("bert reader", marks=pytest.mark.slow)])
def test_the_graph_is_a_predictor_for_other_methods(made, name):
    path, of, _ = made(name)
    predictor = OnnxPredictor(OnnxExplainer(path, threads=1))
    assert (predictor.labels, predictor.problem, predictor.max_length) == (of.labels, of.problem, of.max_length)
    encodings = of.encode([*tiny.TEXTS, *tiny.PAIRS])
    shortened = []
    for whole in encodings:
        shortened += [whole, whole.delete([0]), whole.keep([1]), whole.mask([0], predictor.mask_token_id)]
    np.testing.assert_allclose(predictor.predict_proba(shortened), of.predict_proba(shortened), atol=1e-4)
    target = of.labels[-1]
    for method in ("occlusion", "kernel_shap"):
        for removal in ("mask", "delete"):
            found = explearn.explain(predictor, tiny.TEXTS, method, target, removal=removal)
            expected = explearn.explain(of, tiny.TEXTS, method, target, removal=removal)
            for one, other in zip(found, expected, strict=True):
                assert (one.words, one.tokens, one.predicted) == (other.words, other.tokens, other.predicted)
                np.testing.assert_allclose(one.scores, other.scores, rtol=0, atol=1e-3)
    check_predictor(predictor, pairs=tiny.PAIRS[2:])
    with pytest.raises(UnsupportedError, match="no model to look into"):
        explearn.explain(predictor, "a fox", "rollout")
    with pytest.raises(UnsupportedError, match="leave out the windows"):
        explearn.explain(predictor, "a fox", "occlusion", windows=2)


def test_the_predictor_is_compared_and_known_by_its_file(made, tmp_path):
    path, of, _ = made("bert marker")
    predictor = OnnxPredictor(OnnxExplainer(path, threads=1))
    texts = [*tiny.TEXTS, *onnx_cases.TEXTS]
    figures = []
    for number, classifier in enumerate((predictor, of)):
        options = {"methods": "random,occlusion", "out": tmp_path / f"{number}.html"}
        figures.append(explearn.compare(classifier, texts, **options).figures)
    for metric in ("comprehensiveness", "sufficiency"):
        assert figures[0]["occlusion"][metric] == pytest.approx(figures[1]["occlusion"][metric], abs=1e-3)
    again = tmp_path / "again.onnx"
    again.write_bytes(path.read_bytes())
    assert OnnxPredictor(OnnxExplainer(again)).fingerprint == predictor.fingerprint
    model = onnx.load(path)
    for entry in model.metadata_props:
        if entry.key == "explearn":
            entry.value = json.dumps({**json.loads(entry.value), "mask_token_id": None})
    onnx.save(model, again)
    maskless = OnnxPredictor(OnnxExplainer(again))
    assert maskless.fingerprint != predictor.fingerprint
    complaint(lambda: explearn.explain(maskless, "a fox", "occlusion"), "use removal=delete")


def test_what_the_file_says_of_itself(made):
    path, of, _ = made("bert marker")
    model = onnx.load(path)
    values = {value.name: value for value in (*model.graph.input, *model.graph.output)}
    assert list(values) == ["input_ids", "attention_mask", "token_type_ids", "word_ids", "logits", "token_scores"]
    del values["logits"]
    for value in values.values():
        assert [size.dim_param for size in value.type.tensor_type.shape.dim] == ["batch", "tokens"]
    facts = json.loads({entry.key: entry.value for entry in model.metadata_props}["explearn"])
    assert facts["method"] == "marker_in_domain" and facts["labels"] == of.labels
    assert facts["classifier"]["fingerprint"] == of.fingerprint and "white space" in facts["words"]
    # Nothing of the machine that wrote it.
    assert b"/src/explearn" not in path.read_bytes() and b"site-packages" not in path.read_bytes()


def test_reading_needs_neither_torch_nor_transformers(made):
    path, of, explainer = made("roberta paper")
    script = (
        "import json, sys\n"
        "from explearn_apps.onnx import OnnxExplainer\n"
        "(found,) = OnnxExplainer(sys.argv[1]).explain(['the quick brown fox'])\n"
        "assert not {'torch', 'transformers'} & set(sys.modules), sorted(sys.modules)\n"
        "print(json.dumps(found.to_dict()))"
    )
    done = subprocess.run([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True, check=True)
    same([Attribution.from_dict(json.loads(done.stdout))], explainer.explain(of, ["the quick brown fox"]))


def test_the_page_and_a_bundle(
    made,
    tmp_path,
    repository,
    monkeypatch,
    capsys,
    caplog,
):
    """docs/apps/onnx.md as it stands there, and the docstrings' examples; the graph is not traced again."""
    path, of, explainer = made("bert marker")
    monkeypatch.setattr(writing, "model_proto", lambda *_: _without_metadata(path))
    monkeypatch.chdir(tmp_path)
    of.model.save_pretrained("my-classifier")
    of.tokenizer.save_pretrained("my-classifier")
    explainer.save_pretrained("my-marker")
    page = (repository / "docs/apps/onnx.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^explearn .*$", page, re.M)
    done = run(*shlex.split(command)[1:])
    assert done.exit_code == 0, done.output
    # One of the texts that a file is tried on is cut; nobody who exports gave it.
    assert not any("not read" in said for said in (done.output, *caplog.messages))
    exec("".join(re.findall(r"```python\n(.*?)```", page, re.S)), {})
    assert capsys.readouterr().out.count("funny") > 1
    check_example(export_onnx)
    check_example(OnnxExplainer)
    check_example(OnnxPredictor)

    explearn.export("bundle", explainer="my-marker", classifier="my-classifier", with_classifier=True)
    done = run("export-onnx", "--explainer", "bundle", "--out", "again.onnx")
    assert done.exit_code == 0, done.output
    same(OnnxExplainer("again.onnx").explain(tiny.TEXTS), explainer.explain(of, tiny.TEXTS))


def test_what_cannot_be_exported_is_refused_by_name(tmp_path):
    gpt = tiny.classifier("gpt2")
    refused = [
        (explearn.get_explainer("attcat"), tiny.classifier(), "attcat: cannot be exported to ONNX"),
        (onnx_cases.explainer("marker_in_domain", gpt), gpt, "the last token"),
        (explearn.get_explainer("occlusion"), tiny.make_answerer(), "answers questions"),
        (explearn.get_explainer("rollout"), tiny.make_tagger(), "classifies tokens"),
        (explearn.get_explainer("attcat"), None, "got no classifier"),
    ]
    for explainer, of, said in refused:
        with pytest.raises(ExplearnError, match=said):
            export_onnx(tmp_path / "a.onnx", explainer=explainer, classifier=of)
    assert not list(tmp_path.iterdir())


def test_a_graph_that_gives_other_scores_is_not_written(made, tmp_path, monkeypatch):
    path, of, explainer = made("bert marker")
    monkeypatch.setattr(writing, "model_proto", lambda *_: _without_metadata(path))
    wrong = onnx_cases.explainer("marker_in_domain", of, seed=5)
    with pytest.raises(UnsupportedError, match=r"differ by .* from PyTorch's; expected at most 0.0001"):
        export_onnx(tmp_path / "a.onnx", explainer=wrong, classifier=of)
    assert not list(tmp_path.iterdir())
    assert export_onnx(tmp_path / "a.onnx", explainer=explainer, classifier=of).is_file()


def _without_metadata(path):
    model = onnx.load(path)
    del model.metadata_props[:]
    return model


def test_files_that_are_none_are_named(made, tmp_path):
    complaint(lambda: OnnxExplainer(tmp_path / "none.onnx"), "no such file")
    with pytest.raises(ModelError, match="no such file"):
        OnnxExplainer("x" * 5000)
    complaint(lambda: OnnxExplainer(None), "path: got nothing; expected a path")
    file = tmp_path / "a.onnx"
    file.write_text("no graph")
    complaint(lambda: OnnxExplainer(file), f"{file}: is not an ONNX graph")
    path, _, _ = made("bert marker")
    onnx.save(_without_metadata(path), file)
    complaint(lambda: OnnxExplainer(file), "holds no explainer")
    complaint(lambda: OnnxExplainer(path, max_tokens=0), "max_tokens: got 0")
    changes = {
        "field 'format': got 2": {"format": 2},
        "'max_length'": {"max_length": 0},
        "'pad_token_id'": {"pad_token_id": 10**30},
        "got the label 'a' twice": {"labels": ["a", "a"]},
    }
    for said, change in changes.items():
        model = onnx.load(path)
        for entry in model.metadata_props:
            if entry.key == "explearn":
                entry.value = json.dumps({**json.loads(entry.value), **change})
        onnx.save(model, file)
        complaint(lambda: OnnxExplainer(file), said)


def changed(path, file, change):
    """A copy of an ONNX file whose tokenizer, as JSON, is changed."""
    model = onnx.load(path)
    for entry in model.metadata_props:
        if entry.key == "tokenizer":
            tokenizer = json.loads(entry.value)
            change(tokenizer)
            entry.value = json.dumps(tokenizer)
    onnx.save(model, file)
    return file


JUNK = {
    "panics when it is read": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "panics at a text": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {},
        }
    },
    "knows no text": {"model": {"type": "WordLevel", "vocab": {}, "unk_token": "[UNK]"}, "added_tokens": []},
}


@pytest.mark.parametrize("name", JUNK)
def test_a_junk_tokenizer(made, name, tmp_path):
    path, _, _ = made("bert marker")
    file = changed(path, tmp_path / "a.onnx", lambda tokenizer: tokenizer.update(JUNK[name]))
    complaint(
        lambda: OnnxExplainer(file).explain("a lazy fox"), f"{file}: its tokenizer is damaged (", "export it again"
    )


def test_a_graph_of_too_many_nodes_is_not_loaded(tmp_path):
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["b"])
    nodes = [onnx.helper.make_node("Add", ["x", "x"], [f"v{i}"]) for i in range(100_000)]
    file = tmp_path / "a.onnx"
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [value], [value])), file)
    begun = time.monotonic()
    complaint(lambda: OnnxExplainer(file), f"{file}: has a graph of 100,000 nodes; expected at most")
    assert time.monotonic() - begun < 5


def test_nodes_are_counted_as_onnx_counts_them(made):
    for name in ("bert marker", "bert reader"):
        path, _, _ = made(name)
        assert count_nodes(path) == len(onnx.load(path).graph.node)


def test_a_graph_that_gives_no_scores_of_the_texts(made, tmp_path):
    path, _, _ = made("bert marker")
    model = onnx.load(path)
    model.graph.output[1].CopyFrom(onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, None))
    onnx.save(model, tmp_path / "a.onnx")
    complaint(lambda: OnnxExplainer(tmp_path / "a.onnx").explain("a lazy fox"), "its graph gave scores of shape (1, 2)")


def test_without_the_extra_one_sentence_names_it(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'explearn\[onnx\]'"):
        OnnxExplainer(tmp_path / "a.onnx")
