"""The parameters of a run: what they make, and what is refused when they are read."""

from itertools import chain
from pathlib import Path

import pytest
import saying
import yaml

from explearn import UnknownNameError, list_explainers
from explearn.methods.registry import explainer_class, known_infos
from explearn.predictors.params import FinetuneParams
from explearn_study.explaining import trained_folder
from explearn_study.params import Params, load_params
from explearn_study.report.gate import load_gate
from explearn_study.workspace import Workspace

SOURCE = {"kind": "embedded", "adapter": "corpus"}
LEAST = {
    "profile": "mine",
    "tasks": ["a", "b"],
    "sources": {"a": SOURCE, "b": SOURCE},
    "methods": {"marker": {}, "random": None, "lime": {"options": {"samples": 5}}},
    "learned": {"from_features": ["marker"]},
}


def load(tmp_path, content):
    path = tmp_path / "params.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return load_params(path)


def complaint(tmp_path, content):
    return saying.complaint(lambda: load(tmp_path, content), str(tmp_path / "params.yaml"))


def with_methods(*learned, **methods):
    """Change the methods; all of `learned` learn from features."""
    return {"methods": {"random": {}, **methods}, "learned": {"from_features": list(learned)}}


def student(name, **options):
    """Change the methods to one that learns from a teacher."""
    single = "" if "ensemble:" in options["teacher"] else options["teacher"]
    taught = {"method": name, "teacher": single}
    return {**with_methods(**{name: {"options": options}}), "learned": {"from_teachers": [taught]}}


def test_every_profile_composes_to_valid_parameters(tmp_path, repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "scripts")
    from compose_params import compose

    def composed(*overrides):
        return load(tmp_path, compose(list(overrides)))

    names = sorted(path.stem for path in (repository / "conf" / "profile").glob("*.yaml"))
    by_profile = {name: composed(f"profile={name}") for name in names}
    assert [run.profile for run in by_profile.values()] == names
    assert all("random" in run.methods for run in by_profile.values())
    # One that is named on the command line wins.
    quick = composed("roster=quick", "profile=aml")
    assert (by_profile["aml"].roster, quick.roster, quick.profile) == ("aml", "quick", "aml")
    changed = composed("methods.lime.options.samples=50", "explainer=ivra")
    assert changed.methods["lime"].options == {"samples": 50} and changed.explainer == "ivra"
    universal = by_profile["universal"]
    assert universal.studies.marks_curve is not None and len(universal.tasks) == 7
    assert universal.methods["consensus_words"].all_options["signals"] == []
    # A learned method that no run trains would rot unseen.
    methods = chain(*(run.trained for run in by_profile.values()))
    trained = {method.of for method in methods}
    assert trained == {info.name for info in known_infos() if info.learned and info.base is None}


def run_of(**change):
    return Params.model_validate({**LEAST, **change})


def test_a_task_may_be_fine_tuned_in_a_way_of_its_own():
    run = run_of(finetune={"epochs": 2}, finetune_tasks={"a": {"learning_rate": 1e-3}})
    assert run.finetune_of("a").learning_rate == 1e-3
    assert run.finetune_of("a").epochs == FinetuneParams().epochs
    assert run.finetune_of("b").epochs == 2
    with pytest.raises(ValueError, match="finetune_tasks"):
        run_of(finetune_tasks={"c": {}})


