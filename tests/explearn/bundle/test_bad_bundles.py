"""What cannot be a bundle, or is no longer one, is one sentence that names the file; nothing is written."""

import json
import shutil
from pathlib import Path

import pytest
import tiny
from bundle_cases import TEXTS
from cli_cases import records, run
from saying import command_complaint, complaint

import explearn


@pytest.fixture(scope="module")
def made(model, tmp_path_factory):
    return explearn.export(
        tmp_path_factory.mktemp("made") / "b", method="consensus", classifier=model, with_classifier=True
    )


@pytest.fixture
def bundle(made, tmp_path):
    """A bundle of one's own to damage."""
    return Path(shutil.copytree(made, tmp_path / "b"))


def refused(bundle, *words):
    """By the library, also where its classifier is loaded, and on the command line, in the same words."""
    said = complaint(lambda: explearn.load(bundle), *words)
    assert command_complaint("explain", "--device", "cpu", "--explainer", str(bundle), "lazy dog") == f"error: {said}"


def rewrite(bundle, **changes):
    path = bundle / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("name", ["README.md", "explainer/consensus.safetensors", "classifier/config.json"])
def test_a_file_that_has_changed_or_is_missing_is_named(bundle, name):
    content = bytearray((bundle / name).read_bytes())
    content[len(content) // 2] ^= 1
    (bundle / name).write_bytes(content)
    refused(bundle, str(bundle / name), "is not the file that was exported")
    (bundle / name).unlink()
    refused(bundle, str(bundle / name), "is missing")


@pytest.mark.parametrize("name", ["classifier/adapter_config.json", "more.json", "more/model.safetensors"])
def test_a_file_that_nobody_exported_is_named(bundle, name):
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / name).write_text("{}")
    refused(bundle, str(bundle / name), "is not in manifest.json")


def test_a_link_that_nobody_exported_is_named(bundle, tmp_path):
    (bundle / "elsewhere").symlink_to(tmp_path)
    refused(bundle, str(bundle / "elsewhere"), "is not in manifest.json")


def test_nothing_is_exported_into_a_bundle(bundle):
    out = str(bundle / "explainer/new")
    command_complaint("export", "--method", "rollout", "--out", out, words=(out, "lies in the bundle"))
    assert explearn.load(bundle).classifier_folder == bundle / "classifier"


def test_a_folder_beside_some_other_manifest_is_no_place_in_a_bundle(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    assert explearn.export(tmp_path / "b", method="rollout").is_dir()


def test_a_newer_format(bundle):
    rewrite(bundle, format=2, explearn="9.0", new={"what": "ever"})
    refused(bundle, "a bundle of format 2, made with Explearn 9.0", "reads format 1, expected a newer Explearn")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"files": {"../b/x.json": {"bytes": 1, "sha256": "a"}}}, "below the bundle, and not '../b/x.json'"),
        ({"files": {"explainer/x.bin": {"bytes": 1, "sha256": "a"}}}, "expected .json, .safetensors and .md"),
        ({"classifier": {"fingerprint": "a", "folder": "../m"}}, "field 'classifier.folder'"),
        ({"options": {"stepz": 1}}, "options: got stepz; the trained explainer"),
    ],
)
def test_a_manifest_that_says_what_it_may_not(bundle, changes, words):
    rewrite(bundle, **changes)
    refused(bundle, words)


def test_weights_of_another_classifier_under_the_same_hashes(bundle):
    facts = json.loads((bundle / "manifest.json").read_text())["classifier"]
    rewrite(bundle, classifier={**facts, "fingerprint": "0" * 64})
    words = "made for the classifier with fingerprint 000000000000 (my-classifier)"
    complaint(lambda: explearn.explain(bundle, "lazy dog", device="cpu"), words)
    command_complaint("explain", "--device", "cpu", "--explainer", str(bundle), "lazy dog", words=(words,))


def test_a_changed_classifier_is_not_loaded_from_its_bundle(bundle):
    (bundle / "classifier/vocab.txt").unlink(missing_ok=True)
    (bundle / "classifier/config.json").write_text("{}")
    complaint(lambda: explearn.load_classifier(bundle, device="cpu"), "is not the file that was exported")


def test_a_bundle_without_a_classifier_is_none(tmp_path):
    explearn.export(tmp_path / "b", method="rollout")
    complaint(lambda: explearn.load_classifier(tmp_path / "b"), str(tmp_path / "b"), "without its classifier")
    command_complaint("explain", "--explainer", str(tmp_path / "b"), "lazy dog", words=("--classifier: got none",))


def test_a_saved_model_beside_some_other_manifest_is_a_classifier(model, tmp_path):
    folder = Path(shutil.copytree(model, tmp_path / "m"))
    (folder / "manifest.json").write_text('{"name": "a web page"}')
    assert explearn.explain(folder, "lazy dog", device="cpu").method == "attn_lrp"


