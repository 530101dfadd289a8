"""What is exported is what is loaded: methods, options, weights, classifier, figures."""

import json

import pytest
import tiny
import yaml
from bundle_cases import FIGURES, LEARNED, TEXTS, same
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt

import explearn
from explearn.core.file_facts import FileFacts


def manifest(bundle):
    actual = json.loads((bundle / "manifest.json").read_text())
    return actual


@pytest.mark.parametrize("name", LEARNED)
def test_a_trained_explainer_comes_back(model, trained, tmp_path, name):
    of = explearn.load_classifier(trained[name] / "classifier" if name == "ivra" else model, device="cpu")
    explearn.export(tmp_path / "b", explainer=trained[name])
    explainer = explearn.load(tmp_path / "b")
    assert explainer.name == manifest(tmp_path / "b")["method"] == name and explainer.folder == tmp_path / "b"
    assert explainer.made_for.fingerprint == of.fingerprint
    expected = explearn.load(trained[name]).explain(of, TEXTS)
    if name == "ivra":
        # It comes with the classifier that was trained with it.
        assert explearn.load(trained[name]).classifier_folder == trained[name] / "classifier"
        of = explearn.load_classifier(explainer.classifier_folder, device="cpu")
        same([explearn.explain(tmp_path / "b", text, device="cpu") for text in TEXTS], expected)
    same(explainer.explain(of, TEXTS), expected)


@pytest.mark.parametrize("name", tiny.UNTRAINED)
def test_every_method_that_is_not_trained_comes_back_with_its_options(model, tmp_path, name):
    options = {"steps": 7} if name == "integrated_gradients" else {}
    explearn.export(tmp_path / "b", method=name, options=options)
    explainer = explearn.load(tmp_path / "b")
    of = explearn.load_classifier(model, device="cpu")
    assert (explainer.name, explainer.made_for, explainer.classifier_folder) == (name, None, None)
    again = explearn.get_explainer(name, **options)
    facts = manifest(tmp_path / "b")
    assert facts["trained"] or facts["options"] == again.options.model_dump(mode="json")
    same(explainer.explain(of, TEXTS[:1]), again.explain(of, TEXTS[:1]))


def test_a_method_that_comes_with_weights_takes_them_along(model, tmp_path):
    explearn.export(tmp_path / "b", method="consensus", classifier=model, with_classifier=True)
    assert manifest(tmp_path / "b")["trained"]
    expected = explearn.get_explainer("consensus").explain(tiny.classifier(), TEXTS)
    same(explearn.explain(tmp_path / "b", TEXTS, device="cpu"), expected)


def test_a_method_that_goes_on_from_a_trained_one(model, trained, tmp_path):
    explearn.export(tmp_path / "b", method="faml", explainer=trained["paml"], options={"steps": 1})
    of = explearn.load_classifier(model, device="cpu")
    expected = explearn.load(trained["paml"], "faml", steps=1).explain(of, TEXTS)
    same(explearn.load(tmp_path / "b").explain(of, TEXTS), expected)


@pytest.mark.parametrize("kind", ["roberta", "gpt2"])
def test_the_classifier_may_come_along(tmp_path, kind):
    of = explearn.load_classifier(tiny.save(tmp_path / "m", kind), device="cpu")
    explearn.export(tmp_path / "b", method="occlusion", classifier=tmp_path / "m", with_classifier=True)
    classifier = explearn.load_classifier(tmp_path / "b", device="cpu")
    assert classifier.fingerprint == of.fingerprint and classifier.encode(TEXTS) == of.encode(TEXTS)
    explained = explearn.explain(tmp_path / "b", TEXTS, device="cpu")
    same(explained, explearn.get_explainer("occlusion").explain(of, TEXTS))
    assert {attribution.method for attribution in explained} == {"occlusion"}
    # Another method may be named, and the explainer alone.
    assert explearn.explain(tmp_path / "b", TEXTS[0], "rollout", device="cpu").method == "rollout"
    same([explearn.explain(of, TEXTS[0], str(tmp_path / "b"))], explained[:1])


