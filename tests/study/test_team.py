"""Secrets of the pull request's workflow."""

import yaml


def test_the_workflow_takes_secrets_from_the_environment_alone(repository):
    text = (repository / ".github/workflows/experiment.yml").read_text(encoding="utf-8")
    steps = yaml.safe_load(text)["jobs"]["repro"]["steps"]
    (step,) = (step for step in steps if step.get("name") == "Run the pipeline")
    assert step["env"]["AWS_SECRET_ACCESS_KEY"] == "${{ secrets.AWS_SECRET_ACCESS_KEY }}"
    assert "secrets." not in step["run"] and "make repro ARGS=--pull" in step["run"] and "push" not in step["run"]
    assert text.count("secrets.") == 2
    config = (repository / ".dvc/config").read_text(encoding="utf-8")
    assert "key" not in config and "password" not in config and "token" not in config