@pytest.mark.parametrize("name", ["rollout", "reader"])
def test_another_classifier_than_it_was_made_for(model, trained, tmp_path, name):
    other = tiny.save(tmp_path / "other", seed=5)
    explearn.export(tmp_path / "b", method=name, explainer=trained.get(name), classifier=model)
    of = explearn.load_classifier(other, device="cpu")
    explainer = explearn.load(tmp_path / "b")
    words = "made for the classifier with fingerprint"
    complaint(lambda: explainer.explain(of, TEXTS), words)
    command_complaint("explain", "--explainer", str(tmp_path / "b"), "--classifier", str(other), "a", words=(words,))
    # Sanity checks explain changed models.
    assert len(explainer.explain(of, TEXTS, other_models=True)) == len(TEXTS)


def test_its_classifier_with_other_names_or_outputs_is_explained(model, trained, tmp_path):
    explearn.export(tmp_path / "reader", explainer=trained["reader"], classifier=model)
    of = explearn.load_classifier(model, device="cpu").renamed({"no": "bad"})
    assert explearn.load(tmp_path / "reader").explain(of, TEXTS)[0].target in ("bad", "yes")
    explearn.export(tmp_path / "b", method="occlusion", classifier=model, with_classifier=True)
    renamed = ("--explainer", str(tmp_path / "b"), "--class-name", "no=bad", "--versus", "bad")
    (line,) = records(run("explain", "--device", "cpu", "--json", *renamed, "lazy dog"))
    assert line["target"] == "yes versus bad"


def test_what_is_no_bundle(tmp_path, model, monkeypatch):
    monkeypatch.chdir(tmp_path)
    complaint(lambda: explearn.load(tmp_path / "none"), "none: no such folder; expected that of a trained")
    complaint(lambda: explearn.load(model), "holds no trained explainer")
    complaint(lambda: explearn.load("some/bundle"), "some/bundle: no such folder, and not to be had from the hub")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            lambda m, t: ("--method", "reader"),
            "'reader' needs training (`explearn train`); expected the folder of a trained reader (--explainer FOLDER",
        ),
        (lambda m, t: ("--method", "rollout", "--with-classifier"), "got no classifier to put into the bundle"),
        (lambda m, t: ("--method", "rollout", "--metrics", "metrics.json"), "expected one of reviews, topics"),
        (
            lambda m, t: ("--method", "rollout", "--metrics", str(m / "config.json")),
            "field 'tasks': got none; expected a value; expected a run's reports/metrics.json",
        ),
        (lambda m, t: ("--explainer", "none"), "none: no such folder; expected that of a trained explainer"),
        (lambda m, t: ("--explainer", str(t["reader"]), "--method", "paml"), "not a trained paml (holds a Reader)"),
        (
            lambda m, t: ("--explainer", str(t["reader"]), "--classifier", "other"),
            "trained for another classifier",
        ),
    ],
)
def test_an_export_that_cannot_be(model, trained, metrics, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    tiny.save(tmp_path / "other", seed=5)
    command_complaint("export", *arguments(model, trained), "--out", "b", words=(words,))
    assert not (tmp_path / "b").exists() and not list(tmp_path.glob(".b.partial-*[!k]"))


def test_an_out_that_is_there_already_stays_as_it_is(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/thesis.docx").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("folder", "file", "link"):
        out = str(tmp_path / name)
        command_complaint("export", "--method", "rollout", "--out", out, words=(out,))
    assert (tmp_path / "file").read_text() == (tmp_path / "folder/thesis.docx").read_text() == "mine"


def test_a_file_of_another_kind_in_a_trained_explainer_does_not_come_along(trained, tmp_path):
    folder = shutil.copytree(trained["reader"], tmp_path / "reader")
    (folder / "model.pkl").write_text("{}")
    words = (str(folder), "cannot go into a bundle", "'explainer/model.pkl'")
    command_complaint("export", "--explainer", str(folder), "--out", str(tmp_path / "b"), words=words)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_link_in_a_trained_explainer_is_not_followed(trained, tmp_path, kind):
    """It may lead to any file of the machine, and a bundle is given away."""
    folder = Path(shutil.copytree(trained["reader"], tmp_path / "reader"))
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/passwords.json").write_text("{}")
    link = folder / ("more.json" if kind == "file" else "more")
    link.symlink_to(tmp_path / "secrets" / ("passwords.json" if kind == "file" else ""))
    words = (f"{link}: is a link",)
    command_complaint("export", "--explainer", str(folder), "--out", str(tmp_path / "b"), words=words)
    assert not (tmp_path / "b").exists()


def test_a_bundle_holds_no_other_method_and_takes_no_options(bundle, trained, tmp_path):
    explearn.export(tmp_path / "reader", explainer=trained["reader"])
    explain = ("explain", "--device", "cpu", "--classifier", "m", "--explainer")
    command_complaint(*explain, str(tmp_path / "reader"), "--method", "paml", "a", words=("folder of a trained paml",))
    complaint(lambda: explearn.load(tmp_path / "reader", "paml"), "got method; the bundle")
    command_complaint(*explain, str(bundle), "-o", "seed=3", "a", words=("got seed; the bundle",))
    explearn.export(tmp_path / "r", method="random")
    command_complaint(*explain, str(tmp_path / "r"), "-o", "seed=3", "a", words=("fixes these options",))


def test_options_for_use_are_those_of_a_trained_explainer_too(trained, tmp_path):
    explearn.export(tmp_path / "reader", explainer=trained["reader"])
    assert explearn.load(tmp_path / "reader", budget=40).options.budget == 40
