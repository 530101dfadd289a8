"""Kills and faults of the server cost no request too many and no answer: a few trials, or `--trials 300`."""

import pytest
from prompt_faults import disturb


@pytest.mark.timeout(0)
def test_kills_and_faults_neither_exceed_the_budget_nor_lose_answers(trials, tmp_path):
    assert disturb(trials(3), tmp_path) == []
