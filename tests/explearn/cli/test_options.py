"""Which trained explainer's folder and which options go to which method of `explearn explain`."""

import json

import pytest

from explearn import ParamsError, UnknownNameError, get_explainer, get_info
from explearn.cli import options
from explearn.cli.options import NamedMethods, parse_names, parse_options


def folders(root, *names):
    """Folders that say of which method they hold the training."""
    for name in names:
        info = get_info(name)
        (root / name).mkdir()
        config = {"explainer": info.target.rpartition(":")[2], "options": dict(info.defaults)}
        (root / name / "config.json").write_text(json.dumps(config))
    return [root / name for name in names]


@pytest.fixture
def found(monkeypatch):
    """What is looked for, in place of what is found: (source, options, method)."""

    def find(source, options, method, seed):
        return source, options, method

    monkeypatch.setattr(options, "find_explainer", find)


@pytest.mark.parametrize(
    ("methods", "trained", "expected"),
    [
        (["marker", "lime", "reader"], ["reader", "marker"], ["marker", None, "reader"]),
        (["consensus", "marker"], ["marker"], [None, "marker"]),  # consensus has weights of its own
        (["marker_in_domain", "marker"], ["marker", "marker_in_domain"], ["marker_in_domain", "marker"]),
        (["marker"], ["marker_in_domain"], ["marker_in_domain"]),  # another variant of the same method
        (["faml"], ["paml"], ["paml"]),  # which faml refines
        (["faml_states", "paml"], ["paml_states", "paml"], ["paml_states", "paml"]),
        ([], ["reader", "marker"], ["reader", "marker"]),
        ([], [], []),
        (["gae", "lime"], ["reader", "marker"], [None, None, "reader", "marker"]),
        (["paml"], ["reader", "paml"], ["paml", "reader"]),
    ],
)
def test_a_folder_goes_to_the_method_whose_training_it_holds(found, tmp_path, methods, trained, expected):
    sources = NamedMethods(methods, folders(tmp_path, *trained)).explainers()
    names = [source.name if method != source else None for source, _, method in sources]
    assert names == expected
    assert [method for _, _, method in sources][: len(methods)] == methods


@pytest.mark.parametrize(
    ("methods", "trained", "said"),
    [
        (["marker", "lime"], [], "method: 'marker' needs training"),
        (["lime", "lime"], [], "methods: got lime, lime; expected each once"),
    ],
)
def test_a_folder_too_few_or_a_method_too_many(tmp_path, methods, trained, said):
    with pytest.raises(ParamsError, match=said):
        NamedMethods(methods, folders(tmp_path, *trained)).explainers()


class TestOptions:
    """-o NAME=VALUE and -o METHOD.NAME=VALUE."""

    def of(self, tmp_path, methods, trained, *pairs):
        named = NamedMethods(methods, folders(tmp_path, *trained), parse_options(pairs))
        return {method: chosen for _, chosen, method in named.explainers()}

    def test_of_one_method_all_are_its_own(self, found, tmp_path):
        assert self.of(tmp_path, ["lime"], [], "samples=3", "odd=1") == {"lime": {"samples": 3, "odd": 1}}

    def test_of_several_go_to_all_that_have_them_or_to_one(self, found, tmp_path):
        chosen = self.of(tmp_path, ["lime", "kernel_shap", "gae"], ["reader"], "samples=3", "lime.seed=1")
        assert chosen == {"lime": {"samples": 3, "seed": 1}, "kernel_shap": {"samples": 3}, "gae": {}, "reader": {}}

    def test_of_a_trained_one_are_those_that_training_leaves_open(self, found, tmp_path):
        chosen = self.of(tmp_path, ["lime"], ["reader", "paml"], "budget=3", "seed=1")
        assert chosen == {"lime": {"seed": 1}, "reader": {"budget": 3}, "paml": {}}
        (tmp_path / "more").mkdir()
        refining = self.of(tmp_path / "more", ["faml", "gae"], ["paml"], "steps=3")
        assert refining == {"faml": {"steps": 3}, "gae": {}}

    @pytest.mark.parametrize(
        ("pairs", "said"),
        [
            (["lmie.samples=3"], "unknown method of --option 'lmie'; did you mean lime"),
            (["sample=3"], "unknown option of lime, gae 'sample'; did you mean samples"),
        ],
    )
    def test_of_nothing_are_told(self, tmp_path, pairs, said):
        with pytest.raises(UnknownNameError, match=said):
            NamedMethods(["lime", "gae"], options=parse_options(pairs)).explainers()

    def test_need_a_method(self):
        with pytest.raises(ParamsError, match="--option: got samples; expected the method, too"):
            NamedMethods(options={"samples": 3}).explainers()


def test_a_comparison_gets_names_and_explainers_only_where_something_is_chosen(tmp_path):
    named = NamedMethods(["quick", "gae", "lime"], options={"lime.kernel_width": 30}, seed=5)
    roster, gae, lime = named.listed()
    assert (roster, gae) == ("quick", "gae")
    # As in the roster light, but for what was chosen.
    assert lime.options == get_explainer("lime", samples=128, kernel_width=30, seed=5).options
    assert NamedMethods().listed() == ["light"]


def test_where_one_method_is_used_a_second_is_refused():
    assert NamedMethods(["lime"], seed=5).one().options.seed == 5
    assert NamedMethods().one() is None
    with pytest.raises(ParamsError, match="--method: got gae and rollout; expected one"):
        NamedMethods(["gae", "rollout"]).one()


def test_names_are_pairs_each_once():
    assert parse_names("--class-name", ["a=b", "c=d=e"]) == {"a": "b", "c": "d=e"}
    for pairs in (["a"], ["=b"], ["a="], ["a=b", "a=c"]):
        with pytest.raises(ParamsError, match=r"--class-name: got .*; expected OLD=NEW, each OLD once"):
            parse_names("--class-name", pairs)
