"""`explearn verify BUNDLE` says whether all of its files are unchanged."""

from cli_cases import run

import explearn


def verify(folder):
    result = run("verify", str(folder))
    return result.exit_code, (result.stdout + result.stderr).splitlines()


def test_every_difference_is_a_line(model, tmp_path):
    bundle = explearn.export(tmp_path / "b", method="consensus", classifier=model, with_classifier=True)
    count = sum(path.is_file() for path in bundle.rglob("[!.]*")) - 1  # but for the manifest itself
    assert verify(bundle) == (0, [f"{bundle}: all {count} files are unchanged."])
    changed, missing, other = (bundle / name for name in ("README.md", "classifier/config.json", "explainer/more.json"))
    changed.write_text("mine")
    missing.unlink()
    other.write_text("{}")
    code, lines = verify(bundle)
    assert code == 1 and len(lines) == 4 and lines[-1] == f"{bundle}: 3 differences"
    for path, what in ((changed, "is not the file that was exported"), (missing, "is missing"), (other, "is not in")):
        assert any(line.startswith(f"{path}: {what}") for line in lines), path


def test_a_folder_that_is_no_bundle(tmp_path):
    problem = f"error: {tmp_path}: holds no manifest.json; expected a bundle that explearn export wrote"
    assert verify(tmp_path) == (2, [problem])
