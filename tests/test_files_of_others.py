"""No command and no call replaces or removes a file that is not its own unchanged output, unless it is told to."""

import copy
from pathlib import Path

import cli_cases
import pytest
import tiny
from onnx_cases import explainer

import explearn
from explearn.core.writing import LEDGER, replacing

TEXTS = ["the quick fox", "a lazy dog", "slow delivery", "unbelievably friendly guide", "the fox sleeps"] * 9


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Classifiers, an explainer and texts, in a folder that all commands read."""
    folder = tmp_path_factory.mktemp("given")
    tiny.save(folder / "model", seed=3)
    tiny.save(folder / "old", seed=4)
    explainer("reader", explearn.load_classifier(str(folder / "model"), device="cpu")).save_pretrained(
        folder / "reader"
    )
    rows = [f"{text} {number},{'no' if number % 2 else 'yes'}" for number, text in enumerate(TEXTS)]
    (folder / "t.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    return folder


def command(*arguments, name="out", out="--out"):
    """A writer: a command that writes to a path."""

    def write(given, target, force):
        filled = [argument.format(given=given) for argument in arguments]
        done = cli_cases.run(*filled, out, target, *(["--force"] if force else []))
        if done.exit_code == 2:
            (line,) = done.stderr.splitlines()[-1:]
            assert line.startswith("error: ")
            raise explearn.ParamsError(line)
        assert done.exit_code == 0, done.output

    return name, write


def call(name, function):
    """A writer: a function of the given folder and of a path."""

    def write(given, target, force):
        with replacing(force=force):
            function(given, target)

    return name, write


def attribution():
    return explearn.get_explainer("random").explain(tiny.classifier(), ["a fox"])[0]


def kept(given, target, force):
    """A comparison with a working folder."""
    with replacing(force=force):
        explearn.compare(str(given / "model"), TEXTS[:5], "random,occlusion", out=None, work=target)


MODEL = ("--classifier", "{given}/model", "--device", "cpu")
TABLE = ("--texts", "{given}/t.csv", "--text-column", "text")
SIDES = ("--reference", "{given}/t.csv", "--now", "{given}/t.csv", "--method", "random")
EXPLAIN = ("explain", *MODEL, "--method", "random", "a fox")
WRITERS = {
    **{f"explain {suffix}": command(*EXPLAIN, name=f"out.{suffix}") for suffix in ("html", "csv", "jsonl", "parquet")},
    "compare": command("compare", *MODEL, *TABLE, "--method", "gae", name="out.html"),
    "audit": command("audit", *MODEL, *TABLE, "--method", "random", name="out.html"),
    "diff": command("diff", *MODEL, "--against", "{given}/old", *TABLE, "--method", "random", name="out.html"),
    "watch": command("watch", *MODEL, *SIDES, name="out.html"),
    "record": command("record", *MODEL, "--method", "occlusion", "a fox", name="out.html"),
    "train": command("train", "reader", *MODEL, *TABLE, "-o", "epochs=1", "-o", "samples=4", "-o", "width=8"),
    "finetune": command("finetune", *TABLE, "--encoder", "{given}/old", "--device", "cpu", "-o", "epochs=1"),
    "export": command("export", "--method", "rollout"),
    "export-onnx": command("export-onnx", "--explainer", "{given}/reader", *MODEL[:2], name="out.onnx"),
    "job": command("job", *MODEL, *TABLE, "--method", "random", "--shard-texts", "30"),
    "demo": command("demo", "a fox", name="out.html"),
    "demo --save": command("demo", "a fox", "--out", "demo.html", out="--save"),
    "Attribution.to_html": call("out.html", lambda _, target: attribution().to_html(target)),
    "Attributions.to_html": call("out.html", lambda _, target: explearn.Attributions([attribution()]).to_html(target)),
    "Evaluation.save": call("out", lambda _, target: explearn.Evaluation().save(target)),
    "Explainer.save_pretrained": call("out", lambda given, to: explearn.load(given / "reader").save_pretrained(to)),
    "Predictor.save_pretrained": call("out", lambda _, target: tiny.classifier().save_pretrained(target)),
    "working folder": ("out", kept),
}
ALONE = ("job", "working folder")
"""Their files are written one by one, so that others may lie beside them."""


@pytest.fixture(scope="module")
def traced():
    """The export of a graph to ONNX, which takes long, done once."""
    from explearn_apps.onnx.writing import model_proto

    graphs = []

    def trace(graph, model):
        if not graphs:
            graphs.append(model_proto(graph, model))
        return copy.deepcopy(graphs[0])

    return trace


@pytest.fixture(params=WRITERS)
def writer(request, given, traced, tmp_path, monkeypatch):
    """A function that writes to a path, its name, and the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("explearn.cli.demo.classifier.demo_classifier", lambda *_: tiny.classifier())
    monkeypatch.setattr("explearn.cli.demo.classifier.headlines", lambda _: (["a fox"], ["no"]))
    monkeypatch.setattr("explearn_apps.onnx.writing.model_proto", traced)
    name, write = WRITERS[request.param]
    target = tmp_path / "here" / name
    target.parent.mkdir()

    def run(force=False):
        write(given, target, force)

    return run, request.param, target


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.name != LEDGER}


