"""Methods by name: Explearn's own, registered ones, those of packages, and variants."""

import os
import subprocess
import sys

import pytest
import tiny
import torch
from cli_cases import run
from saying import command_complaint

import explearn
from explearn import ParamsError, UnknownNameError
from explearn.core.validation import Section
from explearn.methods import registry
from explearn.methods.base.learned import LearnedExplainer
from explearn.methods.registry import explainer_class, known_infos
from explearn_study.params import variant_of


@pytest.fixture(autouse=True)
def forgotten():
    """Remove what a test registered or installed."""
    yield
    registry._registered.clear()
    registry._plug_ins.cache_clear()


def make(name="shout", **about):
    """A class that may be registered: every sub-token scores 1."""

    class Shout(explearn.BatchExplainer):
        """Every word alike. The rest is silence."""

        class Options(Section):
            loud: float = 1.0

        def score_batch(self, classifier, batch, targets):
            logits = classifier.logits(batch)
            scores = torch.full(batch.input_ids.shape, self.options.loud)
            return explearn.BatchScores(scores, logits, logits.argmax(-1) if targets is None else targets)

    Shout.about = explearn.About(name=name, **{"family": "chance", "cost": "one forward pass", **about})
    return Shout


class TestOwnMethods:
    @pytest.mark.parametrize("name", explearn.list_explainers())
    def test_what_is_listed_can_be_made_and_is_as_described(self, name):
        method = explearn.get_explainer(name)
        info = explearn.get_info(name)
        assert (method.name, info.name) == (name, name)
        assert isinstance(method, LearnedExplainer) == info.trained
        assert (info.options_class is not None) == bool(type(method).Options.model_fields)
        assert info.summary.endswith(".")

    def test_it_shows_its_name_with_the_options_that_differ_from_its_defaults(self):
        assert repr(explearn.get_explainer("gae")) == "gae()"
        assert repr(explearn.get_explainer("lime", samples=64, seed=13)) == "lime(samples=64)"
        assert repr(explearn.get_explainer("marker_few_shot")) == "marker_few_shot()"
        other = explearn.get_explainer("marker_few_shot", protocol="universal")
        assert repr(other) == "marker_few_shot(protocol='universal')"

    def test_an_unknown_name_or_option(self):
        with pytest.raises(UnknownNameError, match=r"unknown method 'rolout'; did you mean rollout\?"):
            explearn.get_explainer("rolout")
        with pytest.raises(ParamsError, match=r"layers: no such parameter; did you mean layer\?"):
            explearn.get_explainer("raw_attention", layers=1)


class TestRegister:
    def test_a_registered_method_is_like_any_other(self):
        shout = explearn.register(make())
        assert explearn.list_explainers()[-1] == "shout"
        info = explearn.get_info("shout")
        assert (info.summary, info.family, info.binarisation) == ("Every word alike.", "chance", "top_k")
        assert explainer_class("shout") is shout
        attribution = explearn.explain(tiny.classifier(), "lazy dog", "shout", loud=2)
        assert (attribution.method, attribution.scores.tolist()) == ("shout", [2, 2])

    def test_a_name_that_is_taken(self):
        with pytest.raises(ParamsError, match="the name 'rollout' is taken by a method of Explearn"):
            explearn.register(make("rollout"))

    @pytest.mark.parametrize(
        ("cls", "words"),
        [
            (int, "got int; expected a class that inherits from explearn.Explainer"),
            (type("Mute", (make(),), {"about": make().about}), "Mute: its docstring does not start with a sentence"),
        ],
        ids=["no explainer", "no docstring"],
    )
    def test_what_is_no_method(self, cls, words):
        with pytest.raises(ParamsError, match=words):
            explearn.register(cls)


class TestVariants:
    def test_the_built_in_ones_are_listed_behind_their_method(self):
        names = explearn.list_explainers()
        start = names.index("marker")
        assert names[start : start + 4] == ["marker", "marker_few_shot", "marker_in_domain", "reader"]
        info = explearn.get_info("marker_in_domain")
        assert (info.of, info.defaults["protocol"]) == ("marker", "in_domain")
        assert info.summary == "Marker trained on the task's own rationales."
        assert explearn.get_explainer("marker_in_domain").options.protocol == "in_domain"

    def test_a_variant_is_a_method_with_options_of_its_own(self):
        info = variant_of("first", "raw_attention", {"layer": 0})
        base = explearn.get_info("raw_attention")
        assert info.summary == f"{base.summary} Here with layer 0."
        assert (info.target, info.family, info.needs, info.cost) == (base.target, base.family, base.needs, base.cost)
        assert "first" not in explearn.list_explainers()

    @pytest.mark.parametrize(
        ("name", "of", "error", "words"),
        [
            ("rollout", "lime", ParamsError, "variant 'rollout': a method has that name; choose another"),
            ("mine", "lmie", UnknownNameError, "'lmie'; did you mean lime"),
            ("mine", "marker_in_domain", ParamsError, "'marker_in_domain' is itself a variant"),
        ],
    )
    def test_what_is_no_variant(self, name, of, error, words):
        with pytest.raises(error, match=words):
            variant_of(name, of, {})


