from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from explearn.core.errors import ParamsError, UnknownNameError
from explearn.methods.expnet.params import ExpNetPaperParams, ExpNetParams
from explearn.methods.registry import get_info, set_variants
from explearn_study.params import Params, load_params

SOURCE = {"kind": "embedded", "adapter": "corpus"}
LEAST: dict[str, Any] = {"profile": "mine", "tasks": ["a", "b"], "sources": {"a": SOURCE, "b": SOURCE}}


def load(tmp_path: Path, content: Any) -> Params:
    path = tmp_path / "params.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return load_params(path)


def complaint(tmp_path: Path, content: Any) -> str:
    with pytest.raises(ParamsError) as caught:
        load(tmp_path, content)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'params.yaml'}")
    assert "\n" not in message
    return message


class TestDefaults:
    def test_are_those_of_the_papers(self) -> None:
        """ExpNet section 3.4."""
        found = ExpNetPaperParams()
        assert (found.learning_rate, found.epochs, found.features) == (1e-3, 50, "full")

    def test_conf_says_the_same_as_the_code(self, tmp_path: Path, repository: Path) -> None:
        """conf/config.yaml and conf/method spell out every default; the baselines come from conf/roster."""
        conf = repository / "conf"
        learned = {path.stem: OmegaConf.load(path) for path in (conf / "method").glob("*.yaml")}
        composed = OmegaConf.merge(learned, OmegaConf.load(conf / "config.yaml"))
        config = OmegaConf.to_container(composed, resolve=True)
        assert isinstance(config, dict)
        del config["defaults"]
        assert config["expnet_in_domain"] == {**config["expnet"], "protocol": "in_domain"}
        found = load(tmp_path, {**LEAST, **config})
        assert found == load(tmp_path, LEAST)

    @staticmethod
    def compose(repository: Path, *overrides: str) -> str:
        code = (
            "import sys; sys.path.insert(0, 'scripts'); import compose_params; "
            f"print(compose_params.compose({list(overrides)}))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True, timeout=120
        )
        return done.stdout

    @pytest.mark.parametrize("name", ["aml", "embedded", "ivra", "l2e", "l2e_rationales", "local", "papers", "smoke"])
    def test_every_profile_composes_to_valid_parameters(self, tmp_path: Path, repository: Path, name: str) -> None:
        found = load(tmp_path, self.compose(repository, f"profile={name}"))
        assert found.profile == name
        learned = {"aml": {"paml", "faml"}, "ivra": {"ivra"}}.get(name, set())
        assert {"expnet", "l2e", *learned} & set(found.explainers) and set(found.methods) >= learned
        assert set(found.methods) >= {"random", "raw_attention", "input_x_gradient"}

    def test_universal_measures_what_comes_of_words_and_of_marks(self, tmp_path: Path, repository: Path) -> None:
        found = load(tmp_path, self.compose(repository, "profile=universal"))
        assert found.curve.tasks == found.tasks
        assert found.curve.marks == [0, 5, 10, 25, 50, 100, 200] and found.curve.draws == 5
        assert {"consensus", "consensus_signals", "consensus_words", "expnet"} <= set(found.trained)
        assert found.options_of("consensus_words")["signals"] == []

    @pytest.mark.parametrize("name", ["aml", "ivra"])
    def test_a_paper_s_profile_brings_its_baselines(self, tmp_path: Path, repository: Path, name: str) -> None:
        """One that is named on the command line wins."""
        assert load(tmp_path, self.compose(repository, f"profile={name}")).roster == name
        assert load(tmp_path, self.compose(repository, "roster=quick", f"profile={name}")).roster == "quick"


