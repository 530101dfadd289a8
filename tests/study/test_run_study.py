"""The study is published from its runs, and a run that was begun goes on in its folder."""

import json

import pytest


@pytest.fixture
def run_study(repository, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(repository / "scripts")
    import run_study

    monkeypatch.setattr(run_study, "ROOT", tmp_path / "root")
    monkeypatch.setattr(run_study, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(run_study, "PUBLISHED", tmp_path / "published")
    (tmp_path / "published").mkdir()
    return run_study


def put_run(folder, f1):
    """A run whose figures are `f1`."""
    (folder / "reports/figures").mkdir(parents=True)
    figures = dict.fromkeys(("f1_topk", "auroc", "mosaics", "aopc_comprehensiveness"), f1)
    document = {"overall": {"lime": {**figures, "aopc_sufficiency": None, "texts": 3}}, "tasks": {}}
    (folder / "reports/metrics.json").write_text(json.dumps(document), encoding="utf-8")
    (folder / "reports/report.md").write_text(f"# {f1}\n", encoding="utf-8")
    (folder / "reports/figures/glance.svg").write_text("<svg/>", encoding="utf-8")


def test_the_first_seed_s_report_and_the_means_of_all_are_published(run_study, capsys):
    for seed, f1 in ((13, 0.5), (14, 0.7)):
        put_run(run_study.RUNS / str(seed), f1)
    run_study.publish([13, 14])
    assert (run_study.PUBLISHED / "report.md").read_text(encoding="utf-8") == "# 0.5\n"
    assert (run_study.PUBLISHED / "figures/glance.svg").exists()
    seeds = json.loads((run_study.PUBLISHED / "seeds.json").read_text(encoding="utf-8"))
    assert [seeds[seed]["lime"]["f1_topk"] for seed in ("13", "14")] == pytest.approx([0.5, 0.7])
    run_study.print_table(list(seeds.values()))
    assert "texts" not in seeds["13"]["lime"]
    printed = capsys.readouterr().out
    # People marked no text.
    assert "| lime | 0.600 (0.500 to 0.700) | – | 0.600" in printed and printed.rstrip().endswith("0.700) |")


def test_a_run_is_begun_once_under_its_seed(run_study, monkeypatch):
    (run_study.ROOT / "data/local").mkdir(parents=True)
    ran = []

    def run(command, **more):
        ran.append(command)
        if command[0] == "git":
            put_run(run_study.RUNS / "15", 0.5)
            (run_study.RUNS / "15/data").mkdir()

    monkeypatch.setattr(run_study.subprocess, "run", run)
    run_study.run_seed(15, "study", ["--jobs", "1"])
    run_study.run_seed(15, "study", [])
    assert (run_study.RUNS / "15/data/local").resolve() == run_study.ROOT / "data/local"
    assert [command[0] == "git" for command in ran] == [True, False, False, False, False]
    assert ran[1][1:] == ["scripts/compose_params.py", "profile=study", "seed=15"]
    assert ran[2][1:] == ["scripts/repro.py", "--jobs", "1"]
