"""Which trained explainer's folder goes to which method of `explearn explain`."""

import json

import pytest

from explearn import ParamsError, get_info
from explearn.cli.options import choose


def folders(root, *names):
    """Folders that say of which method they hold the training."""
    for name in names:
        info = get_info(name)
        (root / name).mkdir()
        config = {"explainer": info.target.rpartition(":")[2], "options": dict(info.defaults)}
        (root / name / "config.json").write_text(json.dumps(config))
    return [root / name for name in names]


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
        ([], [], [None]),
        (["gae", "lime"], ["reader", "marker"], [None, None, "reader", "marker"]),
        (["paml"], ["reader", "paml"], ["paml", "reader"]),
    ],
)
def test_a_folder_goes_to_the_method_whose_training_it_holds(tmp_path, methods, trained, expected):
    chosen = choose(methods, folders(tmp_path, *trained))
    assert [actual.folder and actual.folder.name for actual in chosen] == expected


@pytest.mark.parametrize(
    ("methods", "trained", "said"),
    [
        (["marker", "lime"], [], "--explainer: got no folder of a trained 'marker'"),
        (["lime", "lime"], [], "methods: got 'lime' twice"),
    ],
)
def test_a_folder_too_many_or_too_few(tmp_path, methods, trained, said):
    with pytest.raises(ParamsError, match=said):
        choose(methods, folders(tmp_path, *trained))