def test_the_manifest_has_the_hash_of_every_file_and_no_path_of_the_machine(model, tmp_path):
    explearn.export(tmp_path / "b", method="rollout", classifier=model, with_classifier=True)
    files = {str(p.relative_to(tmp_path / "b")): p for p in (tmp_path / "b").rglob("[!.]*") if p.is_file()}
    facts = manifest(tmp_path / "b")
    assert facts["files"].keys() == files.keys() - {"manifest.json"}
    assert all(facts["files"][name]["sha256"] == FileFacts.of(files[name]).sha256 for name in facts["files"])
    assert {path.suffix for path in files.values()} == {".json", ".safetensors", ".md"}
    assert facts["classifier"]["name"] == "my-classifier" and facts["classifier"]["labels"] == ["no", "yes"]
    assert not any(str(model.parent).encode() in path.read_bytes() for path in files.values())


def test_the_card_tells_what_it_is_and_renders(model, trained, metrics, tmp_path):
    explearn.export(tmp_path / "b", explainer=trained["reader"], classifier=model, metrics=metrics, task="reviews")
    text = (tmp_path / "b/README.md").read_text()
    _, head, body = text.split("---\n", 2)
    assert yaml.safe_load(head)["library_name"] == "explearn"
    results = ModelCard(text).data.eval_results
    assert {(of.dataset_name, of.metric_type): of.metric_value for of in results}["reviews", "f1"] == 0.25
    for part in (
        explearn.get_info("reader").summary,
        "trained on the classifier's own predictions",
        "| F1 | 0.250 | 0.200 to 0.300 | higher |",
    ):
        assert part in body, part
    assert "| Sufficiency | 0.500 |  | lower |" in body and "AUROC" not in body and "on 60 texts" in body
    assert "| labels | no, yes |" in body and "## Limits" in body and "explainer.explain(classifier, [" in body
    page = MarkdownIt("commonmark").enable("table").render(body)
    assert page.count("<table>") == 3 and "<th>Metric</th>" in page
    actual = json.loads((tmp_path / "b/metrics.json").read_text())
    assert actual == {"task": "reviews", "method": "reader", "figures": FIGURES}


def test_names_in_the_card_are_shown_not_read(tmp_path):
    label = "<script>alert(1)</script> | **x**"
    model = tiny.model("bert")
    tokenizer = tiny.tokenizer("bert")
    model.config.id2label, model.config.label2id = {0: label, 1: "no"}, {label: 0, "no": 1}
    model.save_pretrained(tmp_path / "m")
    tokenizer.save_pretrained(tmp_path / "m")
    explearn.export(tmp_path / "b", method="rollout", classifier=tmp_path / "m")
    text = (tmp_path / "b/README.md").read_text()
    assert "<script>" not in text and "**x**" not in text and "&lt;script&gt;" in text


def test_a_task_in_the_card_is_shown_not_read(tmp_path):
    metrics = tmp_path / "metrics.json"
    metrics.write_text(json.dumps({"tasks": {"<img src=x onerror=alert(1)>": {"rollout": FIGURES}}}))
    explearn.export(tmp_path / "b", method="rollout", metrics=metrics)
    text = (tmp_path / "b/README.md").read_text()
    assert "<img" not in text and text.count("&lt;img") >= 2


def test_the_code_of_the_card_runs(model, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("EXPLEARN_DEVICE", "cpu")
    for more in (True, False):
        folder = tmp_path / str(more)
        explearn.export(folder, method="rollout", classifier=model, with_classifier=more)
        code = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
        code = code.replace("PATH OR HUB NAME OF THIS BUNDLE", str(folder)).replace("FOLDER OR HUB NAME", str(model))
        exec(code, {})
        assert "A text to explain." in capsys.readouterr().out