class TestBadInput:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"expnet": {"hidden": "many"}}, "expnet.hidden: got 'many'; expected: input should be a valid integer"),
            ({"expnet": {"hidden": 0}}, "expnet.hidden: got 0; expected: input should be greater than or equal to 1"),
            ({"expnet": {"hiden": 3}}, "expnet.hiden: no such parameter; did you mean hidden?"),
            ({"expnett": {}}, "expnett: no such parameter; did you mean expnet?"),
            ({"zzz": 1}, "zzz: no such parameter; expected one of those in conf/config.yaml"),
            (
                {"sources": {"a": {**SOURCE, "adaptor": "x"}, "b": SOURCE}},
                "sources.a.adaptor: no such parameter; did you mean adapter?",
            ),
            (
                {"rationales": {"a": {"files": [{"path": "x", "formats": "mask"}]}}},
                "rationales.a.files.0.formats: no such parameter; did you mean format?",
            ),
            ({"sources": {"a": SOURCE}}, "tasks b have no entry under 'sources'"),
            ({"tasks": []}, "tasks: got []; expected: list should have at least 1 item"),
            ({"tasks": ["a", "a"]}, "repeat a name; expected each once"),
            ({"explainer": "lime"}, "unknown explainer 'lime'; known: expnet, expnet_in_domain"),
            ({"seed": -1}, "seed: got -1"),
            ({"rationale_agreement": 1.5}, "rationale_agreement: got 1.5"),
            ({"evaluate": {"percents": []}}, "evaluate.percents: got []"),
            ({"evaluate": {"percents": [0]}}, "evaluate.percents.0: got 0"),
            ({"evaluate": {"protocol": "erasre"}}, "evaluate.protocol: got 'erasre'"),
            (
                {"sanity": {"methods": ["expnte"]}},
                "unknown method under sanity.methods 'expnte'; did you mean expnet or expnet_paper?",
            ),
            ({"finetune": {"class_weights": "even"}}, "finetune.class_weights: got 'even'; expected: input should be"),
        ],
    )
    def test_a_parameter_is_named(self, tmp_path: Path, change: dict[str, Any], words: str) -> None:
        assert words in complaint(tmp_path, {**LEAST, **change})

    def test_all_problems_are_told_at_once(self, tmp_path: Path) -> None:
        message = complaint(tmp_path, {**LEAST, "seed": "x", "expnet_paper": {"epochs": "y"}})
        assert "seed: got 'x'" in message
        assert "expnet_paper.epochs: got 'y'" in message

    @pytest.mark.parametrize("content", ["a: [1", "a: b: c", "\x00"])
    def test_no_yaml(self, tmp_path: Path, content: str) -> None:
        assert "not valid YAML" in complaint(tmp_path, content)

    @pytest.mark.parametrize(("content", "kind"), [("", "nothing"), ("- a", "list"), ("3", "int")])
    def test_no_mapping(self, tmp_path: Path, content: str, kind: str) -> None:
        assert f"got {kind}; expected a mapping of parameters" in complaint(tmp_path, content)

    def test_invalid_utf_8(self, tmp_path: Path) -> None:
        path = tmp_path / "params.yaml"
        path.write_bytes(b"profile: \xff\n")
        with pytest.raises(ParamsError, match=r"params\.yaml: not valid YAML"):
            load_params(path)

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(ParamsError, match="no such file; run from the project's root or give --params"):
            load_params(tmp_path / "params.yaml")

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ParamsError, match="is a folder; expected a regular file"):
            load_params(tmp_path)


class TestParams:
    def test_methods_are_the_learned_ones_then_the_baselines(self, tmp_path: Path) -> None:
        baselines = {"quick": {"random": {}, "raw_attention": {"layer": 0}}, "costly": {"lime": {"samples": 5}}}
        found = load(tmp_path, {**LEAST, "explainers": ["expnet"], "baselines": baselines})
        assert found.methods == ["expnet", "random", "raw_attention", "lime"]

    def test_explainers_may_stand_by_room(self, tmp_path: Path) -> None:
        found = load(tmp_path, {**LEAST, "explainers": {"ivra": ["ivra"], "expnet": ["expnet"], "l2e": []}})
        assert found.explainers == ["expnet", "ivra"] and found.own_model == ["ivra"]

    def test_a_costly_baseline_is_a_group_of_its_own(self, tmp_path: Path) -> None:
        baselines = {"quick": {"random": {}, "rollout": {}}, "costly": {"lime": {"samples": 5}, "occlusion": {}}}
        found = load(tmp_path, {**LEAST, "baselines": baselines}).baseline_groups
        assert found == {
            "quick": {"random": {}, "rollout": {}},
            "lime": {"lime": {"samples": 5}},
            "occlusion": {"occlusion": {}},
        }
        assert load(tmp_path, LEAST).baseline_groups == {}

    def test_a_task_that_is_not_there(self, tmp_path: Path) -> None:
        params = load(tmp_path, {**LEAST, "tasks": ["reviews", "b"], "sources": {"reviews": SOURCE, "b": SOURCE}})
        assert params.check_task("reviews") == "reviews"
        with pytest.raises(UnknownNameError, match=r"unknown task 'review'; did you mean reviews\?"):
            params.check_task("review")

    def test_parameters_cannot_be_changed(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="frozen"):
            load(tmp_path, LEAST).seed = 3


