"""Classifiers, texts and commands that cannot be used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny
from saying import command_complaint, complaint

from explearn.core.records import Attribution, Example, Rationale
from explearn.core.visible import visible, visible_json
from explearn.methods.registry import get_explainer
from explearn.model.classifier import Classifier


def edited(folder: Path, target: Path, change: Callable[[dict[str, Any]], None], name: str = "config.json") -> Path:
    shutil.copytree(folder, target)
    config = json.loads((target / name).read_text(encoding="utf-8"))
    change(config)
    (target / name).write_text(json.dumps(config), encoding="utf-8")
    return target


LABELS: dict[str, dict[str, Any]] = {
    "one class": {"0": "only"},
    "no class": {},
    "names twice": {"0": "bad", "1": "bad", "2": "good"},
    "names that read the same": {"0": "caf\u00e9", "1": "cafe\u0301", "2": "good"},
    "a gap": {"0": "bad", "1": "fair", "3": "good"},
    "from one": {"1": "bad", "2": "fair", "3": "good"},
    "negative": {"-1": "bad", "0": "fair", "1": "good"},
    "half a character": {"0": "bad", "1": "\ud800", "2": "good"},
    "an empty name": {"0": "bad", "1": "", "2": "good"},
    "a blank name": {"0": "bad", "1": " ", "2": "good"},
    "numbers that are none": {"zero": "bad", "one": "fair", "two": "good"},
    "one class too many": {"0": "bad", "1": "fair", "2": "good", "3": "best"},
}


@pytest.mark.parametrize("name", LABELS)
def test_names_of_classes(tmp_path: Path, tiny_folder: Path, name: str) -> None:
    def change(config: dict[str, Any]) -> None:
        config["id2label"] = LABELS[name]
        config["label2id"] = {str(label): int(i) if i.lstrip("-").isdigit() else i for i, label in LABELS[name].items()}

    folder = edited(tiny_folder, tmp_path / "c", change)
    complaint(lambda: Classifier.from_pretrained(folder, device="cpu"), str(folder))


CONFIGS: dict[str, dict[str, Any]] = {
    "no layers": {"num_hidden_layers": 0},
    "negative layers": {"num_hidden_layers": -1},
    "layers in words": {"num_hidden_layers": "three"},
    "no heads": {"num_attention_heads": 0},
    "heads that do not fit": {"num_attention_heads": 5},
    "a width that is none": {"hidden_size": 0},
    "another width": {"hidden_size": 64},
    "a vocabulary that is none": {"vocab_size": 0},
    "no type": {"model_type": None},
    "another type": {"model_type": "nobody"},
    "code of its own": {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}},
    "an activation that is none": {"hidden_act": "nobody"},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations(tmp_path: Path, tiny_folder: Path, name: str) -> None:
    folder = edited(tiny_folder, tmp_path / "c", lambda config: config.update(CONFIGS[name]))
    complaint(lambda: Classifier.from_pretrained(folder, device="cpu"), str(folder))


FILES: dict[str, tuple[str, bytes | None]] = {
    "no configuration": ("config.json", None),
    "a configuration that is empty": ("config.json", b""),
    "a configuration that is a list": ("config.json", b"[]"),
    "a configuration that is null": ("config.json", b"null"),
    "a configuration that is nested": ("config.json", b"[" * 100_000),
    "a configuration of bytes": ("config.json", b"\xff"),
    "no weights": ("model.safetensors", None),
    "weights that are empty": ("model.safetensors", b""),
    "weights that are text": ("model.safetensors", b"weights"),
    "weights with a long head": ("model.safetensors", b"\xff" * 16),
    "no tokenizer": ("tokenizer.json", None),
    "a tokenizer that is empty": ("tokenizer.json", b""),
    "a tokenizer that is a list": ("tokenizer.json", b"[]"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_a_classifier(tmp_path: Path, tiny_folder: Path, name: str) -> None:
    shutil.copytree(tiny_folder, tmp_path / "c")
    file, content = FILES[name]
    (tmp_path / "c" / file).unlink()
    if content is not None:
        (tmp_path / "c" / file).write_bytes(content)
    if file == "tokenizer.json" and content is None:
        for other in ("tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
            (tmp_path / "c" / other).unlink(missing_ok=True)
    complaint(lambda: Classifier.from_pretrained(tmp_path / "c", device="cpu"), str(tmp_path / "c"))


@pytest.mark.parametrize("name", ["", ".", "./none", "/none/at/all", "~/none", "a/b/c", "a\x00b", "x" * 300, "\x1b[2J"])
def test_classifiers_that_are_not_there(name: str) -> None:
    complaint(lambda: Classifier.from_pretrained(name, device="cpu"))


TEXTS: list[Any] = [
    "",
    " \t\n",
    "\u00a0",
    None,
    3,
    b"bytes",
    ["a", "list"],
    ("one",),
    ("one", ""),
    ("", "two"),
    ("one", "two", "three"),
    ("one", 2),
    {"text": "one"},
    "a \ud800 film",
    "x" * 5000,
]


@pytest.mark.parametrize("text", TEXTS, ids=lambda value: ascii(value)[:30])
def test_texts(text: Any) -> None:
    complaint(lambda: list(get_explainer("random").explain(tiny.classifier("bert", 3), ["a film", text])))


@pytest.mark.parametrize("target", ["best", "", 3, -1, 10**30, None, 1.5, "\x1b[2J", ["goodness"]], ids=ascii)
def test_targets(target: Any) -> None:
    complaint(lambda: list(get_explainer("random").explain(tiny.classifier("bert", 3), ["a film"], [target])))


@pytest.mark.parametrize("targets", [[], ["good", "good"]])
def test_numbers_of_targets(targets: list[str]) -> None:
    complaint(lambda: list(get_explainer("random").explain(tiny.classifier("bert", 3), ["a film"], targets)))


RECORDS: list[Callable[[], Any]] = [
    lambda: Example("", ("a",), "l", "test", "t"),
    lambda: Example("a", (), "l", "test", "t"),
    lambda: Example("a", ("a b",), "l", "test", "t"),
    lambda: Example("a", ("",), "l", "test", "t"),
    lambda: Example("a", (3,), "l", "test", "t"),  # type: ignore[arg-type]
    lambda: Example("a", ("\ud800",), "l", "test", "t"),
    lambda: Example("a", ("a",), "\ud800", "test", "t"),
    lambda: Example("\ud800", ("a",), "l", "test", "t"),
    lambda: Example("a", ("a",), "l", "dev", "t"),  # type: ignore[arg-type]
    lambda: Example("a", ("a",), "l", "test", "t", ("b",), (0, 1)),
    lambda: Example("a", ("a",), "l", "test", "t", ("b",), (1, 1)),
    lambda: Example("a", ("a",), "l", "test", "t", ("b",), (1, 9)),
    lambda: Rationale("a", "", "human", (True,)),
    lambda: Rationale("a", "x", "robot", (True,)),  # type: ignore[arg-type]
    lambda: Rationale("a", "\ud800", "human", (True,)),
]


@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_records(number: int) -> None:
    complaint(RECORDS[number])


COMMANDS: list[list[str]] = [
    ["nonsense"],
    ["methods", "nobody"],
    ["methods", "\x1b[2J"],
    ["explain", "a"],
    ["explain", "a", "--classifier", "/none/at/all"],
    ["explain", "a", "--method", "nobody", "--classifier", "C"],
    ["explain", "a", "--method", "expnet", "--classifier", "C"],
    ["explain", "a", "--method", "expnet", "--explainer", "/none", "--classifier", "C"],
    ["explain", "a", "--method", "rollout", "--explainer", "/none", "--classifier", "C"],
    ["explain", "a", "--device", "cuda:\u00b2", "--classifier", "C"],
    ["explain", "a", "--device", "tpu", "--classifier", "C"],
    ["explain", "a", "--precision", "fp8", "--classifier", "C"],
    ["explain", "a", "--max-tokens", "\u00b2", "--classifier", "C"],
    ["explain", "a", "--max-tokens", "0", "--classifier", "C"],
    ["explain", "a", "--max-tokens", "9" * 30, "--classifier", "C"],
    ["explain", "a", "--max-tokens", "9" * 5000, "--classifier", "C"],
    ["explain", "a", "--seed", "-1", "--classifier", "C"],
    ["explain", "a", "--seed", "4294967296", "--classifier", "C"],
    ["explain", "a", "--seed", "\u00b2", "--classifier", "C"],
    ["explain", "a", "--seed", "9" * 40, "--classifier", "C"],
    ["explain", "a", "--target", "nobody", "--classifier", "C"],
    ["explain", "a", "--target", "\x1b[2J", "--classifier", "C"],
    ["explain", "", "--classifier", "C"],
    ["explain", " ", "--classifier", "C"],
    ["explain", "a", "--pair", "", "--classifier", "C"],
    ["explain", "x" * 3000, "--classifier", "C"],
    ["explain", "a", "-o", "samples", "--method", "lime", "--classifier", "C"],
    ["explain", "a", "-o", "=3", "--method", "lime", "--classifier", "C"],
    ["explain", "a", "-o", "samples=1e12", "--method", "lime", "--classifier", "C"],
    ["explain", "a", "-o", "samples=1000000000000", "--method", "lime", "--classifier", "C"],
    ["explain", "a", "-o", "samples=" + "9" * 5000, "--method", "lime", "--classifier", "C"],
    ["explain", "a", "-o", "samples=2026-02-30", "--method", "lime", "--classifier", "C"],
    ["explain", "a", "-o", "samples=" + "[" * 5000, "--method", "lime", "--classifier", "C"],
    ["explain", "a", "-o", "samples={", "--method", "lime", "--classifier", "C"],
    ["explain", "a", "-o", "samples=&a [*a]", "--method", "lime", "--classifier", "C"],
    ["explain", "a", "-o", "removal=\x1b[2J", "--method", "lime", "--classifier", "C"],
    ["demo", "--html", "."],
    ["demo", "--html", "/proc/x.html"],
    ["report", "name"],
    ["report", "--params", "/none/at/all"],
    ["gate", "/none/at/all"],
    ["gate", "/none", "--old", "/none"],
    ["annotate", "nonsense"],
    ["annotate", "run", "--task", "films", "--params", "/none"],
    ["annotate", "run", "--params", "/none"],
    ["annotate", "run", "--task", "films", "--concurrency", "0"],
    ["annotate", "run", "--task", "films", "--texts", "0"],
    ["annotate", "run", "--task", "films", "--budget-money", "-1"],
    ["annotate", "prompts", "evidence"],
    ["annotate", "prompts", "evidence", "--task", "films", "--params", "/none"],
    ["annotate", "import", "/none", "--task", "films", "--params", "/none"],
    ["annotate", "agreement", "--params", "/none"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda value: ascii(" ".join(value))[:70])
def test_commands(arguments: list[str], tiny_folder: Path) -> None:
    command_complaint(*(str(tiny_folder) if word == "C" else word for word in arguments))


@pytest.mark.parametrize(
    "stdin",
    [b"", b"\n", b"a film\n\n", b"a film\n\xff\n", "a film\n".encode("utf-16"), b"a \xed\xa0\x80 film\n"],
    ids=ascii,
)
def test_standard_input(tiny_folder: Path, stdin: bytes) -> None:
    arguments = ("explain", "--method", "random", "--classifier", str(tiny_folder))
    if stdin == b"":  # no text, no explanation, no complaint
        return
    command_complaint(*arguments, stdin=stdin)


def test_a_byte_order_mark_is_no_part_of_the_first_text(tiny_folder: Path) -> None:
    from typer.testing import CliRunner

    from explearn.cli.app import app

    words = ["explain", "--json", "--device", "cpu", "--method", "random", "--classifier", str(tiny_folder)]
    result = CliRunner().invoke(app, words, input="\ufefflazy dog\r\nfox\n".encode())
    assert result.exit_code == 0, result.stderr
    assert [json.loads(line)["words"] for line in result.stdout.splitlines()] == [["lazy", "dog"], ["fox"]]


class TestWhatIsPrinted:
    """Nothing of a text or a label reaches the terminal as a command."""

    ESCAPES = "\x1b[2Jcleared \x9b31m red \u202eturned \x07"

    def test_words_and_labels(self, tmp_path: Path, tiny_folder: Path) -> None:
        from typer.testing import CliRunner

        from explearn.cli.app import app

        def change(config: dict[str, Any]) -> None:
            config["id2label"] = {"0": "a\x1b[31m", "1": "b\x1b[31m", "2": "c\x1b[31m"}
            config["label2id"] = {label: int(i) for i, label in config["id2label"].items()}

        folder = edited(tiny_folder, tmp_path / "c", change)
        words = ["explain", "--device", "cpu", "--method", "random", "--classifier", str(folder), self.ESCAPES]
        for more in ([], ["--json"]):
            result = CliRunner().invoke(app, [*words, *more], env={"TERM": "dumb", "COLUMNS": "400"})
            assert result.exit_code == 0, result.stderr
            for raw in ("\x1b[2J", "\x1b[31m", "\x9b", "\u202e", "\x07"):
                assert raw not in result.stdout, ascii(result.stdout)
        record = json.loads(result.stdout)
        assert record["words"] == self.ESCAPES.split()
        assert record["predicted"].endswith("\x1b[31m")

    def test_messages(self) -> None:
        said = complaint(lambda: get_explainer(self.ESCAPES))
        assert "\\x1b[2Jcleared" in said

    def test_what_is_visible_stays(self) -> None:
        for text in (
            "caf\u00e9",
            "\u6620\u753b",
            "\U0001f468\u200d\U0001f469",
            "\u05e9\u05dc\u05d5\u05dd",
            "a\tb\nc",
            "",
        ):
            assert visible(text) == text
        assert visible(visible(self.ESCAPES)) == visible(self.ESCAPES)
        assert json.loads(visible_json({"a": self.ESCAPES})) == {"a": self.ESCAPES}


def test_a_good_text_is_explained_all_the_same() -> None:
    (found,) = get_explainer("random").explain(tiny.classifier("bert", 3), ["a film"], ["good"])
    assert isinstance(found, Attribution) and found.words == ("a", "film")
