"""Stage rationalise: a task's rationales, by people and by a language model, with the agreement of the annotators."""

from explearn.core.writing import write_json
from explearn.text.agreement import agreement_metrics
from explearn_study.annotate.options import Budget
from explearn_study.annotate.task import read_task_marks
from explearn_study.example_files import write_rationales
from explearn_study.staging import RunOptions, TaskOption, stage
from explearn_study.workspace import Workspace

AGREEMENT = ("alpha", "alpha_texts", "pairwise_f1", "alpha_by_pair")
"""Figures on what the annotators marked, before anybody decided between them."""


@stage
def rationalise(task: TaskOption, run: RunOptions, meter: Budget) -> None:
    """Collect a task's rationales: by people, and with `llm` by a language model for the texts that nobody has marked.

    People's rationales come with the texts, from files named under `rationales`, or from data/annotations/TASK. Writes
    data/rationales/TASK.parquet and TASK.json (all figures on agreement and length, and what became of the model's
    answers). Each question is asked once: the model's answers are cached in data/annotations/TASK/answers.sqlite, and
    if all of them are there, no server is needed.
    """
    workspace = Workspace()
    settings = run.params.rationale_params(task)
    marks = read_task_marks(task, run.params, workspace)
    rationales = list(marks.rationales)
    figures: dict[str, object] = {}
    if settings.llm is not None:
        # The client of the language model takes a second to import.
        from explearn_study.annotate.llm.rationales import annotate, to_rationales

        annotated, summary = annotate(marks, run.seed, meter)
        rationales += to_rationales(annotated)
        figures["llm"] = summary
    settled = marks.settled(rationales)
    figures |= agreement_metrics(settled, marks.examples, settings.train_split, run.params.rationale_agreement)
    if marks.adjudicated:
        before = agreement_metrics(rationales, marks.examples, settings.train_split, run.params.rationale_agreement)
        figures |= {key: before[key] for key in AGREEMENT}
        figures["adjudicated"] = len(marks.adjudicated)
    write_rationales(workspace.rationales(task), settled)
    write_json(workspace.agreement(task), figures)


if __name__ == "__main__":
    rationalise()
