"""Kills, full disks and runs at the same time lose and falsify nothing: a few trials, or `--trials 50` of each kind."""

import sys

import pytest
from stage_cases import steps

from explearn_study.params import load_params

pytestmark = [pytest.mark.slow, pytest.mark.timeout(0)]


@pytest.mark.skipif(sys.platform != "linux", reason="the trials need Linux")
@pytest.mark.parametrize("fault", ["kill", "starve", "double"])
def test_disturbed_stages_lose_and_falsify_nothing(fault, finished, trials, tmp_path):
    from fault_cases import Trial, disturb

    assert disturb(getattr(Trial, fault), trials(2), finished, tmp_path, steps()) == []


def test_the_trials_reach_every_stage_and_learned_method(repository):
    assert {stage for stage, *_ in steps()} == {path.stem for path in (repository / "stages").glob("*.py")}
    fitted = {options[-1] for stage, *options in steps() if stage == "fit"}
    assert fitted >= set(load_params(repository / "params.yaml").learned.names)