PLUG_IN = """
import torch  # noqa: F401
import explearn

class Shout(explearn.BatchExplainer):
    \"\"\"Every word alike.\"\"\"

    about = explearn.About(name="shout", family="chance", cost="one forward pass")

    def score_batch(self, classifier, batch, targets):
        logits = classifier.logits(batch)
        chosen = logits.argmax(-1) if targets is None else targets
        return explearn.BatchScores(torch.ones(batch.input_ids.shape), logits, chosen)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Make a package `shouting` of one module, as pip leaves it, with an entry point NAME = VALUE."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name, value, source):
        (tmp_path / "shouting.py").write_text(source, encoding="utf-8")
        folder = tmp_path / "shouting-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n", encoding="utf-8")
        (folder / "entry_points.txt").write_text(f"[explearn.methods]\n{name} = {value}\n", encoding="utf-8")
        registry._plug_ins.cache_clear()

    yield install
    sys.modules.pop("shouting", None)
    registry._load.cache_clear()


class TestPlugIns:
    def test_a_package_s_method_is_loaded_when_it_is_needed(self, install):
        install("shout", "shouting:Shout", PLUG_IN)
        assert explearn.list_explainers()[-1] == "shout"
        assert "shouting" not in sys.modules
        assert explearn.get_info("shout").target == "shouting:Shout"
        attribution = explearn.explain(tiny.classifier(), "lazy dog", "shout")
        assert (attribution.method, attribution.scores.tolist()) == ("shout", [1, 1])
        assert variant_of("shout_again", "shout", {}).target == "shouting:Shout"

    @pytest.mark.parametrize(
        ("value", "source", "words"),
        [
            ("shouting:Shout", "import nowhere_to_be_found", r"cannot be loaded \(ModuleNotFoundError: No module"),
            ("shouting:Shout", "import sys; sys.exit(3)", r"cannot be loaded \(SystemExit: 3\); fix the package"),
            ("shouting:Shout", PLUG_IN.replace('"shout"', '"cry"'), "calls itself 'cry'; expected the same name"),
        ],
        ids=["import", "exit", "name"],
    )
    def test_one_that_cannot_be_loaded(self, install, value, source, words):
        install("shout", value, source)
        with pytest.raises(ParamsError, match=rf"package 'shouting': its method 'shout' \({value}\) {words}"):
            explearn.get_explainer("shout")
        assert explearn.get_explainer("rollout").name == "rollout"
        with pytest.warns(UserWarning, match="package 'shouting'"):
            assert "shout" not in [info.name for info in known_infos()]
        with pytest.warns(UserWarning, match="package 'shouting': its method 'shout'"):
            result = run("methods")
        assert "decompx" in result.stdout

    def test_one_that_needs_more_than_its_options(self, install):
        install("shout", "shouting:Shout", PLUG_IN + "\n    def __init__(self, volume):\n        super().__init__()\n")
        said = command_complaint("explain", "a", "--classifier", "nowhere", "--method", "shout")
        assert "shout, of 'shouting', cannot be made (TypeError" in said and "'volume'" in said

    def test_one_whose_name_is_taken_is_left_out(self, install):
        install("rollout", "shouting:Shout", PLUG_IN)
        with pytest.warns(UserWarning, match="package 'shouting': its method 'rollout' is left out; the name is taken"):
            assert explearn.list_explainers().count("rollout") == 1
        assert explearn.get_info("rollout").target.startswith("explearn.")


STRIPPED = """
import sys, explearn
from explearn.core.errors import ExplearnError
class Shout(explearn.BatchExplainer):
    about = explearn.About(name="shout", family="chance", cost="one forward pass")
    def score_batch(self, classifier, batch, targets): ...
print(explearn.register(Shout).name, explearn.get_info("lime").summary)
import explearn_apps.serve.app
try:
    explearn.load_classifier(sys.argv[1])
except ExplearnError as error:
    print(error)
"""


def test_without_docstrings_methods_have_names_and_a_model_a_sentence(tmp_path):
    """Python -OO removes docstrings; transformers then cannot load a model."""
    tiny.save(tmp_path / "model", "bert", 2)
    done = subprocess.run([sys.executable, "-OO", "-c", STRIPPED, tmp_path / "model"], capture_output=True, text=True)
    assert done.stdout.startswith(f"shout {explearn.get_info('lime').summary}\n"), done.stderr
    assert "-OO or PYTHONOPTIMIZE=2" in done.stdout


def test_a_command_of_a_package_that_cannot_be_loaded_leaves_the_others(tmp_path):
    folder = tmp_path / "shouting-1.0.dist-info"
    folder.mkdir()
    (tmp_path / "shouting.py").write_text("raise SystemExit(3)")
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[explearn.commands]\nshout = shouting:shout\n")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-m", "explearn.cli.app", "methods", "gae"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0 and "command 'shout' (shouting:shout) cannot be loaded (SystemExit: 3)" in done.stderr
