"""Stage report: the report, its figures and the headline metrics."""

from explearn_study.report.project import report_project
from explearn_study.staging import RunOptions, stage
from explearn_study.workspace import Workspace


@stage
def report(run: RunOptions) -> None:
    """Put the metrics of all tasks together: report.md with figures/ and report.html for people, metrics.json for
    programs, and headline.json for `dvc metrics`. Times and memory, which depend on the machine, go to machine/ and
    costs.json.

    report.json, the manifest beside report.html, has the hashes of all that the run rests on; `explearn verify` checks
    them.
    """
    report_project(Workspace(), run.params)


if __name__ == "__main__":
    report()