def refused(run, folder):
    before = contents(folder)
    with pytest.raises(explearn.ExplearnError):
        run()
    assert contents(folder) == before


@pytest.mark.slow
def test_what_is_ours_and_unchanged_is_replaced_and_nothing_else(writer):
    run, name, target = writer
    run()
    # The same again.
    run()
    files = contents(target.parent)
    for path in files:
        if name in ALONE and path.suffix != ".parquet":
            continue
        path.write_bytes(files[path] + b"\n" if files[path] else b"a note")
        refused(run, target.parent)
        path.write_bytes(files[path])
    run()
    if target.is_dir() and name not in ALONE:
        for other in (target / "thesis.docx", target / "classifier" / "thesis.docx", target / "my-lora.safetensors"):
            other.parent.mkdir(exist_ok=True)
            other.write_text("years of work")
            refused(run, target.parent)
            other.unlink()


@pytest.mark.slow
def test_what_is_the_users_stays_unless_it_is_forced(writer):
    run, name, target = writer
    beside = [target.with_name(f".{target.name}.partial-{end}") for end in ("1", "lock", "before", "1a2b3c4d.csv")]
    mine = target
    if not target.suffix:
        target.mkdir()
        mine = target / "config.json"
    if name == "job":
        mine = target / "part-00000.parquet"
    mine.write_text('{"manifest": 1, "record": 1}')
    for path in beside:
        path.write_text("mine")
    refused(run, target.parent)
    mine.unlink()
    run()
    # A link of the user's is not replaced by a file.
    if target.suffix:
        target.rename(target.with_stem("elsewhere"))
        target.symlink_to(target.with_stem("elsewhere"))
        refused(run, target.parent)
        assert target.is_symlink()
        target.unlink()
        target.write_text("mine")
        run(force=True)
        assert target.read_bytes() != b"mine"
    assert all(path.read_text() == "mine" for path in beside)


def test_a_command_never_replaces_what_it_reads(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = tmp_path / "t.csv"
    model = ("--classifier", str(given / "model"), "--device", "cpu")
    first = cli_cases.run("explain", *model, "--method", "random", "a fox", "--out", texts)
    assert first.exit_code == 0
    before = texts.read_bytes()
    for more in ((), ("--force",)):
        again = cli_cases.run("explain", *model, "--method", "random", "--texts", texts, "--out", texts, *more)
        assert "which is read here" in cli_cases.complaint(again)
    (tmp_path / "audit.findings.csv").write_text((given / "t.csv").read_text())
    for more in ((), ("--force",)):
        audit = cli_cases.run("audit", *model, "--texts", "audit.findings.csv", "--label-column", "label", *more)
        assert "audit.findings.csv" in cli_cases.complaint(audit)
    assert texts.read_bytes() == before
    assert (tmp_path / "audit.findings.csv").read_text() == (given / "t.csv").read_text()
    with pytest.raises(explearn.ParamsError, match="which is read here"):
        explearn.finetune(str(given / "old"), TEXTS, given, labels=["a", "b", "c"] * 15)


def test_what_was_written_as_something_else_stays(given, tmp_path):
    """A page of another command, the record of another decision, a part of a job."""
    page = tmp_path / "out.html"
    record = WRITERS["record"][1]
    record(given, page, False)
    before = contents(tmp_path)
    others = [WRITERS[name][1] for name in ("demo", "explain html", "audit", "Attribution.to_html")]
    another = command("record", *MODEL, "--method", "occlusion", "a lazy dog")[1]
    for write in (*others, another):
        with pytest.raises(explearn.ExplearnError):
            write(given, page, False)
        assert contents(tmp_path) == before
    record(given, page, False)
    WRITERS["job"][1](given, tmp_path / "job", False)
    before = contents(tmp_path / "job")
    with pytest.raises(explearn.ExplearnError):
        WRITERS["explain parquet"][1](given, tmp_path / "job" / "part-00000.parquet", False)
    with pytest.raises(explearn.ExplearnError):
        WRITERS["finetune"][1](given, tmp_path / "job", False)
    assert contents(tmp_path / "job") == before


def test_a_stage_replaces_its_outputs_and_lists_none(tmp_path):
    for _ in range(2):
        with replacing(stage=True):
            tiny.classifier().save_pretrained(tmp_path / "c")
        (tmp_path / "c" / "config.json").write_text("of an older run")
    assert not (tmp_path / "c" / LEDGER).exists()


def test_a_list_that_somebody_changed_is_named(tmp_path):
    (tmp_path / LEDGER).write_text('{"my": "notes"}')
    with pytest.raises(explearn.DataError, match="expected the list of files that Explearn wrote there"):
        attribution().to_html(tmp_path / "a.html")
    assert Path(tmp_path / LEDGER).read_text() == '{"my": "notes"}' and not (tmp_path / "a.html").exists()
