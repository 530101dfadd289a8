"""Explainers from all that may stand for one: names, folders, bundles, objects, and nothing."""

import json

import pytest
import tiny
from saying import complaint

import explearn
from explearn import ModelError, ParamsError
from explearn.methods.base.task import ListedTask
from explearn.methods.finding import find_explainer, find_explainers, load, method_in
from explearn.methods.marker.explainer import Marker


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of a trained Marker, with a bundle of it in another."""
    place = tmp_path_factory.mktemp("trained")
    of = tiny.classifier()
    (label,) = of.predict(["lazy dog"])
    task = ListedTask(of, ["lazy dog"], labels=[label], gold={"train-1": (True, False)})
    Marker(epochs=1, protocol="in_domain").learn(task).save_pretrained(place / "marker")
    return place / "marker"


class TestNames:
    def test_of_methods_and_variants_take_options_and_a_seed_where_they_draw(self):
        found = find_explainer("lime", {"samples": 30}, seed=5)
        assert (found.name, found.options.samples, found.options.seed) == ("lime", 30, 5)
        assert find_explainer("lime", {"seed": 3}, seed=5).options.seed == 3
        assert repr(find_explainer("gae", seed=5)) == "gae()"
        assert (found.folder, found.made_for, found.classifier_folder) == (None, None, None)

    @pytest.mark.parametrize("options", [[1], "x", 5, {1: 2}])
    def test_options_that_are_none(self, options, tmp_path):
        complaint(lambda: find_explainer("lime", options), "options: got ")
        complaint(lambda: explearn.export(tmp_path / "b", method="lime", options=options), "options: got ")

    @pytest.mark.parametrize(("name", "trained"), [("reader", "reader"), ("faml", "paml")])
    def test_that_need_training_say_whose_folder_is_missing(self, name, trained):
        with pytest.raises(ParamsError, match=rf"'{name}' needs training .* of a trained {trained} \(--explainer"):
            find_explainer(name)

    def test_come_before_folders_of_the_same_name(self, tmp_path, monkeypatch):
        (tmp_path / "gae").mkdir()
        monkeypatch.chdir(tmp_path)
        assert find_explainer("gae").name == "gae"
        with pytest.raises(ModelError, match="gae: holds no trained explainer"):
            load("gae")


class TestFolders:
    def test_say_themselves_of_which_method_they_are(self, folder):
        for source in (folder, str(folder)):
            found = find_explainer(source, seed=5)
            assert (found.name, found.folder) == ("marker_in_domain", folder)
        assert method_in(folder) == "marker_in_domain"
        assert find_explainer(folder, method="marker").name == load(folder, "marker").name == "marker"

    def test_of_bundles_are_like_those_of_training(self, folder, tmp_path):
        bundle = explearn.export(tmp_path / "b", explainer=folder)
        found = find_explainer(bundle)
        assert (found.name, found.folder, method_in(bundle)) == ("marker_in_domain", bundle, "marker_in_domain")
        assert found.made_for.fingerprint == tiny.classifier().fingerprint

    def test_fix_their_options(self, folder, tmp_path):
        bundle = explearn.export(tmp_path / "b", explainer=folder)
        for source, words in ((folder, "the trained explainer in"), (bundle, "the bundle")):
            with pytest.raises(ParamsError, match=f"options: got hidden; {words} {source} fixes these options"):
                find_explainer(source, {"hidden": 3})

    def test_are_of_no_use_to_methods_without_training(self, folder):
        with pytest.raises(ParamsError, match="method 'rollout' needs no training; it has nothing to load"):
            find_explainer(folder, method="rollout")

    def test_that_are_none_or_hold_something_else_are_named(self, tmp_path):
        with pytest.raises(ModelError, match="nowhere: no such folder"):
            find_explainer(tmp_path / "nowhere")
        (tmp_path / "config.json").write_text(json.dumps({"explainer": "Magic", "options": {}}))
        with pytest.raises(ModelError, match="holds a 'Magic', a class of no method; expected one method"):
            find_explainer(tmp_path)


class TestNothing:
    def test_is_the_first_default_that_can_explain(self):
        function = explearn.FunctionPredictor(lambda texts: [[0.3, 0.7]] * len(texts), ["no", "yes"])
        assert find_explainer(None, classifier=tiny.classifier()).name == "attn_lrp"
        assert find_explainer(None, classifier=function).name == "occlusion"

    def test_has_no_options(self):
        with pytest.raises(ParamsError, match="options: got samples; expected the name of their method"):
            find_explainer(None, {"samples": 3}, classifier=tiny.classifier())


def test_an_explainer_is_itself_and_has_its_options():
    gae = explearn.get_explainer("gae")
    assert find_explainer(gae) is gae
    with pytest.raises(ParamsError, match="options: got samples"):
        find_explainer(gae, {"samples": 3})
    for other, words in ((3, "got int"), (None, "got nothing")):
        with pytest.raises(ParamsError, match=f"method: {words}; expected a name or an explainer"):
            find_explainer(other)


class TestSeveral:
    def test_rosters_bring_what_needs_no_training_and_named_methods_the_options_of_light(self):
        assert list(find_explainers("quick", 13)) == ["random", "consensus", "attn_lrp", "gae", "attcat"]
        found = find_explainers("lime,rollout", 13)
        assert list(found) == ["rollout", "lime"] and found["lime"].options.samples == 128
        assert {explainer.options.seed for explainer in (find_explainers(["lime"], 7)["lime"],)} == {7}

    def test_what_is_given_comes_last_in_place_of_a_method_of_its_name(self, folder):
        lime = explearn.get_explainer("lime", samples=10)
        found = find_explainers([lime, "gae", folder, "lime"][:3], 13)
        assert list(found) == ["gae", "lime", "marker_in_domain"] and found["lime"] is lime
        assert find_explainers(lime, 13) == {"lime": lime}
        assert find_explainers(["light", lime], 13)["lime"] is lime

    def test_each_is_named_once(self, folder, tmp_path):
        bundle = explearn.export(tmp_path / "b", explainer=folder)
        for sources in ("lime,lime", ["gae", explearn.get_explainer("gae")], [folder, bundle]):
            with pytest.raises(ParamsError, match="expected each once"):
                find_explainers(sources, 13)