class TestMethods:
    def test_come_in_the_order_of_the_registry_with_variants_behind_their_method(self):
        methods = {
            "lime_1000": {"of": "lime", "options": {"samples": 1000}},
            "lime": {},
            "cls_row": {"of": "marker", "options": {"epochs": 8}},
            "random": {},
            "marker": {},
        }
        run = run_of(methods=methods, learned={"from_features": ["marker", "cls_row"]})
        assert list(run.methods) == ["marker", "cls_row", "random", "lime", "lime_1000"]
        assert [method.name for method in run.trained] == ["marker", "cls_row"]
        assert run.baseline_names == ["random", "lime", "lime_1000"]
        assert run.methods["lime_1000"].info.costly and run.methods["lime_1000"].info.name == "lime_1000"
        assert "Here with samples 1000" in run.methods["lime_1000"].info.summary

    def test_options_that_are_not_named_keep_their_defaults(self):
        run = run_of(**with_methods("marker_in_domain", marker_in_domain={}))
        options = run.methods["marker_in_domain"].all_options
        assert options["protocol"] == "in_domain" and "seed" not in options
        assert run.method("marker_in_domain") == run.methods["marker_in_domain"]
        assert run.method("marker").all_options["protocol"] == "universal"
        assert run.method("lime").all_options["samples"] == 500

    def test_a_trained_method_is_trained_by_a_stage_that_dvc_has(self, repository):
        """Each list of `learned` is the matrix of a stage, and a method that is in none is refused."""
        stages = yaml.safe_load((repository / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
        lists = {text for stage in stages.values() for text in stage.get("matrix", {}).values() if "learned." in text}
        assert lists == {f"${{learned.{name}}}" for name in ("from_texts", "from_features", "from_teachers")}
        for name, part in (("ivra", "from_texts"), ("paml", "from_texts"), ("consensus", "from_features")):
            with pytest.raises(ValueError, match=f"{name!r} is trained; expected {name} under learned.{part}"):
                run_of(**with_methods(**{name: {}}))

    @pytest.mark.parametrize(("frozen", "own"), [(False, ["ivra"]), (True, [])])
    def test_a_method_that_leaves_the_classifier_as_it_is_explains_the_task_s(self, frozen, own):
        ivra = {"options": {"frozen": frozen}}
        run = run_of(methods={"random": {}, "ivra": ivra}, learned={"from_texts": ["ivra"]})
        assert [method.name for method in run.with_own_model] == own
        assert run.method("ivra").info.own_model == bool(own)

    def test_an_explainer_that_is_trained_already_explains_the_task_s_classifier(self):
        ivra = {"path": "data/explainers/{task}/ivra"}
        run = run_of(**with_methods(ivra=ivra))
        assert run.trained == run.with_own_model == [] and run.baseline_names == ["random"]
        assert trained_folder(run.methods["ivra"], run, Workspace(), "b") == Path("data/explainers/b/ivra")

    def test_weights_of_the_package_stand_for_a_training_where_nothing_is_trained(self):
        run = run_of(**with_methods(consensus={}), classifiers={"a": "mine", "b": "mine"})
        assert run.trained == [] and "consensus" in run.baseline_names


def test_an_encoder_is_of_each_task_or_of_all_without_a_classifier():
    run = run_of(encoder={"a": "one", "b": "two"}, encoder_revision={"a": "v1"})
    assert [run.encoder_of(task) for task in "ab"] == [("one", "v1"), ("two", None)]
    theirs = {"b": {"name": "theirs", "revision": "abc"}}
    run = run_of(encoder="one", encoder_revision="v1", classifiers=theirs)
    assert [run.encoder_of(task) for task in "ab"] == [("one", "v1"), ("theirs", "abc")]


def test_a_task_that_is_not_there():
    run = run_of(tasks=["reviews", "b"], sources={"reviews": SOURCE, "b": SOURCE})
    assert run.check_task("reviews") == "reviews"
    with pytest.raises(UnknownNameError, match=r"unknown task 'review'; did you mean reviews\?"):
        run.check_task("review")


STUDENTS = {"teachers": ["lime"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"finetune": {"learning_rate": float("inf")}}, "finetune.learning_rate: got inf; expected"),
        ({"metods": 1}, "metods: no such parameter; did you mean methods?"),
        ({"sources": {"a": {**SOURCE, "adaptor": "x"}, "b": SOURCE}}, "sources.a.adaptor: no such parameter; did you"),
        ({"tasks": ["../a", "b"], "sources": {"../a": SOURCE, "b": SOURCE}}, "tasks.0: got '../a'; expected"),
        ({"classifiers": {"c": "theirs"}}, "unknown task under 'classifiers' 'c'"),
        ({"methods": {"shap": {"of": "lime"}}}, "methods.shap: variant 'shap': a method has that name"),
        ({"methods": {"lime": {"samples": 3}}}, "methods.lime.samples: no such parameter; expected one of"),
        (with_methods("marker", marker={"options": {"hidden": "many"}}), "methods.marker: options.hidden: got 'many'"),
        (with_methods("expnte", marker={}), "unknown method under 'learned' 'expnte'"),
        ({"explainer": "rolout"}, "unknown method under 'explainer' 'rolout'"),
        (
            {"explainer": "smat"},
            "explainer: method 'smat' is not in this run; expected an entry 'smat' under methods and smat under "
            "learned.from_texts",
        ),
        ({"explainer": "gae"}, "explainer: method 'gae' is not in this run; expected an entry 'gae' under methods, or"),
        ({"sanity": {"methods": ["l2e"]}}, "{method: 'l2e', teacher: 'attcat'} under learned.from_teachers"),
        (with_methods(faml={}), "methods.faml: it starts from 'paml', which is not trained"),
        (with_methods(l2e={}), "expected {method: 'l2e', teacher: 'attcat'} under learned.from_teachers"),
        (student("l2e", teacher="lime"), "unknown teacher under methods.l2e.options"),
        (student("reader", teacher="lime", marked="universal"), "methods.reader: got a teacher and `marked`"),
        (
            {**with_methods("expnet", expnet={}), "tasks": ["a"]},
            "methods.expnet learns from the other tasks' rationales, but there is one task",
        ),
        ({"teachers": {"marker": {}}}, "teachers.marker: expected the name of a method that needs no training"),
        (with_methods(lime={"path": "x"}), "methods.lime.path: only for a method that is trained, and not in this run"),
        ({"studies": {"students": STUDENTS}}, "unknown teacher under studies.students.teachers 'lime'"),
    ],
)
def test_is_refused_when_the_parameters_are_read(tmp_path, change, words):
    """With file and parameter named, in one line."""
    assert words in complaint(tmp_path, {**LEAST, **change})


