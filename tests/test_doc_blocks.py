"""The commands and the Python of README and of the pages of docs run, on tiny classifiers and a few texts.

What does not run here has a test of its own page (ELSEWHERE) or a reason (PROGRAMS_NOT_RUN, NOT_RUN).
"""

import contextlib
import json
import random

import joblib
import pandas as pd
import pytest
import tiny
from cli_cases import run
from doc_commands import fences, simple_commands
from places import ROOT
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import explearn
from explearn.methods import registry
from explearn.metrics import registry as metrics

ELSEWHERE = {
    "auditor.md": "tests/test_tutorials.py",
    "engineer.md": "tests/test_tutorials.py",
    "researcher.md": "tests/test_tutorials.py",
    "bundles.md": "tests/explearn/bundle/test_docs.py",
    "serve.md": "tests/apps/serve/test_docs.py",
    "llm.md": "tests/explearn/predictors/llm/test_classifier.py",
    "annotation.md": "tests/study/annotate/test_command.py",
    "CONTRIBUTING.md": "tests/explearn/predictors/test_predictor.py",
}
"""Page -> the test that runs what it shows, for language models with a server that plays one."""

PROGRAMS_NOT_RUN = {
    "dvc": "minutes to hours; tests/study/test_pipeline.py and, for data.md, tests/study/sources run the stages",
    "make": "the same, or all tests",
    "git": "changes the checkout or reaches a remote",
    "python": "installs, or measures for minutes; tests/test_doc_commands.py reads its options",
    "source": "needs .venv",
    "export": "sets a variable for what follows",
    "openssl": "is another program",
}
"""Program -> why its commands do not run here."""

NOT_RUN = {
    "explearn demo": "trains for a minute; tests/explearn/test_demo.py",
    "explearn fix": "trains four times; tests/explearn/auditing/test_fix.py",
    "explearn.fix(": "the same",
    "explearn gate": "needs a second run; tests/study/report/test_gate.py",
    "explearn verify reports/report.html": "needs a run with its models",
    "explearn explain --classifier ner-folder": "another head; tests/explearn/predictors/heads",
    "explearn explain --classifier gpt2-folder": "another head; tests/explearn/predictors/heads",
    "explearn explain --classifier nli-folder": "another head; tests/explearn/predictors/heads",
    "explearn explain --classifier large-classifier": "needs `large`; tests/explearn/predictors/test_spread.py",
    "--device cuda": "needs a GPU",
    "--precision nf4": "needs the extra `quantized`; tests/explearn/predictors/test_quantised.py",
    "--llm": "needs a server; tests/explearn/predictors/llm",
    "--ray": "needs a cluster; tests/apps/jobs/test_ray_executor.py",
    "--scores theirs.jsonl": "needs another tool's scores; tests/explearn/comparison/test_score_files.py",
    "key.p": "needs openssl; tests/explearn/decision/test_record.py",
    "mlflow": "is no extra of Explearn",
    "CompareCallback": "needs a Trainer; tests/apps/test_trainer.py",
    "sentence_transformers": "needs its weights",
    "guard-folder": "another head; tests/explearn/predictors/heads/test_chat.py",
    "tagger": "another head; tests/explearn/predictors/heads",
    "data/explainers/": "needs a run; tests/explearn/methods has what loads them",
    "film_classifier": "needs a second task; tests/explearn/methods/marker",
    "criteria=": "trains for minutes; tests/explearn/methods/ivra",
    "Evaluation.load": "needs a run; tests/explearn/evaluation/test_result.py",
    "explaining(": "needs more classes; tests/explearn/predictors/test_views.py",
}
"""Part of a command of explearn or of a block of Python -> why it does not run here."""

HUB_NAME = "distilbert/distilbert-base-uncased-finetuned-sst-2-english"
CLASSIFIERS = {
    **dict.fromkeys(("my-classifier", "my-model", "FOLDER_OR_HUB_NAME", "NEW", "OLD", HUB_NAME), ("no", "yes")),
    "data/classifiers/reviews": ("negative", "positive"),
    "data/classifiers/topics": ("business", "sports"),
}
"""The folders of classifiers that the pages name, with their labels."""

SEED = 8
"""Of the tiny classifiers' weights; with many another one all texts are of one class."""