class TestVariants:
    def test_are_methods_of_the_run(self, tmp_path: Path) -> None:
        variants = {"lime_1000": {"of": "lime", "samples": 1000}, "cls_row": {"of": "expnet", "hidden": 8}}
        baselines = {"quick": {"random": {}}, "costly": {"lime": {"samples": 5, "seed": 2}}}
        found = load(tmp_path, {**LEAST, "explainer": "cls_row", "variants": variants, "baselines": baselines})
        assert found.methods == ["expnet", "expnet_in_domain", "expnet_paper", "cls_row", "random", "lime", "lime_1000"]
        assert found.trained == ["expnet", "expnet_in_domain", "expnet_paper", "cls_row"]
        assert [found.group_of(name) for name in ("cls_row", "lime_1000")] == ["cls_row", "lime_1000"]

    def test_take_over_the_options_of_their_method_in_the_run(self, tmp_path: Path) -> None:
        variants = {
            "lime_1000": {"of": "lime", "samples": 1000},
            "small": {"of": "expnet", "hidden": 4},
            "short": {"of": "ivra", "schedule": {"epochs": 1}},
        }
        given = {"expnet": {"epochs": 8}, "baselines": {"costly": {"lime": {"samples": 5, "seed": 2}}}}
        found = load(tmp_path, {**LEAST, "variants": variants, **given})
        assert found.options_of("lime_1000") == {"samples": 1000, "seed": 2}
        assert found.options_of("small") == {**found.options_of("expnet"), "hidden": 4}
        assert found.options_of("small")["epochs"] == 8
        base = found.options_of("ivra")
        assert found.options_of("short") == {**base, "schedule": {**base["schedule"], "epochs": 1}}
        assert found.own_model == ["short"]

    def test_are_those_of_the_parameters_read_last(self, tmp_path: Path) -> None:
        load(tmp_path, {**LEAST, "variants": {"small": {"of": "expnet", "hidden": 4}}})
        assert get_info("small").of == "expnet"
        load(tmp_path, LEAST)
        with pytest.raises(UnknownNameError):
            get_info("small")