def test_all_problems_are_told_at_once(tmp_path):
    message = complaint(tmp_path, {**LEAST, "seed": "x", "methods": {"lmie": {}}})
    assert "seed: got 'x'" in message and "methods.lmie: unknown" in message


DOCUMENTS = {
    "a list": b"- 1\n",
    "nothing": b"",
    "no YAML": b"a: [1",
    "a date that does not exist": b"profile: 2026-02-30\n",
    "a mapping inside itself": b"&m\nprofile: *m\n",
    "a key twice below": b"finetune:\n  epochs: 1\n  epochs: 2\n",
    "a tag of Python": b"profile: !!python/object/apply:os.system ['true']\n",
    "bytes that are no UTF-8": b"profile: \xff\xfe\n",
    "a terminal's commands": b'"\\e[31mred": 3\n',
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_that_cannot_be_parameters_or_rules_is_named(tmp_path, name):
    path = tmp_path / "params.yaml"
    path.write_bytes(DOCUMENTS[name])
    saying.complaint(lambda: load_params(path), str(path))
    saying.complaint(lambda: load_gate(path), str(path))


@pytest.mark.parametrize("name", [".", "none.yaml", "x" * 300])
def test_a_place_without_a_file(tmp_path, name):
    saying.complaint(lambda: load_params(tmp_path / name))


def whole_numbers(schema, where):
    """Every whole number in a JSON schema, with its place."""
    if isinstance(schema, dict):
        if schema.get("type") == "integer" and "const" not in schema:
            yield where, schema
        for name, part in schema.items():
            yield from whole_numbers(part, f"{where}.{name}")
    elif isinstance(schema, list):
        for part in schema:
            yield from whole_numbers(part, where)


def test_every_whole_number_has_a_largest_value():
    """Without one, a slip of the keyboard fills the memory or never ends."""
    sections = [Params, *{explainer_class(name).Options for name in list_explainers()}]
    numbers = []
    for section in sections:
        numbers += whole_numbers(section.model_json_schema(), section.__qualname__)
    assert len(numbers) > 60
    endless = [where for where, schema in numbers if not {"maximum", "exclusiveMaximum"} & schema.keys()]
    # Numbers of layers and heads, which must be those of the model.
    assert [where for where in endless if ".heads." not in where] == []