WORDS = sorted({word for text in tiny.CORPUS[:5] for word in text.split()})
TEXTS = [" ".join(random.Random(number).sample(WORDS, 8)) for number in range(40)]
MARKS = [1, *[0] * 7]
LABELS = [("yes", "no")[number % 2] for number in range(40)]

TABLE = [
    {"id": number, "key": f"t{number}", "text": text, "review": text, "body": text, "label": label}
    for number, (text, label) in enumerate(zip(TEXTS, LABELS, strict=True))
]


def is_run(text):
    return not any(part in text for part in NOT_RUN)


def blocks():
    """Page -> its commands, as words, and its blocks of Python, as text, in their order."""
    found = {}
    for language in ("sh", "python"):
        for page, text in fences(ROOT, language):
            if page in ELSEWHERE:
                continue
            of_page = found.setdefault(page, [])
            if language == "python":
                of_page.append(text)
                continue
            for line in text.replace("\\\n", " ").splitlines():
                of_page += simple_commands(line)
    return found


BLOCKS = blocks()


def fitted_pipeline():
    return make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, LABELS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the pages suppose: classifiers, tables, and a trained reader and marker."""
    place = tmp_path_factory.mktemp("reader")
    for name, labels in CLASSIFIERS.items():
        model = tiny.model("bert", seed=SEED)
        model.config.id2label = dict(enumerate(labels))
        model.config.label2id = {label: number for number, label in enumerate(labels)}
        model.save_pretrained(place / name)
        tiny.tokenizer("bert").save_pretrained(place / name)
    frame = pd.DataFrame(TABLE)
    frame["marks"] = json.dumps(MARKS)
    frame["source"] = ["web", "web", "mail", "mail"] * 10
    frame["stars"] = [5, 1] * 20
    frame.to_csv(place / "my-texts.csv", index=False)  # an audit takes 40
    for name in ("reviews.csv", "table.csv", "big.csv"):
        frame[:12].to_csv(place / name, index=False)
    frame.assign(text=frame["text"] + " again")[:12].to_csv(place / "other-texts.csv", index=False)
    frame.to_parquet(place / "big.parquet")
    for name in ("texts.txt", "lines.txt"):
        (place / name).write_text("\n".join(TEXTS), encoding="utf-8")
    joblib.dump(fitted_pipeline(), place / "tickets.joblib")
    (place / "tickets.py").write_text("import joblib\n\npipeline = joblib.load('tickets.joblib')\n", encoding="utf-8")
    with contextlib.chdir(place):
        classifier = explearn.load_classifier("my-classifier")
        for name in ("reader", "marker"):
            trained = explearn.get_explainer(name, epochs=1)
            trained.fit(classifier, TEXTS[:16], [MARKS] * 16).save_pretrained(f"my-{name}")
    return place


@pytest.fixture
def names(folder):
    """The names that blocks of Python suppose."""
    given = {"texts": TEXTS, "labels": LABELS, "validation": TEXTS[:4], "pipeline": fitted_pipeline()}
    return {**given, "explearn": explearn, "classifier": explearn.load_classifier(folder / "my-classifier")}


@pytest.mark.slow
@pytest.mark.parametrize("page", BLOCKS)
def test_what_a_page_shows_runs(page, folder, names, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EXPLEARN_DEVICE", "cpu")
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(metrics, "CATALOGUE", dict(metrics.CATALOGUE))
    for block in BLOCKS[page]:
        if isinstance(block, str):
            if is_run(block):
                exec(block, names)
        elif block[0] not in PROGRAMS_NOT_RUN and is_run(" ".join(block)):
            done = run(*block[1:], stdin="\n".join(TEXTS))
            assert done.exit_code == 0, (block, done.output)


def test_what_does_not_run_is_there():
    """No reason outlives its block, and no page its test."""
    shown = []
    for of_page in BLOCKS.values():
        shown += [block if isinstance(block, str) else " ".join(block) for block in of_page]
    assert [part for part in NOT_RUN if not any(part in block for block in shown)] == []
    programs = {block.partition(" ")[0] for block in shown}
    assert PROGRAMS_NOT_RUN.keys() <= programs
    assert all((ROOT / test).is_file() for test in ELSEWHERE.values())
