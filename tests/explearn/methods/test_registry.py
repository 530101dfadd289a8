"""Methods by name: Explearn's own, registered ones, those of packages, and variants."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch
from typer.testing import CliRunner

import explearn
from explearn.cli.app import app
from explearn.core.errors import ParamsError, UnknownNameError
from explearn.methods import names as method_names
from explearn.methods.base import explainer as module
from explearn.methods.base.refining import RefiningExplainer
from explearn.methods.base.registry import explainer_class
from explearn.methods.info import first_sentence
from explearn.methods.names import known_infos, set_variants


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """What a test registers, declares or installs is gone after it."""
    yield
    method_names._state.registered.clear()
    method_names._state.variants.clear()
    method_names._plug_ins.cache_clear()


def make(name: str = "shout", **about: Any) -> type[explearn.Explainer]:
    """A class that may be registered: every sub-token scores 1."""

    class Shout(explearn.BatchExplainer):
        """Every word alike. The rest is silence."""

        def __init__(self, loud: float = 1.0) -> None:
            self.loud = loud

        def score_batch(self, classifier: Any, batch: Any, targets: Any) -> explearn.BatchScores:
            logits = classifier.logits(batch)
            scores = torch.full(batch.input_ids.shape, self.loud)
            return explearn.BatchScores(scores, logits, logits.argmax(-1) if targets is None else targets)

    Shout.about = explearn.About(name=name, **{"family": "chance", "cost": "one forward pass", **about})
    return Shout


class TestOwnMethods:
    def test_the_issue_s_methods_are_there(self) -> None:
        expected = (
            "expnet expnet_paper "
            "random raw_attention attention_mean rollout attention_flow gradient input_x_gradient deep_lift "
            "integrated_gradients gradient_shap sequential_ig lrp full_lrp transformer_attribution gae mgae cam "
            "grad_cam cat attcat attn_lrp occlusion lime shap kernel_shap deep_shap solvex alti globenc decompx"
        )
        assert set(expected.split()) <= set(explearn.list_explainers())

    @pytest.mark.parametrize("name", explearn.list_explainers())
    def test_what_is_listed_can_be_made_and_is_as_described(self, name: str) -> None:
        method, info = explearn.get_explainer(name), explearn.get_info(name)
        assert (method.name, info.name) == (name, name)
        assert isinstance(method, module.LearnedExplainer) == info.trained
        assert isinstance(method, RefiningExplainer) == (info.base is not None)
        assert info.summary.endswith(".")

    def test_near_names(self) -> None:
        with pytest.raises(UnknownNameError, match=r"unknown explainer 'rolout'; did you mean rollout\?"):
            explearn.get_explainer("rolout")
        with pytest.raises(UnknownNameError, match=r"unknown option of raw_attention 'layers'; did you mean layer\?"):
            explearn.get_explainer("raw_attention", layers=1)

    def test_a_method_without_options(self) -> None:
        with pytest.raises(UnknownNameError, match=r"unknown option of rollout 'layer'; known: \(none\)"):
            explearn.get_explainer("rollout", layer=1)

    def test_a_baseline_has_nothing_to_load(self) -> None:
        with pytest.raises(ParamsError, match="method 'rollout' is not trained; it has nothing to load"):
            explearn.get_explainer("rollout", path="folder")

    def test_a_trained_one_comes_with_its_options(self) -> None:
        with pytest.raises(ParamsError, match="options hidden come with the trained explainer"):
            explearn.get_explainer("expnet", path="folder", hidden=3)

    def test_names_and_help_need_no_torch(self, run_python: Any) -> None:
        run_python("import sys, explearn; explearn.list_explainers(); assert 'torch' not in sys.modules")


class TestRegister:
    def test_a_registered_method_is_like_any_other(self) -> None:
        shout = explearn.register(make())
        assert explearn.list_explainers()[-1] == "shout"
        info = explearn.get_info("shout")
        assert (info.summary, info.family, info.binarisation) == ("Every word alike.", "chance", "top_k")
        assert explainer_class("shout") is shout
        (found,) = explearn.get_explainer("shout", loud=2).explain(tiny.classifier("bert"), ["lazy dog"])
        assert (found.method, found.scores.tolist()) == ("shout", [2, 2])
        with pytest.raises(UnknownNameError, match="unknown explainer 'shuot'; did you mean shout"):
            explearn.get_info("shuot")

    def test_the_same_class_may_be_defined_anew(self) -> None:
        explearn.register(make())
        again = explearn.register(make())
        assert explainer_class("shout") is again

    def test_a_method_of_explearn_registers_as_itself(self) -> None:
        rollout = explainer_class("rollout")
        assert explearn.register(rollout) is rollout
        assert explearn.list_explainers().count("rollout") == 1

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("rollout", "the name 'rollout' is taken by a method of Explearn; choose another"),
            ("expnet_in_domain", "the name 'expnet_in_domain' is taken by a variant"),
        ],
    )
    def test_a_name_that_is_taken(self, name: str, words: str) -> None:
        with pytest.raises(ParamsError, match=words):
            explearn.register(make(name))

    def test_the_name_of_another_class(self) -> None:
        explearn.register(make())
        other = type("Other", (make(),), {"about": make().about, "__doc__": "Another."})
        with pytest.raises(ParamsError, match=r"the name 'shout' is taken by class .*Shout; choose another"):
            explearn.register(other)

    @pytest.mark.parametrize("name", ["", "Shout", "1st", "a-b", "a b", "gr\u00fc\u00df", None])
    def test_a_name_of_another_form(self, name: Any) -> None:
        with pytest.raises(ParamsError, match="expected a name of lower-case letters, digits and underscores"):
            make(name)

    @pytest.mark.parametrize(
        ("about", "words"),
        [
            ({"family": "magic"}, "method 'shout', family: got 'magic'; expected one of learned, chance, attention"),
            ({"needs": {"luck"}}, "method 'shout', needs: got 'luck'; expected one of gradients"),
            ({"binarisation": "half"}, "method 'shout', binarisation: got 'half'; expected one of threshold"),
        ],
        ids=str,
    )
    def test_a_declaration_of_what_does_not_exist(self, about: dict[str, Any], words: str) -> None:
        with pytest.raises(ParamsError, match=words):
            make(**about)

    @pytest.mark.parametrize(
        ("cls", "words"),
        [
            (int, "got int; expected a class that inherits from explearn.Explainer"),
            (make()(), "expected a class that inherits"),
            (module.BatchExplainer, "class BatchExplainer is abstract; expected it to define score_batch"),
            (type("Heir", (make(),), {"__doc__": "One."}), "Heir: its `about` is missing"),
            (type("Mute", (make(),), {"about": make().about}), "Mute: its docstring starts with no sentence"),
        ],
        ids=["no explainer", "an instance", "abstract", "about of its parent", "no docstring"],
    )
    def test_what_is_no_method(self, cls: Any, words: str) -> None:
        with pytest.raises(ParamsError, match=words):
            explearn.register(cls)

    def test_the_first_sentence_of_a_docstring(self) -> None:
        assert first_sentence("One line.") == "One line."
        assert first_sentence("Two\n    lines. And more.\n\n    Rest.") == "Two lines."


class TestVariants:
    def test_the_built_in_ones_are_always_there(self) -> None:
        names = explearn.list_explainers()
        start = names.index("expnet")
        assert names[start : start + 4] == ["expnet", "expnet_few_shot", "expnet_in_domain", "expnet_paper"]
        info = explearn.get_info("expnet_in_domain")
        defaults = {"protocol": "in_domain", "aim": 0.0, "input_dropout": 0.3, "dropout": 0.5, "reach": 1}
        assert (info.of, dict(info.defaults)) == ("expnet", defaults)
        assert info.summary == "ExpNet trained on the task's own rationales."
        assert explearn.get_info("expnet").of is None and not explearn.get_info("expnet").defaults

    def test_a_variant_is_a_method_with_options_of_its_own(self) -> None:
        set_variants({"top_layer": {"of": "raw_attention", "layer": -1}, "first": {"of": "raw_attention", "layer": 0}})
        names = explearn.list_explainers()
        start = names.index("raw_attention")
        assert names[start : start + 3] == ["raw_attention", "top_layer", "first"]
        info, base = explearn.get_info("first"), explearn.get_info("raw_attention")
        assert info.summary == f"{base.summary} Here with layer 0."
        assert (info.target, info.family, info.needs, info.cost) == (base.target, base.family, base.needs, base.cost)
        (found,) = explearn.get_explainer("first").explain(tiny.classifier("bert"), ["lazy dog"])
        (same,) = explearn.get_explainer("raw_attention", layer=0).explain(tiny.classifier("bert"), ["lazy dog"])
        assert found.method == "first"
        assert found.scores.tolist() == same.scores.tolist()

    def test_options_given_stand_above_those_of_the_variant(self) -> None:
        set_variants({"lime_1000": {"of": "lime", "samples": 1000, "seed": 1}})
        made: Any = explearn.get_explainer("lime_1000", samples=20)
        assert (made.samples, made.seed, made.name) == (20, 1, "lime_1000")
        assert explearn.get_info("lime_1000").summary.endswith(" Here with samples 1000, seed 1.")

    def test_a_run_s_variants_replace_those_of_the_last(self) -> None:
        set_variants({"first": {"of": "raw_attention", "layer": 0}})
        set_variants({})
        assert "first" not in explearn.list_explainers()
        with pytest.raises(UnknownNameError, match="unknown explainer 'first'"):
            explearn.get_info("first")

    def test_a_run_may_say_another_thing_of_a_built_in_one(self) -> None:
        defaults = dict(explearn.get_info("expnet_in_domain").defaults)
        set_variants({"expnet_in_domain": {"of": "expnet", **defaults}})
        assert explearn.get_info("expnet_in_domain").summary == "ExpNet trained on the task's own rationales."
        set_variants({"expnet_in_domain": {"of": "expnet", **defaults, "hidden": 8}})
        assert explearn.get_info("expnet_in_domain").defaults["hidden"] == 8
        assert explearn.list_explainers().count("expnet_in_domain") == 1

    def test_one_of_a_registered_method(self) -> None:
        shout = explearn.register(make())
        set_variants({"louder": {"of": "shout", "loud": 3}})
        assert explearn.list_explainers()[-2:] == ["shout", "louder"]
        assert explainer_class("louder") is shout

    @pytest.mark.parametrize(
        ("name", "given", "error", "words"),
        [
            ("rollout", {"of": "lime"}, ParamsError, "variant 'rollout': a method has that name; choose another"),
            (
                "mine",
                {"of": "lmie"},
                UnknownNameError,
                "method under variants.mine.of 'lmie'; did you mean lime",
            ),
            ("mine", {"of": "expnet_in_domain"}, ParamsError, "'expnet_in_domain' is a variant itself"),
            ("mine", {"samples": 3}, ParamsError, "variant 'mine': its 'of' is missing"),
            ("Mine", {"of": "lime"}, ParamsError, "method 'Mine': expected a name of lower-case letters"),
        ],
        ids=str,
    )
    def test_what_is_no_variant(self, name: str, given: dict[str, Any], error: type[Exception], words: str) -> None:
        set_variants({"first": {"of": "raw_attention", "layer": 0}})
        with pytest.raises(error, match=words):
            set_variants({name: given})
        assert "first" in explearn.list_explainers()

    def test_an_option_that_the_method_has_not(self) -> None:
        set_variants({"mine": {"of": "raw_attention", "laier": 0}})
        with pytest.raises(UnknownNameError, match="unknown option of mine 'laier'; did you mean layer"):
            explearn.get_explainer("mine")


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
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str, str], None]]:
    """Make a package `shouting` of one module, as pip leaves it, with an entry point NAME = VALUE."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, value: str, source: str) -> None:
        (tmp_path / "shouting.py").write_text(source, encoding="utf-8")
        folder = tmp_path / "shouting-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: shouting\nVersion: 1.0\n", encoding="utf-8")
        (folder / "entry_points.txt").write_text(f"[explearn.methods]\n{name} = {value}\n", encoding="utf-8")
        method_names._plug_ins.cache_clear()

    yield install
    sys.modules.pop("shouting", None)
    method_names._load.cache_clear()


