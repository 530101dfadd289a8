"""Bundles on the hub: what is sent there, and what is fetched."""

import logging
import shutil
from pathlib import Path
from unittest.mock import MagicMock, create_autospec

import huggingface_hub
import pytest
from bundle_cases import TEXTS, same
from huggingface_hub.errors import HfHubHTTPError
from saying import complaint

import explearn

REVISION = "0123456789abcdef0123456789abcdef01234567"
SECRET = "hf_thisisnotatoken"


@pytest.fixture
def bundle(model, tmp_path):
    return explearn.export(tmp_path / "b", method="rollout", classifier=model, with_classifier=True)


def files(bundle):
    return {str(path.relative_to(bundle)) for path in bundle.rglob("[!.]*") if path.is_file()}


@pytest.fixture
def hub(monkeypatch):
    """The hub's client with its own signatures; what it was made with is in `hub.made`."""
    api = create_autospec(huggingface_hub.HfApi, instance=True)
    api.create_repo.return_value = huggingface_hub.RepoUrl("https://huggingface.co/me/mine")
    api.made = []
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda **options: api.made.append(options) or api)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    return api


def test_it_is_put_there_in_one_commit(bundle, hub, caplog):
    caplog.set_level(logging.DEBUG)
    assert explearn.push_to_hub(bundle, "me/mine", private=True) == "https://huggingface.co/me/mine"
    assert hub.made == [{"token": SECRET}]
    hub.create_repo.assert_called_once_with("me/mine", private=True, exist_ok=True)
    (call,) = hub.upload_folder.call_args_list
    assert call.kwargs["repo_id"] == "me/mine" and call.kwargs["folder_path"] == bundle
    assert set(call.kwargs["allow_patterns"]) == files(bundle)
    assert SECRET not in caplog.text
    assert not any(SECRET.encode() in path.read_bytes() for path in bundle.rglob("*") if path.is_file())


def test_without_a_token_in_the_environment(bundle, hub, monkeypatch):
    for value in ("", "hf_tök", None):
        monkeypatch.setenv("HF_TOKEN", value) if value is not None else monkeypatch.delenv("HF_TOKEN")
        complaint(lambda: explearn.push_to_hub(bundle, "me/mine"), "HF_TOKEN: not set or not ASCII; expected a token")
    assert not hub.made


def test_what_the_hub_refuses_is_told_without_the_token(bundle, hub):
    hub.upload_folder.side_effect = HfHubHTTPError(f"403: token {SECRET} may not\nID: 1", response=MagicMock())
    words = "me/mine: the bundle cannot be uploaded (403: token ***"
    said = complaint(lambda: explearn.push_to_hub(bundle, "me/mine"), words)
    assert SECRET not in said
    hub.upload_folder.side_effect = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug"):
        explearn.push_to_hub(bundle, "me/mine")


def test_a_changed_file_is_not_sent(bundle, hub):
    (bundle / "README.md").write_text("mine")
    complaint(lambda: explearn.push_to_hub(bundle, "me/mine"), "README.md: is not the file that was exported")
    assert not hub.made


def test_it_is_loaded_by_its_hub_name(bundle, tmp_path, monkeypatch):
    # Where the hub's client looks for me/mine.
    repository = tmp_path / "models--me--mine"
    shutil.copytree(bundle, repository / "snapshots" / REVISION)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    explainer = explearn.load("me/mine")
    classifier = explearn.load_classifier(explainer.classifier_folder, device="cpu")
    expected = explearn.explain(bundle, TEXTS, device="cpu")
    same(explainer.explain(classifier, TEXTS), expected)
    same(explearn.explain(classifier, TEXTS, "me/mine"), expected)
    complaint(lambda: explearn.load("me/other"), "me/other: no such folder, and not to be had from the hub (")


def test_what_is_fetched_is_what_the_manifest_names(bundle, tmp_path, monkeypatch):
    asked = []

    def one(name, file, *, revision):
        asked.append((name, file, revision))
        return str(snapshot / file)

    def all_of_them(name, *, revision, allow_patterns):
        asked.append((name, revision, set(allow_patterns)))
        return str(snapshot)

    snapshot = Path(shutil.copytree(bundle, tmp_path / REVISION))
    monkeypatch.setattr(huggingface_hub, "model_info", lambda *_, **__: None)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", one)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", all_of_them)
    assert explearn.load("me/mine", revision="v1").folder == snapshot
    assert asked == [("me/mine", "manifest.json", "v1"), ("me/mine", REVISION, files(bundle))]
