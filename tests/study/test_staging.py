"""What all stages share: options with variables, and the errors of parameters that are not there."""

import pytest
import typer
import yaml
from parameter_cases import params_of
from stage_cases import COMMANDS, STAGES, complaint, required, run


@pytest.mark.parametrize("stage", STAGES)
class TestEveryStage:
    def test_help_names_every_option_and_its_variable(self, stage, tmp_path):
        result = run(tmp_path, stage, "--help")
        assert result.exit_code == 0
        options = [p for p in typer.main.get_command(COMMANDS[stage]).params if p.name != "help"]
        expected = {"params_file", "seed"}
        if stage not in ("code", "prepare", "rationalise", "report"):  # which compute nothing
            expected |= {"device", "precision"}
        assert {option.name for option in options} >= expected
        for option in options:
            assert option.envvar.startswith("EXPLEARN_") and option.help
            assert option.envvar in result.stdout and option.opts[0] in result.stdout

    def test_a_missing_params_file(self, stage, tmp_path):
        message = complaint(tmp_path, stage, "--params", "elsewhere.yaml", *required(stage))
        assert "elsewhere.yaml: no such file; run this in the project's root, or set EXPLEARN_PARAMS" in message


@pytest.mark.parametrize("stage", [stage for stage in STAGES if "--task" in required(stage)])
def test_a_task_that_is_not_there(stage, tmp_path):
    params = params_of(methods={"random": {}}, learned={}, explainer="random").model_dump(mode="json")
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    message = complaint(tmp_path, stage, *required(stage, task="filsm"))
    assert message == "unknown task 'filsm'; did you mean films?"


def test_a_missing_option_is_named(tmp_path):
    result = run(tmp_path, "prepare")
    assert result.exit_code == 2
    assert "--task" in result.stderr
