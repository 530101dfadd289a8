"""The versions that a manifest lists."""

from explearn.subject.manifest import COMPARISON, versions


def test_each_package_is_listed_once_though_extras_require_explearn_too():
    for extras in ((), COMPARISON, ("pipeline", "baselines")):
        names = [name for name, _ in versions(extras)]
        assert len(names) == len(set(names)) and names[:2] == ["python", "explearn"]
    assert not dict(versions(["pipeline"])).items() <= dict(versions([])).items()
