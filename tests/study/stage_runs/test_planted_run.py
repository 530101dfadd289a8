"""Known answers through the stages: mosaics of a task, and a task of planted words."""

import tiny
import yaml
from files import write_lines
from stage_cases import succeed

from explearn import Evaluation
from explearn.core.documents import read_json

NOUNS = ("fox", "dog", "sea", "castle", "tide", "morning", "guide", "light")


def rows(split, count):
    """Short enough for four of them in a text."""
    for number in range(count):
        word, label = (("warm", "yes"), ("slow", "no"))[number % 2]
        text = f"{word} {NOUNS[number // 2 % 8]}"
        yield {"id": f"{split}-{number}", "text": text, "label": label, "mask": [1, 0]}


def test_known_answers_are_judged_and_shown_apart(tmp_path):
    for split, count in (("train", 24), ("validation", 8), ("test", 8)):
        write_lines(tmp_path / "mine" / "films" / f"{split}.jsonl", [*rows(split, count)])
    columns = {"id": "id", "text": "text", "mask": "mask"}
    films = {"kind": "files", "adapter": "custom", "columns": columns}
    params = {
        "profile": "mine",
        "encoder": tiny.save_encoder(tmp_path / "encoder"),
        "data_dir": "mine",
        "tasks": ["films", "planted"],
        "sources": {"films": films, "planted": {**films, "path": "films", "plant": "word"}},
        "finetune": {"epochs": 20, "learning_rate": 3e-3, "batch_size": 8, "patience": 20},
        "methods": {"random": {}, "raw_attention": {}},
        "evaluate": {"simulatability": {"enabled": False}, "infidelity_samples": 0, "mosaics": 4},
        "sanity": {"texts": 1, "noise_samples": 0},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False), encoding="utf-8")
    succeed(tmp_path, "code")
    for stage in ("prepare", "rationalise", "finetune", "features", "explain", "judge"):
        for task in ("films", "planted"):
            succeed(tmp_path, stage, "--task", task)
    succeed(tmp_path, "report")
    metrics = read_json(tmp_path / "reports" / "metrics.json")
    assert list(metrics["tasks"]) == ["films"] and list(metrics["planted"]) == ["planted"]
    # The test texts were planted for both classes. Nothing but the planted words counts there.
    planted = metrics["planted"]["planted"]["random"]
    assert planted["texts"] == 16 and "aopc_comprehensiveness" not in planted
    assert "Planted: planted ↑" in (tmp_path / "reports" / "report.md").read_text(encoding="utf-8")
    shares = Evaluation.load(tmp_path / "reports" / "metrics" / "films").by_text["mosaics"]
    assert {method: len(values) for method, values in shares.items()} == {"random": 4, "raw_attention": 4}
    assert metrics["tasks"]["films"]["random"]["mosaics"] == round(shares["random"].mean(), 3)
    assert "mosaics" not in Evaluation.load(tmp_path / "reports" / "metrics" / "planted").by_text
