"""The inputs and code of a run, for the manifest of its report (`explearn.report.manifest`)."""

from __future__ import annotations

from typing import Any

from explearn.metrics.runs import read_run
from explearn.report.manifest import CODE, part
from explearn.report.versions import versions
from explearn_study.params import Params
from explearn_study.workspace import Workspace


def manifest_of(workspace: Workspace, params: Params) -> dict[str, Any]:
    """Return the manifest of a run: hashes of its texts, models, results and code, and the versions of packages.

    Paths are relative to the workspace.

    Raises:
        DataError: a file of the run is missing.
    """
    root = workspace.root
    own = {method.name for method in params.with_own_model}
    names = {task: workspace.classifier(task).relative_to(root).as_posix() for task in params.tasks}
    classifiers = {}
    for task, name in names.items():
        files = workspace.attribution_files(params, task)
        shared = [path for method, path in files.items() if method not in own]
        if shared:
            fingerprint = read_run(shared[0], attributions=False).classifier
            classifiers[task] = {"name": name, "fingerprint": fingerprint}
    results = ("data/attributions", "data/explainers", "reports/metrics", "reports/metrics.json")
    return {
        "root": "..",
        "profile": params.profile,
        "seed": params.seed,
        "parameters": params.model_dump(mode="json"),
        "classifiers": classifiers,
        "parts": {
            "data": part(root, ("data/examples", "data/rationales")),
            "models": part(root, names.values()),
            "results": part(root, results),
            "code": part(CODE, ("explearn", "explearn_study")),
        },
        "versions": dict(versions()),
    }