class TestMethodsAndTasks:
    """What would otherwise be noticed only after the classifiers are trained."""

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"explainers": ["expnet", "expnett"]}, "unknown explainer 'expnett'; did you mean expnet"),
            ({"explainers": ["rollout"]}, "explainer 'rollout' is not trained; name it under baselines"),
            ({"explainers": ["expnet", "expnet"]}, "repeat a name; expected each once"),
            ({"explainer": "expnt"}, "unknown explainer 'expnt'; did you mean expnet"),
            ({"baselines": {"quick": {"rolout": {}}}}, "unknown explainer 'rolout'; did you mean rollout?"),
            ({"baselines": {"quick": {"lime": {}}}}, "baselines.quick.lime: 'lime' is a costly method; move it there"),
            ({"baselines": {"costly": {"rollout": {}}}}, "'rollout' is a quick method; move it there"),
            ({"baselines": {"quick": {"expnet": {}}}}, "'expnet' is trained; name it under explainers"),
            ({"baselines": {"attention": {"rollout": {}}}}, "baselines.attention: no such parameter"),
            ({"explainers": {"aml": ["expnet"]}}, "'expnet' is in the room 'expnet'; name it under explainers.expnet"),
            ({"variants": {"small": {"hidden": 4}}}, "variant 'small'"),
            ({"variants": {"small": {"of": "expnte", "hidden": 4}}}, "expnte"),
            ({"variants": {"lime": {"of": "lime"}}}, "'lime'"),
            (
                {"variants": {"small": {"of": "expnet", "hiden": 4}}},
                "variants.small: hiden: no such parameter; did you",
            ),
            ({"variants": {"small": {"of": "expnet", "hidden": 0}}}, "variants.small: hidden: got 0"),
            ({"variants": {"faster": {"of": "faml", "steps": 1}}}, "starts from 'paml', which is not under explainers"),
            ({"variants": {"other": {"of": "l2e", "teacher": "lime"}}}, "teacher under variants.other.teacher 'lime'"),
            ({"curve": {"tasks": ["filsm"]}}, "unknown task under curve.tasks 'filsm'"),
            ({"curve": {"marks": [10, 5]}}, "curve.marks: got [10, 5]; expected rising numbers"),
            ({"transfer": ["ivra"]}, "unknown explainer under transfer 'ivra'"),
            ({"baselines": {"own_model": {"expnet": {}}}}, "baselines.own_model.expnet: 'expnet' is trained"),
            ({"ivra": {"criteria": ["cons"], "schedule": {"batch_size": 1}}}, "schedule.batch_size of 3 or more"),
            ({"tasks": ["a"]}, "learns from the other tasks' rationales, but there is one task"),
            ({"rationales": {"aa": {}}}, "unknown task under 'rationales' 'aa'"),
            ({"tasks": ["../a", "b"], "sources": {"../a": SOURCE, "b": SOURCE}}, "task '../a': expected letters"),
            ({"finetune": {"learning_rate": float("inf")}}, "finetune.learning_rate: got inf; expected"),
        ],
    )
    def test_is_refused_when_the_parameters_are_read(self, tmp_path: Path, change: Any, words: str) -> None:
        assert words in complaint(tmp_path, {**LEAST, **change})

    def test_one_task_is_enough_for_what_learns_in_domain(self, tmp_path: Path) -> None:
        one = {"tasks": ["a"], "explainer": "expnet_in_domain", "explainers": ["expnet_in_domain"]}
        assert load(tmp_path, {**LEAST, **one}).methods == ["expnet_in_domain"]


class TestOptionsOf:
    """The options that a method of the run is made with."""

    @pytest.fixture
    def params(self) -> Iterator[Params]:
        yield Params.of(
            {
                **LEAST,
                "expnet_in_domain": {"hidden": 8},
                "ivra": {"norm": "softmax"},
                "variants": {"ivra_again": {"of": "ivra", "norm": "sparsemax"}},
                "baselines": {"costly": {"lime": {"samples": 40}}},
            }
        )
        set_variants({})

    def test_those_of_its_section(self, params: Params) -> None:
        assert params.options_of("expnet")["hidden"] == ExpNetParams().hidden
        assert params.options_of("expnet_in_domain")["hidden"] == 8

    def test_a_variant_s_are_those_of_its_method_and_its_own(self, params: Params) -> None:
        assert params.options_of("ivra")["norm"] == "softmax"
        assert params.options_of("ivra_again") == {**params.options_of("ivra"), "norm": "sparsemax"}

    def test_a_baseline_s_are_those_of_the_roster(self, params: Params) -> None:
        assert params.options_of("lime") == {"samples": 40}
        assert params.options_of("rollout") == {}

    def test_of_no_method(self, params: Params) -> None:
        with pytest.raises(UnknownNameError, match="unknown explainer 'expnt'; did you mean expnet"):
            params.options_of("expnt")


def test_a_section_of_a_built_in_variant_keeps_what_it_stands_for(tmp_path: Path) -> None:
    found = load(tmp_path, {**LEAST, "expnet_in_domain": {"epochs": 3}})
    assert found.options_of("expnet_in_domain") == {
        **found.options_of("expnet"), "protocol": "in_domain", "epochs": 3,
    }  # fmt: skip
