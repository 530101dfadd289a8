"""Stage report: the report, its figures, and the headline metrics."""

from explearn.pipeline.base.params import Params
from explearn.pipeline.base.staging import stage
from explearn.pipeline.base.workspace import Workspace
from explearn.reporting.project import report_project


@stage()
def report(params: Params, seed: int) -> None:
    """Put the metrics of all tasks together: report.md with figures/ and report.html for people, metrics.json for
    programs, and headline.json for `dvc metrics` and `dvc exp show`. Times and memory, which depend on the machine, go
    to machine/ and costs.json.

    Writes into reports/. Runs no model: of the compute options it uses only the seed, to choose example texts.
    """
    report_project(Workspace(), params, seed)


if __name__ == "__main__":
    report()
