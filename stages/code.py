"""Stage code: fingerprints of the code of each stage and each method, on which the other stages depend."""

from pathlib import Path

from explearn_study.code import write_fingerprints
from explearn_study.staging import RunOptions, stage
from explearn_study.workspace import Workspace


@stage
def code(run: RunOptions) -> None:
    """Write data/code/STAGE.txt and data/code/methods/METHOD.txt: a line with hash and name for each module.

    An edit makes only the stages stale whose file changes. Imports neither torch nor a method.
    """
    methods = {method.name: method.of for method in (*run.params.teachers.values(), *run.params.methods.values())}
    write_fingerprints(Workspace(), Path(__file__).parent, methods)


if __name__ == "__main__":
    code()
