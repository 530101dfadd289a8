"""`explearn verify BUNDLE`: are all of its files as they were exported?"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import explearn
from explearn.cli.app import app


@pytest.fixture
def bundle(model: Path, tmp_path: Path) -> Path:
    return explearn.export(tmp_path / "b", method="consensus", classifier=model, with_classifier=True)


def verify(folder: Path) -> tuple[int, list[str]]:
    result = CliRunner().invoke(app, ["verify", str(folder)])
    return result.exit_code, (result.stdout + result.stderr).splitlines()


def test_a_whole_bundle(bundle: Path) -> None:
    count = sum(path.is_file() for path in bundle.rglob("*")) - 1  # but for the manifest itself
    assert verify(bundle) == (0, [f"{bundle}: all {count} files are as they were exported."])


def test_every_difference_is_a_line(bundle: Path) -> None:
    card, config, other = (
        bundle / "README.md",
        bundle / "classifier" / "config.json",
        bundle / "explainer" / "more.json",
    )
    card.write_text("mine")
    config.unlink()
    other.write_text("{}")
    code, said = verify(bundle)
    assert code == 1 and len(said) == 3
    for path, what in ((card, "is not the file that was exported"), (config, "is missing"), (other, "is not in")):
        assert any(line.startswith(f"{path}: {what}") for line in said), path


def test_a_folder_that_is_no_bundle(tmp_path: Path) -> None:
    code, said = verify(tmp_path)
    assert (code, said) == (
        2,
        [f"error: {tmp_path}: holds no manifest.json; expected a bundle that explearn export wrote"],
    )