class TestPlugIns:
    def test_a_package_s_method_is_loaded_when_it_is_needed(self, install: Any) -> None:
        install("shout", "shouting:Shout", PLUG_IN)
        assert explearn.list_explainers()[-1] == "shout"
        assert "shouting" not in sys.modules
        assert explearn.get_info("shout").target == "shouting:Shout"
        (found,) = explearn.get_explainer("shout").explain(tiny.classifier("bert"), ["lazy dog"])
        assert (found.method, found.scores.tolist()) == ("shout", [1, 1])

    def test_it_may_have_variants(self, install: Any) -> None:
        install("shout", "shouting:Shout", PLUG_IN)
        set_variants({"shout_again": {"of": "shout"}})
        assert explearn.get_explainer("shout_again").name == "shout_again"

    def test_it_may_register_its_class_besides(self, install: Any) -> None:
        install("shout", "shouting:Shout", PLUG_IN.replace("class Shout", "@explearn.register\nclass Shout"))
        assert explearn.get_explainer("shout").name == "shout"
        assert explearn.list_explainers().count("shout") == 1

    @pytest.mark.parametrize(
        ("value", "source", "words"),
        [
            (
                "shouting:Shout",
                "import nowhere_to_be_found",
                r"cannot be loaded \(ModuleNotFoundError: No module",
            ),
            ("shouting:Shout", "1 / 0", r"cannot be loaded \(ZeroDivisionError: division by zero\)"),
            ("shouting:Whisper", PLUG_IN, r"cannot be loaded \(AttributeError: "),
            ("shouting:Shout", "Shout = 3", "is of no use: got int; expected a class that inherits"),
            ("shouting:Shout", PLUG_IN.replace('"shout"', '"cry"'), "calls itself 'cry'; expected the same name"),
        ],
        ids=["import", "error", "class", "kind", "name"],
    )
    def test_one_that_cannot_be_loaded(self, install: Any, value: str, source: str, words: str) -> None:
        install("shout", value, source)
        with pytest.raises(ParamsError, match=rf"package 'shouting': its method 'shout' \({value}\) {words}"):
            explearn.get_explainer("shout")
        assert explearn.get_explainer("rollout").name == "rollout"
        with pytest.warns(UserWarning, match="package 'shouting'"):
            assert "shout" not in [info.name for info in known_infos()]

    def test_the_command_line_lists_the_others(self, install: Any) -> None:
        install("shout", "shouting:Shout", "1 / 0")
        result = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "240"})
        assert result.exit_code == 0
        assert "warning: package 'shouting': its method 'shout'" in result.stderr
        assert "decompx" in result.stdout

    def test_one_whose_name_is_taken_is_left_out(self, install: Any) -> None:
        install("rollout", "shouting:Shout", PLUG_IN)
        with pytest.warns(UserWarning, match="package 'shouting': its method 'rollout' is left out; the name is taken"):
            assert explearn.list_explainers().count("rollout") == 1
        assert explearn.get_info("rollout").target.startswith("explearn.")

    def test_its_name_is_taken(self, install: Any) -> None:
        install("shout", "shouting:Shout", PLUG_IN)
        with pytest.raises(ParamsError, match="the name 'shout' is taken by package 'shouting'; choose another"):
            explearn.register(make())
